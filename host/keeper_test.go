package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// holdMany acquires n leases at once.
func (p *party) holdMany(n int) []*Lease {
	p.world.Helper()
	leases := make([]*Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			leases[i], _ = p.Acquire(context.Background(), "lease/"+strconv.Itoa(i), &AcquireOptions{Terms: terms})
		})
	}
	all.Wait()
	for i, l := range leases {
		if l == nil {
			p.world.Fatalf("lease %d was not acquired", i)
		}
	}
	return leases
}

// 2,000 leases on a store that takes 20 ms (mops' one thread keeps up with
// about 200): all are renewed in time, never more than InFlight requests are
// under way, and when idle there is one goroutine, not one a lease.
func TestManyLeases(t *testing.T) {
	const inFlight = 16
	many := fewer(2000)
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = inFlight })
		p.store.always(fault{before: 10 * time.Millisecond, after: 10 * time.Millisecond})
		first := p.acquire("first")
		w.sleep(2 * time.Second)
		before := goroutines()
		leases := p.holdMany(many)
		w.sleep(20 * time.Second)
		p.store.forget()
		w.sleep(10 * minute)
		for _, l := range append(leases, first) {
			w.ok(l.Err())
			if left := l.Left(); left < span-20*time.Second-5*time.Second {
				w.Fatalf("a renewal is late: %v left", left)
			}
		}
		if n := len(p.store.log()); n < many*2*30 || n > (many+1)*2*36 {
			w.Fatalf("%d requests in 10 minutes", n)
		}
		if p.store.most > inFlight {
			w.Fatalf("%d requests at once", p.store.most)
		}
		quiet(w, p)
		w.same("goroutines", goroutines(), before)
		w.ok(p.Close(context.Background()))
		w.same("after Close", goroutines(), before-1)
		w.state("lease/7", core.ObservedReleased)
	})
}

// quiet waits until no request is under way.
func quiet(w *world, p *party) {
	w.Helper()
	synctest.Wait()
	w.until(time.Millisecond, func() bool { return p.store.inFlight() == 0 })
}

// A request that waits for a slot is answered at its limit too.
func TestLimitWithoutSlot(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = 1 })
		l := p.acquire("short")
		wake := make(chan struct{})
		p.store.once("get", fault{deaf: wake})
		go func() { _, _ = p.try("hung") }()
		w.sleep(time.Millisecond)
		begun := time.Now()
		_, err := p.TryAcquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: time.Second}})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), core.FirstAnswerLimit)
		<-l.Done()
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		close(wake)
		w.sleep(time.Second)
		p.release(p.acquire("n"))
	})
}

// What is not awaited any more takes no slot from what is.
func TestCancelledTakesNoSlot(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = 1 })
		p.store.once("get", fault{before: time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { _, _ = p.try("slow") })
		w.sleep(time.Millisecond)
		for i := range 100 {
			all.Go(func() { _, _ = p.Acquire(ctx, "n"+strconv.Itoa(i), lastWriter) })
		}
		w.sleep(time.Millisecond)
		cancel()
		all.Wait()
		for _, c := range p.store.log() {
			w.same("key", c.key, "slow/lock.json")
		}
	})
}

// Callbacks run on the keeper, but no lock is held: they may use other locks
// and other goroutines' calls.
func TestCallbackHoldsNoLock(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms, OnWaiting: func(Status) {
				_ = held.Err()
				_, _, _ = held.Left(), held.Holder(), held.Context().Err()
				cancel()
			}})
			done <- err
		}()
		w.is(<-done, context.Canceled)
	})
}

// A store that tells of changes wakes the waiter: with polls 5 s apart the
// hand-over between hosts takes no time.
func TestWatchWakes(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.host()
		b := w.watching(nil)
		held := a.acquire("n")
		got := make(chan *Lease)
		go func() { got <- b.acquire("n") }()
		w.sleep(5*minute + 2*time.Second)
		a.release(held)
		released := time.Now()
		next := <-got
		if took := time.Since(released); took > 9*latency {
			w.Fatalf("hand-over took %v", took)
		}
		synctest.Wait()
		w.same("watchers", len(w.shelf.watchers["n/lock.json"]), 0)
		b.release(next)
	})
}

// watching is a host whose store tells of changes.
func (w *world) watching(refuse error) *party {
	w.Helper()
	p := w.host()
	h, err := New(watchedStore{newFakeStore(w.shelf), refuse}, &Options{Engine: engine, Clock: p.clock, Rand: newRand(uint64(100 + w.hosts)), Logger: p.Host.log})
	w.ok(err)
	w.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil && !h.keeper.isForced() {
			w.Errorf("close: %v", err)
		}
	})
	return &party{Host: h, world: w, store: h.store.(watchedStore).fakeStore, clock: p.clock, log: p.log}
}

// A change that is told while a look is under way is looked at after it.
func TestWatchWhileLooking(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.watching(nil)
		w.place("n", theirs())
		b.store.always(fault{after: time.Second}) // every look is out of date when it is answered
		got := make(chan *Lease)
		go func() {
			l, err := b.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms})
			w.ok(err)
			got <- l
		}()
		w.sleep(10 * time.Second)
		w.until(time.Millisecond, func() bool { return b.store.inFlight() > 0 })
		released := theirs()
		released.written, released.released = time.Time{}, time.Now()
		w.place("n", released)
		begun := time.Now()
		b.store.heal()
		b.release(<-got)
		if took := time.Since(begun); took > time.Second+12*latency {
			w.Fatalf("hand-over took %v", took)
		}
	})
}

// No watches left: polling remains.
func TestWatchRefused(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.watching(errors.New("no watches left"))
		w.place("n", theirs())
		l := b.acquire("n")
		b.release(l)
	})
}

// Whatever callers do, in whatever order and at whatever moment, no machine is
// told what has no meaning to it (the keeper would panic), nobody hangs, and
// nothing is left.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(fewer(300)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(w *world) { anyOrder(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func anyOrder(w *world, random *rand.Rand) {
	before := goroutines()
	hosts := []*party{w.watching(nil), w.host()}
	var mu sync.Mutex // over random: callers draw too
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	for _, p := range hosts {
		p.store.on(func(call) fault { return anyFault(draw) })
	}
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 5 {
				anyCall(w, hosts[draw(2)], draw)
				time.Sleep(time.Duration(draw(2000)) * time.Millisecond)
			}
		})
	}
	if draw(2) == 0 {
		time.Sleep(time.Duration(draw(10_000)) * time.Millisecond)
	} else {
		callers.Wait()
	}
	for _, p := range hosts {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(draw(20_000))*time.Millisecond)
		_ = p.Close(ctx)
		cancel()
	}
	callers.Wait()
	for _, p := range hosts {
		w.same("forgotten", len(p.keeper.queue), 0)
	}
	time.Sleep(time.Minute)                      // late puts
	if after := goroutines(); after > before+1 { // the host beside the watching one
		w.Fatalf("%d goroutines more", after-before)
	}
}

func anyFault(draw func(int) int) fault {
	f := fault{before: time.Duration(draw(50)) * time.Millisecond, after: time.Duration(draw(50)) * time.Millisecond}
	switch draw(20) {
	case 0:
		f.class = []core.Class{core.ClassOther, core.ClassThrottled, core.ClassFull, core.ClassUnreachable}[draw(4)]
	case 1:
		f.lost = true
	case 2:
		f.late = time.Duration(draw(3000)+1) * time.Millisecond
	case 3:
		f.hang = true
	case 4:
		f.before = time.Duration(draw(5000)) * time.Millisecond
	}
	return f
}

// anyCall makes one lease or companion and treats it badly.
func anyCall(w *world, p *party, draw func(int) int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(draw(8000))*time.Millisecond)
	defer cancel()
	name := "n" + strconv.Itoa(draw(2))
	short := Terms{Protocol: core.ProtocolLastWriter, TTL: time.Duration(draw(3)*1000+500) * time.Millisecond}
	handle := Handle{Name: name, Holder: w.status(name).Holder, TTL: short.TTL}
	if draw(2) == 0 {
		handle.Owner = "us"
	}
	switch draw(7) {
	case 0:
		_, _ = p.Renew(ctx, handle, &short)
	case 1:
		_ = p.ReleaseHandle(ctx, handle, &short)
	case 2:
		if c, err := p.Accompany(ctx, handle, nil); err == nil {
			anyEnd(draw, p, c.Leave, c.Err)
		}
	case 3:
		if l, err := p.TryAcquire(ctx, name, &AcquireOptions{Terms: short}); err == nil {
			anyEnd(draw, p, l.Release, l.Err)
		}
	default:
		opts := &AcquireOptions{Terms: short, Wait: time.Duration(draw(5)) * time.Second}
		if l, err := p.Acquire(ctx, name, opts); err == nil {
			anyEnd(draw, p, l.Release, l.Err)
		}
	}
}

// anyEnd ends it never, once, or several times at once, sooner or later.
func anyEnd(draw func(int) int, p *party, end func(context.Context) error, err func() error) {
	time.Sleep(time.Duration(draw(3)) * time.Second)
	if draw(10) == 0 {
		p.clock.jump(time.Duration(draw(3000)) * time.Millisecond)
	}
	_ = err()
	var all sync.WaitGroup
	for range draw(4) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(draw(3000))*time.Millisecond)
			defer cancel()
			_ = end(ctx)
			_ = err()
		})
	}
	all.Wait()
}

// Under the same faults, but with a store that is fast against the TTL and no
// late puts, no two believe at once.
func TestNoOverlap(t *testing.T) {
	for seed := range uint64(fewer(20)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(w *world) { noOverlap(w, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func noOverlap(w *world, random *rand.Rand) {
	var mu sync.Mutex
	var leases []*Lease
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
	served := 0
	var all sync.WaitGroup
	for range 4 {
		p := w.host()
		p.store.on(func(call) fault {
			return fault{before: time.Duration(draw(20)) * time.Millisecond, after: time.Duration(draw(20)) * time.Millisecond, lost: draw(10) == 0}
		})
		all.Go(func() {
			for range 4 {
				l, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: 10 * time.Second, AcquireMargin: 200 * time.Millisecond}})
				w.ok(err)
				mu.Lock()
				if i := slices.IndexFunc(leases, func(l *Lease) bool { return l.Err() == nil }); i >= 0 {
					w.Errorf("%s and %s both believe", leases[i].Holder(), l.Holder())
				}
				leases = append(leases, l)
				served++
				mu.Unlock()
				time.Sleep(time.Duration(draw(20)) * time.Second)
				// "taken" if its answer was lost and the next one was faster than the look after it.
				err = l.Release(context.Background())
				if err != nil && !errors.Is(err, &Error{Kind: Lost, Reason: core.ReasonTaken}) {
					w.Errorf("release: %v", err)
				}
			}
		})
	}
	all.Wait()
	w.same("served", served, 16)
}

// The clock of this machine is sane: it moves, and both of its times do.
func TestSystemClock(t *testing.T) {
	a := systemClock{}.Now()
	b := systemClock{}.Now()
	if b.Mono < a.Mono || a.Mono <= 0 || time.Since(time.Unix(0, a.Wall)).Abs() > time.Minute {
		t.Fatal(fmt.Sprint(a, b))
	}
}

// A change that is told while a claim is being verified is looked at as soon as
// the race is lost: it may be the winner's release.
func TestWatchWhileVerifying(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.watching(nil)
		w.place("n", theirs())
		got := make(chan *Lease)
		go func() {
			l, err := b.Acquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: minute, AcquireMargin: time.Second}})
			w.ok(err)
			got <- l
		}()
		w.sleep(time.Second)
		released := theirs()
		released.written, released.released = time.Time{}, time.Now()
		b.store.forget() // before the change: b may look at it at once
		w.place("n", released)
		w.sleep(500 * time.Millisecond) // it has claimed
		w.same("puts", len(b.store.puts()), 1)
		w.place("n", theirs())
		w.place("n", released)
		w.sleep(time.Second)
		w.same("requests", b.store.verbs(), "get put get get put")
		b.release(<-got)
	})
}
