package host

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// A companion joins with few requests, keeps the lease alive when the holder's host dies,
// never releases it, and leaves without a request that ends it.
func TestAccompany(t *testing.T) {
	join := map[core.Protocol]string{core.ProtocolLastWriter: "get put", core.ProtocolStrict: "list get create"}
	eachWay(t, func(w *world, terms Terms) {
		a, b, c := w.host(), w.host(), w.host()
		l := a.hold("n", terms)
		b.store.forget()
		remote := b.joins(l.Handle())
		w.has(b.store.work(), join[terms.Protocol])
		w.same("name", remote.Name(), "n")
		w.same("holder", remote.Holder(), l.Holder())
		w.same("protocol", remote.Protocol(), terms.Protocol)
		w.same("token", remote.FencingToken(), l.FencingToken())
		w.sleep(10 * minute)
		w.ok(l.Err())
		w.same("adopted", l.Epoch(), remote.Epoch())
		s := c.sees("n")
		w.same("companions", len(s.Companions) == 1, terms.Protocol == core.ProtocolStrict)
		w.same("holder", s.Holder, l.Holder())

		a.store.always(fault{hang: true}) // a is dead
		w.sleep(10 * minute)
		w.is(l.Err(), ErrLost)
		w.ok(remote.Err())
		w.is(errOf(c.tried("n", terms)), &Error{Kind: NotAcquired, Reason: core.ReasonHeld})

		w.ok(remote.Leave(background))
		w.is(remote.Err(), ErrReleased)
		w.is(context.Cause(remote.Context()), ErrReleased)
		<-remote.Done()
		w.ok(remote.Leave(background))
		w.same("left held", c.sees("n").State, core.ObservedHeld)
		b.idle()
		w.sleep(3 * minute)
		next := c.hold("n", terms)
		w.same("token grows", next.FencingToken() > l.FencingToken(), terms.Protocol == core.ProtocolStrict)
	})
}

// Contact lost is told once, ends nothing, and is told when it is regained.
func TestAccompanyLosesContact(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		l := a.acquire("n")
		var told []bool
		c, err := b.Accompany(background, l.Handle(), &AccompanyOptions{
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

// Renew writes once, as whom the handle says, and revives what has expired and is still
// ours; anything else is an error, and a store that takes no write strands nobody.
func TestRenew(t *testing.T) {
	each(t, map[string]time.Duration{"": 5 * time.Second, "us": 5 * minute}, func(w *world, owner string, later time.Duration) {
		a, b := w.host(), w.host()
		handle := a.acquire("n").Handle()
		handle.Owner = owner
		a.store.always(fault{hang: true})
		w.sleep(later)
		until, err := b.Renew(background, handle, nil)
		w.ok(err)
		w.has(b.store.verbs(), "get put")
		w.within("until", time.Until(until), span-10*latency, span-latency)
		w.same("as a companion", w.status("n").Companion, owner == "")
		w.same("written", w.status("n").Age < time.Second, true)
		b.idle()

		b.store.when("put", "", fault{class: core.ClassReadOnly})
		begun := time.Now()
		w.is(errOf(b.Renew(w.limited(10*time.Second), handle, nil)), context.DeadlineExceeded)
		w.is(errOf(b.Renew(background, handle, nil)), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.within("after", time.Since(begun), 0, span)
		b.idle()
		b.store.heal()
		w.place("n", theirs())
		w.is(errOf(b.Renew(background, handle, nil)), &Error{Kind: Lost, Reason: core.ReasonTaken})
		handle.Name = "gone"
		w.is(errOf(b.Renew(background, handle, nil)), &Error{Kind: NothingToJoin, Reason: core.ReasonAbsent})
	})
}

// So is a release by handle, which is tried for a TTL less the margin, or for as long as
// its caller likes.
func TestReleaseHandle(t *testing.T) {
	each(t, map[string]bool{"": true, "us": false}, func(w *world, owner string, companion bool) {
		a, b := w.host(), w.host()
		handle := a.acquire("n").Handle()
		a.store.always(fault{hang: true}) // a is dead
		handle.Owner = owner
		w.sleep(5 * minute) // expired, but ours
		b.store.always(fault{class: core.ClassUnreachable})
		w.is(b.ReleaseHandle(w.limited(time.Second), handle, nil), context.DeadlineExceeded)
		begun := time.Now()
		w.is(b.ReleaseHandle(background, handle, nil), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), span)
		b.store.heal()
		b.store.forget()
		w.ok(b.ReleaseHandle(background, handle, &terms))
		w.state("n", core.ObservedReleased)
		w.same("as a companion", w.status("n").Companion, companion)
		w.ok(b.ReleaseHandle(background, handle, &terms)) // already
		w.same("requests", b.store.verbs(), "get put get")
		w.place("n", theirs())
		w.is(b.ReleaseHandle(background, handle, &terms), &Error{Kind: Lost, Reason: core.ReasonTaken})
		w.state("n", core.ObservedHeld)
		handle.Name = "gone"
		w.ok(b.ReleaseHandle(background, handle, &terms))
		w.state("gone", core.ObservedVacant)
		b.idle()
	})
}

func TestHandleIsChecked(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		bad := Handle{Name: "a//b", Holder: "", TTL: -1}
		_, join := p.Accompany(background, bad, nil)
		_, renew := p.Renew(background, bad, nil)
		for _, err := range []error{join, renew} {
			w.says(err, &core.Error{Code: core.ErrorConfig}, "empty segment", "ttl -1ns", "a companion needs the tenure")
		}
		w.is(p.ReleaseHandle(background, bad, nil), &core.Error{Code: core.ErrorConfig})
		w.is(p.ReleaseHandle(background, Handle{Name: "n"}, nil), &core.Error{Code: core.ErrorConfig})
		w.same("requests", p.store.verbs(), "")
	})
}
