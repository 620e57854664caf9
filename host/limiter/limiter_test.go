package limiter

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

// asked is TryAcquire, and returns its outcome as text.
func asked(owner *PermitOwner, name string, capacity, width, weight int) (string, Permit) {
	p, err := owner.TryAcquire(name, View{capacity, width}, weight)
	if err != nil {
		return strings.TrimPrefix(err.Error(), "mopslock: "), p
	}
	return strconv.Itoa(p.Total()), p
}

var background = context.Background()

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

func TestErrors(t *testing.T) {
	l := New(nil)
	owner := l.Owner(background)
	asked(owner, "n", 3, 2, 4)
	_, err := owner.TryAcquire("n", View{2, 2}, 2)
	var full *Full
	same(t, "full", errors.As(err, &full) && errors.Is(err, ErrFull), true)
	same(t, "full", *full, Full{Name: "n", Held: 4, Limit: 4, Weight: 2})
	same(t, "text", err.Error(), `mopslock: "n" is full: 4/4 held, 2 wanted`)

	_, err = owner.TryAcquire("n", View{3, 2}, 7)
	same(t, "text", err.Error(), `mopslock: "n": a weight of 7 is more than all 6 permits`)
	for _, acquire := range []func(View, int) error{
		func(v View, weight int) error { _, err := owner.TryAcquire("n", v, weight); return err },
		func(v View, weight int) error { _, err := owner.Acquire(t.Context(), "n", v, weight); return err },
		func(v View, weight int) error { _, err := l.TryAcquire(t.Context(), "n", v, weight); return err },
		func(v View, weight int) error { _, err := l.Acquire(t.Context(), "n", v, weight); return err },
	} {
		same(t, "too heavy", errors.Is(acquire(View{3, 2}, 7), ErrWeightExceedsLimit), true)
		same(t, "far too heavy", errors.Is(acquire(View{3, 2}, math.MaxInt), ErrWeightExceedsLimit), true)
		if err := acquire(View{1, 1}, -1); err == nil || errors.Is(err, ErrWeightExceedsLimit) {
			t.Errorf("a negative weight: %v", err)
		}
		for _, v := range []View{{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {core.MaxCapacity + 1, 1}, {1, core.MaxWidth + 1}, {1 + 1<<32, 1}, {1, math.MaxInt}} {
			same(t, "bad view", errors.Is(acquire(v, 1), &core.Error{Code: core.ErrorEvent}), true)
			_, ok := owner.On("n").TryAcquire(v.Capacity, v.Width, 1)
			same(t, "bad view of a slot", ok, false)
		}
	}
	s := owner.On("n")
	for _, weight := range []int{-1, 7, 1 + 1<<32} {
		total, ok := s.TryAcquire(3, 2, weight)
		same(t, "bad weight of a slot", ok || total != 4, false)
		same(t, "bad weight of a slot", s.Release(weight), false)
	}
	same(t, "held", l.Held("n"), 4)
	same(t, "counters", l.Counters("n"), []int{4, 1})
	same(t, "no permit", errors.Is(Permit{}.Release(), ErrOutOfBuckets), true)
	same(t, "close", owner.Close(), 4)
	same(t, "names", l.Names(), nil)
	for _, slot := range []*Slot{s, owner.On("late")} { // of one that has ended
		_, ok := slot.TryAcquire(3, 2, 1)
		same(t, "ended", ok || slot.Release(1), false)
	}
	ctx, cancel := context.WithCancel(background)
	waits := l.Owner(background)
	cancel()
	got, _ := asked(l.Owner(ctx), "n", 1, 1, 1)
	same(t, "after the end", got, "the holder has ended")
	same(t, "close after the end", l.Owner(ctx).Close(), 0)
	_, err = waits.Acquire(ctx, "n", View{1, 1}, 1)
	same(t, "cause", err, context.Canceled)
}

func TestAllocatesNothing(t *testing.T) {
	l := New(nil)
	owner := l.Owner(background)
	s := owner.On("slot")
	same(t, "slot", testing.AllocsPerRun(100, func() {
		if _, ok := s.TryAcquire(3, 1, 1); !ok || !s.Release(1) {
			t.Error("refused")
		}
	}), 0)
	asked(owner, "n", 3, 1, 1)
	same(t, "by name", testing.AllocsPerRun(100, func() {
		p, err := owner.TryAcquire("n", View{3, 1}, 1)
		if err != nil || p.Release() != nil {
			t.Error("refused")
		}
	}), 0)
}

// A permit of the Limiter itself is one alone: it is released once.
func TestConvenience(t *testing.T) {
	l := New(nil)
	ctx, cancel := context.WithCancelCause(background)
	a, err := l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "try", err, nil)
	b, err := l.Acquire(ctx, "n", View{2, 1}, 1)
	same(t, "acquire", err, nil)
	same(t, "total", b.Total(), 2)
	_, err = l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "full", errors.Is(err, ErrFull), true)
	same(t, "release", a.Release(), nil)
	same(t, "again", errors.Is(a.Release(), ErrOutOfBuckets), true)
	same(t, "its owner has ended with it", a.owner.state.dead.Load(), true)
	same(t, "held", l.Held("n"), 1)
	why := errors.New("why")
	cancel(why)
	b.owner.state.end() // waits for the end that the context has begun
	same(t, "held", l.Held("n"), 0)
	_, err = l.TryAcquire(ctx, "n", View{2, 1}, 1)
	same(t, "cause", err, why)
	_, err = l.Acquire(ctx, "n", View{2, 1}, 1)
	same(t, "cause", err, why)
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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

// A owner that nobody can reach is missed, and its permits are free again; one
// that can be reached by a permit or a slot alone is not.
func TestVanished(t *testing.T) {
	var log lockedBuffer
	l := New(&Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	lose := func() {
		owner := l.Owner(ctx)
		asked(owner, "b", 9, 1, 2)
		asked(owner, "a", 9, 1, 1)
	}
	_, kept := asked(l.Owner(ctx), "a", 9, 1, 1)
	slot := l.Owner(ctx).On("b")
	slot.TryAcquire(9, 1, 1)
	lose()
	if !collected(func() bool { return strings.Contains(log.String(), "\n") }) {
		t.Fatal("nobody has missed the owner")
	}
	same(t, "a", l.Held("a"), 1)
	same(t, "b", l.Held("b"), 1)
	_, said, _ := strings.Cut(log.String(), "level=")
	same(t, "log", said, `WARN msg="a holder has vanished without releasing its permits; they are free again" permits=3 names=2 first="[a b]"`+"\n")
	same(t, "permit", kept.Release(), nil)
	same(t, "slot", slot.Release(1), true)
}

// Names that nobody holds are forgotten, but not under a Slot's or a permit's feet.
func TestForgets(t *testing.T) {
	l := New(nil)
	owner := l.Owner(background)
	slot := owner.On("slot")
	_, permit := asked(owner, "held", 1, 1, 1)
	before := slot.entry.Load()
	entries := func() (n int) {
		for i := range l.shards {
			l.shards[i].each(func(*entry) { n++ })
		}
		return n
	}
	const names = 100 * shardCount
	for i := range names {
		_, p := asked(owner, "name"+strconv.Itoa(i), 1, 1, 1)
		same(t, "release", p.Release(), nil)
	}
	if n := entries(); n > shardCount*leastSweep {
		t.Errorf("%d entries of %d names", n, names)
	}
	if n := len(owner.state.names); n > leastSweep {
		t.Errorf("the owner remembers %d names", n)
	}
	same(t, "the slot's entry", before.gone, true)
	total, ok := slot.TryAcquire(2, 1, 1)
	same(t, "slot", ok && total == 1, true)
	same(t, "the entry that is gone is unlocked", before.mu.TryLock(), true)
	same(t, "the slot's name", l.Held("slot"), 1)
	same(t, "entries of slots", len(owner.state.slots), 1)
	for i := range names { // and what is held in great numbers stays
		asked(owner, "kept"+strconv.Itoa(i), 1, 1, 1)
	}
	all := l.Names()
	same(t, "names", len(all), names+2)
	same(t, "sorted", slices.IsSorted(all), true)
	same(t, "permit", permit.Release(), nil)
	same(t, "close", owner.Close(), names+1)
	same(t, "names", l.Names(), nil)
}

// A owner that asks for a Slot now and then does not remember them all.
func TestForgetsSlots(t *testing.T) {
	l := New(nil)
	owner := l.Owner(background)
	kept := owner.On("kept")
	same(t, "acquire", fmt.Sprint(kept.TryAcquire(1, 1, 1)), "1 true")
	const names = 100 * shardCount
	for i := range names {
		owner.On("name" + strconv.Itoa(i))
	}
	if n := len(owner.state.slots); n > 2*shardCount*leastSweep {
		t.Errorf("%d entries of %d slots", n, names)
	}
	same(t, "release", kept.Release(1), true)
	owner.state.crowded.Store(true)
	owner.state.tidy() // which leaves the Slot what is not gone
	same(t, "acquire again", fmt.Sprint(kept.TryAcquire(1, 1, 1)), "1 true")
	same(t, "close", owner.Close(), 1)
}

// The name that was used last is tidied away as any other, and noted again.
func TestTidiesLast(t *testing.T) {
	owner := New(nil).Owner(background)
	_, p := asked(owner, "n", 1, 1, 1)
	same(t, "release", p.Release(), nil)
	owner.state.crowded.Store(true)
	owner.state.tidy()
	same(t, "names", len(owner.state.names), 0)
	asked(owner, "n", 1, 1, 1)
	same(t, "close", owner.Close(), 1)
}

// The limit of a name's memory is kept by what can be counted: its entry, one or
// two of the table's pointers, the owner's set (a slot of 16 bytes and a byte, at
// worst at 7/16), and the name. The benchmark weighs it.
func TestEntrySize(t *testing.T) {
	same(t, "entry", unsafe.Sizeof(entry{}), 96)
	const pointers, set, name = 2 * 8, 17 * 16 / 7, 16
	if total := int(unsafe.Sizeof(entry{})) + pointers + set + name; total > 200 {
		t.Errorf("%d bytes a name", total)
	}
	same(t, "shard", unsafe.Sizeof(shard{}), 64)
}
