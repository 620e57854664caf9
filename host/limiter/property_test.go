package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// oracle is what a limiter is, if nobody is in a hurry.
type oracle struct {
	fifo    bool
	held    map[string]map[int]int // by name and owner
	waiting map[string][]wish
	heard   map[int]string // outcomes of waiting calls
}

type wish struct{ call, owner, limit, weight int }

func (o *oracle) total(name string) (n int) {
	for _, weight := range o.held[name] {
		n += weight
	}
	return n
}

func (o *oracle) try(name string, w wish) string {
	switch {
	case w.weight > w.limit:
		return "heavy"
	case o.fifo && len(o.waiting[name]) > 0, o.total(name)+w.weight > w.limit:
		return "full " + strconv.Itoa(o.total(name))
	}
	o.held[name][w.owner] += w.weight
	return strconv.Itoa(o.total(name))
}

func (o *oracle) serve(name string) {
	line := o.waiting[name]
	o.waiting[name] = nil
	for i, w := range line {
		if o.total(name)+w.weight <= w.limit {
			o.held[name][w.owner] += w.weight
			o.heard[w.call] = strconv.Itoa(o.total(name))
		} else if o.waiting[name] = append(o.waiting[name], w); o.fifo {
			o.waiting[name] = append(o.waiting[name], line[i+1:]...)
			return
		}
	}
}

func (o *oracle) release(name string, owner, weight int) bool {
	if o.held[name][owner] < weight {
		return false
	}
	o.held[name][owner] -= weight
	o.serve(name)
	return true
}

// leave ends waiting calls.
func (o *oracle) leave(why string, who func(wish) bool) {
	for name, line := range o.waiting {
		o.waiting[name] = slices.DeleteFunc(slices.Clone(line), func(w wish) bool {
			if who(w) {
				o.heard[w.call] = why
			}
			return who(w)
		})
		o.serve(name)
	}
}

func (o *oracle) close(owner int) (freed int) {
	o.leave("ended", func(w wish) bool { return w.owner == owner })
	for name := range o.held {
		freed += o.held[name][owner]
		delete(o.held[name], owner)
		o.serve(name)
	}
	return freed
}

// limiterWorld is the limiter beside the oracle.
type limiterWorld struct {
	limiter *Limiter
	oracle  *oracle
	owners  []*PermitOwner // all that ever were; the last ones live
	calls   int
	cancels map[int]context.CancelFunc

	mu    sync.Mutex
	heard map[int]string
}

const livingOwners = 3

var limiterNames = []string{"a", "b"}

// TestProperty: whatever the order of calls, each result is the oracle's,
// and so is who is granted when, with names forgotten in between.
func TestProperty(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprintf("fifo=%v", fifo), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { limiterProperty(t, fifo) })
			})
		})
	}
}

func limiterProperty(t *rapid.T, fifo bool) {
	w := &limiterWorld{
		limiter: New(&Options{FIFO: fifo}),
		oracle:  &oracle{fifo: fifo, held: map[string]map[int]int{}, waiting: map[string][]wish{}, heard: map[int]string{}},
		cancels: map[int]context.CancelFunc{}, heard: map[int]string{},
	}
	for _, name := range limiterNames {
		w.oracle.held[name] = map[int]int{}
	}
	for range livingOwners {
		w.owners = append(w.owners, w.limiter.Owner(background))
	}
	defer func() {
		for _, cancel := range w.cancels {
			cancel()
		}
		synctest.Wait()
	}()
	t.Repeat(map[string]func(*rapid.T){
		"try": w.try, "wait": w.wait, "release": w.release, "close": w.close, "cancel": w.cancel, "forget": w.forget, "": w.check,
	})
}

// draw is who asks for what: views are another at every call.
func (w *limiterWorld) draw(t *rapid.T) (name string, view View, want wish) {
	view = View{rapid.IntRange(1, 3).Draw(t, "capacity"), rapid.IntRange(1, 2).Draw(t, "width")}
	w.calls++
	return rapid.SampledFrom(limiterNames).Draw(t, "name"), view, wish{
		w.calls, len(w.owners) - 1 - rapid.IntRange(0, livingOwners-1).Draw(t, "owner"), view.Limit(), rapid.IntRange(1, 3).Draw(t, "weight"),
	}
}

func resultOf(p Permit, err error) string {
	var full *Full
	switch {
	case err == nil:
		return strconv.Itoa(p.Total())
	case errors.As(err, &full):
		return "full " + strconv.Itoa(full.Held)
	case errors.Is(err, ErrWeightExceedsLimit):
		return "heavy"
	case errors.Is(err, ErrOwnerEnded):
		return "ended"
	}
	return err.Error()
}

func (w *limiterWorld) try(t *rapid.T) {
	name, view, want := w.draw(t)
	expected := w.oracle.try(name, want)
	owner := w.owners[want.owner]
	if want.weight <= want.limit && rapid.Bool().Draw(t, "slot") {
		total, ok := owner.On(name).TryAcquire(view.Capacity, view.Width, want.weight)
		got := strconv.Itoa(total)
		if !ok {
			got = "full " + got
		}
		same(t, "try on a slot", got, expected)
		return
	}
	same(t, "try", resultOf(owner.TryAcquire(name, view, want.weight)), expected)
}

func (w *limiterWorld) wait(t *rapid.T) {
	name, view, want := w.draw(t)
	switch result := w.oracle.try(name, want); result[0] {
	case 'f':
		w.oracle.waiting[name] = append(w.oracle.waiting[name], want)
	default:
		w.oracle.heard[want.call] = result
	}
	ctx, cancel := context.WithCancel(background)
	w.cancels[want.call] = cancel
	go func() {
		result := resultOf(w.owners[want.owner].Acquire(ctx, name, view, want.weight))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.heard[want.call] = result
	}()
	synctest.Wait()
}

func (w *limiterWorld) release(t *rapid.T) {
	name, _, want := w.draw(t)
	got := w.owners[want.owner].On(name).Release(want.weight)
	same(t, "release", got, w.oracle.release(name, want.owner, want.weight))
}

// close lets a new owner come for the oldest.
func (w *limiterWorld) close(t *rapid.T) {
	oldest := len(w.owners) - livingOwners
	same(t, "close", w.owners[oldest].Close(), w.oracle.close(oldest))
	same(t, "try after close", resultOf(w.owners[oldest].TryAcquire("a", View{9, 9}, 1)), "ended")
	w.owners = append(w.owners, w.limiter.Owner(background))
}

func (w *limiterWorld) cancel(t *rapid.T) {
	if w.calls == 0 {
		t.Skip("nobody has called")
	}
	call := rapid.IntRange(1, w.calls).Draw(t, "call")
	if cancel := w.cancels[call]; cancel != nil {
		cancel()
		w.oracle.leave("context canceled", func(w wish) bool { return w.call == call })
	}
}

func (w *limiterWorld) forget(*rapid.T) {
	for i := range w.limiter.shards {
		s := &w.limiter.shards[i]
		s.mu.Lock()
		s.forget(w.limiter)
		s.mu.Unlock()
	}
}

func (w *limiterWorld) check(t *rapid.T) {
	synctest.Wait()
	var names []string
	for _, name := range limiterNames {
		same(t, "held "+name, w.limiter.Held(name), w.oracle.total(name))
		same(t, "waiting "+name, w.limiter.Waiting(name), len(w.oracle.waiting[name]))
		if w.oracle.total(name) > 0 || len(w.oracle.waiting[name]) > 0 {
			names = append(names, name)
		}
	}
	same(t, "names", w.limiter.Names(), names)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.heard, w.oracle.heard) {
		t.Fatalf("outcomes of waiting calls: %v, not %v", w.heard, w.oracle.heard)
	}
}
