package core

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// strictTable is an exploration of strict's machines: what was met, and what
// came of it.
type strictTable struct {
	t     *testing.T
	world *world
	rows  map[string]string
	todo  []Machine
}

// A saying is one thing that can be saying to a strict machine, in whatever state.
type saying struct {
	name  string
	later func(*machine) int64
	event func(Machine) Event
}

const tableTTL = 20 * time.Second

// TestStrictTable is TestTable for strict's machines, in testdata/table_strict.txt.
func TestStrictTable(t *testing.T) {
	var got bytes.Buffer
	exploreStrict(t, func(tb *strictTable) {
		for _, label := range slices.Sorted(maps.Keys(tb.rows)) {
			got.WriteString(label + "\n" + tb.rows[label] + "\n")
		}
	})
	golden(t, "testdata/table_strict.txt", got.Bytes())
}

// exploreStrict explores from each start and shows what was found.
func exploreStrict(t *testing.T, show func(*strictTable)) {
	for _, start := range strictStarts() {
		tb := &strictTable{t: t, world: newWorld(t), rows: map[string]string{}}
		tb.explore(start)
		show(tb)
	}
}

func strictStarts() []tableStart {
	cfg := Config{Protocol: ProtocolStrict, Name: "n", TTL: tableTTL, Seed: [16]byte{1}, Machine: MachineLease, Boot: "b1"}
	with := func(name string, change func(*Config)) tableStart {
		c := cfg
		change(&c)
		return tableStart{"strict " + name, c}
	}
	return []tableStart{
		with("lease", func(*Config) {}),
		with("lease, printed", func(c *Config) { c.Holder, c.Epoch = "h", 1 }),
		with("lease on a session", func(c *Config) { c.OnSession = true }),
		with("lease without ttl", func(c *Config) { c.TTL = None }),
		with("companion", func(c *Config) { c.Machine, c.Holder, c.Epoch = MachineCompanion, "h", 1 }),
		with("session", func(c *Config) { c.Machine = MachineSession }),
		with("breaker", func(c *Config) { c.Machine, c.Why = MachineBreaker, "stuck" }),
		with("observer", func(c *Config) { c.Machine = MachineObserver }),
		with("calibration", func(c *Config) { c.Machine = MachineCalibration }),
		with("semaphore", func(c *Config) { c.Machine = MachineSemaphore }),
	}
}

func (tb *strictTable) explore(start tableStart) {
	m, err := New(start.cfg)
	if err != nil {
		tb.t.Fatal(err)
	}
	if _, err := m.Step(Instant{1, worldStart}, Event{Kind: EventChanged}); err != nil {
		tb.t.Fatal(err)
	}
	head := start.name + ": "
	tb.meet(head, m)
	for len(tb.todo) > 0 {
		m := tb.todo[0]
		tb.todo = tb.todo[1:]
		tb.rows[head+strictLabel(m)] = tb.row(head, m)
	}
}

func (tb *strictTable) meet(head string, m Machine) {
	if _, met := tb.rows[head+strictLabel(m)]; !met {
		tb.rows[head+strictLabel(m)] = ""
		tb.todo = append(tb.todo, m)
	}
}

func (tb *strictTable) row(head string, m Machine) string {
	results := map[string][]string{}
	var order []string
	for _, s := range sayings(m) {
		result := tb.try(head, m.Clone(), s)
		if results[result] == nil {
			order = append(order, result)
		}
		results[result] = append(results[result], s.name)
	}
	var out strings.Builder
	for _, result := range order {
		fmt.Fprintf(&out, "    %s: %s\n", result, strings.Join(results[result], ", "))
	}
	return out.String()
}

func (tb *strictTable) try(head string, m Machine, s saying) string {
	k, before, from := baseOf(m), m.AppendState(nil), m.String()
	now, later := k.now, s.later(k)
	now.Mono, now.Wall = now.Mono+later, now.Wall+later
	twin := m.Clone()
	actions, err := m.Step(now, s.event(m))
	if err != nil {
		if !bytes.Equal(before, m.AppendState(nil)) {
			tb.t.Errorf("%s%s: %s: the error changed it", head, strictLabel(m), s.name)
		}
		return "error " + err.(*Error).Code.String()
	}
	if len(actions) > MaxActions {
		tb.t.Errorf("%s%s: %s: %d actions", head, strictLabel(m), s.name, len(actions))
	}
	tb.world.noteEdge(m, from)
	result := strictOutcome(tb.world, from, m, actions)
	tb.meet(head, m)
	if baseOf(twin).now = now; bytes.Equal(twin.AppendState(nil), m.AppendState(nil)) && result == "" {
		return "ignored"
	}
	return strings.TrimSpace("does " + result)
}

// strictOutcome is where the machine went and what it did, wakes aside.
func strictOutcome(w *world, from string, m Machine, actions []Action) string {
	var parts []string
	if to := m.String(); to != from {
		parts = append(parts, "-> "+to)
	}
	for _, a := range actions {
		text := a.Kind.String()
		switch {
		case a.Kind == ActionWake:
			continue
		case a.Kind <= ActionDelete:
			text += " " + what(w, a.Key)
		case a.Reason != ReasonNone:
			text += " " + a.Reason.String()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// what is the sort of thing that a key is of.
func what(w *world, key string) string {
	text := w.formatKey(key)
	switch {
	case strings.Contains(text, "/b."):
		return "beat"
	case strings.HasSuffix(text, "#"):
		return "name"
	case strings.Contains(text, "#"):
		return "version"
	case strings.HasSuffix(text, "/call/"):
		return "calls"
	case strings.Contains(text, "/call/"):
		return "call"
	case strings.HasPrefix(text, "s/"):
		return "session"
	}
	return "object"
}

// strictLabel is the state with all that changes what an event means in it.
func strictLabel(m Machine) string {
	var out line
	k := baseOf(m)
	out.WriteString(m.String())
	if k.flight.id != 0 {
		out.WriteString(" " + k.flight.verb.String())
	}
	out.flag("next", k.timers[timerNext] != unset)
	switch m := m.(type) {
	case *StrictLease:
		labelRegister(&out, &m.register)
		out.flag("patient", !m.lastTry && m.state < LeaseHeld)
		out.flag("answered", m.answered && m.state == LeaseObserving)
		out.flag("wants", m.wants)
		out.flag("checking", m.checking)
		out.flag("tidying", m.flight.id != 0 && m.tidying())
		out.flag("shutting", m.closing != 0 && m.state == LeaseReleasing)
		out.flag("raced", m.ending == endRaced && m.state == LeaseReleasing)
		out.flag("cancelled", m.ending == endCancelled && m.state == LeaseReleasing)
		out.flag("failing", m.failing && m.state == LeaseHeld)
	case *StrictCompanion:
		labelRegister(&out, &m.register)
		out.flag("rejoin", m.rejoin && m.state != CompanionJoined)
	case *Breaker:
		labelRegister(&out, &m.register)
	case *Observer:
		labelRegister(&out, &m.register)
	case *Semaphore:
		labelSemaphore(&out, m)
	case *Session:
		if m.flight.id != 0 {
			fmt.Fprintf(&out, " for=%d", m.doing)
		}
		out.flag("failing", m.failing)
		out.flag("calls", len(m.calls) > 0)
	}
	return out.String()
}

// purposes name what a request is for, as far as answers to it differ.
var purposes = map[purpose]string{
	forList: "list", forVersion: "version", forNext: "next", forSession: "session", forBeat: "beat", forCalls: "calls",
	forCall: "call", forNewCall: "new-call", forSelf: "self", forBeating: "beating", forCreate: "create",
	forReadBack: "read-back", forConfirm: "confirm", forGarbage: "garbage", forGarbageAge: "garbage-age", forDelete: "delete",
}

func labelRegister(out *line, r *register) {
	if r.flight.id != 0 {
		out.WriteString(" for " + purposes[r.doing])
	}
	if r.cur.n != 0 {
		out.WriteString(" of " + r.cur.state.String())
	}
}

// sayings is everything that can be saying; without a request in flight all
// answers are one.
func sayings(m Machine) []saying {
	at := func(d time.Duration) func(*machine) int64 { return func(*machine) int64 { return int64(d) } }
	say := func(name string, ev Event) saying {
		return saying{name, at(0), func(m Machine) Event { return withSession(m, ev) }}
	}
	var all []saying
	for kind := EventAcquire; kind <= EventDown; kind++ {
		if kind != EventAnswer {
			all = append(all, say(kind.String(), Event{Kind: kind, Epoch: 1 << 20}))
		}
	}
	all = append(all,
		say("patiently", Event{Kind: EventAcquire, Wait: Forever}),
		say("nothing", Event{}),
		say("answer to none", Event{Kind: EventAnswer, Request: 1 << 40, Outcome: OutcomeYes}),
		saying{"woke in time", toWake, func(m Machine) Event { return withSession(m, Event{Kind: EventWoke}) }},
		saying{"woke late", at(tableTTL), func(m Machine) Event { return withSession(m, Event{Kind: EventWoke}) }},
	)
	if onSession(m) {
		all = append(all, saying{"session lost", at(0), func(Machine) Event {
			return Event{Kind: EventWoke, SessionEnd: ReasonExpired}
		}})
	}
	if s, ok := m.(*Semaphore); ok {
		all = append(all, permitSayings(s)...)
	}
	if baseOf(m).flight.id == 0 {
		return append(all, saying{"any answer", at(0), strictReplies(m)[0].event})
	}
	for _, s := range strictReplies(m) {
		s.later = at(10 * time.Millisecond)
		all = append(all, s)
		s.name, s.later = s.name+" late", at(tableTTL)
		all = append(all, s)
	}
	return all
}

func onSession(m Machine) bool { return baseOf(m).cfg.OnSession }

// withSession adds what the host of a lease on a session says with each event.
func withSession(m Machine, ev Event) Event {
	if onSession(m) {
		ev.Session, ev.SessionUntil = []byte("sid"), worldStart
	}
	return ev
}

func toWake(k *machine) int64 {
	if at := k.timers.earliest(); at != unset {
		return max(0, at-k.now.Mono)
	}
	return 0
}
