package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/mopslock/mopslock/core"
)

// asked is TryAcquire, as what it came to.
func asked(h *Holder, name string, capacity, width, weight int) (string, LimiterPermit) {
	p, err := h.TryAcquire(name, View{capacity, width}, weight)
	if err != nil {
		return strings.TrimPrefix(err.Error(), "mopslock: "), p
	}
	return strconv.Itoa(p.Total()), p
}

func same[V any](t interface {
	Helper()
	Errorf(format string, args ...any)
}, what string, got, want V,
) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}

// canal_lock's "right holder": what is released is the holder's own, and the end
// of a holder frees what it held, no more.
func TestLimiterRightHolder(t *testing.T) {
	ctx := context.Background()
	l := NewLimiter(nil)
	me, p1, p2 := l.Holder(ctx), l.Holder(ctx), l.Holder(ctx)
	ask := func(h *Holder, want string) LimiterPermit {
		t.Helper()
		got, p := asked(h, "n", 3, 1, 0)
		same(t, "acquire", got, want)
		return p
	}
	const full = `"n" is full: 3/3 held`
	ask(p1, "1")
	ask(p1, "2")
	his := ask(p2, "3")
	ask(me, full)
	same(t, "release", his.Release(), nil)
	same(t, "release of what was released", errors.Is(his.Release(), ErrOutOfBuckets), true)
	same(t, "close of one that holds nothing", p2.Close(), 0)
	mine := ask(me, "3")
	ask(me, full)
	same(t, "close", p1.Close(), 2)
	same(t, "close again", p1.Close(), 0)
	ask(p1, "the holder has ended")
	ask(me, "2")
	ask(me, "3")
	same(t, "counters", l.Counters("n"), []int{3})
	ask(me, full)
	same(t, "counters", l.Counters("n"), []int{4})
	same(t, "release", mine.Release(), nil)
	same(t, "held", l.Held("n"), 2)
	same(t, "names", l.Names(), []string{"n"})
	same(t, "close", me.Close(), 2)
	same(t, "names", l.Names(), nil)
	same(t, "no permit", errors.Is(LimiterPermit{}.Release(), ErrOutOfBuckets), true)
}

func TestLimiterErrors(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	asked(h, "n", 3, 2, 4)
	_, err := h.TryAcquire("n", View{2, 2}, 2)
	var full *Full
	same(t, "full", errors.As(err, &full) && errors.Is(err, ErrFull), true)
	same(t, "full", *full, Full{Name: "n", Held: 4, Limit: 4, Weight: 2})
	same(t, "text", err.Error(), `mopslock: "n" is full: 4/4 held, 2 wanted`)

	_, err = h.TryAcquire("n", View{3, 2}, 7)
	same(t, "text", err.Error(), `mopslock: "n": a weight of 7 is more than all 6 permits`)
	for _, acquire := range []func(View, int) error{
		func(v View, weight int) error { _, err := h.TryAcquire("n", v, weight); return err },
		func(v View, weight int) error { _, err := h.Acquire(t.Context(), "n", v, weight); return err },
		func(v View, weight int) error { _, err := l.TryAcquire(t.Context(), "n", v, weight); return err },
		func(v View, weight int) error { _, err := l.Acquire(t.Context(), "n", v, weight); return err },
	} {
		same(t, "too heavy", errors.Is(acquire(View{3, 2}, 7), ErrTooHeavy), true)
		same(t, "far too heavy", errors.Is(acquire(View{3, 2}, math.MaxInt), ErrTooHeavy), true)
		if err := acquire(View{1, 1}, -1); err == nil || errors.Is(err, ErrTooHeavy) {
			t.Errorf("a negative weight: %v", err)
		}
		for _, v := range []View{{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {core.MaxCapacity + 1, 1}, {1, core.MaxWidth + 1}, {1 + 1<<32, 1}, {1, math.MaxInt}} {
			same(t, "bad view", errors.Is(acquire(v, 1), &core.Error{Code: core.ErrorEvent}), true)
			_, ok := h.On("n").TryAcquire(v.Capacity, v.Width, 1)
			same(t, "bad view of a slot", ok, false)
		}
	}
	s := h.On("n")
	for _, weight := range []int{-1, 7, 1 + 1<<32} {
		total, ok := s.TryAcquire(3, 2, weight)
		same(t, "bad weight of a slot", ok || total != 4, false)
		same(t, "bad weight of a slot", s.Release(weight), false)
	}
	same(t, "held", l.Held("n"), 4)
}

func TestLimiterSlot(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	s := h.On("n")
	same(t, "a slot holds nothing", l.Held("n"), 0)
	total, ok := s.TryAcquire(3, 1, 2)
	same(t, "slot", ok && total == 2, true)
	got, p := asked(h, "n", 3, 1, 1)
	same(t, "by name", got, "3")
	total, ok = s.TryAcquire(3, 1, 1)
	same(t, "full slot", !ok && total == 3, true)
	same(t, "release more than is held", s.Release(4), false)
	same(t, "release", s.Release(0), true)
	same(t, "release by permit", p.Release(), nil)
	same(t, "close", h.Close(), 1)
	_, ok = s.TryAcquire(3, 1, 1)
	same(t, "slot of one that has ended", ok || s.Release(1), false)
	_, ok = h.On("n").TryAcquire(3, 1, 1)
	same(t, "late slot of one that has ended", ok, false)
	same(t, "held", l.Held("n"), 0)
}

func TestLimiterAllocatesNothing(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	s := h.On("slot")
	same(t, "slot", testing.AllocsPerRun(100, func() {
		if _, ok := s.TryAcquire(3, 1, 1); !ok || !s.Release(1) {
			t.Error("refused")
		}
	}), 0)
	asked(h, "n", 3, 1, 1)
	same(t, "by name", testing.AllocsPerRun(100, func() {
		p, err := h.TryAcquire("n", View{3, 1}, 1)
		if err != nil || p.Release() != nil {
			t.Error("refused")
		}
	}), 0)
}

// The context's end frees all, once, whoever else releases.
func TestLimiterContextEnds(t *testing.T) {
	l := NewLimiter(nil)
	other := l.Holder(context.Background())
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		h := l.Holder(ctx)
		_, a := asked(h, "a", 4, 1, 1)
		_, b := asked(h, "b", 4, 1, 2)
		asked(other, "b", 4, 1, 1)
		var all sync.WaitGroup
		freed := make(chan int, 2)
		all.Go(cancel)
		all.Go(func() {
			if a.Release() == nil {
				freed <- 1
			}
		})
		all.Go(func() {
			if b.Release() == nil {
				freed <- 2
			}
		})
		all.Go(func() { h.Close() }) // waits for the end that the context began
		all.Wait()
		same(t, "a", l.Held("a"), 0)
		same(t, "b, the other's", l.Held("b"), 1)
		same(t, "released after the end", errors.Is(errors.Join(a.Release(), b.Release()), ErrOutOfBuckets), true)
		same(t, "the other", other.On("b").Release(1), true)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got, _ := asked(l.Holder(ctx), "n", 1, 1, 1)
	same(t, "after the end", got, "the holder has ended")
}

// Close waits for an end that has begun: nothing is held after it.
func TestLimiterCloseWaits(t *testing.T) {
	const names = 2000
	l := NewLimiter(nil)
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		h := l.Holder(ctx)
		for i := range names {
			asked(h, strconv.Itoa(i), 1, 1, 1)
		}
		cancel()
		for i := 0; !h.o.dead.Load() && i < 1e7; i++ {
			runtime.Gosched()
		}
		h.Close()
		same(t, "names", len(l.Names()), 0)
	}
}

// A permit of the Limiter itself is one alone: it is released once.
func TestLimiterConvenience(t *testing.T) {
	l := NewLimiter(nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	a, err := l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "try", err, nil)
	b, err := l.Acquire(ctx, "n", View{2, 1}, 1)
	same(t, "acquire", err, nil)
	same(t, "total", b.Total(), 2)
	_, err = l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "full", errors.Is(err, ErrFull), true)
	same(t, "release", a.Release(), nil)
	same(t, "again", errors.Is(a.Release(), ErrOutOfBuckets), true)
	same(t, "its holder has ended with it", a.holder.o.dead.Load(), true)
	same(t, "held", l.Held("n"), 1)
	why := errors.New("why")
	cancel(why)
	b.holder.o.end() // waits for the end that the context has begun
	same(t, "held", l.Held("n"), 0)
	_, err = l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "cause", err, why)
	_, err = l.Acquire(ctx, "n", View{2, 1}, 1)
	same(t, "cause", err, why)
}

// lockedBuffer is a log that the runtime writes and a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// collected runs the collector until ok, or 1000 times.
func collected(ok func() bool) bool {
	for range 1000 {
		if ok() {
			return true
		}
		runtime.GC()
		runtime.Gosched()
	}
	return false
}

// A holder that nobody can reach is missed, and its permits are free again; one
// that can be reached by a permit or a slot alone is not.
func TestLimiterVanished(t *testing.T) {
	var log lockedBuffer
	l := NewLimiter(&LimiterOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lose := func() {
		h := l.Holder(ctx)
		asked(h, "b", 9, 1, 2)
		asked(h, "a", 9, 1, 1)
	}
	_, kept := asked(l.Holder(ctx), "a", 9, 1, 1)
	slot := l.Holder(ctx).On("b")
	slot.TryAcquire(9, 1, 1)
	lose()
	if !collected(func() bool { return strings.Contains(log.String(), "\n") }) {
		t.Fatal("nobody has missed the holder")
	}
	same(t, "a", l.Held("a"), 1)
	same(t, "b", l.Held("b"), 1)
	_, said, _ := strings.Cut(log.String(), "level=")
	same(t, "log", said, `WARN msg="a holder has vanished without releasing its permits; they are free again" permits=3 names=2 first="[a b]"`+"\n")
	same(t, "permit", kept.Release(), nil)
	same(t, "slot", slot.Release(1), true)
}

// Names that nobody holds are forgotten, but not under a Slot's or a permit's feet.
func TestLimiterForgets(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	slot := h.On("slot")
	_, permit := asked(h, "held", 1, 1, 1)
	before := slot.entry.Load()
	entries := func() (n int) {
		for i := range l.shards {
			l.shards[i].each(func(*entry) { n++ })
		}
		return n
	}
	const names = 100 * limiterShards
	for i := range names {
		_, p := asked(h, "name"+strconv.Itoa(i), 1, 1, 1)
		same(t, "release", p.Release(), nil)
	}
	if n := entries(); n > limiterShards*leastSweep {
		t.Errorf("%d entries of %d names", n, names)
	}
	if n := len(h.o.names); n > leastSweep {
		t.Errorf("the holder remembers %d names", n)
	}
	same(t, "the slot's entry", before.gone, true)
	total, ok := slot.TryAcquire(2, 1, 1)
	same(t, "slot", ok && total == 1, true)
	same(t, "the slot's name", l.Held("slot"), 1)
	same(t, "entries of slots", len(h.o.slots), 1)
	same(t, "permit", permit.Release(), nil)
	same(t, "close", h.Close(), 1)
	same(t, "names", l.Names(), nil)
}

// A holder that asks for a Slot now and then does not remember them all.
func TestLimiterForgetsSlots(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	kept := h.On("kept")
	same(t, "acquire", fmt.Sprint(kept.TryAcquire(1, 1, 1)), "1 true")
	const names = 100 * limiterShards
	for i := range names {
		h.On("name" + strconv.Itoa(i))
	}
	if n := len(h.o.slots); n > 2*limiterShards*leastSweep {
		t.Errorf("%d entries of %d slots", n, names)
	}
	same(t, "release", kept.Release(1), true)
	h.o.crowded.Store(true)
	h.o.tidy() // which leaves the Slot what is not gone
	same(t, "acquire again", fmt.Sprint(kept.TryAcquire(1, 1, 1)), "1 true")
	same(t, "close", h.Close(), 1)
}

// A holder that holds many names at once loses none of them.
func TestLimiterManyNames(t *testing.T) {
	l := NewLimiter(nil)
	h := l.Holder(context.Background())
	const names = 5000
	for i := range names {
		asked(h, strconv.Itoa(i), 1, 1, 1)
		_, p := asked(h, "other"+strconv.Itoa(i), 1, 1, 1)
		p.Release()
	}
	all := l.Names()
	same(t, "names", len(all), names)
	same(t, "sorted", slices.IsSorted(all), true)
	same(t, "close", h.Close(), names)
	same(t, "names", l.Names(), nil)
}

// The name that was used last is tidied away as any other, and noted again.
func TestLimiterTidiesLast(t *testing.T) {
	h := NewLimiter(nil).Holder(context.Background())
	_, p := asked(h, "n", 1, 1, 1)
	same(t, "release", p.Release(), nil)
	h.o.crowded.Store(true)
	h.o.tidy()
	same(t, "names", len(h.o.names), 0)
	asked(h, "n", 1, 1, 1)
	same(t, "close", h.Close(), 1)
}

// The limit of a name's memory is kept by what can be counted: its entry, one or
// two of the table's pointers, the holder's set (a slot of 16 bytes and a byte, at
// worst at 7/16), and the name. The benchmark weighs it.
func TestLimiterEntrySize(t *testing.T) {
	same(t, "entry", unsafe.Sizeof(entry{}), 96)
	const pointers, set, name = 2 * 8, 17 * 16 / 7, 16
	if total := int(unsafe.Sizeof(entry{})) + pointers + set + name; total > 200 {
		t.Errorf("%d bytes a name", total)
	}
	same(t, "shard", unsafe.Sizeof(limiterShard{}), 64)
}
