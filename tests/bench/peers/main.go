// Command peers measures what a user would pick instead of mopslock, for `make
// bench`: etcd's lock and that of Redis by redsync, each with a server of its own on
// loopback. It is a module of its own, so that users of mopslock do not get the
// modules that these clients need.
//
//	peers DIR etcd lock       a Lock and Unlock without contention
//	peers DIR etcd handover   from before one's Unlock to after the other's Lock
//	peers DIR redis lock
//	peers DIR redis handover
//
// It prints nanoseconds, one sample a line. DIR is where `make peers` has unpacked the
// servers; a server that is not there is looked for on PATH. The server keeps its data
// in a temporary directory, which is removed, and is stopped by its pid; nothing goes on
// after the command, which takes two minutes at most. Exit status 3: the server is not
// installed.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	longest   = 2 * time.Minute // of one command
	notHere   = 3               // exit status: no such server
	anybody   = "bench"         // the name of the lock, where there is only one
	warmUps   = 10
	locks     = 300
	handOvers = 40  // one after the other
	crowd     = 100 // at once

	// How long a lock is held. In a server of etcd a watch of the newest revision, as its
	// lock's is, can take 100 ms to take effect; a hand-over must not include that.
	briefLeast = 120 * time.Millisecond
	briefMost  = 160 * time.Millisecond
	longLeast  = 500 * time.Millisecond
	longMost   = 2 * time.Second
)

// locker is one client of a server, with what it holds.
type locker interface {
	lock(ctx context.Context, name string) error
	unlock(ctx context.Context, name string) error
}

// peer is a kind of server and how two clients of it are made.
type peer struct {
	server  server
	clients func(ctx context.Context, address string) (a, b locker, closed func(), err error)
	// polls: a waiter asks again and again, so the time of a hand-over depends on when
	// the release comes, and many are measured at once, each held for long.
	polls bool
}

var peers = map[string]peer{
	"etcd":  {server: etcdServer, clients: etcdClients},
	"redis": {server: redisServer, clients: redisClients, polls: true},
}

func main() { os.Exit(status()) }

func status() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	switch {
	case errors.Is(err, errNotHere):
		return notHere
	case err != nil:
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 3 {
		return errors.New("usage: peers DIR etcd|redis lock|handover")
	}
	p, ok := peers[args[1]]
	if !ok {
		return fmt.Errorf("no peer %q", args[1])
	}
	running, err := p.server.start(ctx, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.close()) }()
	a, b, closed, err := p.clients(ctx, running.address)
	if err != nil {
		return err
	}
	defer closed()
	var samples []time.Duration
	switch what := args[2]; {
	case what == "lock":
		samples, err = alone(ctx, a)
	case what == "handover" && p.polls:
		samples, err = together(ctx, a, b)
	case what == "handover":
		samples, err = oneByOne(ctx, a, b)
	default:
		err = fmt.Errorf("nothing called %q is measured", what)
	}
	for _, took := range samples {
		fmt.Println(took.Nanoseconds())
	}
	return err
}

// alone is a lock and unlock again and again.
func alone(ctx context.Context, a locker) (samples []time.Duration, err error) {
	return sampled(locks, func() (time.Duration, error) {
		begun := time.Now()
		err := a.lock(ctx, anybody)
		if err == nil {
			err = a.unlock(ctx, anybody)
		}
		return time.Since(begun), err
	})
}

// sampled measures again and again. It leaves out the first samples, which find everything cold.
func sampled(n int, one func() (time.Duration, error)) (samples []time.Duration, err error) {
	for range warmUps + n {
		took, err := one()
		if err != nil {
			return nil, err
		}
		samples = append(samples, took)
	}
	return samples[warmUps:], nil
}

// handOver has a hold a lock for a while, in which b asks for it. It returns the time
// from before a's unlock to after b's lock. b unlocks it.
func handOver(ctx context.Context, a, b locker, name string, hold time.Duration) (took time.Duration, err error) {
	if err := a.lock(ctx, name); err != nil {
		return 0, err
	}
	type held struct {
		at  time.Time
		err error
	}
	got := make(chan held, 1)
	go func() {
		err := b.lock(ctx, name)
		got <- held{time.Now(), err}
	}()
	select {
	case <-time.After(hold):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	begun := time.Now()
	err = a.unlock(ctx, name)
	next := <-got
	if err = errors.Join(err, next.err); err != nil {
		return 0, err
	}
	return next.at.Sub(begun), b.unlock(ctx, name)
}

func oneByOne(ctx context.Context, a, b locker) (samples []time.Duration, err error) {
	return sampled(handOvers, func() (time.Duration, error) {
		return handOver(ctx, a, b, anybody, between(briefLeast, briefMost))
	})
}

func together(ctx context.Context, a, b locker) (samples []time.Duration, err error) {
	type one struct {
		took time.Duration
		err  error
	}
	done := make(chan one, crowd)
	for i := range crowd {
		go func() {
			took, err := handOver(ctx, a, b, fmt.Sprint(anybody, i), between(longLeast, longMost))
			done <- one{took, err}
		}()
	}
	for range crowd {
		next := <-done
		samples, err = append(samples, next.took), errors.Join(err, next.err)
	}
	return samples, err
}

func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }
