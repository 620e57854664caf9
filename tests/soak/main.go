//go:build unix

// Command soak keeps two processes full of leases and waiters for as long as it is
// told, one in Go and one in Python, and says of each whether its figures stay flat:
// memory, goroutines or threads, files, watches, requests, and how late renewals are.
// `make soak` runs it.
//
// It exits 1 if anything grows, if a lease is lost, or if anything fails. When it is
// interrupted, it prints and judges the samples that it has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	length := flag.Duration("for", 30*time.Minute, "how long everything is held")
	leases := flag.Int("leases", 10_000, "leases of the Go process; one in a hundred stands alone, the others on its session")
	waiters := flag.Int("waiters", 1_000, "waiters of the Go process, four a name")
	python := flag.String("python", "", "the interpreter that has the package mopslock; empty: no Python process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *length, *leases, *waiters, *python)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, length time.Duration, leases, waiters int, python string) error {
	if length < 10*time.Second || leases < 100 || waiters < 0 {
		return errors.New("-for is at least 10s, -leases at least 100, -waiters at least 0")
	}
	p := plan{
		length: length, every: min(10*time.Second, length/30), ttl: min(time.Minute, length/10).Round(time.Second),
		leases: leases, alone: leases / 100, waiters: waiters, churn: 10,
	}
	fmt.Printf("Go: %d leases, %d of them alone and the others on one session, and %d waiters; TTL %v, %g a second given back and taken again\n",
		p.leases, p.alone, p.waiters, p.ttl, p.churn)
	if length < 5*time.Minute {
		fmt.Println("(a soak this short shows that it works, and little about growth)")
	}
	dir, err := os.MkdirTemp("", "mopslock-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTable(p.length / 10)
	var beside *snake
	if python != "" {
		if beside, err = startSnake(python, filepath.Join(dir, "python"), p, t); err != nil {
			return err
		}
		defer beside.kill()
	}
	ours := soakFleet(ctx, "file://"+filepath.ToSlash(filepath.Join(dir, "go")), p, t)
	if beside != nil {
		ours = errors.Join(ours, beside.await(ctx, ours != nil))
	}
	return errors.Join(ours, t.verdict())
}

// soakFleet keeps the fleet for its time, and samples it.
func soakFleet(ctx context.Context, url string, p plan, t *table) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newFleet(ctx, url, p)
	if err != nil {
		return err
	}
	if err = f.fill(ctx); err == nil {
		f.begin(ctx)
		err = f.sampleAll(ctx, t)
	}
	interrupted := ctx.Err() != nil
	cancel()
	err = errors.Join(err, f.close())
	if interrupted {
		return errInterrupted
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// sampleAll samples until the time is over, the fleet fails or ctx ends.
func (f *fleet) sampleAll(ctx context.Context, t *table) error {
	begun := time.Now()
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		gone := time.Since(begun)
		t.add("Go", f.sample(gone.Seconds()))
		if gone >= f.length {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.failed:
			return err
		case <-tick.C:
		}
	}
}
