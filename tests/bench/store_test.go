//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/azblob"
	_ "github.com/mopslock/mopslock/host/store/gs"
	_ "github.com/mopslock/mopslock/host/store/s3"
	"github.com/mopslock/mopslock/tests/servers"
)

// place is an empty store of a kind: "file", or a server that is started for it.
func place(b *testing.B, kind string) (url string) {
	if kind == "file" {
		return "file://" + b.TempDir()
	}
	s, err := servers.Start(kind)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	for _, line := range s.Env(s.Address) {
		name, value, _ := strings.Cut(line, "=")
		b.Setenv(name, value)
	}
	return s.Under(s.Address, "bench")
}

// contest is a host and the same store beside it, whose requests are sent bare.
type contest struct {
	*testing.B

	host *host.Host
	bare store.Store
	body []byte // as long as a version's
}

func openContest(b *testing.B, kind string) *contest {
	at := place(b, kind)
	h, err := host.Open(b.Context(), at, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(h.Close(context.Background()), s.Close()); err != nil {
			b.Error(err)
		}
	})
	c := &contest{B: b, host: h, bare: s}
	c.claim("first") // the host examines the store, once
	o, err := s.Get(b.Context(), versionKey("first", 1))
	c.ok(err)
	c.body = bytes.Clone(o.Body)
	return c
}

func (c *contest) ok(err error) {
	if err != nil {
		c.Helper()
		c.Fatal(err)
	}
}

// claim is an acquire and a release.
func (c *contest) claim(name string) {
	l, err := c.host.Acquire(c.Context(), name, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict}})
	c.ok(err)
	c.ok(l.Release(c.Context()))
}

// versionKey is where strict keeps a version of a name.
func versionKey(name string, n uint64) string {
	return fmt.Sprintf("%s/_mopslock/%016x/v", name, ^uint64(0)-n)
}

// create makes a version bare.
func (c *contest) create(name string, n uint64) {
	ctx, cancel := context.WithTimeout(c.Context(), core.RequestLimit) // as each request of a host has
	defer cancel()
	c.ok(c.bare.Create(ctx, versionKey(name, n), c.body, ""))
}

// turns times ours and the bare requests, one after the other, and lets each be first in
// turns. It reports their medians.
func (c *contest) turns(ours, bare func(i int)) {
	var took [2][]time.Duration
	for i := 0; c.Loop(); i++ {
		for turn := range 2 {
			which := (i + turn) % 2
			do := [...]func(int){ours, bare}[which]
			begin := time.Now()
			do(i)
			took[which] = append(took[which], time.Since(begin))
		}
	}
	for which, name := range []string{"ns-ours", "ns-bare"} {
		slices.Sort(took[which])
		c.ReportMetric(float64(took[which][len(took[which])/2]), name)
	}
}

var kinds = append([]string{"file"}, servers.Kinds...)

// BenchmarkStrictAgain is an acquire and a release, under strict, by the host that released
// the name last: two creates. Names are taken in turns, as by a worker of several queues.
func BenchmarkStrictAgain(b *testing.B) {
	const names = 8
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			c := openContest(b, kind)
			for i := range names {
				c.claim(fmt.Sprint("ours/", i))
				c.create(fmt.Sprint("bare/", i), 1)
				c.create(fmt.Sprint("bare/", i), 2)
			}
			c.turns(func(i int) {
				c.claim(fmt.Sprint("ours/", i%names))
			}, func(i int) {
				name, n := fmt.Sprint("bare/", i%names), 2*uint64(i/names)+3
				c.create(name, n)
				c.create(name, n+1)
			})
		})
	}
}

// BenchmarkStrictFresh is the same on names that were never used: a list and two creates,
// before them a check for an old client's record, and between them, but on a directory, a
// list that shows the first.
func BenchmarkStrictFresh(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			c := openContest(b, kind)
			c.turns(func(i int) {
				c.claim(fmt.Sprint("ours/", i))
			}, func(i int) {
				name := fmt.Sprint("bare/", i)
				ctx, cancel := context.WithTimeout(c.Context(), core.RequestLimit)
				defer cancel()
				_, err := c.bare.Exists(ctx, name+"/"+core.LockFile)
				c.ok(err)
				list := func() {
					_, _, err = c.bare.List(ctx, name+"/_mopslock/", "", 64)
					c.ok(err)
				}
				list()
				c.create(name, 1)
				if kind != "file" {
					list()
				}
				c.create(name, 2)
			})
		})
	}
}

// BenchmarkAcquireLastWriter is an acquire in a directory in which the lease was never
// held, as acquire.py has it.
func BenchmarkAcquireLastWriter(b *testing.B) {
	h, err := host.Open(b.Context(), "file://"+b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		l, err := h.Acquire(b.Context(), fmt.Sprint("bench/", i), &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolLastWriter}})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns/acquire")
	if err := h.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
