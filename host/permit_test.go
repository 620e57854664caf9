package host

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

var six = View{Capacity: 3, Width: 2}

// permitTerms is what the tests hold permits by: the session's deadline is 54 s.
var permitTerms = Terms{TTL: core.TTL(minute)}

func (p *actor) permit(name string, v View, opts ...PermitOptions) *Permit {
	p.world.Helper()
	permit, err := p.AcquirePermit(background, name, v, permitOptions(opts))
	p.world.ok(err)
	return permit
}

func (p *actor) tryPermit(name string, v View, opts ...PermitOptions) (*Permit, error) {
	return p.TryAcquirePermit(background, name, v, permitOptions(opts))
}

// queues waits for a permit beside the test, and returns when it has been told that it waits.
func (p *actor) queues(name string, v View, weight int) (<-chan *Permit, Status) {
	told := make(chan Status, 1)
	got := beside(func() *Permit {
		return p.permit(name, v, PermitOptions{Weight: weight, OnWaiting: func(s Status) { told <- s }})
	})
	return got, <-told
}

func permitOptions(opts []PermitOptions) *PermitOptions {
	o := PermitOptions{}
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.TTL == 0 {
		o.TTL = permitTerms.TTL
	}
	return &o
}

func (p *actor) giveBack(permits ...*Permit) {
	p.world.Helper()
	for _, permit := range permits {
		p.world.ok(permit.Release(background))
	}
}

// semaphore is what somebody else sees of a name.
func (w *world) semaphore(name string) Status {
	w.Helper()
	s, err := w.host().Inspect(background, name)
	w.ok(err)
	return s
}

func (w *world) held(name string, want uint64) {
	w.Helper()
	if s := w.semaphore(name); s.Held != want {
		w.Fatalf("%d held, want %d: %+v", s.Held, want, s)
	}
}

// One permit from acquire to release: what it costs, what it says, and what others
// see of it.
func TestPermit(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		first := p.permit("n", six, PermitOptions{Weight: 2, Terms: Terms{Label: "backup"}})
		w.same("a name never used", p.store.count("create", "n/"), 1)
		w.same("and a session", p.store.count("put", sessionPrefix), 1)
		w.same("total", first.Total(), uint64(2))
		w.same("weight", first.Weight(), 2)
		w.same("token", first.FencingToken(), uint64(1))
		w.same("name", first.Name(), "n")
		if left := first.Left(); left < 53*time.Second || left > 54*time.Second {
			w.Errorf("left %v", left)
		}
		w.ok(first.Err())
		p.store.forget()
		second := p.permit("n", six)
		w.same("another", p.store.work(), "create")
		w.same("total", second.Total(), uint64(3))
		w.same("ids", first.Holder() != second.Holder() && first.Holder() != "", true)
		w.same("session", first.Session() == second.Session() && first.Session() != "", true)

		s := w.semaphore("n")
		w.same("state", s.State, core.ObservedHeld)
		w.same("semaphore", s.IsSemaphore(), true)
		w.same("protocol", s.Protocol, core.ProtocolStrict)
		w.same("view", View{s.Capacity, s.Width}, six)
		w.same("held", s.Held, uint64(3))
		w.same("most", s.Most(), uint64(6))
		w.same("holders", len(s.Holders), 2)
		w.same("the first", s.Holders[0], PermitHolder{
			ID: first.Holder(), Session: first.Session(), Weight: 2, Host: p.terms.host, PID: p.terms.pid, Label: "backup",
		})
		w.same("the second", s.Holders[1].Weight, uint64(1))

		p.store.forget()
		p.giveBack(first)
		w.same("a release", p.store.work(), "create")
		p.giveBack(first) // again
		w.same("a second one", p.store.work(), "create")
		w.is(first.Err(), ErrReleased)
		<-first.Done()
		w.is(context.Cause(first.Context()), ErrReleased)
		w.ok(second.Err())
		p.giveBack(second)
		w.sleep(time.Second)
		p.idle()
		s = w.semaphore("n")
		w.same("state", s.State, core.ObservedVacant)
		w.same("held", s.Held, uint64(0))
		third := p.permit("n", six)
		w.same("token", third.FencingToken() > second.FencingToken(), true)
	})
}

// Who finds no room is told so, or waits until somebody of this process, or of
// another, gives back.
func TestPermitWaits(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		view := View{Capacity: 2, Width: 1}
		a, b := p.permit("n", view, PermitOptions{Terms: Terms{Label: "first"}}), other.permit("n", view)
		_, err := p.tryPermit("n", view)
		w.is(err, ErrFull, ErrNotAcquired)
		e, _ := errors.AsType[*Error](err)
		w.same("held", e.Seen.Held, uint64(2))
		w.same("holders", len(e.Seen.Holders), 2)
		w.same("label", e.Seen.Holders[0].Label, "first")
		w.has(err.Error(), `permit of "n" not acquired: full, with 2 held, by `+a.Holder())
		begun := time.Now()
		w.is(errOf(other.AcquirePermit(background, "n", view, &PermitOptions{Terms: permitTerms, Wait: 3 * time.Second})), ErrFull)
		w.within("waited", time.Since(begun), 3*time.Second, 4*time.Second)
		got, seen := p.queues("n", view, 1)
		w.same("told", seen.Held, uint64(2))
		begun = time.Now()
		p.giveBack(a)
		a = <-got
		w.within("in one process", time.Since(begun), 0, 10*latency)
		got, _ = p.queues("n", view, 1)
		begun = time.Now()
		other.giveBack(b)
		p.giveBack(a, <-got)
		w.within("from another", time.Since(begun), 0, 7*time.Second)
		w.held("n", 0)
	})
}

// A limit in the store counts for everybody, evicts nobody, and goes when it is 0.
func TestPermitLimit(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := background
		p, other := w.host(), w.host()
		w.ok(p.SetLimit(ctx, "n", 1))
		w.same("it takes no session", p.store.count("put", sessionPrefix), 0)
		p.idle()
		first := other.permit("n", six)
		w.says(errOf(p.tryPermit("n", six)), ErrFull, "with 1 held and a limit of 1 in the store")
		s := w.semaphore("n")
		w.same("limit", s.Limit, uint64(1))
		w.same("most", s.Most(), uint64(1))
		got, _ := p.queues("n", six, 1)
		w.ok(p.SetLimit(ctx, "n", 2)) // by the machine that waits
		second := <-got
		w.ok(other.SetLimit(ctx, "n", 1))
		w.ok(first.Err())
		w.ok(second.Err())
		w.ok(other.SetLimit(ctx, "n", 0))
		w.same("limit", w.semaphore("n").Limit, uint64(0))
		p.giveBack(first, second, p.permit("n", six))
		w.is(p.SetLimit(ctx, "n/", 1), &core.Error{Code: core.ErrorConfig})
		w.is(p.SetLimit(ctx, "n", core.MaxCapacity*core.MaxWidth+1), &core.Error{Code: core.ErrorConfig})
		p.store.always(fault{class: core.ClassUnauthorized})
		err := p.SetLimit(ctx, "n", 1)
		w.says(err, &Error{Kind: NotAcquired, Reason: core.ReasonUnusable}, `mopslock: limit of "n" not set: `)
	})
}

// What is wrong is said before any request, all of it.
func TestPermitArguments(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, test := range []struct {
			name string
			view View
			opts PermitOptions
			want []string
		}{
			{
				"a//b",
				View{0, core.MaxWidth + 1},
				PermitOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: 1, Label: "\x1b"}, Weight: -1, Spare: -1, Wait: -1},
				[]string{"name", "capacity 0", "width 65537", "protocol", "ttl 1ns", "label", "weight -1", "spare -1", "wait -1ns"},
			},
			{"n", View{core.MaxCapacity + 1, 0}, PermitOptions{Terms: Terms{TTL: core.TTLEndless}}, []string{"capacity 1048577", "width 0", "ttl"}},
			{"n", View{math.MinInt, math.MaxInt}, PermitOptions{}, []string{"capacity -", "width 9"}},
		} {
			_, err := p.AcquirePermit(background, test.name, test.view, &test.opts)
			w.is(err, &core.Error{Code: core.ErrorConfig})
			for _, want := range test.want {
				w.has(err.Error(), want)
			}
		}
		for _, opts := range []*PermitOptions{
			{Weight: 7}, {Weight: 6, Spare: 1}, {Spare: 6}, {Weight: math.MaxInt}, {Spare: math.MaxInt, Weight: math.MaxInt},
		} {
			w.is(errOf(p.TryAcquirePermit(background, "n", six, opts)), ErrWeightExceedsLimit)
		}
		w.ok(checkPermit(View{core.MaxCapacity, core.MaxWidth}, &PermitOptions{Weight: math.MaxUint32, Spare: math.MaxUint32}))
		_, err := p.AcquirePermit(background, "n", View{core.MaxCapacity, core.MaxWidth}, &PermitOptions{Weight: math.MaxUint32 + 1})
		w.is(err, &core.Error{Code: core.ErrorConfig})
		if errors.Is(err, ErrWeightExceedsLimit) || !strings.HasSuffix(err.Error(), "at most 4294967295") {
			w.Error(err)
		}
		w.same("requests", p.store.verbs(), "")
		p.idle()
	})
}

// A name is a lease's or a semaphore's. The error says which, and what to do.
func TestPermitKind(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l, permit := p.strictly("lease"), p.permit("semaphore", six)
		for _, wait := range []time.Duration{0, core.Forever} {
			_, err := p.acquirePermit(background, "lease", six, &PermitOptions{Terms: permitTerms}, wait)
			w.says(err, &Error{Kind: Incompatible, Reason: core.ReasonKind}, "that of a lease")
			_, err = p.Host.acquire(background, "semaphore", &AcquireOptions{Terms: strict}, wait)
			w.says(err, &Error{Kind: Incompatible, Reason: core.ReasonKind}, "that of a semaphore")
		}
		w.is(p.SetLimit(background, "lease", 1), &Error{Kind: Incompatible, Reason: core.ReasonKind})
		w.is(errOf(p.Break(background, "semaphore", &BreakOptions{Why: "stuck"})), &Error{Kind: Incompatible, Reason: core.ReasonKind})
		_, err := p.Accompany(background, Handle{Name: "semaphore", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: core.TTL(minute)}, nil)
		w.is(err, &Error{Kind: Incompatible, Reason: core.ReasonKind})
		w.ok(l.Err())
		w.ok(permit.Err())
		p.release(l)
		p.giveBack(permit)
		p.idle()
	})
}
