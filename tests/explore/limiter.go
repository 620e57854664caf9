package explore

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// The situations of canal.go in one process with buckets.Buckets: each operation is made
// under a lock, and so at one instant. A caller is registered before it asks, and one that
// is not registered, because it has ended, gets no permit.

// limiter is Buckets and the callers that are registered. It keeps the operations that were
// done, and makes Buckets of them again: Buckets is data that changes, and a store never does.
type limiter struct {
	done       []bucketDeed
	registered string
	loose      bool // the mistake: every caller is given what it asks, registered or not
}

// bucketDeed is an operation that changed something.
type bucketDeed struct {
	verb string
	view
	who string
}

const (
	deedRegister = "registers"
	deedAcquire  = "acquires"
	deedRelease  = "releases"
	deedDown     = "is down"
)

// buckets is the result of all operations that were done.
func (l *limiter) buckets() *buckets.Buckets[string] {
	var b buckets.Buckets[string]
	for i := range l.done {
		d := &l.done[i]
		switch d.verb {
		case deedAcquire:
			b.Acquire(d.capacity, d.width, d.weight, d.who)
		case deedRelease:
			b.Release(d.who, d.weight)
		case deedDown:
			b.Down(d.who)
		}
	}
	return &b
}

// deedOf reads a request: its key says what and who, its body the view.
func deedOf(a *core.Action) bucketDeed {
	var d bucketDeed
	d.who, d.verb, _ = strings.Cut(a.Key, ":")
	for i, n := range strings.Fields(string(a.Body)) {
		*[]*uint32{&d.capacity, &d.width, &d.weight}[i] = uint32(numberIn(n))
	}
	return d
}

// Choices implements Store.
func (l *limiter) Choices(*core.Action, bool) int { return 1 }

// Apply implements Store.
func (l *limiter) Apply(_ int64, a *core.Action, _ int) (Store, core.Event) {
	reply := core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeYes}
	d, b := deedOf(a), l.buckets()
	known := strings.Contains(l.registered, d.who)
	next := &limiter{append(slices.Clone(l.done), d), l.registered, l.loose}
	ok := known
	switch d.verb {
	case deedRegister:
		next.registered, ok = l.registered+d.who, !known
	case deedAcquire:
		if ok || l.loose {
			_, reason := b.Acquire(d.capacity, d.width, d.weight, d.who)
			ok = reason == core.ReasonNone
		}
	case deedRelease:
		ok = b.Release(d.who, d.weight)
	case deedDown:
		next.registered = strings.ReplaceAll(l.registered, d.who, "")
	}
	if !ok {
		reply.Outcome = core.OutcomeNo
		return l, reply
	}
	return next, reply
}

// Brings implements Bringer.
func (l *limiter) Brings(a *core.Action, reply *core.Event) (limit uint64, all []broughtPermit) {
	if d := deedOf(a); d.verb == deedAcquire && reply.Outcome == core.OutcomeYes {
		all = []broughtPermit{{Label: d.who + ".1"}}
	}
	return 0, all
}

// AppendState implements Store: what Buckets shows, of which only the counters depend on
// the order in which things were done.
func (l *limiter) AppendState(dst []byte) []byte {
	b := l.buckets()
	dst = append(append(dst, l.registered...), 0, byte(b.Highest()))
	for _, counter := range b.AppendCounters(nil, core.MaxCounters) {
		dst = append(dst, byte(counter))
	}
	for _, who := range []string{"A", "B", "C"} {
		dst = append(dst, byte(b.HeldBy("caller "+who)))
	}
	return dst
}

// limited is a caller: it registers, asks, and may give back; or it is the host, which
// hears of deaths.
type limited struct {
	asking
	view
	actor string
	again int
}

const (
	limitedRegistering = "registering"
	limitedGiving      = "giving back"
	limitedFreeing     = "freeing"
)

// Step implements Program.
func (l *limited) Step(_ core.Instant, ev core.Event) ([]core.Action, error) {
	yes := ev.Outcome == core.OutcomeYes
	switch {
	case ev.Kind == core.EventAcquire:
		return l.does(limitedRegistering, deedRegister, l.actor), nil
	case ev.Kind == core.EventRelease && len(ev.Label) > 0:
		return l.does(limitedFreeing, deedDown, string(ev.Label)), nil
	case ev.Kind == core.EventRelease:
		return l.does(limitedGiving, deedRelease, l.actor), nil
	case ev.Kind != core.EventAnswer || ev.Request != l.issued:
		return nil, nil
	case l.state == limitedFreeing:
		return l.end(workerIdle), nil
	case l.state == limitedRegistering:
		return l.does(canalAcquiring, deedAcquire, l.actor), nil
	case l.state == canalAcquiring && yes:
		return l.end(canalHeld, core.Action{Kind: core.ActionHeld, Permit: 1}), nil
	case l.state == canalAcquiring && l.again > 0:
		l.again--
		return l.does(canalAcquiring, deedAcquire, l.actor), nil
	case l.state == canalAcquiring:
		return l.end(workerMoved, core.Action{Kind: core.ActionRefused, Reason: core.ReasonFull}), nil
	case l.state == limitedGiving && !yes:
		return nil, &check.Violation{Checker: check.NothingLeaks, Text: l.actor + " is out of buckets"}
	}
	return l.end(workerDone, core.Action{Kind: core.ActionReleased}), nil
}

func (l *limited) does(state, deed, who string) []core.Action {
	body := strconv.Itoa(int(l.capacity)) + " " + strconv.Itoa(int(l.width)) + " " + strconv.Itoa(int(l.weight))
	return l.ask(state, core.ActionPut, who+":"+deed, body)
}

// Permits implements permitted.
func (l *limited) Permits() []check.Permit {
	if l.state != canalAcquiring && l.state != canalHeld {
		return nil
	}
	return []check.Permit{{
		Actor: l.actor, Name: canalName, Number: 1, Weight: uint64(l.weight), Most: uint64(l.capacity) * uint64(l.width),
		Until: noWake, Told: l.state == canalHeld,
	}}
}

// Claims implements Program.
func (l *limited) Claims() []check.Claim {
	if l.state != canalHeld {
		return nil
	}
	return []check.Claim{{Actor: l.actor, Name: canalName, Tenure: l.actor, Until: noWake}}
}

// Idle implements Program.
func (l *limited) Idle() bool { return false } // a request of one that has ended may still be made

// AppendState implements Program.
func (l *limited) AppendState(dst []byte) []byte {
	return append(append(dst, l.state...), 0, byte(l.issued), byte(l.again))
}

// Copy implements Program.
func (l *limited) Copy() Program { twin := *l; return &twin }

// limiterScenario is three callers with views of their own, any of which may die at any
// point: what it had begun may still be done, or not.
func limiterScenario(name, about string, views ...view) *Scenario {
	sc := &Scenario{
		Name: "buckets-" + name, About: about, Store: &limiter{}, Tick: second, OutOfOrder: true, Shared: true, Crashes: len(views),
		Words: limitedWords{},
		Left: func(s Store, held int) *check.Violation {
			if left := s.(*limiter).buckets().Held(); left > uint64(held) {
				return &check.Violation{Checker: check.NothingLeaks, Text: strconv.FormatUint(left, 10) + " are counted, and too few hold any"}
			}
			return nil
		},
	}
	host := Actor{
		Name: "the host", Flawless: true,
		Start: func() (Program, error) { return &limited{asking: asking{state: workerIdle}, actor: "the host"}, nil },
	}
	for i, v := range views {
		name := "caller " + string(rune('A'+i))
		sc.Actors = append(sc.Actors, Actor{
			Name: name,
			Start: func() (Program, error) {
				return &limited{asking: asking{state: workerIdle}, actor: name, view: v, again: 1}, nil
			},
			Tell: []Command{
				{Event: core.Event{Kind: core.EventAcquire}},
				{Event: core.Event{Kind: core.EventRelease}, Words: name + " gives back", In: canalHeld},
			},
		})
		host.Tell = append(host.Tell, Command{
			Event: core.Event{Kind: core.EventRelease, Label: []byte(name)}, Words: "the host hears that " + name + " has ended",
			In: workerIdle, Again: true, Died: name, When: func(s Store) bool { return strings.Contains(s.(*limiter).registered, name) },
		})
	}
	sc.Actors = append(sc.Actors, host)
	return sc
}

// limiterScenarios are canal_lock's three situations, and callers that do not agree.
func limiterScenarios() []*Scenario {
	return []*Scenario{
		limiterScenario("highest", "3 callers, 2 buckets of 1 to be opened", view{1, 2, 1, 0}, view{1, 2, 1, 0}, view{1, 2, 1, 0}),
		limiterScenario("decrement", "3 callers, 1 bucket of 1 that is seen full", view{1, 1, 1, 0}, view{1, 1, 1, 0}, view{1, 1, 1, 0}),
		limiterScenario("notification", "3 callers of different views and weights", view{1, 1, 1, 0}, view{2, 1, 2, 0}, view{1, 3, 1, 0}),
	}
}
