package host

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// span is how long after its last good write a lease under terms is believed.
const span = 54 * time.Second

// holding is a host with a lease that was just acquired and its later look done.
func (w *world) holding() (*party, *Lease) {
	w.Helper()
	p := w.host()
	l := p.acquire("n")
	w.sleep(2 * time.Second)
	p.store.forget()
	return p, l
}

func wantLost(w *world, l *Lease, reason core.Reason) *Error {
	w.Helper()
	err := l.Err()
	w.is(err, ErrLost, &Error{Kind: Lost, Reason: reason})
	if left := l.Left(); left > 0 {
		w.Errorf("left %v of a lease that is lost", left)
	}
	select {
	case <-l.Done():
	default:
		w.Fatal("Done is open")
	}
	w.same("cause", context.Cause(l.Context()), err)
	w.is(l.Context().Err(), context.Canceled)
	w.same("release after it", l.Release(context.Background()), err)
	e, _ := errors.AsType[*Error](err)
	return e
}

// Self-fencing: whatever the store does, the lease is lost at its deadline, at
// once, and nothing of ours is written after it.
func TestDeadline(t *testing.T) {
	for _, test := range []struct {
		name string
		fault
	}{
		{"hangs", fault{hang: true}},
		{"fails", fault{class: core.ClassUnreachable}},
		{"forbids", fault{class: core.ClassUnauthorized}},
		{"throttles", fault{class: core.ClassThrottled}},
		{"is full", fault{class: core.ClassFull}},
		{"answers late", fault{before: time.Minute}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, l := w.holding()
				deadline := l.Deadline()
				p.store.always(test.fault)
				<-l.Done()
				w.same("lost at", time.Now(), deadline)
				wantLost(w, l, core.ReasonUnreachable)
				p.store.heal()
				p.store.forget()
				w.sleep(10 * minute)
				w.same("requests after it", p.store.verbs(), "")
				p.idle()
				if !strings.Contains(p.log.String(), `msg="lease lost" name=n reason=unreachable`) {
					w.Fatalf("log:\n%s", p.log)
				}
			})
		})
	}
}

// A store whose calls do not heed ctx (a dead mount) delays nobody either.
func TestDeadlineDeafStore(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		deadline := l.Deadline()
		wake := make(chan struct{})
		p.store.always(fault{deaf: wake})
		<-l.Done()
		w.same("lost at", time.Now(), deadline)
		wantLost(w, l, core.ReasonUnreachable)
		begun := time.Now()
		_, err := p.Acquire(context.Background(), "m", &AcquireOptions{Terms: terms})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), 5*time.Second)
		close(wake)
	})
}

// The put of a claim hangs in a call that heeds nothing: its limit answers.
func TestClaimOnDeafStore(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		wake := make(chan struct{})
		p.store.once("put", fault{deaf: wake})
		begun := time.Now()
		l := p.acquire("n")
		if took := time.Since(begun); took > 11*time.Second {
			w.Fatalf("took %v", took)
		}
		p.release(l)
		close(wake)
	})
}

// One failed renewal, of whatever kind, does not lose a lease (lesson of mops),
// nor do many, if one comes through before the deadline.
func TestRenewalFails(t *testing.T) {
	for _, test := range []struct {
		name, verb string
		fault
	}{
		{"get fails", "get", fault{class: core.ClassUnreachable}},
		{"get forbidden", "get", fault{class: core.ClassUnauthorized}},
		{"get hangs", "get", fault{hang: true}},
		{"put fails", "put", fault{class: core.ClassOther}},
		{"put answer lost", "put", fault{lost: true}},
		{"put late", "put", fault{late: 5 * time.Second}},
		{"put hangs", "put", fault{hang: true}},
		{"no space", "put", fault{class: core.ClassFull}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, l := w.holding()
				p.store.once(test.verb, test.fault)
				w.sleep(5 * minute)
				w.ok(l.Err())
				p.store.always(test.fault)
				w.sleep(25 * time.Second)
				p.store.heal()
				w.sleep(5 * minute)
				w.ok(l.Err())
				p.release(l)
			})
		})
	}
}

// A throttled store is asked less often, and the lease lives.
func TestRenewalThrottled(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.always(fault{class: core.ClassThrottled})
		w.sleep(40 * time.Second)
		w.ok(l.Err())
		if n := len(p.store.log()); n > 12 {
			w.Fatalf("%d requests to a throttled store in about 22 s", n)
		}
		p.store.heal()
		w.sleep(minute)
		w.ok(l.Err())
	})
}

// A corrupt record is no reason to lose the lease, and is not written over.
func TestRenewalReadsGarbage(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		good, _ := w.shelf.get("n/lock.json")
		w.shelf.put("n/lock.json", []byte("{"))
		w.sleep(30 * time.Second)
		w.ok(l.Err())
		w.same("puts", len(p.store.puts()), 0)
		w.shelf.put("n/lock.json", good.Body)
		w.sleep(minute)
		w.ok(l.Err())
	})
}

// A process that was paused past its deadline hears of it from whatever it asks
// first, before its keeper has run, and nothing of ours is written.
func TestPaused(t *testing.T) {
	ask := map[string]func(*world, *Lease){
		"Err":     func(w *world, l *Lease) { w.is(l.Err(), ErrLost) },
		"Release": func(w *world, l *Lease) { w.is(l.Release(context.Background()), ErrLost) },
		"nothing": func(_ *world, l *Lease) { <-l.Done() },
	}
	for name, first := range ask {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, l := w.holding()
				w.sleep(10 * time.Second)
				p.clock.jump(10 * minute)
				first(w, l)
				wantLost(w, l, core.ReasonExpired)
				w.sleep(10 * minute)
				w.same("requests", p.store.verbs(), "")
			})
		})
	}
}

// A pause that ends before the deadline costs nothing.
func TestPausedShortly(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.clock.jump(45 * time.Second)
		w.ok(l.Err())
		w.sleep(2 * time.Second)
		w.same("renewed at once", p.store.verbs(), "get put")
		w.ok(l.Err())
	})
}

// Paused with a renewal under way: its answer comes too late to be believed.
func TestPausedWhileRenewing(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.once("get", fault{before: latency, after: 2 * time.Second})
		w.until(time.Second/10, func() bool { return p.store.verbs() != "" })
		p.clock.jump(minute)
		w.sleep(3 * time.Second)
		wantLost(w, l, core.ReasonUnreachable)
		w.same("requests", p.store.verbs(), "get")
	})
}

// A thief's record is seen by the later look or the next renewal, and stands
// (lesson of mops: blind renewals and releases write over it).
func TestTaken(t *testing.T) {
	for name, wait := range map[string]time.Duration{"later look": 0, "renewal": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.host()
				l := p.acquire("n")
				w.sleep(wait)
				w.place("n", theirs())
				before, _ := w.shelf.get("n/lock.json")
				begun := time.Now()
				<-l.Done()
				if took := time.Since(begun); took > 20*time.Second+latency || wait == 0 && took > time.Second+latency {
					w.Fatalf("noticed after %v", took)
				}
				e := wantLost(w, l, core.ReasonTaken)
				w.same("thief", e.Seen.Holder, "somebody.else")
				p.store.forget()
				w.sleep(10 * minute)
				w.same("requests", p.store.verbs(), "")
				after, _ := w.shelf.get("n/lock.json")
				w.same("the thief's record stands", bytes.Equal(after.Body, before.Body), true)
			})
		})
	}
}

// Release finds a thief before it writes.
func TestReleaseFindsThief(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		w.place("n", theirs())
		err := l.Release(context.Background())
		w.is(err, &Error{Kind: Lost, Reason: core.ReasonTaken})
		w.same("Err says it too", l.Err(), err)
		w.same("requests", p.store.verbs(), "get")
		w.state("n", core.ObservedHeld)
	})
}

func TestReleasedBySomebody(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		other := w.host()
		handle := l.Handle()
		handle.Owner = "us"
		w.ok(other.ReleaseHandle(context.Background(), handle, &terms))
		<-l.Done()
		wantLost(w, l, core.ReasonReleased)
		w.same("puts", len(p.store.puts()), 0)
		w.state("n", core.ObservedReleased)
	})
}

// An emptied prefix is written again: absence proves nothing.
func TestRecordVanishes(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		w.shelf.remove("n/lock.json")
		w.sleep(30 * time.Second)
		w.ok(l.Err())
		w.state("n", core.ObservedHeld)
		w.shelf.remove("n/lock.json")
		p.release(l)
		w.state("n", core.ObservedVacant)
	})
}

// From Release on nobody may rely on the lease: the store may let others in
// long before it answers.
func TestReleaseEndsBeliefFirst(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.once("put", fault{after: 8 * time.Second})
		released := make(chan error, 1)
		go func() { released <- l.Release(context.Background()) }()
		synctest.Wait()
		w.is(l.Err(), ErrReleased)
		<-l.Done()
		w.is(context.Cause(l.Context()), ErrReleased)
		w.sleep(time.Second)
		w.state("n", core.ObservedReleased)
		w.same("not answered yet", len(released), 0)
		w.ok(<-released)
		w.is(l.Err(), ErrReleased, &Error{Kind: Ended, Reason: core.ReasonReleased})
	})
}

// A renewal in flight when Release comes is waited for; it could land on top of
// the release and bring the lease back for a TTL (lesson of mops).
func TestReleaseWaitsForRenewal(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.once("put", fault{before: 3 * time.Second})
		w.until(time.Second/10, func() bool { return p.store.verbs() == "get put" })
		p.release(l)
		w.same("requests", p.store.verbs(), "get put get put")
		calls := p.store.log()
		w.same("last put releases", calls[3].released, true)
		if gap := calls[2].at.Sub(calls[1].at); gap < 3*time.Second {
			w.Fatalf("release read %v after the put", gap)
		}
		w.sleep(10 * minute)
		w.state("n", core.ObservedReleased)
	})
}

// unreleased makes a renewal's put unknown and lets it land half a second after
// the release that follows.
func unreleased(w *world, p *party) {
	p.store.once("put", fault{late: 500 * time.Millisecond})
	w.until(latency/10, func() bool { return len(p.store.puts()) > 0 })
}

// A renewal that lands after the release is undone a second later.
func TestReleaseUndoneIsRedone(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		unreleased(w, p)
		p.release(l)
		w.state("n", core.ObservedReleased)
		w.sleep(700 * time.Millisecond)
		w.state("n", core.ObservedHeld) // by nobody
		w.sleep(time.Second)
		w.state("n", core.ObservedReleased)
		p.store.forget()
		w.sleep(2 * minute)
		if n := len(p.store.log()); n > 2 {
			w.Fatalf("%d requests after it: %s", n, p.store.verbs())
		}
		p.idle()
	})
}

// Close waits for that second, and for no more.
func TestCloseRedoesRelease(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before": 0, "between": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, l := w.holding()
				unreleased(w, p)
				if wait > 0 {
					p.release(l)
					w.sleep(wait)
				}
				begun := time.Now()
				w.ok(p.Close(context.Background()))
				if took := time.Since(begun); took > 1200*time.Millisecond {
					w.Fatalf("Close took %v", took)
				}
				w.state("n", core.ObservedReleased)
			})
		})
	}
}

// Release with a ctx that is over tells so; the Host releases all the same.
func TestReleaseContextOver(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		w.is(l.Release(ctx), why)
		w.is(l.Err(), ErrReleased)
		w.sleep(time.Second)
		w.state("n", core.ObservedReleased)
		w.ok(l.Release(ctx)) // it is released by now, whatever ctx says
		p.release(l)
		w.same("requests", p.store.verbs(), "get put")
	})
}

// Release is tried through an outage, and after the deadline it is a loss,
// never a release.
func TestReleaseThroughOutage(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.always(fault{class: core.ClassUnreachable})
		time.AfterFunc(30*time.Second, p.store.heal)
		begun := time.Now()
		p.release(l)
		if took := time.Since(begun); took < 30*time.Second || took > 36*time.Second {
			w.Fatalf("released after %v", took)
		}
		w.state("n", core.ObservedReleased)
	})
	for _, f := range []fault{{class: core.ClassUnreachable}, {hang: true}, {class: core.ClassReadOnly}} {
		bubble(t, func(w *world) {
			p, l := w.holding()
			deadline := l.Deadline()
			p.store.always(f)
			err := l.Release(context.Background())
			w.is(err, &Error{Kind: Lost, Reason: core.ReasonUnreachable})
			w.same("given up at", time.Now(), deadline)
			w.same("Err", l.Err(), err)
			w.state("n", core.ObservedHeld)
			p.idle()
		})
	}
}

// Blind renewals write without reading, by wish only.
func TestBlind(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		blind := Terms{Protocol: core.ProtocolLastWriter, TTL: minute, Renewal: core.RenewalBlind}
		l, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: blind})
		w.ok(err)
		p.store.forget()
		w.sleep(minute)
		w.ok(l.Err())
		w.same("requests", p.store.verbs(), "put put put")
		p.store.forget()
		p.release(l)
		w.same("requests", p.store.verbs(), "put")
	})
}

// A shorter TTL on the name moves the deadline for whoever asks, at once.
func TestDeadlineMoves(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		soon := p.clock.Now().Mono + int64(time.Second)
		told := make(chan struct{})
		p.keeper.post(message{do: func() {
			p.keeper.notice(l.member, &core.Action{Kind: core.ActionDeadline, At: soon})
			close(told)
		}})
		<-told
		w.same("left", l.Left(), time.Second)
	})
}
