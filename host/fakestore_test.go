package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// backend holds the objects that several stores see.
type backend struct {
	mu       sync.Mutex
	objects  map[string]store.Object
	keys     []string // in byte order
	watchers map[string][]*func()
}

func newBackend() *backend {
	return &backend{objects: map[string]store.Object{}, watchers: map[string][]*func(){}}
}

func (s *backend) get(key string) (store.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[key]
	object.Body = bytes.Clone(object.Body)
	return object, ok
}

func (s *backend) exists(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.objects[key]
	return there
}

func (s *backend) put(key string, body []byte) { s.write(key, body, true) }

// create puts the object unless there is one.
func (s *backend) create(key string, body []byte) bool { return s.write(key, body, false) }

func (s *backend) write(key string, body []byte, over bool) (fresh bool) {
	s.mu.Lock()
	at, there := slices.BinarySearch(s.keys, key)
	if !there {
		s.keys = slices.Insert(s.keys, at, key)
	}
	if over || !there {
		s.objects[key] = store.Object{Body: bytes.Clone(body), Stamp: time.Now().UnixNano()}
	}
	told := slices.Clone(s.watchers[key])
	s.mu.Unlock()
	for _, notify := range told {
		(*notify)()
	}
	return !there
}

func (s *backend) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, there := slices.BinarySearch(s.keys, key); there {
		s.keys = slices.Delete(s.keys, at, at+1)
		delete(s.objects, key)
	}
}

// list is a page of the keys, in byte order.
func (s *backend) list(prefix, after string, limit int) (page []store.Info, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearch(s.keys, max(prefix, after))
	for _, key := range s.keys[first:] {
		if more = strings.HasPrefix(key, prefix) && len(page) == limit; more || !strings.HasPrefix(key, prefix) {
			break
		}
		if key > after {
			page = append(page, store.Info{Key: key, Stamp: s.objects[key].Stamp})
		}
	}
	return page, more
}

func (s *backend) watch(key string, notify func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := &notify
	s.watchers[key] = append(s.watchers[key], mine)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers[key] = slices.DeleteFunc(s.watchers[key], func(f *func()) bool { return f == mine })
	}
}

// latency is what every request takes unless a fault says otherwise: half of it
// before it is applied, half after.
const latency = 10 * time.Millisecond

// fault is what becomes of one request.
type fault struct {
	before time.Duration // until it is applied
	after  time.Duration // then until it is answered
	class  core.Class    // not applied, and unknown
	wish   time.Duration // with class: to be left alone for so long
	none   bool          // not applied: the store has no such request
	shut   bool          // not applied: the store is closed
	panics bool          // not applied: the driver panics
	lost   bool          // applied, and unknown
	late   time.Duration // unknown now, applied so much later
	hang   bool          // neither applied nor answered until ctx ends
	deaf   chan struct{} // the same, but until this is closed, whatever ctx says
}

var fine = fault{before: latency / 2, after: latency / 2}

// call is one request as the store saw it.
type call struct {
	verb, key string
	at        time.Time
}

// fakeStore is a store.Store on a backend that takes its time, fails as told and
// writes down what it was asked.
type fakeStore struct {
	backend *backend
	unit    time.Duration
	page    int
	// overwrites: create is a put, as on stores that know no other.
	overwrites bool
	// racy: create looks when it is sent, and writes when it is applied.
	racy bool
	// doubled: every create is sent twice on its way, and the second answer is told.
	doubled bool

	mu     sync.Mutex
	plan   func(call) fault
	calls  []call
	flying int
	most   int // requests at once
	closed bool
}

func newFakeStore(s *backend) *fakeStore {
	return &fakeStore{backend: s, unit: time.Nanosecond, page: 3}
}

// on sets what becomes of every request from now on.
func (s *fakeStore) on(plan func(call) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = plan
}

func (s *fakeStore) always(f fault) { s.on(func(call) fault { return f }) }
func (s *fakeStore) heal()          { s.on(nil) }

// when sets what becomes of the requests of a verb, or of all, whose keys have a part.
func (s *fakeStore) when(verb, part string, f fault) {
	s.on(func(c call) fault {
		if (verb == "" || c.verb == verb) && strings.Contains(c.key, part) {
			return f
		}
		return fine
	})
}

// nth sets a fault for one request of a verb, by its number; the others are fine.
func (s *fakeStore) nth(verb string, number int, f fault) {
	asked := 0
	s.on(func(c call) fault {
		if c.verb != verb {
			return fine
		}
		if asked++; asked == number {
			return f
		}
		return fine
	})
}

func (s *fakeStore) once(verb string, f fault) { s.nth(verb, 1, f) }

// forget empties the log of requests.
func (s *fakeStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.most = nil, 0
}

func (s *fakeStore) log() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// verbs is the log in short: "get put get put".
func (s *fakeStore) verbs() string {
	var out []string
	for _, c := range s.log() {
		out = append(out, c.verb)
	}
	return strings.Join(out, " ")
}

func (s *fakeStore) puts() (out []call) {
	for _, c := range s.log() {
		if c.verb == "put" {
			out = append(out, c)
		}
	}
	return out
}

func (s *fakeStore) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying
}

func (s *fakeStore) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *fakeStore) begin(verb, key string) fault {
	c := call{verb: verb, key: key, at: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	s.flying++
	s.most = max(s.most, s.flying)
	if s.plan == nil {
		return fine
	}
	return s.plan(c)
}

func (s *fakeStore) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
}

// errFake has a secret in it, which no text of ours may show.
var errFake = errors.New(`PUT "https://user:hunter2@store.example/bucket?X-Amz-Signature=c0ffee": no`)

func (s *fakeStore) do(ctx context.Context, verb, key string, apply func() error) error {
	f := s.begin(verb, key)
	defer s.end()
	unknown := func(class core.Class, err error) error { return store.Fail(verb, key, class, err) }
	if f.deaf != nil {
		<-f.deaf
		return unknown(core.ClassUnreachable, errFake)
	}
	err := pause(ctx, f.before)
	if err == nil && f.hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return unknown(store.ClassOf(err), err)
	case f.none:
		return unknown(core.ClassOther, errors.ErrUnsupported)
	case f.shut:
		return unknown(core.ClassOther, store.ErrClosed)
	case f.panics:
		panic("nil map in the SDK")
	case f.class != core.ClassNone:
		err := store.Fail(verb, key, f.class, errFake)
		err.RetryAfter = f.wish
		return err
	case f.late > 0:
		if verb == "put" || verb == "create" {
			time.AfterFunc(f.late, func() { _ = apply() })
		}
		return unknown(core.ClassUnreachable, errFake)
	}
	outcome := apply()
	if err := pause(ctx, f.after); err != nil || f.lost {
		return unknown(core.ClassUnreachable, cmp.Or(err, errFake))
	}
	if outcome != nil {
		return store.Fail(verb, key, core.ClassNone, outcome)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (s *fakeStore) Get(ctx context.Context, key string) (object store.Object, err error) {
	err = s.do(ctx, "get", key, func() error {
		var ok bool
		if object, ok = s.backend.get(key); !ok {
			return store.ErrAbsent
		}
		return nil
	})
	return object, err
}

func (s *fakeStore) Put(ctx context.Context, key string, body []byte, _ string) error {
	return s.do(ctx, "put", key, func() error {
		s.backend.put(key, body)
		return nil
	})
}

func (s *fakeStore) Create(ctx context.Context, key string, body []byte, _ string) error {
	_, there := s.backend.get(key)
	return s.do(ctx, "create", key, func() error {
		switch {
		case s.racy && there, s.doubled && s.backend.create(key, body):
			return store.ErrExists
		case s.racy:
			s.backend.put(key, body)
			return nil
		}
		if !s.overwrites && !s.backend.create(key, body) {
			return store.ErrExists
		} else if s.overwrites {
			s.backend.put(key, body)
		}
		return nil
	})
}

func (s *fakeStore) Exists(ctx context.Context, key string) (there bool, err error) {
	err = s.do(ctx, "exists", key, func() error {
		there = s.backend.exists(key)
		return nil
	})
	return there, err
}

func (s *fakeStore) Delete(ctx context.Context, key string) error {
	return s.do(ctx, "delete", key, func() error {
		s.backend.remove(key)
		return nil
	})
}

// List pages by three unless told otherwise, so that paging is always at work.
func (s *fakeStore) List(ctx context.Context, prefix, after string, _ int) (page []store.Info, more bool, err error) {
	err = s.do(ctx, "list", prefix, func() error {
		page, more = s.backend.list(prefix, after, s.page)
		return nil
	})
	return page, more, err
}

func (s *fakeStore) StampUnit() time.Duration { return s.unit }

func (s *fakeStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("closed twice")
	}
	s.closed = true
	if s.flying > 0 {
		return fmt.Errorf("%d requests are under way", s.flying)
	}
	return nil
}

// watchedStore is a fakeStore that tells of changes, as directories do.
type watchedStore struct {
	*fakeStore
	refuse error
}

func (s watchedStore) Watch(key string, notify func()) (func(), error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	return s.backend.watch(key, notify), nil
}
