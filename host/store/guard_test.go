package store

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// broken panics in every verb, but not while broken.whole lets it open an object.
type broken struct{ whole bool }

func (broken) Get(context.Context, string) (Object, error)                     { panic("get") }
func (broken) Put(context.Context, string, []byte, string) error               { panic("put") }
func (broken) Create(context.Context, string, []byte, string) error            { panic("create") }
func (broken) Exists(context.Context, string) (bool, error)                    { panic(errors.New("exists")) }
func (broken) List(context.Context, string, string, int) ([]Info, bool, error) { panic("list") }
func (broken) Delete(context.Context, string) error                            { panic("delete") }
func (broken) StampUnit() time.Duration                                        { return time.Second }
func (broken) Close() error                                                    { panic("close") }

type brokenStreams struct{ broken }

func (brokenStreams) MaxSize() int64 { return 1 }

func (s brokenStreams) Open(context.Context, string) (io.ReadCloser, Info, error) {
	if s.whole {
		return brokenBody{}, Info{Size: 1}, nil
	}
	panic("open")
}

func (brokenStreams) CreateFrom(context.Context, string, io.Reader, int64, string) error {
	panic("create")
}

func (brokenStreams) PutFrom(context.Context, string, io.Reader, int64, string) error { panic("put") }

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { panic("read") }
func (brokenBody) Close() error             { panic("read") }

type brokenWatch struct{}

func (brokenWatch) Watch(string, func()) (func(), error) { panic("watch") }

// unsure panics when it is asked what it is like.
type unsure struct {
	brokenStreams
	unsureWatch
}

func (unsure) StampUnit() time.Duration   { panic("unit") }
func (unsure) MaxSize() int64             { panic("size") }
func (unsure) CheckKey(string) error      { panic("key") }
func (unsure) Orderly() bool              { panic("orderly") }
func (unsure) ClockSteps() (bool, string) { panic("clock") }

type unsureWatch struct{}

func (unsureWatch) Watch(string, func()) (func(), error) { return func() { panic("stop") }, nil }

// TestGuardPromisesNothing: what a store is like, and does not say, is what no lease relies on.
func TestGuardPromisesNothing(t *testing.T) {
	s := Guard(unsure{})
	stop, err := s.(Watcher).Watch("k", nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	steps, why := ClockSteps(s)
	if !steps || why != "the store cannot say: clock" || s.(Orderly).Orderly() || s.StampUnit() != 0 || s.(Streamer).MaxSize() != 0 {
		t.Error(steps, why)
	}
	if panicked, ok := errors.AsType[*PanicError](s.(KeyChecker).CheckKey("k")); !ok || panicked.Value != "key" {
		t.Error(panicked)
	}
}

// A panic in any verb is an error of that verb, of an unknown outcome, with the stack of
// the driver.
func TestGuard(t *testing.T) {
	s := Guard(struct {
		brokenStreams
		brokenWatch
	}{})
	streams, ctx := s.(Streamer), t.Context()
	body, _, err := Guard(brokenStreams{broken{whole: true}}).(Streamer).Open(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	for op, err := range map[string]error{
		"get":    second(s.Get(ctx, "k")),
		"put":    s.Put(ctx, "k", nil, ""),
		"create": s.Create(ctx, "k", nil, ""),
		"exists": second(s.Exists(ctx, "k")),
		"list":   func() error { _, _, err := s.List(ctx, "k", "", 0); return err }(),
		"delete": s.Delete(ctx, "k"),
		"close":  s.Close(),
		"watch":  second(s.(Watcher).Watch("k", nil)),

		"get open":    func() error { _, _, err := streams.Open(ctx, "k"); return err }(),
		"get read":    second(body.Read(nil)),
		"get end":     body.Close(),
		"put from":    streams.PutFrom(ctx, "k", nil, 0, ""),
		"create from": streams.CreateFrom(ctx, "k", nil, 0, ""),
	} {
		op, _, _ := strings.Cut(op, " ")
		e, _ := errors.AsType[*Error](err)
		panicked, _ := errors.AsType[*PanicError](err)
		if e == nil || e.Op != op || e.Class != core.ClassOther || panicked == nil || !strings.Contains(string(panicked.Stack), "guard_test.go") {
			t.Errorf("%s: %v", op, err)
		}
		if ClassIn(err) != core.ClassOther || errors.Is(err, ErrAbsent) || errors.Is(err, ErrExists) {
			t.Errorf("%s says yes or no: %v", op, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A guarded store can do what the store can, and no more.
func TestGuardHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		of               Store
		streams, watches bool
	}{
		"neither": {of: broken{}},
		"streams": {of: brokenStreams{}, streams: true},
		"watches": {of: struct {
			broken
			brokenWatch
		}{}, watches: true},
		"both": {of: struct {
			brokenStreams
			brokenWatch
		}{}, streams: true, watches: true},
	} {
		s := Guard(c.of)
		_, streams := s.(Streamer)
		_, watches := s.(Watcher)
		if streams != c.streams || watches != c.watches || Unguarded(s) != c.of || Guard(s) != s || Unguarded(c.of) != c.of {
			t.Errorf("%s: %v, %v", name, streams, watches)
		}
		if steps, _ := ClockSteps(s); steps || s.(Orderly).Orderly() || s.(KeyChecker).CheckKey("k") != nil || s.StampUnit() != time.Second {
			t.Errorf("%s: it says what the store does not", name)
		}
	}
}

// mute is a store whose errors say nothing.
type mute struct{ unsure }

func (mute) Get(context.Context, string) (Object, error) { return Object{}, (*Error)(nil) }
func (mute) Put(context.Context, string, []byte, string) error {
	return &Error{Op: "put"}
}

// An error that says nothing, as a nil of a typed variable, is one that can be asked and shown.
func TestGuardOfErrorsThatSayNothing(t *testing.T) {
	s := Guard(mute{})
	_, err := s.Get(t.Context(), "k")
	for _, err := range []error{err, s.Put(t.Context(), "k", nil, "")} {
		if errors.Is(err, ErrAbsent) || ClassIn(err) != core.ClassOther || !strings.Contains(err.Error(), "says nothing") {
			t.Error(err)
		}
	}
}
