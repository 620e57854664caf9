package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// A Host that is closed gives everything back and refuses who waits, and then
// closes its session.
func TestSemaphoreClosed(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		a, b := p.permit("n", six, PermitOptions{Weight: 5}), p.permit("m", six)
		others := other.permit("n", six)
		refused := beside(func() error { return errOf(p.AcquirePermit(background, "n", six, nil)) })
		w.sleep(time.Second)
		p.store.on(func(c call) fault {
			if c.verb == "create" && (a.Err() == nil || b.Err() == nil) {
				w.Errorf("believed while %s is written", c.key)
			}
			return fine
		})
		w.ok(p.Close(background))
		w.is(<-refused, ErrClosed)
		w.is(a.Err(), ErrReleased)
		w.is(b.Err(), ErrReleased)
		<-a.Done()
		w.is(errOf(p.tryPermit("n", six)), ErrClosed)
		w.is(p.SetLimit(background, "n", 1), ErrClosed)
		w.held("n", 1)
		w.held("m", 0)
		other.giveBack(others)
		w.same("sessions", strings.Count(keys(w), "/beat"), 1)
	})
}

// On a directory a waiter is told by a file event, at whatever version it waits.
func TestSemaphoreFileEvents(t *testing.T) {
	bubble(t, func(w *world) {
		holder, p := w.host(), w.watching(nil)
		var held []*Permit
		for range 4 {
			held = append(held, holder.permit("n", six))
		}
		got, _ := p.queues("n", six, 6)
		w.sleep(10 * time.Second) // polls are far apart by now
		for _, permit := range held {
			w.sleep(50 * time.Millisecond)
			holder.giveBack(permit)
		}
		last := time.Now()
		permit := <-got
		w.within("told after", time.Since(last), 0, 10*latency)
		w.sleep(time.Second)
		w.unwatched("n/") // its session listens for calls
		p.giveBack(permit)
	})
}

// List shows leases of both kinds and semaphores, once each, in order, and Watch tells of
// each change of one.
func TestSemaphoreIsListed(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		p.strictly("a")
		permit := p.permit("b", six, PermitOptions{Weight: 4})
		p.giveBack(p.permit("c", six))
		w.place("d", theirs())
		w.place("a", record{writer: "old", written: time.Now().Add(-time.Hour), acquired: time.Now(), expire: minute})
		var rows []string
		for s, err := range other.List(background, "") {
			w.ok(err)
			rows = append(rows, fmt.Sprintf("%s %v %v %d/%d", s.Name, s.Protocol, s.State, s.Held, s.Most()))
		}
		w.same("rows", strings.Join(rows, "; "), "a strict held 0/0; b strict held 4/6; c strict vacant 0/6; d lastwriter held 0/0")
		other.store.forget()
		other.sees("c")
		w.same("looks for another record", strings.Contains(fmt.Sprint(other.store.log()), core.LockFile), false)
		changes := []func(){
			func() { p.permit("b", six) },
			func() { p.giveBack(permit) },
			func() { w.ok(p.Close(background)) },
		}
		var seen []uint64
		for s, err := range other.Watch(w.limited(minute), "b") {
			w.ok(err)
			if seen = append(seen, s.Held); len(seen) > len(changes) {
				break
			}
			changes[len(seen)-1]()
		}
		w.same("seen", fmt.Sprint(seen), "[4 5 1 0]")
	})
}

// The session of a host that has died stays in the store long after it is dead:
// permits that name it are shown as dead by it, and freed.
func TestSweepLeavesThePermitsSession(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		p.permit("n", six)
		p.store.always(fault{hang: true})
		begun := time.Now()
		list := func() int {
			other.permit("tick", View{1000, 1}) // which has the newest stamp
			for _, err := range other.List(background, "") {
				w.ok(err)
			}
			return strings.Count(keys(w), "/beat")
		}
		for time.Since(begun) < core.LeastKeep {
			w.same(fmt.Sprint("sessions after ", time.Since(begun)), list(), 2)
			w.sleep(minute)
		}
		w.same("the dead", w.semaphore("n").Holders[0].Stale, true)
		w.sleep(minute + keepTimes*minute)
		w.same("in the end", list(), 1)
		w.same("and the permit is freed", other.permit("n", six, PermitOptions{Weight: 6}).Total(), uint64(6))
	})
}
