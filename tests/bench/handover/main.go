// Command handover measures how long it takes from before a holder's release of a lease
// to after a waiter's acquire, in the shapes that `make bench` has rows for. It prints
// nanoseconds, one sample a line.
//
//	handover same    both in one process, which is told of the release
//	handover bare    the requests of that, one after the other, and nothing else
//	handover two     in two processes, one after the other
//	handover many    in two Hosts that hear nothing of each other: many names at once, held for long
//	handover alone   no hand-over: an acquire and release without contention
//
// The store is a temporary directory or the tests' S3 server on loopback, which both end
// with the command, or the store of a URL. Exit status 3: the S3 server is not installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	_ "github.com/mopslock/mopslock/host/store/mem"
	_ "github.com/mopslock/mopslock/host/store/s3"
	"github.com/mopslock/mopslock/tests/servers"
)

const (
	longest = 3 * time.Minute // of one command
	notHere = 3               // exit status: no such server
	warmUps = 10
	name    = "bench"
)

// job is what the command line asks for.
type job struct {
	terms       host.Terms
	url         string
	samples     int
	least, most time.Duration // of a hold
	asked       string        // file for the requests of a waiter
}

func main() { os.Exit(status()) }

func status() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
	}
	switch {
	case errors.Is(err, servers.ErrNotInstalled):
		return notHere
	case err != nil:
		return 1
	}
	return 0
}

func run(ctx context.Context) (err error) {
	var j job
	protocol := flag.String("protocol", "strict", "or lastwriter")
	place := flag.String("store", "file", "or s3; or the URL of a store that is there already, such as mem://")
	flag.IntVar(&j.samples, "samples", 100, "how many")
	flag.DurationVar(&j.least, "least", 20*time.Millisecond, "shortest hold")
	flag.DurationVar(&j.most, "most", 60*time.Millisecond, "longest hold")
	flag.StringVar(&j.asked, "asked", "", "file for how many requests a waiter of many makes in a poll interval")
	flag.Parse()
	measure, ok := map[string]func(context.Context, *job) ([]time.Duration, error){
		"same": same, "bare": bare, "two": two, "many": many, "alone": alone, "second": second,
	}[flag.Arg(0)]
	if !ok {
		return fmt.Errorf("nothing called %q is measured: same, bare, two, many, alone", flag.Arg(0))
	}
	switch *protocol {
	case "strict":
		j.terms = host.Terms{Protocol: core.ProtocolStrict}
	case "lastwriter":
		j.terms = host.Terms{Protocol: core.ProtocolLastWriter}
	default:
		return fmt.Errorf("no protocol %q: strict, lastwriter", *protocol)
	}
	if j.samples < 1 || j.least < 0 || j.most <= j.least {
		return fmt.Errorf("%d samples of %v to %v: at least one, and the longest hold longer than the shortest", j.samples, j.least, j.most)
	}
	closed, err := j.open(*place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	samples, err := measure(ctx, &j)
	for _, took := range samples {
		fmt.Println(took.Nanoseconds())
	}
	return err
}

// open makes the store, which closed removes again.
func (j *job) open(place string) (closed func() error, err error) {
	switch place {
	case "file":
		dir, err := os.MkdirTemp("", "mopslock-handover-")
		j.url = "file://" + dir
		return func() error { return os.RemoveAll(dir) }, err
	case servers.S3:
		server, err := servers.Start(servers.S3)
		if err != nil {
			return nil, err
		}
		for _, line := range server.Env(server.Address) {
			name, value, _ := strings.Cut(line, "=")
			if err := os.Setenv(name, value); err != nil {
				return nil, errors.Join(err, server.Close())
			}
		}
		j.url = server.URL(server.Address)
		return server.Close, nil
	}
	j.url = place
	return func() error { return nil }, nil
}

// host opens a Host that remembers nothing, so that each run is as the first.
func (j *job) host(ctx context.Context) (*host.Host, error) {
	return host.Open(ctx, j.url, &host.Options{Memory: "-"})
}

// closing ends a Host, also after the end of ctx.
func closing(h *host.Host) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return h.Close(ctx)
}

func (j *job) acquire(ctx context.Context, h *host.Host, name string) (*host.Lease, error) {
	return h.Acquire(ctx, name, &host.AcquireOptions{Terms: j.terms})
}

// held is an answer to Acquire and when it came.
type held struct {
	*host.Lease
	at  time.Time
	err error
}

// await acquires a lease that another holds, and returns when it waits.
func (j *job) await(ctx context.Context, h *host.Host, name string) (<-chan held, error) {
	waits, got := make(chan struct{}), make(chan held, 1)
	waiting := sync.OnceFunc(func() { close(waits) })
	go func() {
		l, err := h.Acquire(ctx, name, &host.AcquireOptions{Terms: j.terms, OnWaiting: func(host.Status) { waiting() }})
		got <- held{l, time.Now(), err}
	}()
	select {
	case <-waits:
		return got, nil
	case early := <-got:
		return nil, errors.Join(errors.New("it did not wait"), early.err)
	}
}

func (j *job) hold(ctx context.Context) error {
	select {
	case <-time.After(j.least + rand.N(j.most-j.least)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sampled measures again and again. It leaves out the first samples, which find everything cold.
func (j *job) sampled(one func(i int) (time.Duration, error)) (samples []time.Duration, err error) {
	for i := range warmUps + j.samples {
		took, err := one(i)
		if err != nil {
			return nil, err
		}
		samples = append(samples, took)
	}
	return samples[warmUps:], nil
}

// handOver releases a lease that another waits for, and returns how long it took until
// the waiter held it.
func handOver(ctx context.Context, l *host.Lease, got <-chan held) (next *host.Lease, took time.Duration, err error) {
	begun := time.Now()
	if err := l.Release(ctx); err != nil {
		return nil, 0, err
	}
	h := <-got
	return h.Lease, h.at.Sub(begun), h.err
}

// same has one Host, whose goroutines hand one lease on and on.
func same(ctx context.Context, j *job) (samples []time.Duration, err error) {
	h, err := j.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(h)) }()
	l, err := j.acquire(ctx, h, name)
	if err != nil {
		return nil, err
	}
	return j.sampled(func(int) (took time.Duration, err error) {
		got, err := j.await(ctx, h, name)
		if err == nil {
			err = j.hold(ctx)
		}
		if err == nil {
			l, took, err = handOver(ctx, l, got)
		}
		return took, err
	})
}

func alone(ctx context.Context, j *job) (samples []time.Duration, err error) {
	h, err := j.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(h)) }()
	return j.sampled(func(int) (time.Duration, error) {
		begun := time.Now()
		l, err := j.acquire(ctx, h, name)
		if err == nil {
			err = l.Release(ctx)
		}
		return time.Since(begun), err
	})
}
