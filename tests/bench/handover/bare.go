package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// bare makes only the requests of a hand-over: under strict the release's create, and
// the next holder's list, get and create; under lastwriter the release's get and put,
// and the next holder's get and put, the wait of a claim by a waiter, get and put.
func bare(ctx context.Context, j *job) (samples []time.Duration, err error) {
	s, err := store.Open(ctx, j.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	requests := bareStrict
	if j.terms.Protocol == core.ProtocolLastWriter {
		requests = bareLastWriter
	}
	return j.sampled(func(i int) (time.Duration, error) {
		if err := j.hold(ctx); err != nil {
			return 0, err
		}
		begun := time.Now()
		err := requests(ctx, s, i)
		return time.Since(begun), err
	})
}

func bareStrict(ctx context.Context, s store.Store, i int) error {
	const prefix = name + "/_mopslock/"
	key := func(n int) string { return fmt.Sprintf("%s%016x/v", prefix, math.MaxUint64-uint64(n)) }
	body := make([]byte, 400)
	if err := s.Create(ctx, key(2*i), body, "application/json"); err != nil {
		return err
	}
	if _, _, err := s.List(ctx, prefix, "", 64); err != nil {
		return err
	}
	if _, err := s.Get(ctx, key(2*i)); err != nil {
		return err
	}
	return s.Create(ctx, key(2*i+1), body, "application/json")
}

func bareLastWriter(ctx context.Context, s store.Store, _ int) error {
	key := name + "/" + core.LockFile
	body := make([]byte, 400)
	getPut := func() error {
		if _, err := s.Get(ctx, key); err != nil && !errors.Is(err, store.ErrAbsent) {
			return err
		}
		return s.Put(ctx, key, body, core.LockFileType)
	}
	if err := getPut(); err != nil {
		return err
	}
	begun := time.Now()
	if err := getPut(); err != nil {
		return err
	}
	wait := max(core.ContendedMargin, 2*time.Since(begun))
	for begun = time.Now(); time.Since(begun) < wait; { // Go's timers may come a millisecond later
	}
	return getPut()
}
