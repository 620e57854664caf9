package host

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// strict is what the tests of strict hold leases by: deadline 54 s.
var strict = Terms{Protocol: core.ProtocolStrict, TTL: minute}

func (p *party) strictly(name string) *Lease {
	p.world.Helper()
	l, err := p.Acquire(context.Background(), name, &AcquireOptions{Terms: strict})
	p.world.ok(err)
	return l
}

func (p *party) tryStrictly(name string) (*Lease, error) {
	return p.TryAcquire(context.Background(), name, &AcquireOptions{Terms: strict})
}

// work is the log of requests in short without what budgets leave out: probes of
// the store, the look for an old client's record, and calibrations.
func (s *fakeStore) work() string {
	var out []string
	for _, c := range s.log() {
		if c.key == cardKey || strings.HasPrefix(c.key, calibrationPrefix) ||
			c.verb == "exists" && strings.HasSuffix(c.key, "/"+core.LockFile) {
			continue
		}
		out = append(out, c.verb)
	}
	return strings.Join(out, " ")
}

func (s *fakeStore) count(verb, part string) (n int) {
	for _, c := range s.log() {
		if c.verb == verb && strings.Contains(c.key, part) {
			n++
		}
	}
	return n
}

// The requests of BUDGETS.md, exactly.
func TestStrictRequests(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.strictly("n")
		w.same("a name never used", a.store.work(), "list create")
		w.same("token", l.FencingToken(), uint64(1))
		w.same("epoch", l.Epoch(), uint64(1))
		w.same("protocol", l.Protocol(), core.ProtocolStrict)

		a.store.forget()
		a.release(l)
		w.same("a release", a.store.work(), "create")
		a.store.forget()
		l = a.strictly("n")
		w.same("again", a.store.verbs(), "create")
		w.same("token", l.FencingToken(), uint64(3))
		a.release(l)

		b.store.forget()
		l = b.strictly("n")
		w.same("after another's release", b.store.work(), "list get create")
		w.same("token", l.FencingToken(), uint64(5))

		b.store.always(fault{hang: true}) // b is dead
		w.sleep(5 * minute)
		w.is(l.Err(), ErrLost)
		a.store.forget()
		l, err := a.tryStrictly("n") // by a sample of the store's clock
		w.ok(err)
		w.same("token", l.FencingToken(), uint64(6))
		a.release(l)
		a.idle()
	})
}

// What is held for a moment collects what is superseded, too: its release waits
// for that, and so does a process that ends with the lease held.
func TestStrictCollects(t *testing.T) {
	for name, end := range map[string]func(p *party, l *Lease){
		"release": func(p *party, l *Lease) { p.release(l) },
		"close":   func(p *party, _ *Lease) { p.world.ok(p.Close(context.Background())) },
		"settle and die": func(p *party, l *Lease) {
			l.Settle(context.Background())
			p.store.always(fault{hang: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				for range 50 {
					p := w.host()
					p.store.page = 1000
					l := p.strictly("n")
					begun := time.Now()
					end(p, l)
					if took := time.Since(begun); took > tidyPatience+10*latency {
						w.Errorf("after %v", took)
					}
					w.sleep(20 * minute)
				}
				if n := strings.Count(keys(w), versionFile); n > 35 {
					w.Errorf("%d versions", n)
				}
			})
		})
	}
}

// A renewal is a put and an exists, never early, never late, and now and then a
// look for our own version.
func TestStrictRenewals(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l := p.strictly("n")
		p.store.forget()
		w.sleep(30 * minute)
		w.ok(l.Err())
		calls := p.store.log()
		var beats []time.Time
		extra := 0
		for i, c := range calls {
			switch {
			case c.verb == "put":
				beats = append(beats, c.at)
			case c.verb == "exists" && i > 0 && calls[i-1].verb == "put":
			case c.verb == "exists", c.verb == "list":
				extra++
			default:
				w.Errorf("%s %s", c.verb, c.key)
			}
		}
		for i := 1; i < len(beats); i++ {
			if gap := beats[i].Sub(beats[i-1]); gap < 20*time.Second/6*5-latency || gap > 20*time.Second+latency {
				w.Errorf("a gap of %v", gap)
			}
		}
		if len(beats) < 90 || len(beats) > 108 || extra > 12 {
			w.Errorf("%d beats and %d other requests in 30 minutes", len(beats), extra)
		}
	})
}

// Others are let in at once by a release of the only owner, and not before the
// TTL is over by the death of a holder, by any of the three clocks.
func TestStrictTakeOver(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*Options)
		coarse   bool
		from, to time.Duration
	}{
		"same boot":  {func(o *Options) { o.Boot = "boot" }, false, minute, minute + 6*time.Second},
		"calibrated": {nil, false, minute, minute + 9*time.Second},
		"observed":   {nil, true, minute, 2*minute + 6*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b := w.hostWith(test.change), w.hostWith(test.change)
				if test.coarse {
					b.calibrates = false
				}
				l := a.strictly("n")
				w.sleep(90 * time.Second)
				a.store.always(fault{class: core.ClassUnreachable})
				died := time.Now()
				got := b.strictly("n")
				if took := time.Since(died); took < test.from-20*time.Second || took > test.to {
					w.Errorf("taken over after %v", took)
				}
				w.is(l.Err(), ErrLost)
				w.same("token", got.FencingToken() > l.FencingToken(), true)
			})
		})
	}
}

// A wall clock that is an hour off takes nothing early and misses no expiry.
func TestStrictWallClockIsOff(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		bubble(t, func(w *world) {
			a, b := w.host(), w.host()
			b.clock.offset(off)
			l := a.strictly("n")
			ctx, cancel := context.WithTimeout(context.Background(), 10*minute)
			defer cancel()
			_, err := b.Acquire(ctx, "n", &AcquireOptions{Terms: strict})
			w.is(err, context.DeadlineExceeded)
			w.ok(l.Err())
			a.store.always(fault{hang: true})
			died := time.Now()
			next := b.strictly("n")
			if took := time.Since(died); took < 40*time.Second || took > 2*minute {
				w.Errorf("taken over after %v", took)
			}
			w.is(l.Err(), ErrLost)
			next.Deadline()
		})
	}
}

// A waiter in this process hears of a release at once; one elsewhere too, where
// the store tells of changes.
func TestStrictHandOver(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.host()
		l := a.strictly("n")
		got := make(chan *Lease)
		go func() { got <- a.strictly("n") }()
		w.sleep(5 * time.Second)
		begun := time.Now()
		w.ok(l.Release(context.Background()))
		next := <-got
		if took := time.Since(begun); took > 5*latency {
			w.Errorf("handed over after %v", took)
		}
		a.release(next)
	})
}

// A companion joins with a list and a create; the holder adopts, and both keep
// the lease alive.
func TestStrictCompanion(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		l := a.strictly("n")
		b.store.forget()
		remote, err := b.Accompany(context.Background(), l.Handle(), nil)
		w.ok(err)
		// The version's body tells what a join copies.
		w.same("a join", b.store.work(), "list get create")
		w.same("token", remote.FencingToken(), l.FencingToken())
		w.same("epoch", remote.Epoch(), l.Epoch()+1)
		w.same("protocol", remote.Protocol(), core.ProtocolStrict)
		w.sleep(30 * time.Second)
		w.same("adopted", l.Epoch(), remote.Epoch())
		w.same("token", l.FencingToken(), uint64(1))
		s, err := c.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("state", s.State, core.ObservedHeld)
		w.same("companions", len(s.Companions), 1)
		w.same("holder", s.Holder, l.Holder())

		a.store.always(fault{hang: true})
		w.sleep(10 * minute)
		w.is(l.Err(), ErrLost)
		w.ok(remote.Err())
		_, err = c.tryStrictly("n")
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonHeld})
		w.ok(remote.Leave(context.Background()))
		w.sleep(3 * minute)
		next := c.strictly("n")
		w.same("token grows", next.FencingToken() > l.FencingToken(), true)
	})
}

// A printed lease is renewed and released by its owner in another process.
func TestStrictPrintedLease(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		l, err := a.Acquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolStrict, TTL: 10 * minute, Label: "nightly"}})
		w.ok(err)
		handle, err := ParseHandle(cmpHandle(l.OwnerHandle()))
		w.ok(err)
		s, err := c.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("label", s.Label, "nightly")
		a.store.always(fault{hang: true})
		w.sleep(5 * time.Second)
		b.store.forget()
		until, err := b.Renew(context.Background(), handle, nil)
		w.ok(err)
		w.same("a renewal", b.store.verbs(), "list get create")
		if left := time.Until(until); left < 8*minute {
			w.Errorf("renewed for %v", left)
		}
		s, err = c.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("holder", s.Holder, l.Holder())
		w.ok(c.ReleaseHandle(context.Background(), handle, nil))
		w.ok(c.ReleaseHandle(context.Background(), handle, nil)) // already
		s, err = c.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("state", s.State, core.ObservedReleased)
	})
}

func cmpHandle(h Handle) string {
	h.Store = "mem://"
	return h.String()
}

// A lease without a TTL is held until it is released or broken.
func TestStrictEndless(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		endless := Terms{Protocol: core.ProtocolStrict, TTL: core.None}
		l, err := a.Acquire(context.Background(), "n", &AcquireOptions{Terms: endless})
		w.ok(err)
		w.sleep(time.Duration(fewer(48)) * time.Hour)
		w.ok(l.Err())
		if l.Left() < 24*time.Hour {
			w.Errorf("left %v", l.Left())
		}
		s, err := b.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("state", s.State, core.ObservedHeld)
		_, err = b.Renew(context.Background(), l.OwnerHandle(), nil)
		w.ok(err)
		_, err = b.Break(context.Background(), "n", &BreakOptions{Why: "forgotten"})
		w.ok(err)
		w.sleep(minute)
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonBroken})
		_, err = a.Acquire(context.Background(), "m", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolStrict, TTL: core.None, Session: true}})
		w.is(err, &core.Error{Code: core.ErrorConfig})
	})
}

// A break is on the record, is noticed at the next renewal, and frees the name
// when the last sign of life is a TTL old; at once only if asked.
func TestStrictBreak(t *testing.T) {
	for _, now := range []bool{false, true} {
		bubble(t, func(w *world) {
			a, b := w.host(), w.host()
			l := a.strictly("n")
			_, err := b.Break(context.Background(), "free", &BreakOptions{Protocol: core.ProtocolStrict, Why: "stuck"})
			w.is(err, &Error{Kind: Refused, Reason: core.ReasonVacant})
			s, err := b.Break(context.Background(), "n", &BreakOptions{Why: "stuck", Now: now})
			w.ok(err)
			w.same("state", s.State, core.ObservedBroken)
			w.same("why", s.Why, "stuck")
			w.same("by", s.By, b.origin.pid+"@"+b.origin.host)
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

// Under lastwriter a break releases the record in its holder's name.
func TestBreakRecord(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		s, err := b.Break(context.Background(), "n", nil)
		w.ok(err)
		w.same("state", s.State, core.ObservedReleased)
		w.sleep(30 * time.Second)
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonReleased})
		_, err = b.Break(context.Background(), "n", &BreakOptions{Protocol: core.ProtocolLastWriter})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonVacant})
		w.shelf.put("c/lock.json", []byte("?"))
		_, err = b.Break(context.Background(), "c", nil)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
	})
}

// A store that dies is noticed at the deadline, and a pause at once.
func TestStrictLoss(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l := p.strictly("n")
		p.store.always(fault{class: core.ClassUnreachable})
		begun := time.Now()
		<-l.Done()
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun) <= span, true)
		p.store.heal()
		m := p.strictly("m")
		p.clock.jump(10 * minute)
		w.is(m.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
		p.idle()
	})
}

// List shows both kinds, once each, in order.
func TestStrictList(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.strictly("a/b")
		p.strictly("a")
		p.strictly("c")
		w.place("b", theirs())
		w.place("c", record{writer: "old", written: time.Now().Add(-time.Hour), acquired: time.Now(), expire: minute})
		var got []string
		for s, err := range p.List(context.Background(), "") {
			w.ok(err)
			got = append(got, s.Name+":"+s.Protocol.String())
		}
		slices.Sort(got)
		w.same("all", strings.Join(got, " "), "a/b:strict a:strict b:lastwriter c:strict")
	})
}
