package host

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// waitingRoom is callers of Acquire in a bubble, where it is known when everybody
// waits.
type waitingRoom struct {
	*testing.T
	limiter *Limiter
	mu      sync.Mutex
	heard   []string // who came back, since the last look
}

func waiting(t *testing.T, opts *LimiterOptions, story func(*waitingRoom)) {
	inBubble(t, func(t *testing.T) { story(&waitingRoom{T: t, limiter: NewLimiter(opts)}) })
}

// acquire calls Acquire in a goroutine of its own, as one who is heard of.
func (r *waitingRoom) acquire(ctx context.Context, who string, h *Holder, view View, weight int) {
	go func() {
		p, err := h.Acquire(ctx, "n", view, weight)
		if err != nil {
			who += " " + err.Error()
		} else {
			who += " " + strconv.Itoa(p.Total())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard = append(r.heard, who)
	}()
	synctest.Wait()
}

// hears waits until all is quiet, and says who came back.
func (r *waitingRoom) hears(want ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.heard) // goroutines that were woken together run in any order
	same(r, "came back", r.heard, want)
	r.heard = nil
}

// Each is granted when his own view has room, in order of arrival, and those that
// do not fit are passed over; newcomers may barge in.
func TestLimiterWaitingOrder(t *testing.T) {
	waiting(t, nil, func(r *waitingRoom) {
		ctx := r.Context()
		h, w := r.limiter.Holder(ctx), r.limiter.Holder(ctx)
		s := h.On("n")
		s.TryAcquire(4, 1, 4)
		r.acquire(ctx, "heavy", w, View{4, 1}, 3)
		r.acquire(ctx, "small", w, View{2, 1}, 1)
		r.acquire(ctx, "first", w, View{4, 1}, 1)
		r.acquire(ctx, "second", w, View{2, 2}, 1)
		same(t, "waiting", r.limiter.Waiting("n"), 4)
		r.hears()
		s.Release(1) // 3: only the last two fit
		r.hears("first 4")
		s.Release(1)
		r.hears("second 4")
		got, p := asked(h, "n", 6, 1, 1)
		same(t, "barges in", got, "5")
		p.Release()
		s.Release(2) // 2: the heavy one would need 1, the small one 1
		r.hears()
		w.On("n").Release(1)
		r.hears("heavy 4")
		w.On("n").Release(3)
		r.hears("small 2")
		same(t, "waiting", r.limiter.Waiting("n"), 0)
		same(t, "held", w.Close(), 2)
		same(t, "names", r.limiter.Names(), nil)
	})
}

// FIFO: nobody overtakes, and the head of the line blocks even those that fit.
func TestLimiterFIFO(t *testing.T) {
	waiting(t, &LimiterOptions{FIFO: true}, func(r *waitingRoom) {
		ctx := r.Context()
		h, w := r.limiter.Holder(ctx), r.limiter.Holder(ctx)
		s := h.On("n")
		s.TryAcquire(4, 1, 4)
		r.acquire(ctx, "heavy", w, View{4, 1}, 2)
		_, err := h.TryAcquire("n", View{9, 1}, 1)
		same(t, "overtakes", err.Error(), `mopslock: "n" is full: 4/9 held, 1 waiting`)
		_, ok := s.TryAcquire(9, 1, 1)
		same(t, "overtakes on a slot", ok, false)
		r.acquire(ctx, "light", w, View{9, 1}, 1)
		r.acquire(ctx, "last", w, View{9, 1}, 1)
		r.hears()
		s.Release(1) // there is room for all but the first
		r.hears()
		s.Release(1)
		r.hears("heavy 4", "last 6", "light 5")
		got, _ := asked(h, "n", 9, 1, 1)
		same(t, "nobody waits", got, "7")
	})
}

// A cancelled waiter leaves nothing, and those that he stood in the way of go on.
func TestLimiterCancelledWaiter(t *testing.T) {
	waiting(t, &LimiterOptions{FIFO: true}, func(r *waitingRoom) {
		ctx, cancel := context.WithCancelCause(r.Context())
		h, w := r.limiter.Holder(r.Context()), r.limiter.Holder(r.Context())
		h.On("n").TryAcquire(4, 1, 3)
		r.acquire(ctx, "heavy", w, View{4, 1}, 2)
		r.acquire(r.Context(), "light", w, View{4, 1}, 1)
		cancel(errors.New("enough"))
		r.hears("heavy enough", "light 4")
		same(t, "waiting", r.limiter.Waiting("n"), 0)
		same(t, "of the holder", len(w.o.waiters), 0)
		r.acquire(ctx, "late", w, View{9, 1}, 2)
		r.hears("late enough")
		same(t, "held", w.Close(), 1)
	})
}

// The end of a holder ends its waiting, gives its permits to others, and lets go
// on whom its waiters stood in the way of.
func TestLimiterHolderEndsWaiting(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		waiting(t, &LimiterOptions{FIFO: fifo}, func(r *waitingRoom) {
			ctx, cancel := context.WithCancel(r.Context())
			h, w := r.limiter.Holder(ctx), r.limiter.Holder(r.Context())
			h.On("n").TryAcquire(2, 1, 2)
			r.acquire(r.Context(), "own", h, View{2, 1}, 1)
			r.acquire(r.Context(), "other", w, View{2, 1}, 2)
			cancel()
			r.hears("other 2", "own mopslock: the holder has ended")
			r.acquire(r.Context(), "late", h, View{2, 1}, 1)
			r.hears("late mopslock: the holder has ended")
			same(t, "held", w.Close(), 2)
			same(t, "names", r.limiter.Names(), nil)
		})
	}
}

// A waiter that is granted in the instant in which his context ends has the permit
// or has nothing, and so has the limiter.
func TestLimiterGrantedAndCancelled(t *testing.T) {
	l := NewLimiter(nil)
	h, w := l.Holder(context.Background()), l.Holder(context.Background())
	s := h.On("n")
	came := [2]int{}
	for range 2000 {
		ctx, cancel := context.WithCancel(context.Background())
		s.TryAcquire(1, 1, 1)
		var all sync.WaitGroup
		var p LimiterPermit
		var err error
		all.Go(func() { p, err = w.Acquire(ctx, "n", View{1, 1}, 1) })
		for i := 0; l.Waiting("n") == 0 && i < 1e7; i++ { // he is on his way
			runtime.Gosched()
		}
		all.Go(cancel)
		all.Go(func() { s.Release(1) })
		all.Wait()
		want := 0
		if err == nil {
			want = 1
		} else {
			same(t, "error", errors.Is(err, context.Canceled), true)
		}
		came[want]++
		same(t, "held", l.Held("n"), want)
		if err == nil {
			same(t, "release", p.Release(), nil)
		}
		if t.Failed() {
			break
		}
		cancel()
	}
	t.Log("cancelled, granted:", came)
}

// The give-back by itself: withdraw after the grant.
func TestLimiterGiveBack(t *testing.T) {
	l := NewLimiter(nil)
	h, w := l.Holder(context.Background()), l.Holder(context.Background())
	h.On("n").TryAcquire(1, 1, 1)
	e := l.lock("n")
	granted := &waiter{demand: demand{1, 1, 1}, holding: w.o, entry: e, done: make(chan struct{})}
	behind := &waiter{demand: demand{1, 1, 1}, holding: h.o, entry: e, done: make(chan struct{})}
	w.o.wait(granted)
	h.o.wait(behind)
	e.mu.Unlock()
	h.On("n").Release(1)
	<-granted.done
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := granted.await(ctx)
	same(t, "error", err, context.Canceled)
	<-behind.done // it was handed on
	same(t, "held by the cancelled", w.Close(), 0)
	same(t, "held", h.Close(), 1)
}

// No goroutine for holders, permits or waiters: each waits in its caller's own.
func TestLimiterGoroutines(t *testing.T) {
	const many = 10_000
	waiting(t, nil, func(r *waitingRoom) {
		ctx, cancel := context.WithCancel(r.Context())
		before := runtime.NumGoroutine()
		no := func(more int, of string) {
			t.Helper()
			if n := runtime.NumGoroutine() - before - more; n > 10 { // the runtime has some, too
				t.Errorf("%d goroutines %s", n, of)
			}
		}
		holders := make([]*Holder, many)
		for i := range holders {
			holders[i] = r.limiter.Holder(ctx)
			asked(holders[i], "n", many, 1, 1)
		}
		no(0, "of holders")
		var all sync.WaitGroup
		for _, h := range holders {
			all.Go(func() { h.Acquire(ctx, "n", View{many, 1}, 1) })
		}
		synctest.Wait()
		same(t, "waiting", r.limiter.Waiting("n"), many)
		no(many, "of waiters")
		cancel()
		all.Wait()
		synctest.Wait()
		no(0, "left")
		same(t, "held", r.limiter.Held("n"), 0)
	})
}
