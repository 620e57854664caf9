package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// work is the log of requests in short without what budgets leave out: probes of
// the store, the look for an old client's record, and samples of the store's clock.
func (s *fakeStore) work() string {
	var out []string
	for _, c := range s.log() {
		if c.key == capabilityKey || strings.HasPrefix(c.key, storeClockPrefix) ||
			c.verb == "exists" && strings.HasSuffix(c.key, "/"+core.LockFile) {
			continue
		}
		out = append(out, c.verb)
	}
	return strings.Join(out, " ")
}

func (s *fakeStore) count(verb, part string) (n int) {
	for _, c := range s.log() {
		if (verb == "" || c.verb == verb) && strings.Contains(c.key, part) {
			n++
		}
	}
	return n
}

// What is held for a moment collects what is superseded, too: behind its release, which does
// not wait for that. A process waits that ends.
func TestStrictCollects(t *testing.T) {
	each(t, map[string]func(p *actor){
		"release": func(p *actor) {
			l, begun := p.strictly("n"), time.Now()
			p.release(l)
			p.world.within("released after", time.Since(begun), 0, latency)
			p.world.ok(p.Close(background))
		},
		"close":  func(p *actor) { p.strictly("n"); p.world.ok(p.Close(background)) },
		"permit": func(p *actor) { p.giveBack(p.permit("n", six)); p.world.ok(p.Close(background)) },
		"settle and die": func(p *actor) {
			p.strictly("n").Settle(background)
			p.store.always(fault{hang: true})
		},
	}, func(w *world, name string, use func(p *actor)) {
		for range 50 {
			p := w.host()
			p.store.page = 1000
			begun := time.Now()
			use(p)
			w.within("after", time.Since(begun), 0, tidyPatience+20*latency)
			w.sleep(20 * minute)
		}
		if n := strings.Count(keys(w), versionFile); n > 35 {
			w.Errorf("%d versions", n)
		}
	})
}

// Others are let in at once by a release of the only owner, and not before the
// TTL is over by the death of a holder, by any of the three clocks.
func TestStrictTakeOver(t *testing.T) {
	type test struct {
		change   func(*Options)
		coarse   bool
		from, to time.Duration
	}
	each(t, map[string]test{
		"same boot":  {func(o *Options) { o.Boot = "boot" }, false, minute, minute + 6*time.Second},
		"calibrated": {nil, false, minute, minute + 9*time.Second},
		"observed":   {nil, true, minute, 2*minute + 6*time.Second},
	}, func(w *world, name string, test test) {
		a, b := w.hostWith(test.change), w.hostWith(test.change)
		if test.coarse {
			b.terms.samples = false
		}
		l := a.strictly("n")
		w.sleep(90 * time.Second)
		a.store.always(fault{class: core.ClassUnreachable})
		died := time.Now()
		got := b.strictly("n")
		w.within("taken over after", time.Since(died), test.from-20*time.Second, test.to)
		w.is(l.Err(), ErrLost)
		w.same("token", got.FencingToken() > l.FencingToken(), true)
		w.same("samples", b.store.count("put", storeClockPrefix) > 0, name == "calibrated")
	})
}

// A printed lease is renewed and released by its owner in another process.
func TestStrictPrintedLease(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		l := a.hold("n", Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(10 * minute), Label: "nightly"})
		handle := l.OwnerHandle()
		handle.Store = "mem://"
		handle, err := ParseHandle(handle.String())
		w.ok(err)
		s := c.sees("n")
		w.same("label", s.Label, "nightly")
		a.store.always(fault{hang: true})
		w.sleep(5 * time.Second)
		b.store.forget()
		until, err := b.Renew(background, handle, nil)
		w.ok(err)
		w.same("a renewal", b.store.verbs(), "list get create")
		if left := time.Until(until); left < 8*minute {
			w.Errorf("renewed for %v", left)
		}
		s = c.sees("n")
		w.same("holder", s.Holder, l.Holder())
		w.ok(c.ReleaseHandle(background, handle, nil))
		w.ok(c.ReleaseHandle(background, handle, nil)) // already
		s = c.sees("n")
		w.same("state", s.State, core.ObservedReleased)
	})
}

// A break is on the record, is noticed at the next renewal, and frees the name
// when the last sign of life is a TTL old; at once only if asked.
func TestStrictBreak(t *testing.T) {
	for _, now := range []bool{false, true} {
		bubble(t, func(w *world) {
			a, b := w.host(), w.host()
			a.terms.host, a.terms.pid = "worker", "7"
			l := a.strictly("n")
			_, err := b.Break(background, "free", &BreakOptions{Protocol: core.ProtocolStrict, Why: "stuck"})
			w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonVacant})
			s, err := b.Break(background, "n", &BreakOptions{Why: "stuck", Now: now})
			w.ok(err)
			w.same("state", s.State, core.ObservedBroken)
			w.same("why", s.Why, "stuck")
			w.same("by", s.By, b.terms.pid+"@"+b.terms.host)
			w.same("holder", s.Holder+" "+s.PID+"@"+s.Host, l.Holder()+" 7@worker")
			b.store.forget()
			b.sees("n")
			w.same("requests", b.store.verbs(), "list get get")
			begun := time.Now()
			next := b.strictly("n")
			if took := time.Since(begun); now != (took < time.Second) || took > 2*minute {
				w.Errorf("taken after %v", took)
			}
			w.sleep(20 * time.Second)
			w.same("lost", l.Err() != nil, true)
			w.is(l.Err(), ErrLost)
			b.release(next)
		})
	}
}

// A break of the holder that was seen breaks nobody else, under either protocol, and
// says who holds the name now.
func TestBreakHolder(t *testing.T) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		bubble(t, func(w *world) {
			p := w.host()
			a := p.hold("n", Terms{Protocol: protocol})
			opts := &BreakOptions{Why: "stuck", Holder: a.Holder(), Now: true}
			p.release(a)
			w.is(errOf(p.Break(background, "n", opts)), &Error{Kind: NotAcquired, Reason: core.ReasonVacant})
			b := p.hold("n", Terms{Protocol: protocol})
			_, err := p.Break(background, "n", opts)
			w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
			e, _ := errors.AsType[*Error](err)
			w.same("seen", e.Seen.Holder, b.Holder())
			w.has(err.Error(), "not broken: held by "+b.Holder())
			w.ok(b.Err())
			opts.Holder = b.Holder()
			s, err := p.Break(background, "n", opts)
			w.ok(err)
			w.same("broken", s.Holder, b.Holder())
		})
	}
}

// Under lastwriter another may acquire between the look and the release in the name of
// whom it showed: the release reads again, and finds the other.
func TestBreakRecordTaken(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		b.store.nth("get", 2, fault{before: 4 * time.Second, after: latency})
		broke := beside(func() error {
			_, err := b.Break(background, "n", &BreakOptions{Protocol: core.ProtocolLastWriter, Holder: l.Holder()})
			return err
		})
		w.sleep(time.Second)
		a.release(l)
		next := a.acquire("n")
		w.is(<-broke, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
		w.ok(next.Err())
		w.same("puts", len(b.store.puts()), 0)
	})
}

// Under lastwriter a break releases the record in its holder's name.
func TestBreakRecord(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		s, err := b.Break(background, "n", nil)
		w.ok(err)
		w.same("state", s.State, core.ObservedReleased)
		w.sleep(30 * time.Second)
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonReleased})
		w.is(errOf(b.Break(background, "n", &BreakOptions{Protocol: core.ProtocolLastWriter})), &Error{Kind: NotAcquired, Reason: core.ReasonVacant})
		w.backend.put("c/lock.json", []byte("?"))
		w.is(errOf(b.Break(background, "c", nil)), &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
	})
}

// steppedStore is a store whose clock was set ten minutes ahead, and which may say so.
type steppedStore struct {
	*fakeStore
	set  *atomic.Int64 // when, in nanoseconds
	says bool
}

func (s steppedStore) ClockSteps() (steps bool, why string) { return s.says, "" }

func (s steppedStore) ahead(stamp int64) int64 {
	if set := s.set.Load(); set > 0 && stamp >= set {
		stamp += int64(10 * minute)
	}
	return stamp
}

func (s steppedStore) Get(ctx context.Context, key string) (store.Object, error) {
	o, err := s.fakeStore.Get(ctx, key)
	o.Stamp = s.ahead(o.Stamp)
	return o, err
}

func (s steppedStore) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	page, more, err := s.fakeStore.List(ctx, prefix, after, limit)
	for i := range page {
		page[i].Stamp = s.ahead(page[i].Stamp)
	}
	return page, more, err
}

// If somebody sets the clock behind a store under a lease, another process takes the lease
// beside its holder, unless the store says that this may happen: then it watches for a TTL.
func TestStoreClockIsSet(t *testing.T) {
	each(t, map[string]bool{"a hint": true, "trusted": false}, func(w *world, _ string, says bool) {
		var set atomic.Int64
		stepped := func(s *fakeStore) store.Store { return steppedStore{s, &set, says} }
		a, b := w.hostOn(stepped, nil), w.hostOn(stepped, nil)
		l := a.strictly("n")
		w.sleep(2 * time.Second)
		set.Store(time.Now().UnixNano())
		w.sleep(time.Second)
		taken := false
		for range 5 { // within a TTL, in which the holder renews
			_, err := b.tryStrictly("n")
			taken = taken || err == nil
			w.sleep(5 * time.Second)
		}
		w.same("taken beside the holder", taken, !says)
		if says {
			w.ok(l.Err())
		}
	})
}
