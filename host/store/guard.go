package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/mopslock/mopslock/core"
)

// PanicError is the cause of the *Error of a verb that panicked in its driver. The outcome
// is unknown, as of any request that broke off.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("its driver panicked: %v", e.Value) }

// Guard returns the store, of which no verb panics: a panic in a driver, or in the SDK
// below it, would end a process that holds leases. It becomes the verb's *Error. A panic in
// a goroutine that the SDK started itself cannot be recovered.
//
// The result implements Streamer and Watcher if the store does. Open guards what it opens.
func Guard(s Store) Store {
	switch s.(type) {
	case nil, interface{ Unguarded() Store }:
		return s
	}
	g := guard{s}
	streams, isStreamer := s.(Streamer)
	watches, isWatcher := s.(Watcher)
	switch {
	case isStreamer && isWatcher:
		return struct {
			guard
			guardedStreams
			guardedWatch
		}{g, guardedStreams{streams}, guardedWatch{watches}}
	case isStreamer:
		return struct {
			guard
			guardedStreams
		}{g, guardedStreams{streams}}
	case isWatcher:
		return struct {
			guard
			guardedWatch
		}{g, guardedWatch{watches}}
	}
	return g
}

// Unguarded returns the store that Guard was given.
func Unguarded(s Store) Store {
	if g, ok := s.(interface{ Unguarded() Store }); ok {
		return g.Unguarded()
	}
	return s
}

// recovered makes the error of a verb that panicked.
func recovered(op, key string, err *error) {
	if value := recover(); value != nil {
		*err = Fail(op, key, core.ClassOther, &PanicError{Value: value, Stack: debug.Stack()})
	} else if e, ok := (*err).(*Error); ok && (e == nil || e.Err == nil) { //nolint:errorlint // errors.As would ask the nil, which is no nil of error
		*err = Fail(op, key, core.ClassOther, errNothing)
	}
}

// errNothing stands for an *Error of a driver that has no cause.
var errNothing = errors.New("the store's driver gave an error that says nothing")

// answered asks a store what it is like. One that panics has answered unless, which promises
// nothing.
func answered[T any](unless T, ask func() T) (answer T) {
	defer func() {
		if recover() != nil {
			answer = unless
		}
	}()
	return ask()
}

type guard struct{ of Store }

// Unguarded returns the store itself.
func (g guard) Unguarded() Store { return g.of }

// Get implements Store.
func (g guard) Get(ctx context.Context, key string) (o Object, err error) {
	defer recovered("get", key, &err)
	return g.of.Get(ctx, key)
}

// Put implements Store.
func (g guard) Put(ctx context.Context, key string, body []byte, contentType string) (err error) {
	defer recovered("put", key, &err)
	return g.of.Put(ctx, key, body, contentType)
}

// Create implements Store.
func (g guard) Create(ctx context.Context, key string, body []byte, contentType string) (err error) {
	defer recovered("create", key, &err)
	return g.of.Create(ctx, key, body, contentType)
}

// Exists implements Store.
func (g guard) Exists(ctx context.Context, key string) (there bool, err error) {
	defer recovered("exists", key, &err)
	return g.of.Exists(ctx, key)
}

// List implements Store.
func (g guard) List(ctx context.Context, prefix, after string, limit int) (page []Info, more bool, err error) {
	defer recovered("list", prefix, &err)
	return g.of.List(ctx, prefix, after, limit)
}

// Delete implements Store.
func (g guard) Delete(ctx context.Context, key string) (err error) {
	defer recovered("delete", key, &err)
	return g.of.Delete(ctx, key)
}

// StampUnit implements Store.
func (g guard) StampUnit() time.Duration { return answered(0, g.of.StampUnit) }

// Close implements Store.
func (g guard) Close() (err error) {
	defer recovered("close", "", &err)
	return g.of.Close()
}

// CheckKey implements KeyChecker.
func (g guard) CheckKey(key string) (err error) {
	defer recovered("check", key, &err)
	if checker, ok := g.of.(KeyChecker); ok {
		return checker.CheckKey(key)
	}
	return nil
}

// ClockSteps implements SteppingClock.
func (g guard) ClockSteps() (steps bool, why string) {
	defer func() {
		if value := recover(); value != nil {
			steps, why = true, fmt.Sprintf("the store cannot say: %v", value)
		}
	}()
	return ClockSteps(g.of)
}

// Orderly implements Orderly.
func (g guard) Orderly() bool {
	place, ok := g.of.(Orderly)
	return ok && answered(false, place.Orderly)
}

// InMemory implements Memory.
func (g guard) InMemory() bool {
	place, ok := g.of.(Memory)
	return ok && answered(false, place.InMemory)
}

type guardedStreams struct{ of Streamer }

// MaxSize implements Streamer.
func (g guardedStreams) MaxSize() int64 { return answered(0, g.of.MaxSize) }

// Open implements Streamer.
func (g guardedStreams) Open(ctx context.Context, key string) (body io.ReadCloser, info Info, err error) {
	defer recovered("get", key, &err)
	if body, info, err = g.of.Open(ctx, key); err == nil {
		body = guardedBody{body, key}
	}
	return body, info, err
}

// CreateFrom implements Streamer.
func (g guardedStreams) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) (err error) {
	defer recovered("create", key, &err)
	return g.of.CreateFrom(ctx, key, body, size, contentType)
}

// PutFrom implements Streamer.
func (g guardedStreams) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) (err error) {
	defer recovered("put", key, &err)
	return g.of.PutFrom(ctx, key, body, size, contentType)
}

type guardedBody struct {
	of  io.ReadCloser
	key string
}

// Read implements io.Reader.
func (b guardedBody) Read(p []byte) (n int, err error) {
	defer recovered("get", b.key, &err)
	return b.of.Read(p)
}

// Close implements io.Closer.
func (b guardedBody) Close() (err error) {
	defer recovered("get", b.key, &err)
	return b.of.Close()
}

type guardedWatch struct{ of Watcher }

// Watch implements Watcher.
func (g guardedWatch) Watch(key string, notify func()) (stop func(), err error) {
	defer recovered("watch", key, &err)
	if stop, err = g.of.Watch(key, notify); stop == nil {
		return nil, err
	}
	ends := stop
	return func() {
		defer func() { _ = recover() }()
		ends()
	}, err
}
