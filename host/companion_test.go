package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func (p *party) accompany(h Handle) *Companion {
	p.world.Helper()
	c, err := p.Accompany(context.Background(), h, &AccompanyOptions{})
	p.world.ok(err)
	p.world.sleep(latency) // its first renewal is under way
	return c
}

// A companion joins with get and put, keeps the lease alive when the holder's
// host dies, never releases it, and leaves without a request.
func TestAccompany(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		l := a.acquire("n")
		remote := b.accompany(l.Handle())
		w.same("requests of a join", b.store.verbs(), "get put")
		w.same("name", remote.Name(), "n")
		w.same("holder", remote.Holder(), l.Holder())
		w.same("writes as a companion", w.status("n").Companion, true)
		w.sleep(10 * minute)
		w.ok(l.Err())

		a.store.always(fault{hang: true}) // a is dead
		w.sleep(10 * minute)
		w.is(l.Err(), ErrLost)
		w.ok(remote.Err())
		_, err := c.try("n")
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonHeld})

		b.store.forget()
		w.ok(remote.Leave(context.Background()))
		w.is(remote.Err(), ErrReleased)
		w.is(context.Cause(remote.Context()), ErrReleased)
		<-remote.Done()
		w.ok(remote.Leave(context.Background()))
		w.same("requests of leaving", b.store.verbs(), "")
		w.state("n", core.ObservedHeld)
		b.idle()
		w.sleep(minute)
		next, err := c.try("n")
		w.ok(err)
		c.release(next)
	})
}

// Only the holder of the handle is joined, and only as it stands; the loser
// writes nothing (lessons of mops: a remote resurrects a released lease; it
// works on without one).
func TestAccompanyRefused(t *testing.T) {
	const ours = "the.holder"
	fresh := func(change func(*record)) func() *record {
		return func() *record {
			r := record{writer: ours, written: time.Now(), acquired: time.Now(), expire: minute, count: 5}
			change(&r)
			return &r
		}
	}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, test := range []struct {
		name   string
		record func() *record
		want   *Error
		within time.Duration
	}{
		{"missing", func() *record { return nil }, &Error{Kind: CannotMaintain, Reason: core.ReasonAbsent}, latency},
		{
			"released", fresh(func(r *record) { r.released, r.written = r.written, time.Time{} }),
			&Error{Kind: Lost, Reason: core.ReasonReleased}, latency,
		},
		{
			"another's", fresh(func(r *record) { r.writer = "somebody.else" }),
			&Error{Kind: Lost, Reason: core.ReasonTaken}, latency,
		},
		{
			"another's, expired", fresh(func(r *record) { r.writer, r.written = "somebody.else", ago(2*minute) }),
			&Error{Kind: Lost, Reason: core.ReasonTaken}, latency,
		},
		{
			"another's claim", fresh(func(r *record) { r.writer, r.acquired = "somebody.else", time.Time{} }),
			&Error{Kind: Lost, Reason: core.ReasonTaken}, 62 * time.Second,
		},
		{
			"no expiry", fresh(func(r *record) { r.expire = 0 }),
			&Error{Kind: CannotMaintain, Reason: core.ReasonNoExpiry}, latency,
		},
		{
			"never acquired", fresh(func(r *record) { r.acquired = time.Time{} }),
			&Error{Kind: CannotMaintain, Reason: core.ReasonNeverAcquired}, latency,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.host()
				if r := test.record(); r != nil {
					w.place("n", *r)
				}
				before, _ := w.shelf.get("n/lock.json")
				begun := time.Now()
				_, err := p.Accompany(context.Background(), Handle{Name: "n", Holder: ours, TTL: minute}, nil)
				w.is(err, test.want)
				if took := time.Since(begun); took > test.within {
					w.Fatalf("took %v", took)
				}
				w.sleep(5 * minute)
				w.same("puts", len(p.store.puts()), 0)
				after, _ := w.shelf.get("n/lock.json")
				w.same("record", string(after.Body), string(before.Body))
				p.idle()
			})
		})
	}
}

// An expired lease that is still the handle's is revived.
func TestAccompanyRevives(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		a.store.always(fault{hang: true})
		w.sleep(10 * minute)
		w.state("n", core.ObservedStale)
		c := b.accompany(l.Handle())
		w.same("requests", b.store.verbs(), "get put get")
		w.state("n", core.ObservedHeld)
		w.sleep(10 * minute)
		w.ok(c.Err())
	})
}

// An unreadable store is tried for one TTL.
func TestAccompanyUnreadable(t *testing.T) {
	for _, f := range []fault{{class: core.ClassUnreachable}, {hang: true}} {
		bubble(t, func(w *world) {
			p := w.host()
			p.store.always(f)
			begun := time.Now()
			_, err := p.Accompany(context.Background(), Handle{Name: "n", Holder: "h", TTL: minute}, nil)
			w.is(err, &Error{Kind: CannotMaintain, Reason: core.ReasonUnreadable})
			e, _ := errors.AsType[*Error](err)
			w.same("class", e.Class, core.ClassUnreachable)
			if took := time.Since(begun); took < minute || took > minute+20*time.Second {
				w.Fatalf("after %v", took)
			}
		})
	}
	bubble(t, func(w *world) {
		p := w.host()
		p.store.always(fault{class: core.ClassNoSuchStore})
		begun := time.Now()
		_, err := p.Accompany(context.Background(), Handle{Name: "n", Holder: "h", TTL: minute}, nil)
		w.is(err, ErrCannotMaintain)
		w.same("at once", time.Since(begun), time.Duration(0))
	})
}

// Contact lost is told once, ends nothing, and is told when it is regained.
func TestAccompanyLosesContact(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		var told []bool
		c, err := b.Accompany(context.Background(), l.Handle(), &AccompanyOptions{
			OnContact: func(contact bool) { told = append(told, contact) },
		})
		w.ok(err)
		b.store.always(fault{class: core.ClassUnreachable})
		w.sleep(10 * minute)
		w.same("told", fmt.Sprint(told), "[false]")
		w.ok(c.Err())
		if c.Left() > 0 {
			w.Fatalf("left %v", c.Left())
		}
		b.store.heal()
		w.sleep(minute)
		w.same("told", fmt.Sprint(told), "[false true]")
		if c.Left() < 30*time.Second {
			w.Fatalf("left %v", c.Left())
		}
		w.ok(l.Err())
	})
}

// A paused companion joins again; it says nothing of Lost by itself.
func TestAccompanyPaused(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		c := b.accompany(l.Handle())
		b.clock.jump(10 * minute)
		w.ok(c.Err())
		w.sleep(2 * time.Second)
		w.ok(c.Err())
		w.ok(l.Err())
	})
}

// The companion hears of the release and of a thief, and writes over neither.
func TestAccompanyEnds(t *testing.T) {
	for reason, end := range map[core.Reason]func(*world, *party, *Lease){
		core.ReasonReleased: func(_ *world, p *party, l *Lease) { p.release(l) },
		core.ReasonTaken:    func(w *world, _ *party, _ *Lease) { w.place("n", theirs()) },
	} {
		t.Run(reason.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b := w.host(), w.host()
				l := a.acquire("n")
				c := b.accompany(l.Handle())
				w.sleep(minute)
				end(w, a, l)
				b.store.forget()
				before, _ := w.shelf.get("n/lock.json")
				<-c.Done()
				w.is(c.Err(), ErrLost, &Error{Kind: Lost, Reason: reason})
				w.same("cause", context.Cause(c.Context()), c.Err())
				w.same("leave", c.Leave(context.Background()), c.Err())
				w.sleep(5 * minute)
				w.same("puts", len(b.store.puts()), 0)
				after, _ := w.shelf.get("n/lock.json")
				w.same("record", string(after.Body), string(before.Body))
			})
		})
	}
}

// Leave waits for a put under way: it could land after the holder's release.
func TestLeaveWaitsForPut(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		c := b.accompany(l.Handle())
		b.store.forget()
		b.store.once("put", fault{before: 3 * time.Second})
		w.until(time.Second/10, func() bool { return b.store.verbs() == "get put" })
		begun := time.Now()
		w.ok(c.Leave(context.Background()))
		if took := time.Since(begun); took < 2*time.Second {
			w.Fatalf("left after %v", took)
		}
		a.release(l)
		w.sleep(minute)
		w.state("n", core.ObservedReleased)
	})
}

// Renew writes once, as whom the handle says.
func TestRenew(t *testing.T) {
	for _, owner := range []string{"", "us"} {
		bubble(t, func(w *world) {
			a, b := w.host(), w.host()
			handle := a.acquire("n").Handle()
			handle.Owner = owner
			w.sleep(5 * time.Second)
			until, err := b.Renew(context.Background(), handle, nil)
			w.ok(err)
			w.same("requests", b.store.verbs(), "get put")
			w.same("until", time.Until(until), span-latency)
			w.same("as a companion", w.status("n").Companion, owner == "")
			w.same("written", w.status("n").Age < time.Second, true)
			b.idle()
		})
	}
}

// What has expired and is still ours is revived; anything else is an error.
func TestRenewExpired(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		a.store.always(fault{hang: true})
		w.sleep(5 * minute)
		until, err := b.Renew(context.Background(), l.Handle(), nil)
		w.ok(err)
		if left := time.Until(until); left < 50*time.Second {
			w.Fatalf("left %v", left)
		}
		w.place("n", theirs())
		_, err = b.Renew(context.Background(), l.Handle(), nil)
		w.is(err, &Error{Kind: Lost, Reason: core.ReasonTaken})
		_, err = b.Renew(context.Background(), Handle{Name: "m", Holder: "h", TTL: minute}, nil)
		w.is(err, &Error{Kind: CannotMaintain, Reason: core.ReasonAbsent})
	})
}

// A store that can be read but not written strands nobody.
func TestRenewUnwritable(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		b.store.on(func(c call) fault {
			if c.verb == "put" {
				return fault{class: core.ClassReadOnly}
			}
			return fine
		})
		begun := time.Now()
		_, err := b.Renew(context.Background(), l.Handle(), nil)
		w.is(err, &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		if took := time.Since(begun); took > span {
			w.Fatalf("after %v", took)
		}
		w.sleep(time.Second)
		b.idle()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err = b.Renew(ctx, l.Handle(), nil)
		w.is(err, context.DeadlineExceeded)
	})
}

func TestReleaseHandle(t *testing.T) {
	for _, owner := range []string{"", "us"} {
		bubble(t, func(w *world) {
			a, b := w.host(), w.host()
			l := a.acquire("n")
			a.store.always(fault{hang: true}) // a is dead
			handle := l.Handle()
			handle.Owner = owner
			w.sleep(5 * minute) // expired, but ours
			w.ok(b.ReleaseHandle(context.Background(), handle, &terms))
			w.state("n", core.ObservedReleased)
			w.same("requests", b.store.verbs(), "get put")
			w.same("as a companion", w.status("n").Companion, owner == "")
			w.ok(b.ReleaseHandle(context.Background(), handle, &terms)) // already
			w.same("requests", b.store.verbs(), "get put get")
			w.place("n", theirs())
			w.is(b.ReleaseHandle(context.Background(), handle, &terms), &Error{Kind: Lost, Reason: core.ReasonTaken})
			w.state("n", core.ObservedHeld)
			handle.Name = "gone"
			w.ok(b.ReleaseHandle(context.Background(), handle, &terms))
			w.state("gone", core.ObservedVacant)
			b.idle()
		})
	}
}

// It tries for a TTL less the margin, its caller for as long as he likes.
func TestReleaseHandleOutage(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		handle := Handle{Name: "n", Holder: "somebody.else", TTL: minute}
		p.store.always(fault{class: core.ClassUnreachable})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.is(p.ReleaseHandle(ctx, handle, nil), context.DeadlineExceeded)
		begun := time.Now()
		w.is(p.ReleaseHandle(context.Background(), handle, nil), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), span)
		time.AfterFunc(10*time.Second, p.store.heal)
		w.ok(p.ReleaseHandle(context.Background(), handle, nil))
		w.state("n", core.ObservedReleased)
	})
}

// A release by handle hands over to a waiter in this process, too.
func TestReleaseHandleHandsOver(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		got := make(chan *Lease)
		go func() { got <- b.acquire("n") }()
		w.sleep(5 * minute)
		w.ok(b.ReleaseHandle(context.Background(), l.Handle(), &terms))
		begun := time.Now()
		b.release(<-got)
		w.same("hand-over and release", time.Since(begun), 10*latency)
	})
}

func TestHandleIsChecked(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		bad := Handle{Name: "a//b", Holder: "", TTL: -1}
		_, join := p.Accompany(context.Background(), bad, nil)
		_, renew := p.Renew(context.Background(), bad, nil)
		for _, err := range []error{join, renew} {
			for _, rule := range []string{"empty segment", "ttl -1ns", "a companion needs the tenure"} {
				if err == nil || !strings.Contains(err.Error(), rule) {
					w.Fatalf("error %v lacks %q", err, rule)
				}
			}
		}
		w.is(p.ReleaseHandle(context.Background(), bad, nil), &core.Error{Code: core.ErrorConfig})
		w.is(p.ReleaseHandle(context.Background(), Handle{Name: "n"}, nil), &core.Error{Code: core.ErrorConfig})
		w.same("requests", p.store.verbs(), "")
	})
}
