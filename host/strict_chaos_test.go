package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Whatever callers do with strict leases, on sessions or not, no machine is told
// what has no meaning to it, nobody hangs, and nothing is left.
func TestStrictAnyOrder(t *testing.T) {
	for seed := range uint64(fewer(200)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(w *world) { anyStrictOrder(w, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func anyStrictOrder(w *world, random *rand.Rand) {
	before := goroutines()
	var mu sync.Mutex // over random: callers draw too
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	hosts := []*party{w.watching(nil), w.host()}
	for _, p := range hosts {
		p.store.on(func(call) fault { return anyFault(draw) })
	}
	handles := make(chan Handle, 1000)
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 4 {
				anyStrictCall(hosts[draw(2)], draw, handles)
				time.Sleep(time.Duration(draw(2000)) * time.Millisecond)
			}
		})
	}
	if draw(2) == 0 {
		w.sleep(time.Duration(draw(10_000)) * time.Millisecond)
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
	w.sleep(time.Minute) // late writes
	if after := goroutines(); after > before+2 {
		w.Fatalf("%d goroutines more", after-before)
	}
}

func anyStrictCall(p *party, draw func(int) int, handles chan Handle) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(draw(8000))*time.Millisecond)
	defer cancel()
	name := "n" + strconv.Itoa(draw(2))
	terms := Terms{Protocol: core.ProtocolStrict, TTL: time.Duration(draw(3)*1000+500) * time.Millisecond, Session: draw(2) == 0}
	var handle Handle
	select {
	case handle = <-handles:
	default:
	}
	switch kind := draw(9); {
	case kind == 0:
		_, _ = p.Break(ctx, name, &BreakOptions{Why: "why not", Now: draw(2) == 0})
	case kind == 1:
		for range p.List(ctx, "") {
			continue
		}
	case kind == 2:
		_, _ = p.Inspect(ctx, name)
	case kind == 3 && handle.Name != "":
		_, _ = p.Renew(ctx, handle, nil)
	case kind == 4 && handle.Name != "":
		_ = p.ReleaseHandle(ctx, handle, nil)
	case kind <= 5 && handle.Name != "":
		if c, err := p.Accompany(ctx, handle, nil); err == nil {
			anyEnd(draw, p, c.Leave, c.Err)
		}
	default:
		opts := &AcquireOptions{Terms: terms, Wait: time.Duration(draw(5)) * time.Second}
		if l, err := p.Acquire(ctx, name, opts); err == nil {
			handle := l.Handle()
			if draw(2) == 0 {
				handle = l.OwnerHandle()
			}
			handles <- handle
			anyEnd(draw, p, l.Release, l.Err)
		}
	}
}

// Under any faults, late writes and pauses too, no two believe at once, by any of
// the clocks that judge, on sessions or not, and no token comes twice.
func TestStrictNoOverlap(t *testing.T) {
	for seed := range uint64(fewer(60)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(w *world) { strictNoOverlap(w, rand.New(rand.NewPCG(seed, 4))) })
		})
	}
}

// believes is what Err would say at this instant, without asking the keeper.
func (l *Lease) believes() bool {
	m := l.member
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err == nil && m.keeper.host.clock.Now().Mono < m.relyUntil()
}

// rivals are all leases of one name, and check that they exclude each other.
type rivals struct {
	*world
	mu     sync.Mutex
	leases []*Lease
	tokens map[uint64]bool
}

func (r *rivals) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var believer *Lease
	for _, l := range r.leases {
		if !l.believes() {
			continue
		}
		if believer != nil {
			r.Errorf("%d and %d both believe", believer.FencingToken(), l.FencingToken())
		}
		believer = l
	}
}

func (r *rivals) add(l *Lease) {
	r.mu.Lock()
	if r.tokens[l.FencingToken()] {
		r.Errorf("token %d comes twice", l.FencingToken())
	}
	r.tokens[l.FencingToken()] = true
	r.leases = append(r.leases, l)
	r.mu.Unlock()
	r.check()
}

func strictNoOverlap(w *world, random *rand.Rand) {
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
	r := &rivals{world: w, tokens: map[uint64]bool{}}
	boot := []string{"", "ours"}[draw(2)]
	calibrates := draw(2) == 0
	onSession := draw(3)
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
				r.check()
			}
		}
	})
	var served atomic.Int32
	var all sync.WaitGroup
	start := time.Now()
	for range 4 {
		p := w.hostWith(func(o *Options) { o.Boot = boot })
		p.clock.start, p.calibrates = start, calibrates
		p.store.on(func(call) fault { return anyFault(draw) })
		all.Go(func() {
			for mine, tries := 0, 0; mine < 3 && tries < 50; tries++ {
				terms := Terms{Protocol: core.ProtocolStrict, TTL: 6 * time.Second, Session: draw(3) < onSession}
				l, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms})
				if errors.Is(err, ErrLost) || errors.Is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable}) ||
					errors.Is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable}) {
					continue
				}
				w.ok(err)
				r.add(l)
				mine++
				served.Add(1)
				if draw(3) == 0 { // the process is stopped
					p.keeper.post(message{do: func() { time.Sleep(time.Duration(draw(12_000)) * time.Millisecond) }})
				}
				time.Sleep(time.Duration(draw(9000)) * time.Millisecond)
				if draw(4) == 0 {
					_, _ = p.Break(context.Background(), "n", &BreakOptions{Why: "why not"})
					time.Sleep(time.Duration(draw(9000)) * time.Millisecond)
				}
				_ = l.Release(context.Background())
			}
			w.ok(p.Close(context.Background()))
		})
	}
	all.Wait()
	close(over)
	watch.Wait()
	w.same("served", served.Load(), int32(12))
}
