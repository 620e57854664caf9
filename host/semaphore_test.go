package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// crowd counts who is inside a semaphore, with no help of its own.
type crowd struct {
	inside, most, entered atomic.Int64
}

func (c *crowd) enter(weight int) {
	now := c.inside.Add(int64(weight))
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	c.entered.Add(1)
}

func (c *crowd) leave(weight int) { c.inside.Add(-int64(weight)) }

// Twenty hosts of a store, three callers each, want to be inside, some of them with
// more weight: never more than six are, all come in, and nothing is left.
func TestSemaphoreOfTwentyHosts(t *testing.T) {
	bubble(t, func(w *world) {
		const hosts, callers, rounds = 20, 3, 3
		var inside crowd
		var all sync.WaitGroup
		for range hosts {
			p := w.host()
			for weight := range callers {
				all.Go(func() {
					for range rounds {
						permit := p.permit("n", six, PermitOptions{Weight: weight + 1})
						inside.enter(permit.Weight())
						time.Sleep(time.Second)
						w.ok(permit.Err())
						inside.leave(permit.Weight())
						p.giveBack(permit)
					}
				})
			}
		}
		all.Wait()
		w.same("entered", inside.entered.Load(), int64(hosts*callers*rounds))
		w.same("at once", inside.most.Load(), int64(6))
		w.held("n", 0)
	})
}

// The same on a directory, with real clocks and file events, as long as it takes
// for each host to come in.
func TestSemaphoreOfADirectory(t *testing.T) {
	const hosts, each, rounds = 20, 2, 2
	url := ownURL(t)
	var inside crowd
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 2*minute)
	defer cancel()
	opened := make([]*Host, hosts)
	for i := range opened {
		opened[i] = openURL(t, url, nil)
		for range each {
			all.Go(func() {
				for range rounds {
					permit, err := opened[i].AcquirePermit(ctx, "n", six, nil)
					if err != nil {
						t.Error(err)
						return
					}
					inside.enter(1)
					if err := permit.Err(); err != nil {
						t.Error(err)
					}
					inside.leave(1)
					if err := permit.Release(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if inside.most.Load() > 6 || inside.entered.Load() != hosts*each*rounds {
		t.Errorf("%d at once, %d entered", inside.most.Load(), inside.entered.Load())
	}
	s, err := opened[0].Inspect(ctx, "n")
	if err != nil || s.Held != 0 || len(s.Holders) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A host that dies keeps its permits until its session is dead, and not longer than
// a waiter's next look: a TTL, the spread of the store's clocks, and a poll.
func TestSemaphoreFreesTheDead(t *testing.T) {
	bubble(t, func(w *world) {
		dies, lives := w.host(), w.host()
		var held [6]*Permit
		for i := range held {
			held[i] = dies.permit("n", six)
		}
		dies.store.always(fault{hang: true})
		begun := time.Now()
		permit := lives.permit("n", six)
		took := time.Since(begun)
		if took < 50*time.Second || took > minute+core.PollCap+2*time.Second {
			w.Errorf("freed after %v", took)
		}
		for _, dead := range held {
			if left := time.Until(dead.Deadline()); left > 0 {
				w.Errorf("believes for %v more", left)
			}
			w.is(dead.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		}
		w.held("n", 1)
		lives.giveBack(permit)
	})
}

// Whoever only looks is told which holders are dead.
func TestSemaphoreShowsTheDead(t *testing.T) {
	bubble(t, func(w *world) {
		dies, lives := w.host(), w.host()
		dies.permit("n", six)
		lives.permit("n", six)
		dies.store.always(fault{hang: true})
		w.sleep(3 * minute)
		s := w.semaphore("n")
		w.same("held", s.Held, uint64(2))
		w.same("the dead", s.Holders[0].Stale, true)
		w.same("the living", s.Holders[1].Stale, false)
	})
}

// A Host that is closed gives everything back and refuses who waits, and then
// closes its session.
func TestSemaphoreClosed(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		a, b := p.permit("n", six, PermitOptions{Weight: 5}), p.permit("m", six)
		others := other.permit("n", six)
		refused := make(chan error)
		go func() {
			_, err := p.AcquirePermit(context.Background(), "n", six, nil)
			refused <- err
		}()
		w.sleep(time.Second)
		p.store.on(func(c call) fault {
			if c.verb == "create" && (a.Err() == nil || b.Err() == nil) {
				w.Errorf("believed while %s is written", c.key)
			}
			return fine
		})
		w.ok(p.Close(context.Background()))
		w.is(<-refused, ErrClosed)
		w.is(a.Err(), ErrReleased)
		w.is(b.Err(), ErrReleased)
		<-a.Done()
		_, err := p.tryPermit("n", six)
		w.is(err, ErrClosed)
		w.is(p.SetLimit(context.Background(), "n", 1), ErrClosed)
		w.held("n", 1)
		w.held("m", 0)
		other.giveBack(others)
		w.same("sessions", strings.Count(keys(w), sessionPrefix), 1)
	})
}

// A Host that is closed in vain leaves permits that end with its session.
func TestSemaphoreClosedByForce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		permit := p.permit("n", six)
		p.store.always(fault{hang: true})
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errGivenUp)
		defer cancel()
		w.is(p.Close(ctx), errGivenUp)
		<-permit.Done()
		w.is(permit.Release(context.Background()), ErrClosed)
		w.sleep(3 * minute)
		w.same("stale", w.semaphore("n").Holders[0].Stale, true)
	})
}

// On a directory a waiter is told by a file event, at whatever version it waits.
func TestSemaphoreFileEvents(t *testing.T) {
	bubble(t, func(w *world) {
		holder := w.host()
		var held []*Permit
		for range 4 {
			held = append(held, holder.permit("n", six))
		}
		s := watchedStore{fakeStore: newFakeStore(w.shelf)}
		h, err := New(s, &Options{Engine: engine, Clock: &fakeClock{start: time.Now()}, Rand: newRand(99), Memory: "-"})
		w.ok(err)
		defer func() { w.ok(h.Close(context.Background())) }()
		got, looked := make(chan time.Time), make(chan struct{})
		go func() {
			permit, err := h.AcquirePermit(context.Background(), "n", six, &PermitOptions{Weight: 6})
			w.ok(err)
			got <- time.Now()
			<-looked
			w.ok(permit.Release(context.Background()))
		}()
		w.sleep(10 * time.Second) // polls are far apart by now
		var last time.Time
		for _, permit := range held {
			w.sleep(50 * time.Millisecond)
			last = time.Now()
			holder.giveBack(permit)
		}
		if took := (<-got).Sub(last); took > 10*latency {
			w.Errorf("told after %v", took)
		}
		w.sleep(time.Second)
		w.shelf.mu.Lock()
		for key, told := range w.shelf.watchers {
			w.same("watches of "+key, len(told), 0)
		}
		w.shelf.mu.Unlock()
		close(looked)
		w.sleep(time.Second)
	})
}

// Callers of one name with sessions of different TTLs have a machine each, and
// count together.
func TestSemaphoreOfTwoSessions(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		a := p.permit("n", six, PermitOptions{Weight: 3})
		b := p.permit("n", six, PermitOptions{Weight: 3, Terms: Terms{TTL: 2 * minute}})
		w.same("sessions", a.Session() != b.Session(), true)
		w.same("machines", p.members(), 2)
		_, err := p.tryPermit("n", six)
		w.is(err, ErrFull)
		waiting := make(chan *Permit)
		go func() { waiting <- p.permit("n", six) }()
		w.sleep(20 * time.Second)
		begun := time.Now()
		p.giveBack(b)
		c := <-waiting
		if took := time.Since(begun); took > 10*latency {
			w.Errorf("told after %v", took)
		}
		w.same("on its own", c.Session(), a.Session())
		p.giveBack(a, c)
		p.idle()
	})
}

// List and Watch show semaphores beside leases.
func TestSemaphoreIsListed(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		p.strictly("a")
		permit := p.permit("b", six, PermitOptions{Weight: 4})
		p.giveBack(p.permit("c", six))
		var rows []string
		for s, err := range other.List(context.Background(), "") {
			w.ok(err)
			rows = append(rows, fmt.Sprintf("%s %v %d/%d", s.Name, s.State, s.Held, s.Most()))
		}
		if want := []string{"a held 0/0", "b held 4/6", "c vacant 0/6"}; !slices.Equal(rows, want) {
			w.Errorf("%q", rows)
		}
		other.store.forget()
		_, err := other.Inspect(context.Background(), "c")
		w.ok(err)
		w.same("looks for another record", strings.Contains(fmt.Sprint(other.store.log()), core.LockFile), false)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seen := make(chan uint64)
		go func() {
			for s, err := range other.Watch(ctx, "b") {
				w.ok(err)
				seen <- s.Held
			}
			close(seen)
		}()
		w.same("first", <-seen, uint64(4))
		second := p.permit("b", six)
		w.same("then", <-seen, uint64(5))
		p.giveBack(permit)
		w.same("then", <-seen, uint64(1))
		p.giveBack(second)
		w.same("then", <-seen, uint64(0))
		cancel()
		<-seen
	})
}

// The session of a host that has died stays in the store long after it is dead:
// permits that name it are freed by it.
func TestSweepLeavesThePermitsSession(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		p.permit("n", six)
		p.store.always(fault{hang: true})
		begun := time.Now()
		list := func() int {
			other.permit("tick", View{1000, 1}) // which has the newest stamp
			for _, err := range other.List(context.Background(), "") {
				w.ok(err)
			}
			return strings.Count(keys(w), sessionPrefix)
		}
		for time.Since(begun) < core.LeastKeep {
			w.same(fmt.Sprint("sessions after ", time.Since(begun)), list(), 2)
			w.sleep(minute)
		}
		w.sleep(minute + keepTimes*minute)
		w.same("in the end", list(), 1)
		w.same("and the permit is freed", other.permit("n", six, PermitOptions{Weight: 6}).Total(), uint64(6))
	})
}

// A process that holds a permit for a moment, as scripts do it, removes what is
// superseded before it ends.
func TestSemaphoreCollects(t *testing.T) {
	bubble(t, func(w *world) {
		for range 50 {
			p := w.host()
			p.store.page = 1000
			permit := p.permit("n", six)
			begun := time.Now()
			p.giveBack(permit)
			w.ok(p.Close(context.Background()))
			if took := time.Since(begun); took > tidyPatience+10*latency {
				w.Errorf("after %v", took)
			}
			w.sleep(20 * minute)
		}
		if n := strings.Count(keys(w), versionFile); n > 35 {
			w.Errorf("%d versions", n)
		}
	})
}

// A version that is no record is gone past: the value is that of the one below it.
func TestSemaphoreCorruptVersion(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		held := p.permit("n", six, PermitOptions{Weight: 4})
		w.shelf.put(versionKey("n", 2), []byte("{"))
		_, err := other.tryPermit("n", six, PermitOptions{Weight: 2})
		w.is(err, ErrFull)
		w.same("error", err.Error(), `mopslock: permit of "n" not acquired: full, held by an unreadable record; wait for room, or try again later`)
		permit := other.permit("n", six, PermitOptions{Weight: 2}) // after a minute
		w.same("total", permit.Total(), uint64(6))
		p.giveBack(held)
		other.giveBack(permit)
		w.held("n", 0)
	})
}
