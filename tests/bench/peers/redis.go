package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redisServer is one server with its defaults: it keeps all in memory, and writes it
// to disk once a minute at most.
var redisServer = server{
	program: "redis-server",
	args: func(dir, clients, _ string) []string {
		host, port, _ := net.SplitHostPort(clients)
		return []string{"--bind", host, "--port", port, "--dir", dir}
	},
}

// redisLocker is redsync with its default options: a lock of 8 s, and up to 32 tries
// 50 to 250 ms apart.
type redisLocker struct {
	client *redis.Client
	sync   *redsync.Redsync

	mu   sync.Mutex
	held map[string]*redsync.Mutex
}

func redisClients(ctx context.Context, address string) (a, b locker, closed func(), err error) {
	first, second := newRedisLocker(address), newRedisLocker(address)
	closed = func() {
		_ = first.client.Close() // the server is about to end
		_ = second.client.Close()
	}
	if err := errors.Join(first.client.Ping(ctx).Err(), second.client.Ping(ctx).Err()); err != nil {
		closed()
		return nil, nil, nil, err
	}
	return first, second, closed, nil
}

func newRedisLocker(address string) *redisLocker {
	client := redis.NewClient(&redis.Options{Addr: address})
	return &redisLocker{client: client, sync: redsync.New(goredis.NewPool(client)), held: map[string]*redsync.Mutex{}}
}

func (l *redisLocker) lock(ctx context.Context, name string) error {
	m := l.sync.NewMutex(name)
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = m
	return nil
}

func (l *redisLocker) unlock(ctx context.Context, name string) error {
	l.mu.Lock()
	m := l.held[name]
	delete(l.held, name)
	l.mu.Unlock()
	ok, err := m.UnlockContext(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("the lock of %s had expired", name)
	}
	return err
}
