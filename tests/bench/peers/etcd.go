package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdServer is one member alone, with its defaults: each write is synced before it
// is answered.
var etcdServer = server{
	program: "etcd",
	args: func(dir, clients, others string) []string {
		serves, joins := "http://"+clients, "http://"+others
		return []string{
			"--name", "bench", "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", serves, "--advertise-client-urls", serves,
			"--listen-peer-urls", joins, "--initial-advertise-peer-urls", joins, "--initial-cluster", "bench=" + joins,
		}
	},
}

// etcdLocker is a client with a session, which exists before anything is measured.
type etcdLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutexes map[string]*concurrency.Mutex
}

func etcdClients(ctx context.Context, address string) (a, b locker, closed func(), err error) {
	first, err := newEtcdLocker(ctx, address)
	if err != nil {
		return nil, nil, nil, err
	}
	second, err := newEtcdLocker(ctx, address)
	if err != nil {
		first.close()
		return nil, nil, nil, err
	}
	return first, second, func() { first.close(); second.close() }, nil
}

func newEtcdLocker(ctx context.Context, address string) (*etcdLocker, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + address}, DialTimeout: 10 * time.Second, Context: ctx, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client)
	if err != nil {
		return nil, fmt.Errorf("session: %w", errors.Join(err, client.Close()))
	}
	return &etcdLocker{client, session, map[string]*concurrency.Mutex{}}, nil
}

func (l *etcdLocker) close() {
	_ = l.session.Close() // the server is about to end with all that it has
	_ = l.client.Close()
}

func (l *etcdLocker) lock(ctx context.Context, name string) error {
	if l.mutexes[name] == nil {
		l.mutexes[name] = concurrency.NewMutex(l.session, "/"+name)
	}
	return l.mutexes[name].Lock(ctx)
}

func (l *etcdLocker) unlock(ctx context.Context, name string) error {
	return l.mutexes[name].Unlock(ctx)
}
