package explore

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// canal_lock in a few pages: counters in a table whose every operation is atomic, callers
// that acquire and release by several of them, and a manager that is told of it by message
// and releases for callers that have died.

// canalTries is how often a counter that stands at its limit is decremented by one,
// before it is decremented by two (MAX_DECR_TRIES).
const canalTries = 15

// canalName is the key of the lock.
const canalName = "lock"

// tables are the manager's two tables: counters, one a bucket, and `highest`; and the
// callers that it monitors.
type tables struct {
	limit     int
	counters  []int
	highest   int // 0 if there is no such entry
	monitored string
}

// The operations; those on a counter carry its bucket in their key.
const (
	canalUp      = "+1" // to limit + 1 at most
	canalDown    = "-1"
	canalDown2   = "-2"
	canalMend    = "+1 up to 0"
	canalHighest = "highest"
	canalManager = "manager"
)

// Choices implements Store.
func (c *tables) Choices(*core.Action, bool) int { return 1 }

// Apply implements Store.
func (c *tables) Apply(_ int64, a *core.Action, _ int) (Store, core.Event) {
	reply := core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeYes}
	next := &tables{c.limit, slices.Clone(c.counters), c.highest, c.monitored}
	body := string(a.Body)
	switch {
	case a.Key == canalHighest && a.Kind == core.ActionGet:
		if c.highest == 0 {
			reply.Outcome = core.OutcomeNo
		}
		reply.Body = strconv.AppendInt(nil, int64(c.highest), 10)
	case a.Key == canalHighest:
		next.highest = numberIn(body)
	case a.Key == canalManager:
		who, gone := strings.CutPrefix(body, "-")
		next.monitored = strings.ReplaceAll(c.monitored, who, "")
		if !gone {
			next.monitored += who
		}
	default:
		next.count(numberIn(a.Key), a, &reply)
	}
	return next, reply
}

// count does an operation on one counter, and answers with the counter's new value.
func (c *tables) count(bucket int, a *core.Action, reply *core.Event) {
	there := bucket <= len(c.counters)
	if a.Kind == core.ActionCreate {
		if there {
			reply.Outcome = core.OutcomeNo
			return
		}
		c.counters = append(c.counters, 1)
		return
	}
	if !there {
		reply.Outcome = core.OutcomeNo
		return
	}
	v := &c.counters[bucket-1]
	switch string(a.Body) {
	case canalUp:
		*v = min(*v+1, c.limit+1)
	case canalDown:
		*v--
	case canalDown2:
		*v -= 2
	case canalMend:
		*v = min(*v+1, 0)
	}
	reply.Body = strconv.AppendInt(nil, int64(*v), 10)
}

func numberIn(s string) int {
	n, _ := strconv.Atoi(s) // all that is in there was written by us
	return n
}

// AppendState implements Store.
func (c *tables) AppendState(dst []byte) []byte {
	for _, v := range c.counters {
		dst = append(dst, byte(v))
	}
	return append(append(dst, 255, byte(c.highest)), c.monitored...)
}

// canal is a caller, or the manager on behalf of one that has died.
type canal struct {
	asking
	actor    string
	number   uint64
	limit    int
	width    int
	bucket   int
	tries    int
	isHeld   bool
	notified bool // the manager has heard of it
	manager  bool
	again    int // tries that are left; if it finds no room, it asks again at once
}

const (
	canalIdle      = "idle"
	canalAcquiring = "acquiring"
	canalCreating  = "creating"
	canalMarking   = "marking"
	canalTelling   = "telling"
	canalHeld      = "held"
	canalLooking   = "looking"
	canalDropping  = "dropping"
	canalDropping2 = "dropping two"
	canalMending   = "mending"
	canalReporting = "reporting"
	canalOut       = "out of buckets"
)

// Step implements Program.
func (c *canal) Step(_ core.Instant, ev core.Event) ([]core.Action, error) {
	switch {
	case ev.Kind == core.EventAcquire:
		c.bucket = 1
		return c.up(), nil
	case ev.Kind == core.EventRelease && c.manager:
		c.number = ev.Permit
		return c.ask(canalReporting, core.ActionPut, canalManager, "-"+string(ev.Label)), nil
	case ev.Kind == core.EventRelease:
		c.isHeld = false
		return c.ask(canalLooking, core.ActionGet, canalHighest, ""), nil
	case ev.Kind == core.EventAnswer && ev.Request == c.issued:
		return c.answered(&ev), nil
	}
	return nil, nil
}

func (c *canal) onBucket(state string, verb core.ActionKind, body string) []core.Action {
	return c.ask(state, verb, strconv.Itoa(c.bucket), body)
}

func (c *canal) up() []core.Action { return c.onBucket(canalAcquiring, core.ActionPut, canalUp) }

func (c *canal) answered(ev *core.Event) []core.Action {
	yes, v := ev.Outcome == core.OutcomeYes, numberIn(string(ev.Body))
	switch c.state {
	case canalAcquiring:
		switch {
		case !yes:
			return c.onBucket(canalCreating, core.ActionCreate, "")
		case v <= c.limit:
			return c.acquired()
		case c.bucket < c.width:
			c.bucket++
			return c.up()
		case c.again > 0:
			c.again--
			c.bucket = 1
			return c.up()
		}
		return c.end(workerMoved, core.Action{Kind: core.ActionRefused, Reason: core.ReasonFull})
	case canalCreating:
		if !yes { // another has created it: begin again on that bucket
			return c.up()
		}
		return c.ask(canalMarking, core.ActionPut, canalHighest, strconv.Itoa(c.bucket))
	case canalMarking:
		return c.acquired()
	case canalTelling:
		c.notified = true
		return c.end(canalHeld)
	}
	return c.dropped(yes, v)
}

// acquired: the caller holds a permit, and sends the manager a message.
func (c *canal) acquired() []core.Action {
	c.isHeld = true
	return append([]core.Action{{Kind: core.ActionHeld, Permit: c.number}}, c.ask(canalTelling, core.ActionPut, canalManager, c.actor)...)
}

// dropped goes on with a release.
func (c *canal) dropped(yes bool, v int) []core.Action {
	switch c.state {
	case canalLooking:
		if !yes {
			return c.end(canalOut, core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable})
		}
		c.bucket = v
		return c.onBucket(canalDropping, core.ActionPut, canalDown)
	case canalDropping:
		switch {
		case v < 0:
			return c.onBucket(canalMending, core.ActionPut, canalMend)
		case v < c.limit:
			return c.report()
		case c.tries < canalTries:
			c.tries++
			return c.onBucket(canalDropping, core.ActionPut, canalDown)
		}
		return c.onBucket(canalDropping2, core.ActionPut, canalDown2)
	case canalMending:
		if c.bucket--; c.bucket == 0 {
			return c.end(canalOut, core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable})
		}
		return c.onBucket(canalDropping, core.ActionPut, canalDown)
	case canalDropping2:
		return c.report()
	case canalReporting:
		if c.manager && c.bucket == 0 {
			return c.ask(canalLooking, core.ActionGet, canalHighest, "")
		}
		return c.end(workerDone, core.Action{Kind: core.ActionReleased})
	}
	return nil
}

// report tells the manager that the caller has released.
func (c *canal) report() []core.Action {
	if c.manager {
		return c.end(workerDone, core.Action{Kind: core.ActionReleased})
	}
	return c.ask(canalReporting, core.ActionPut, canalManager, "-"+c.actor)
}

// Permits implements permitted.
func (c *canal) Permits() []check.Permit {
	if !c.isHeld {
		return nil
	}
	return []check.Permit{{
		Actor: c.actor, Name: canalName, Number: c.number, Weight: 1, Most: uint64(c.limit * c.width), Until: noWake, Told: true,
	}}
}

// Claims implements Program.
func (c *canal) Claims() []check.Claim {
	if !c.isHeld {
		return nil
	}
	return []check.Claim{{Actor: c.actor, Name: canalName, Tenure: c.actor, Until: noWake}}
}

// Idle implements Program.
func (c *canal) Idle() bool {
	switch c.state {
	case canalIdle, canalHeld, workerMoved, workerDone, canalOut:
		return true
	}
	return false
}

// AppendState implements Program.
func (c *canal) AppendState(dst []byte) []byte {
	flags := byte(0)
	if c.isHeld {
		flags = 1
	}
	if c.notified {
		flags |= 2
	}
	return append(append(dst, c.state...), 0, byte(c.issued), byte(c.bucket), byte(c.tries), byte(c.again), flags)
}

// Copy implements Program.
func (c *canal) Copy() Program { twin := *c; return &twin }

// canalWorld is callers of one lock; a holder may release, if gives says so.
type canalWorld struct {
	limit, width int
	sc           *Scenario
}

func newCanalWorld(name, about string, limit, width int) *canalWorld {
	return &canalWorld{limit, width, &Scenario{
		Name: "canal-" + name, About: about, Store: &tables{limit: limit}, Tick: second, OutOfOrder: true,
		Shared: true, Prompt: true, Words: canalWords{},
	}}
}

// caller adds a caller that acquires once and tries again that often, and may release
// what it holds.
func (k *canalWorld) caller(again int, gives bool) *canalWorld {
	name := "caller " + string(rune('A'+len(k.sc.Actors)))
	a := Actor{
		Name: name,
		Start: func() (Program, error) {
			return &canal{asking: asking{state: canalIdle}, actor: name, number: 1, limit: k.limit, width: k.width, again: again}, nil
		},
		Tell: []Command{{Event: core.Event{Kind: core.EventAcquire}}},
	}
	if gives {
		a.Tell = append(a.Tell, Command{Event: core.Event{Kind: core.EventRelease}, Words: name + " releases", In: canalHeld})
	}
	k.sc.Actors = append(k.sc.Actors, a)
	return k
}

// watched adds the manager, which gets a message when a caller dies that it monitors.
func (k *canalWorld) watched() *canalWorld {
	a := Actor{
		Name: "the manager", Flawless: true,
		Start: func() (Program, error) {
			return &canal{asking: asking{state: canalIdle}, actor: "the manager", limit: k.limit, width: k.width, manager: true}, nil
		},
	}
	for i := range k.sc.Actors {
		name := k.sc.Actors[i].Name
		a.Tell = append(a.Tell, Command{
			Event: core.Event{Kind: core.EventRelease, Label: []byte(name)}, Words: "the manager hears that " + name + " is down",
			In: canalIdle, Died: name, When: func(s Store) bool { return strings.Contains(s.(*tables).monitored, name) },
		})
	}
	k.sc.Actors = append(k.sc.Actors, a)
	return k
}

// counted is NothingLeaks: a permit that no caller holds any more is not counted.
func counted(s Store, held int) *check.Violation {
	c := s.(*tables)
	sum := 0
	for _, v := range c.counters {
		sum += min(v, c.limit)
	}
	if sum <= held {
		return nil
	}
	return &check.Violation{
		Checker: check.NothingLeaks,
		Text:    strconv.Itoa(sum) + " are counted and " + strconv.Itoa(held) + " are held, and no caller is at work: they are lost forever",
	}
}

// canalScenarios are the three races, two of them in two forms.
func canalScenarios() []*Scenario {
	return []*Scenario{canalHighestLate(), canalHighestBack(), canalDecrement(), canalNotice(), canalUnlock()}
}

// canalHighestLate: `highest` is written after the bucket that it counts.
func canalHighestLate() *Scenario {
	sc := newCanalWorld("highest", "2 callers, 1 bucket of 2, nobody dies: `highest` is written after its bucket", 2, 1).
		caller(0, false).caller(0, true).sc
	sc.Left = counted
	return sc
}

// canalHighestBack: two callers write it, and the one that created the bucket before comes later.
func canalHighestBack() *Scenario {
	sc := newCanalWorld("highest-back", "2 callers, 2 buckets of 1, nobody dies: `highest` is written after another's greater one", 1, 2).
		caller(0, true).caller(0, true).sc
	sc.Left = counted
	return sc
}

// canalDecrement: after some tries a full counter is decremented by two at once.
func canalDecrement() *Scenario {
	return newCanalWorld("decrement", "3 callers, 1 bucket of 1, nobody dies: one releases while another asks again and again", 1, 1).
		caller(0, true).caller(canalTries+2, false).caller(0, false).sc
}

// canalNotice: a caller that has acquired tells the manager afterwards, and may die before.
func canalNotice() *Scenario {
	sc := newCanalWorld("notification", "2 callers, 1 bucket of 1; one may die at any point, before the manager has heard of it", 1, 1).
		caller(0, true).caller(0, true).watched().sc
	sc.Crashes, sc.Left = 1, counted
	return sc
}

// canalUnlock: a caller that has released also tells the manager afterwards.
func canalUnlock() *Scenario {
	sc := newCanalWorld("unlock", "3 callers, 1 bucket of 1; one may die when it has released and the manager has not heard of that", 1, 1).
		caller(0, true).caller(0, false).caller(0, false).watched().sc
	sc.Crashes = 1
	return sc
}
