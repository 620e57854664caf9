package loop

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// script is a client that does what a test says, and an Engine that makes it.
type script struct {
	t       *testing.T
	step    func(now core.Instant, ev core.Event) ([]core.Action, error)
	last    int64
	running bool
	made    int
	dropped int
}

func (s *script) New(core.Config) (core.Stepper, error) {
	s.made++
	return s, nil
}

func (s *script) Drop(core.Stepper) { s.dropped++ }

// Step fails the test if it is called by two at once, or with a time before the last.
func (s *script) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if s.running || now.Mono < s.last {
		s.t.Errorf("stepped by two at once, or back from %d to %d", s.last, now.Mono)
	}
	s.running, s.last = true, now.Mono
	defer func() { s.running = false }()
	if ev.Kind == core.EventClose {
		return []core.Action{{Kind: core.ActionClosed}}, nil
	}
	return s.step(now, ev)
}

func (*script) Idle() bool     { return false }
func (*script) String() string { return "" }

// place is a Host that answers as a test says.
type place struct {
	loop   *Loop
	prompt bool
	ask    func(r *Request) (core.Event, error)
	kept   chan string
}

func (*place) Config() (core.Config, error) { return core.Config{}, nil }
func (p *place) Ask(r *Request) (core.Event, error) {
	p.loop.Claims() // which would wait forever under the lock
	return p.ask(r)
}

func (p *place) Watch(key string, changed func()) (func(), bool) {
	p.loop.Claims()
	changed()
	return func() { p.loop.Claims() }, key != "unwatchable"
}

func (p *place) Keep(name string, body []byte) {
	p.loop.Claims()
	p.kept <- name + string(body)
}
func (p *place) Prompt(core.ActionKind) bool { return p.prompt }
func (*place) Say(*core.Action)              {}
func (*place) Answered(*Request, *core.Event, error) {
}
func (*place) Gone(error) {}

// heard is a Claim that writes down what it is told.
type heard struct {
	Numbered
	mu    sync.Mutex
	told  []string
	until int64 // of what is stranded
	done  chan struct{}
	loop  *Loop
}

func (h *heard) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, what)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

func (h *heard) Hear(a *core.Action) bool {
	h.note(a.Kind.String())
	if a.Kind == core.ActionHeld {
		h.loop.Signal(h.done)
	}
	return a.Kind == core.ActionReleased
}

func (h *heard) Answered(r *Request, ev *core.Event, _ error) {
	h.note(r.Key + " " + ev.Outcome.String())
}
func (h *heard) Closing() { h.note("closing") }
func (h *heard) Left()    { h.note("left") }
func (h *heard) Stranded(now int64, command core.EventKind, err error) int64 {
	h.note("stranded " + command.String())
	if command != 0 || now >= h.until {
		return 0
	}
	return h.until
}

// bubbled is the bubble's time.
type bubbled struct{ begun time.Time }

func (c bubbled) Now() core.Instant { return core.Instant{Mono: int64(time.Since(c.begun))} }

// counting is a clock that goes on by one with each reading.
type counting struct{ atomic.Int64 }

func (c *counting) Now() core.Instant { return core.Instant{Mono: c.Add(1)} }

// world is a Loop with all that it is made of.
type world struct {
	*testing.T
	loop   *Loop
	client *script
	place  *place
}

func bubble(t *testing.T, change func(*Options), test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, client: &script{t: t}, place: &place{kept: make(chan string, 9)}}
		o := Options{Host: w.place, Engine: w.client, Clock: bubbled{time.Now()}, Slots: 4, Transfers: 1}
		if change != nil {
			change(&o)
		}
		w.loop = New(o)
		w.place.loop = w.loop
		w.place.ask = func(r *Request) (core.Event, error) { return yes(r), nil }
		test(w)
		w.loop.Close(t.Context())
	})
}

func yes(r *Request) core.Event {
	return core.Event{Kind: core.EventAnswer, Request: r.Action.Request, Outcome: core.OutcomeYes}
}

func (w *world) claim() *heard { return &heard{loop: w.loop, done: make(chan struct{})} }

func (w *world) begin(c *heard, by *Caller) {
	w.Helper()
	if err := w.loop.Begin(c, core.Event{Kind: core.EventAcquire}, by); err != nil {
		w.Fatal(err)
	}
}

func (w *world) same(what string, got, want any) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) told(c *heard, want ...string) {
	w.Helper()
	if got := c.all(); !slices.Equal(got, want) {
		w.Errorf("told %q, want %q", got, want)
	}
}

// get is a request of the claim that is numbered 1.
func get(id core.RequestID, key string, limit time.Duration) core.Action {
	return core.Action{Kind: core.ActionGet, Request: id, Key: key, Limit: limit, Claim: 1}
}

// TestMore: the client is stepped until it has no more to say, before anybody else gets a word in.
func TestMore(t *testing.T) {
	bubble(t, nil, func(w *world) {
		var events []core.EventKind
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			if events = append(events, ev.Kind); len(events)%3 != 0 {
				return []core.Action{{Kind: core.ActionMore}}, nil
			}
			return nil, nil
		}
		c := w.claim()
		w.begin(c, nil)
		w.loop.Command(c, core.Event{Kind: core.EventRelease}, nil)
		want := []core.EventKind{core.EventAcquire, core.EventWoke, core.EventWoke, core.EventRelease, core.EventWoke, core.EventWoke}
		if !slices.Equal(events, want) {
			t.Errorf("stepped with %v", events)
		}
	})
}

// TestClocks: all that step the client read the clocks under the lock, so no time goes back.
func TestClocks(t *testing.T) {
	l := &world{T: t, client: &script{t: t, step: func(core.Instant, core.Event) ([]core.Action, error) { return nil, nil }}, place: &place{}}
	l.loop = New(Options{Host: l.place, Engine: l.client, Clock: &counting{}, Slots: 1})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c := l.claim()
			l.begin(c, nil)
			for range 200 {
				l.loop.Command(c, core.Event{Kind: core.EventRelease}, nil)
			}
		})
	}
	all.Wait()
	l.loop.Close(t.Context())
}

// TestNoticesFirst: a claim hears the notices of a step before its requests begin.
func TestNoticesFirst(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			if ev.Kind == core.EventAcquire {
				return []core.Action{get(1, "k", time.Second), {Kind: core.ActionHeld, Claim: 1}}, nil
			}
			return nil, nil
		}
		c := w.claim()
		w.place.ask = func(r *Request) (core.Event, error) {
			c.note("asked")
			return yes(r), nil
		}
		w.begin(c, nil)
		synctest.Wait()
		w.told(c, "held", "asked", "k yes")
	})
}

// TestHungCall: a call that hangs is answered at its limit, and keeps its slot. A request
// that gets none is answered at its limit, and is never sent.
func TestHungCall(t *testing.T) {
	bubble(t, func(o *Options) { o.Slots = 1 }, func(w *world) {
		c, hang := w.claim(), make(chan struct{})
		next := core.RequestID(1)
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			if ev.Kind != core.EventAcquire && ev.Kind != core.EventAnswer || next > 3 {
				return nil, nil
			}
			a := get(next, string(rune('a'+next-1)), time.Second)
			next++
			return []core.Action{a}, nil
		}
		w.place.ask = func(r *Request) (core.Event, error) {
			c.note("asked " + r.Key)
			<-hang
			return yes(r), nil
		}
		w.begin(c, nil)
		time.Sleep(2500 * time.Millisecond)
		w.told(c, "asked a", "a unknown", "b unknown")
		if !errors.Is(c.Cause(), ErrSilent) {
			t.Error(c.Cause())
		}
		close(hang)
		synctest.Wait()
		w.told(c, "asked a", "a unknown", "b unknown", "asked c", "c yes")
	})
}

// TestCallerIsTheWorker: where calls end at once the caller makes its claim's requests, until the claim is
// settled. When its context ends it hands over what is left, and returns.
func TestCallerIsTheWorker(t *testing.T) {
	for _, gives := range []bool{false, true} {
		bubble(t, nil, func(w *world) {
			w.place.prompt = true
			c, returned := w.claim(), atomic.Bool{}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
				switch {
				case ev.Kind == core.EventAcquire:
					return []core.Action{get(1, "first", time.Minute)}, nil
				case ev.Kind == core.EventAnswer && ev.Request == 1:
					return []core.Action{get(2, "second", time.Minute)}, nil
				case ev.Kind == core.EventAnswer && ev.Request == 2:
					return []core.Action{{Kind: core.ActionHeld, Claim: 1}, get(3, "later", time.Minute)}, nil
				}
				return nil, nil
			}
			w.place.ask = func(r *Request) (core.Event, error) {
				time.Sleep(time.Second)
				if r.Key == "first" && gives {
					cancel()
				}
				wants := r.Key == "later" || r.Key == "second" && gives
				w.same("the caller has returned before "+r.Key, returned.Load(), wants)
				return yes(r), nil
			}
			w.begin(c, &Caller{ctx, c.done})
			returned.Store(true)
			time.Sleep(time.Minute)
			w.told(c, "first yes", "second yes", "held", "later yes")
		})
	}
}

// TestNap: a worker sleeps the moment for which the client waits, once and for just so long;
// nothing longer is slept so.
func TestNap(t *testing.T) {
	var naps []time.Duration
	sleep := func(d time.Duration) {
		naps = append(naps, d)
		time.Sleep(d)
	}
	bubble(t, func(o *Options) { o.Sleep = sleep }, func(w *world) {
		w.client.step = func(now core.Instant, ev core.Event) ([]core.Action, error) {
			wake := core.Action{Kind: core.ActionWake, At: now.Mono + int64(5*time.Millisecond)}
			switch {
			case ev.Kind == core.EventAcquire:
				return []core.Action{get(1, "k", time.Second), wake}, nil
			case ev.Kind == core.EventWoke && now.Mono < int64(time.Second):
				wake.At = int64(time.Second)
				return []core.Action{wake}, nil
			}
			return nil, nil
		}
		w.begin(w.claim(), nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(naps, []time.Duration{5 * time.Millisecond}) {
			t.Errorf("slept %v", naps)
		}
	})
}

// TestAbandon: what nobody wants any more is answered all the same, once: a read at once, a write when
// the store lets go of it, or a second later.
func TestAbandon(t *testing.T) {
	bubble(t, nil, func(w *world) {
		c, hang := w.claim(), make(chan struct{})
		w.client.step = func(now core.Instant, ev core.Event) ([]core.Action, error) {
			switch ev.Kind {
			case core.EventAcquire:
				put := get(2, "put", time.Minute)
				put.Kind = core.ActionPut
				return []core.Action{get(1, "get", time.Minute), put}, nil
			case core.EventCancel:
				return []core.Action{{Kind: core.ActionAbandon, Request: 1}, {Kind: core.ActionAbandon, Request: 2}}, nil
			}
			return nil, nil
		}
		w.place.ask = func(r *Request) (core.Event, error) {
			<-hang
			return yes(r), nil
		}
		w.begin(c, nil)
		time.Sleep(time.Second)
		w.loop.Command(c, core.Event{Kind: core.EventCancel}, nil)
		w.told(c, "get unknown")
		time.Sleep(2 * time.Second)
		w.told(c, "get unknown", "put unknown")
		w.same("cause", c.Cause(), nil)
		close(hang)
		synctest.Wait()
		w.told(c, "get unknown", "put unknown")
	})
}

// TestLater: callbacks run without the lock and in order, and before what waits behind them.
// One that blocks delays no step.
func TestLater(t *testing.T) {
	bubble(t, nil, func(w *world) {
		c, block := w.claim(), make(chan struct{})
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			if ev.Kind == core.EventAcquire {
				return []core.Action{{Kind: core.ActionHeld, Claim: 1}}, nil
			}
			return nil, nil
		}
		w.loop.Do(func() {
			w.loop.Later(func() { <-block })
			w.loop.Later(func() { c.note("later") })
		})
		w.begin(c, nil)
		w.loop.Command(c, core.Event{Kind: core.EventRelease}, nil)
		w.told(c, "held")
		close(block)
		<-c.done
		w.told(c, "held", "later")
	})
}

// TestTrap: when the engine fails each claim is told, and again when its time has come or a command comes;
// what the store answers then concerns nobody. The next claim has a new client.
func TestTrap(t *testing.T) {
	bubble(t, nil, func(w *world) {
		over, held, given, hang := w.claim(), w.claim(), w.claim(), make(chan struct{})
		held.until, given.until = int64(time.Minute), int64(time.Hour)
		trap := errors.New("trap")
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			switch ev.Kind {
			case core.EventCancel:
				return nil, trap
			case core.EventAnswer:
				return nil, nil
			}
			a := get(1, "k", time.Second)
			a.Claim = ev.Claim
			return []core.Action{a}, nil
		}
		w.place.ask = func(r *Request) (core.Event, error) {
			<-hang
			return yes(r), nil
		}
		w.begin(over, nil)
		w.begin(held, nil)
		w.begin(given, nil)
		w.loop.Command(over, core.Event{Kind: core.EventCancel}, nil)
		w.told(over, "stranded cancel")
		w.same("clients dropped", w.client.dropped, 1)
		w.loop.Command(given, core.Event{Kind: core.EventRelease}, nil)
		w.told(given, "stranded EventKind(0)", "stranded release")
		w.same("left", w.loop.Claims(), 1)
		time.Sleep(2 * time.Minute)
		w.told(held, "stranded EventKind(0)", "stranded EventKind(0)")
		w.same("left", w.loop.Claims(), 0)

		next := w.claim()
		w.client.last = 0
		w.begin(next, nil)
		w.same("clients", w.client.made, 2)
		close(hang) // the calls of the old client come back, whose ids are used again
		synctest.Wait()
		w.told(next, "k yes")
		w.told(over, "stranded cancel")
	})
}

// TestClose: what has not ended when ctx ends is left as it is, and a call that hangs is left behind.
func TestClose(t *testing.T) {
	bubble(t, nil, func(w *world) {
		c, hang := w.claim(), make(chan struct{})
		w.client.step = func(core.Instant, core.Event) ([]core.Action, error) {
			return []core.Action{get(1, "k", time.Minute)}, nil
		}
		w.place.ask = func(r *Request) (core.Event, error) {
			<-hang
			return yes(r), nil
		}
		w.begin(c, nil)
		synctest.Wait()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		w.client.step = nil
		stuck := &stuckClient{w.client}
		w.loop.client = stuck
		hangs, err := w.loop.Close(over)
		w.same("left", err, context.Canceled)
		w.same("hangs", hangs, true)
		w.told(c, "closing", "left")
		w.same("begun", w.loop.Begin(w.claim(), core.Event{}, nil), ErrClosed)
		close(hang)
		w.loop.Wait()
	})
}

// stuckClient never says that it is closed.
type stuckClient struct{ core.Stepper }

func (*stuckClient) Step(core.Instant, core.Event) ([]core.Action, error) { return nil, nil }

// TestGoexit: a driver that ends the goroutine of its call takes no slot, and Close waits for nothing of it.
func TestGoexit(t *testing.T) {
	bubble(t, func(o *Options) { o.Slots = 1 }, func(w *world) {
		c := w.claim()
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			switch ev.Kind {
			case core.EventAcquire:
				return []core.Action{get(1, "first", time.Second)}, nil
			case core.EventRelease:
				return []core.Action{get(2, "second", time.Second)}, nil
			}
			return nil, nil
		}
		w.place.ask = func(r *Request) (core.Event, error) {
			if r.Key == "first" {
				runtime.Goexit()
			}
			return yes(r), nil
		}
		w.begin(c, nil)
		time.Sleep(2 * time.Second)
		w.loop.Command(c, core.Event{Kind: core.EventRelease}, nil)
		synctest.Wait()
		w.told(c, "first unknown", "second yes")
		hangs, err := w.loop.Close(context.Background())
		w.same("hangs", hangs, false)
		w.same("closed", err, nil)
	})
}

// TestWatches: the client is told once when a watch has begun, and of changes; and nothing of what the
// store cannot watch. What is to be kept is kept beside the lock.
func TestWatches(t *testing.T) {
	bubble(t, nil, func(w *world) {
		changes := map[string]int{}
		w.client.step = func(_ core.Instant, ev core.Event) ([]core.Action, error) {
			switch ev.Kind {
			case core.EventChanged:
				changes[string(ev.Key)]++
			case core.EventAcquire:
				return []core.Action{
					{Kind: core.ActionWatch, Key: "k"},
					{Kind: core.ActionRemember, Key: "n", Body: []byte("=1")},
				}, nil
			case core.EventRelease:
				return []core.Action{{Kind: core.ActionUnwatch, Key: "k"}, {Kind: core.ActionForget, Key: "n"}}, nil
			}
			return nil, nil
		}
		c := w.claim()
		w.begin(c, nil)
		synctest.Wait()
		w.same("told of a change and that it has begun", changes["k"], 2)
		w.same("kept", <-w.place.kept, "n=1")
		w.loop.Command(c, core.Event{Kind: core.EventRelease}, nil)
		w.same("forgotten", <-w.place.kept, "n")
	})
}
