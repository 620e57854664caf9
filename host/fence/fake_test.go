package fence

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/mem"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// fault is what happens to one create.
type fault struct {
	lost    bool          // applied, and the answer is unknown
	refused core.Class    // not applied, and the answer is unknown
	late    time.Duration // the answer is unknown, and the create is applied so much later
	slow    time.Duration // applied so much later, and answered then, whatever ctx says
	answer  time.Duration // applied now, and answered so much later
	told    error         // the answer that comes so much later, if it is not nil
}

// fakeStore is a store whose creates fail by a plan.
type fakeStore struct {
	*storetest.Fake

	mu      sync.Mutex
	plan    func(key string) fault
	landing sync.WaitGroup
}

func newStore(t *testing.T) *fakeStore {
	s := &fakeStore{Fake: &storetest.Fake{Store: mem.Open()}}
	s.On = s.do
	t.Cleanup(func() { s.Close() })
	return s
}

var errFake = errors.New("the connection was reset")

func (s *fakeStore) on(plan func(key string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = plan
}

// once makes the next create fail.
func (s *fakeStore) once(f fault) {
	s.on(func(string) fault {
		s.plan = nil // under its mutex
		return f
	})
}

func (s *fakeStore) chosen(key string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan == nil {
		return fault{}
	}
	return s.plan(key)
}

func (s *fakeStore) do(ctx context.Context, c *storetest.Call, apply func(context.Context) error) error {
	switch c.Verb {
	case "put":
		panic("nothing is overwritten")
	case "create":
		return s.create(ctx, c.Key, apply)
	}
	return apply(ctx)
}

func (s *fakeStore) create(ctx context.Context, key string, apply func(context.Context) error) error {
	f := s.chosen(key)
	unknown := func(class core.Class) error { return store.Fail("create", key, class, errFake) }
	always := context.WithoutCancel(ctx)
	switch {
	case f.refused != core.ClassNone:
		return unknown(f.refused)
	case f.lost:
		_ = apply(always)
		return unknown(core.ClassUnreachable)
	case f.late > 0:
		s.landing.Go(func() {
			<-time.After(f.late)
			_ = apply(always)
		})
		return unknown(core.ClassUnreachable)
	case f.slow > 0:
		<-time.After(f.slow)
		return apply(always)
	}
	err := apply(ctx)
	if f.answer > 0 {
		<-time.After(f.answer)
	}
	return cmp.Or(f.told, err)
}

func open(t *testing.T, s store.Store) *Object {
	t.Helper()
	o, err := Open(s, "reports/nightly")
	ok(t, err)
	return o
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v; want %v", err, target)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// slots returns how many slots there are.
func (o *Object) slots(t *testing.T) int {
	t.Helper()
	n, after := 0, ""
	for {
		page, more, err := o.list(context.Background(), after, 0)
		ok(t, err)
		n += len(page)
		if !more {
			return n
		}
		after = page[len(page)-1].Key
	}
}

func tenure(token uint64) Tenure {
	return Tenure{Token: token, Holder: "tenure-" + string(rune('a'+token%26))}
}
