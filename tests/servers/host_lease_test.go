package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

var stories = []story{
	{name: "hands over", tell: handsOver},
	{name: "renews", tell: renews, ttl: 10 * time.Second},
	{name: "outlives its holder", tell: outlivesItsHolder, ttl: 10 * time.Second},
	{name: "is taken over", tell: isTakenOver, ttl: 10 * time.Second},
	{name: "is broken", tell: isBroken, ttl: 30 * time.Second},
	{name: "is released by another", tell: isReleasedByAnother, ttl: 30 * time.Second},
	{name: "a hundred on a session", tell: aHundredOnASession, strict: true, ttl: 10 * time.Second},
	{name: "is looked at", tell: isLookedAt},
	{name: "invokes a remote", tell: invokesARemote},
	{name: "fails to launch", tell: failsToLaunch},
	{name: "shares permits", tell: sharesPermits, strict: true},
	{name: "closes", tell: closes, strict: true},
}

// handsOver: who tries is told who holds it, who waits gets it next.
func handsOver(s *scene) {
	a, b := s.host(), s.host()
	first := s.acquire(a, "n")
	s.ok(first.Err())
	_, err := s.try(b, "n")
	s.is(err, &host.Error{Kind: host.Refused, Reason: core.ReasonHeld})
	refused, _ := errors.AsType[*host.Error](err)
	s.same("who holds it", refused.Seen.Holder, first.Holder())

	waits := make(chan string, 100)
	got := make(chan *host.Lease, 1)
	go func() {
		l, err := b.Acquire(s.ctx(), "n", &host.AcquireOptions{Terms: s.terms, OnWaiting: func(seen host.Status) { waits <- seen.Holder }})
		if err != nil {
			s.Error(err)
		}
		got <- l
	}()
	select {
	case holder := <-waits:
		s.same("whom it waits for", holder, first.Holder())
	case <-got:
		s.Fatal("it has waited for nobody")
	}
	s.ok(first.Err())
	s.ok(first.Release(s.ctx()))
	s.is(first.Err(), host.ErrReleased)
	next := <-got
	if next == nil {
		s.FailNow()
	}
	s.after(next, first.FencingToken())
	_, err = s.try(a, "n")
	s.is(err, &host.Error{Kind: host.Refused, Reason: core.ReasonHeld})
	s.ok(next.Release(s.ctx()))
	s.free(a, "n")
}

// renews: a lease is held for long by being renewed, and nobody gets in between.
func renews(s *scene) {
	a, b := s.host(), s.host()
	l := s.acquire(a, "n")
	begun := l.Deadline()
	s.eventually("the deadline moves on by two TTLs, in renewals of a third each", func() bool {
		s.ok(l.Err())
		if _, err := s.try(b, "n"); !errors.Is(err, host.ErrRefused) {
			s.Fatalf("another tries: %v", err)
		}
		return l.Deadline().Sub(begun) > 2*s.terms.TTL
	})
	s.ok(l.Release(s.ctx()))
	s.free(b, "n")
}

// outlivesItsHolder: a companion keeps the lease alive after the holder's process was
// killed, for as long as it stays; then the lease expires.
func outlivesItsHolder(s *scene) {
	a, b := s.host(), s.host()
	p := s.holder("n")
	c, err := a.Accompany(s.ctx(), p.Handle, nil)
	s.ok(err)
	s.same("tenure", c.Holder(), p.Handle.Holder)
	s.same("token", c.FencingToken(), p.Handle.Token)
	s.kill(p)
	killed := time.Now()
	s.eventually("two TTLs without the holder", func() bool {
		s.ok(c.Err())
		if _, err := s.try(b, "n"); !errors.Is(err, host.ErrRefused) {
			s.Fatalf("another tries: %v", err)
		}
		return time.Since(killed) > 2*s.terms.TTL && c.Left() > 0
	})
	s.ok(c.Leave(s.ctx()))
	next := s.acquire(b, "n")
	s.after(next, p.Handle.Token)
}

// isTakenOver: a lease whose process was killed goes to who waits, by itself.
func isTakenOver(s *scene) {
	b := s.host()
	p := s.holder("n")
	_, err := s.try(b, "n")
	s.is(err, &host.Error{Kind: host.Refused, Reason: core.ReasonHeld})
	s.kill(p)
	_, err = s.try(b, "n")
	s.is(err, &host.Error{Kind: host.Refused, Reason: core.ReasonHeld})
	next := s.acquire(b, "n")
	s.after(next, p.Handle.Token)
	s.same("another tenure", next.Holder() != p.Handle.Holder, true)
	_, err = b.Accompany(s.ctx(), p.Handle, nil)
	s.is(err, host.ErrLost)
	s.ok(next.Release(s.ctx()))
}

// isBroken: a break is on the record, its holder learns of it, and the name is free.
func isBroken(s *scene) {
	a, b := s.host(), s.host()
	l := s.acquire(a, "n")
	seen, err := b.Break(s.ctx(), "n", &host.BreakOptions{Why: "it stands in the way", Now: true, Protocol: s.terms.Protocol})
	s.ok(err)
	reason := core.ReasonReleased // lastwriter has no other word for it
	if s.terms.Protocol == core.ProtocolStrict {
		reason = core.ReasonBroken
		s.same("state", seen.State, core.ObservedBroken)
		s.same("why", seen.Why, "it stands in the way")
	}
	s.ends(l)
	s.is(l.Err(), &host.Error{Kind: host.Lost, Reason: reason})
	next := s.acquire(b, "n")
	s.after(next, l.FencingToken())
	_, err = b.Break(s.ctx(), "nothing", &host.BreakOptions{Why: "why not"})
	s.is(err, &host.Error{Kind: host.Refused, Reason: core.ReasonVacant})
}

// ends waits until the host has found out that it does not hold the lease any more.
func (s *scene) ends(l *host.Lease) {
	s.Helper()
	select {
	case <-l.Done():
	case <-s.ctx().Done():
		s.Fatal("it is held still")
	}
}

// isReleasedByAnother: who has the owner's handle may release, and it is no loss of
// anybody's that the owner's process is told of it.
func isReleasedByAnother(s *scene) {
	a, b := s.host(), s.host()
	l := s.acquire(a, "n")
	handle, err := host.ParseHandle(l.OwnerHandle().String())
	s.ok(err)
	until, err := b.Renew(s.ctx(), handle, nil)
	s.ok(err)
	s.same("renewed", time.Until(until) > 0, true)
	s.ok(b.ReleaseHandle(s.ctx(), handle, nil))
	s.ends(l)
	s.is(l.Err(), &host.Error{Kind: host.Lost, Reason: core.ReasonReleased})
	s.free(b, "n")
}

// aHundredOnASession: one heartbeat keeps them all, and one Close releases them.
func aHundredOnASession(s *scene) {
	const many = 100
	a, b := s.host(), s.host()
	s.terms.Session = true
	var leases []*host.Lease
	for n := range many {
		leases = append(leases, s.acquire(a, fmt.Sprintf("jobs/%02d", n)))
	}
	begun := leases[0].Deadline()
	s.eventually("the session is renewed", func() bool { return leases[0].Deadline().Sub(begun) > s.terms.TTL })
	for _, l := range leases {
		s.ok(l.Err())
		s.same("session", l.Session(), leases[0].Session())
	}
	s.same("held", strings.Count(s.list(b, "jobs/"), ":held"), many)
	s.ok(a.Close(s.ctx()))
	s.same("released", strings.Count(s.list(b, "jobs/"), ":released"), many)
	s.free(b, "jobs/00")
}

// list is what List yields: "a:held b/c:released".
func (s *scene) list(h *host.Host, prefix string) string {
	s.Helper()
	var all []string
	for seen, err := range h.List(s.ctx(), prefix) {
		s.ok(err)
		all = append(all, fmt.Sprint(seen.Name, ":", seen.State))
	}
	return strings.Join(all, " ")
}

// isLookedAt: who takes no part sees what becomes of a name.
func isLookedAt(s *scene) {
	a, b := s.host(), s.host()
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	states := make(chan core.Observation, 100)
	go func() {
		defer close(states)
		for seen, err := range b.Watch(ctx, "a/n") {
			if err == nil {
				states <- seen.State
			} else if ctx.Err() == nil {
				s.Error(err)
			}
		}
	}()
	next := func() core.Observation {
		select {
		case state := <-states:
			return state
		case <-s.ctx().Done():
			return 0
		}
	}
	s.same("watched", next(), core.ObservedVacant)
	l := s.acquire(a, "a/n")
	other := s.acquire(a, "a/m")
	for state := next(); state != core.ObservedHeld; state = next() {
		s.same("watched on the way", state, core.ObservedVacant)
	}
	seen, err := b.Inspect(s.ctx(), "a/n")
	s.ok(err)
	s.same("holder", seen.Holder, l.Holder())
	s.same("TTL", seen.TTL, s.terms.TTL)
	s.same("token", seen.Token, l.FencingToken())
	s.same("protocol", seen.Protocol, s.terms.Protocol)
	s.same("all", s.list(b, ""), "a/m:held a/n:held")
	s.ok(l.Release(s.ctx()))
	for state := next(); state != core.ObservedReleased; state = next() {
		s.same("watched on the way", state, core.ObservedHeld)
	}
	s.same("all", s.list(b, "a/"), "a/m:held a/n:released")
	s.ok(other.Release(s.ctx()))
	cancel()
	for range states {
		continue // until the watch has ended
	}
}
