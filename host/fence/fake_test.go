package fence

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/mem"
)

// fault is what becomes of one create.
type fault struct {
	lost    bool          // applied, and unknown
	refused core.Class    // not applied, and unknown
	late    time.Duration // unknown now, applied so much later
	slow    time.Duration // applied so much later, and answered then, whatever ctx says
}

// fakeStore is a store whose creates fail as told, and which writes down what
// it was asked.
type fakeStore struct {
	store.Store

	mu      sync.Mutex
	plan    func(key string) fault
	asked   []string
	landing sync.WaitGroup
}

func newStore(t *testing.T) *fakeStore {
	s := &fakeStore{Store: mem.Open()}
	t.Cleanup(func() { s.Close() })
	return s
}

var errFake = errors.New("the connection was reset")

func (s *fakeStore) note(verb, key string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, verb)
	if verb != "create" || s.plan == nil {
		return fault{}
	}
	return s.plan(key)
}

// requests tells, and forgets, what was asked: "list get create".
func (s *fakeStore) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.asked, " ")
	s.asked = nil
	return text
}

func (s *fakeStore) on(plan func(key string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = plan
}

// once makes the next create fail.
func (s *fakeStore) once(f fault) {
	used := false
	s.on(func(string) fault {
		if used {
			return fault{}
		}
		used = true
		return f
	})
}

func (s *fakeStore) Get(ctx context.Context, key string) (store.Object, error) {
	s.note("get", key)
	return s.Store.Get(ctx, key)
}

func (s *fakeStore) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	s.note("list", prefix)
	return s.Store.List(ctx, prefix, after, limit)
}

func (s *fakeStore) Delete(ctx context.Context, key string) error {
	s.note("delete", key)
	return s.Store.Delete(ctx, key)
}

func (s *fakeStore) Put(context.Context, string, []byte, string) error {
	panic("nothing is overwritten")
}

func (s *fakeStore) Create(ctx context.Context, key string, body []byte, kind string) error {
	f := s.note("create", key)
	unknown := func(class core.Class) error { return store.Fail("create", key, class, errFake) }
	always := context.WithoutCancel(ctx)
	switch {
	case f.refused != core.ClassNone:
		return unknown(f.refused)
	case f.lost:
		_ = s.Store.Create(always, key, body, kind)
		return unknown(core.ClassUnreachable)
	case f.late > 0:
		s.landing.Go(func() {
			<-time.After(f.late)
			_ = s.Store.Create(always, key, body, kind)
		})
		return unknown(core.ClassUnreachable)
	case f.slow > 0:
		<-time.After(f.slow)
		return s.Store.Create(always, key, body, kind)
	}
	return s.Store.Create(ctx, key, body, kind)
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func open(t tester, s store.Store) *Object {
	t.Helper()
	o, err := Open(s, "reports/nightly")
	ok(t, err)
	return o
}

func ok(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t tester, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v; want %v", err, target)
	}
}

func same(t tester, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// slots is how many there are.
func (o *Object) slots(t tester) int {
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
