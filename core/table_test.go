package core

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A stimulus is one thing that can be said to a machine, in whatever state.
type stimulus struct {
	name  string
	after func(*Lease, *Companion, *tenure) int64 // how much later it is said
	event func(*tenure) Event
}

// TestTable tries every event and every kind of answer in every state and
// sub-phase that can be reached from Idle by them, and holds what comes of it
// against testdata/table.txt: each pair is an edge, an action, ignored or an
// error, and none is a panic.
func TestTable(t *testing.T) {
	var got bytes.Buffer
	for _, start := range tableStarts() {
		tb := &table{t: t, world: newWorld(t), rows: map[string]string{}}
		tb.explore(start)
		fmt.Fprintf(&got, "%s\n\n", start)
		for _, label := range slices.Sorted(maps.Keys(tb.rows)) {
			got.WriteString(label + "\n" + tb.rows[label] + "\n")
		}
	}
	golden(t, "testdata/table.txt", got.Bytes())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what happens now: look at the difference, then run with -update", path)
		reportDifference(t, string(want), string(got))
	}
}

func reportDifference(t *testing.T, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			t.Errorf("line %d:\nwant %s\ngot  %s", i+1, wants[i], gots[i])
			return
		}
	}
	t.Errorf("%d lines, want %d", len(gots), len(wants))
}

// tableStart is a machine to begin with.
type tableStart struct {
	name string
	cfg  Config
}

func (s tableStart) String() string { return "== " + s.name }

func tableStarts() []tableStart {
	cfg := Config{Protocol: ProtocolLastWriter, Name: "n", TTL: 20 * time.Second, Seed: [16]byte{1}}
	with := func(name string, change func(*Config)) tableStart {
		c := cfg
		change(&c)
		return tableStart{name, c}
	}
	return []tableStart{
		with("lease", func(c *Config) { c.Machine = MachineLease }),
		with("lease, printed", func(c *Config) { c.Machine, c.Holder = MachineLease, "h" }),
		with("lease, blind", func(c *Config) { c.Machine, c.Renewal = MachineLease, RenewalBlind }),
		with("companion", func(c *Config) { c.Machine, c.Holder = MachineCompanion, "h" }),
	}
}

// table is an exploration: what was met, and what came of it.
type table struct {
	t     *testing.T
	world *world
	rows  map[string]string
	todo  []Machine
}

func (tb *table) explore(start tableStart) {
	m, err := New(start.cfg)
	if err != nil {
		tb.t.Fatal(err)
	}
	if _, err := m.Step(Instant{0, worldStart}, Event{Kind: EventChanged}); err != nil {
		tb.t.Fatal(err)
	}
	tb.meet(m)
	for len(tb.todo) > 0 {
		m := tb.todo[0]
		tb.todo = tb.todo[1:]
		tb.rows[label(m)] = tb.row(m)
	}
}

func (tb *table) meet(m Machine) {
	if _, met := tb.rows[label(m)]; !met {
		tb.rows[label(m)] = ""
		tb.todo = append(tb.todo, m)
	}
}

// row says what each stimulus does to a machine like m.
func (tb *table) row(m Machine) string {
	results := map[string][]string{}
	var order []string
	for _, s := range stimuli(tenureOf(m).flight.id != 0) {
		result := tb.try(m.Clone(), s)
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

// try gives m a stimulus and says what came of it.
func (tb *table) try(m Machine, s stimulus) string {
	k, before, from := tenureOf(m), m.AppendState(nil), m.String()
	l, _ := m.(*Lease)
	c, _ := m.(*Companion)
	now := Instant{k.now.Mono, k.now.Wall}
	later := s.after(l, c, k)
	now.Mono, now.Wall = now.Mono+later, now.Wall+later
	twin := m.Clone()
	actions, err := m.Step(now, s.event(k))
	if err != nil {
		if !bytes.Equal(before, m.AppendState(nil)) {
			tb.t.Errorf("%s: %s: the error changed it", label(m), s.name)
		}
		return "error " + err.(*Error).Code.String()
	}
	tb.world.noteEdge(m, from)
	result := outcomeText(from, m, actions)
	tb.meet(m)
	if tenureOf(twin).now = now; bytes.Equal(twin.AppendState(nil), m.AppendState(nil)) && result == "" {
		return "ignored"
	}
	return strings.TrimSpace("does " + result)
}

// outcomeText is where the machine went and what it did, wakes aside.
func outcomeText(from string, m Machine, actions []Action) string {
	var parts []string
	if to := m.String(); to != from {
		parts = append(parts, "-> "+to)
	}
	for _, a := range actions {
		if a.Kind == ActionWake {
			continue
		}
		text := a.Kind.String()
		if a.Reason != ReasonNone {
			text += " " + a.Reason.String()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// label is the state with all that changes what an event means in it.
func label(m Machine) string {
	k := tenureOf(m)
	var out line
	out.WriteString(m.String())
	if k.flight.id != 0 {
		out.WriteString(" " + k.flight.verb.String())
	}
	out.flag("next", k.timers[timerNext] != unset)
	out.flag("failing", k.failing && k.timers[timerDeadline] != unset)
	switch m := m.(type) {
	case *Lease:
		out.flag("patient", !m.lastTry && m.state < LeaseHeld)
		out.flag("answered", m.answered && m.state == LeaseObserving)
		out.flag("confirming", m.confirming && (m.state == LeaseClaiming || m.state == LeaseDoubtful))
		out.flag("expired-twice", m.rounds == RewriteRounds-1)
		out.flag("looking", m.looking)
		out.flag("settling", m.settling)
		out.flag("doubts", m.doubts > 0 && m.state == LeaseReleasing && m.ending == endReleased)
		out.flag("raced", m.ending == endRaced && m.state == LeaseReleasing)
		out.flag("cancelled", m.ending == endCancelled && m.state == LeaseReleasing)
	case *Companion:
		out.flag("rejoin", m.rejoin && m.state != CompanionJoined)
		out.flag("rival", m.rivalSince != unset)
	}
	return out.String()
}

// stimuli is everything that can be said; without a request in flight all
// answers are one.
func stimuli(flying bool) []stimulus {
	at := func(d time.Duration) func(*Lease, *Companion, *tenure) int64 {
		return func(*Lease, *Companion, *tenure) int64 { return int64(d) }
	}
	command := func(name string, ev Event) stimulus {
		return stimulus{name, at(0), func(*tenure) Event { return ev }}
	}
	all := []stimulus{
		command("acquire", Event{Kind: EventAcquire, Wait: Forever}),
		command("try", Event{Kind: EventAcquire}),
		command("accompany", Event{Kind: EventAccompany}),
		command("release", Event{Kind: EventRelease}),
		command("release brief", Event{Kind: EventRelease, Brief: true}),
		command("cancel", Event{Kind: EventCancel}),
		command("leave", Event{Kind: EventLeave}),
		command("changed", Event{Kind: EventChanged}),
		command("woke early", Event{Kind: EventWoke}),
		command("limit", Event{Kind: EventLimit, Permit: 1}),
		command("down", Event{Kind: EventDown, Holder: []byte("h")}),
		command("nothing", Event{}),
		command("answer to none", Event{Kind: EventAnswer, Request: 1 << 40, Outcome: OutcomeYes}),
		{"woke", untilWake, func(*tenure) Event { return Event{Kind: EventWoke} }},
		{"woke late", at(20 * time.Second), func(*tenure) Event { return Event{Kind: EventWoke} }},
		{"old answer", at(0), func(k *tenure) Event { return Event{Kind: EventAnswer, Request: k.issued - 1, Outcome: OutcomeYes} }},
	}
	if !flying {
		return append(all, stimulus{"any answer", at(0), answers()[0].event})
	}
	for _, a := range answers() {
		all = append(all, stimulus{a.name, at(10 * time.Millisecond), a.event},
			stimulus{a.name + " late", at(20 * time.Second), a.event})
	}
	return all
}

func untilWake(_ *Lease, _ *Companion, k *tenure) int64 {
	if at := k.timers.earliest(); at != unset {
		return max(0, at-k.now.Mono)
	}
	return 0
}

// answers is every answer that can be given to the request in flight.
func answers() []stimulus {
	reply := func(name string, ev Event) stimulus {
		return stimulus{name: name, event: func(k *tenure) Event {
			ev.Kind, ev.Request = EventAnswer, k.flight.id
			return ev
		}}
	}
	record := func(name string, make func(*tenure) ownRecord) stimulus {
		return stimulus{name: name, event: func(k *tenure) Event {
			own := make(k)
			own.ttl, own.count = 20*time.Second, 1000
			return Event{Kind: EventAnswer, Request: k.flight.id, Outcome: OutcomeYes, Body: appendRecord(nil, &own)}
		}}
	}
	return []stimulus{
		{name: "last put", event: func(k *tenure) Event {
			return Event{Kind: EventAnswer, Request: k.flight.id, Outcome: OutcomeYes, Body: k.body}
		}},
		record("ours", func(k *tenure) ownRecord {
			return ownRecord{holder: k.holder, writtenAt: k.now.Wall, acquiredAt: worldStart}
		}),
		record("ours stale", func(k *tenure) ownRecord {
			return ownRecord{holder: k.holder, writtenAt: k.now.Wall - 1e12, acquiredAt: worldStart}
		}),
		record("ours unconfirmed", func(k *tenure) ownRecord { return ownRecord{holder: k.holder, writtenAt: k.now.Wall} }),
		record("ours released", func(k *tenure) ownRecord {
			return ownRecord{holder: k.holder, releasedAt: k.now.Wall, acquiredAt: worldStart}
		}),
		record("other's", func(k *tenure) ownRecord {
			return ownRecord{holder: "x", writtenAt: k.now.Wall, acquiredAt: worldStart}
		}),
		record("other's claim", func(k *tenure) ownRecord { return ownRecord{holder: "x", writtenAt: k.now.Wall} }),
		record("other's stale", func(k *tenure) ownRecord { return ownRecord{holder: "x", writtenAt: k.now.Wall - 1e12} }),
		record("other's released", func(k *tenure) ownRecord { return ownRecord{holder: "x", releasedAt: k.now.Wall} }),
		reply("empty", Event{Outcome: OutcomeYes}),
		reply("corrupt", Event{Outcome: OutcomeYes, Body: []byte("{")}),
		reply("no", Event{Outcome: OutcomeNo}),
		reply("unknown", Event{Outcome: OutcomeUnknown, Class: ClassUnreachable}),
		reply("unauthorized", Event{Outcome: OutcomeUnknown, Class: ClassUnauthorized}),
		reply("no outcome", Event{}),
		reply("odd class", Event{Outcome: OutcomeUnknown, Class: ClassFull + 1}),
		reply("odd stamp", Event{Outcome: OutcomeYes, Stamp: MaxClockRange + 1}),
	}
}

// TestEdges: the scripts and the table together make every move that the edge
// tables allow, and no other.
func TestEdges(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range scripts(t) {
		maps.Copy(seen, play(t, path).edges)
	}
	for _, start := range tableStarts() {
		tb := &table{t: t, world: newWorld(t), rows: map[string]string{}}
		tb.explore(start)
		maps.Copy(seen, tb.world.edges)
	}
	exploreStrict(t, func(tb *strictTable) { maps.Copy(seen, tb.world.edges) })
	checkEdges(t, "lease", leaseEdges[:], seen)
	checkEdges(t, "companion", companionEdges[:], seen)
	checkEdges(t, "strict_lease", strictLeaseEdges[:], seen)
	checkEdges(t, "strict_companion", strictCompanionEdges[:], seen)
	checkEdges(t, "semaphore", semaphoreEdges[:], seen)
	checkEdges(t, "session", sessionEdges[:], seen)
	checkEdges(t, "invocation", invocationEdges[:], seen)
	checkEdges(t, "task", taskEdges[:], seen)
}

// checkEdges: a Step may go along two edges, through a state that it does not
// stay in; so what was seen must be one edge or two, and each edge must be seen,
// by itself or as half of a move that nothing else explains. An edge that only a
// deliberate bug takes is never seen.
func checkEdges[S interface {
	~uint8
	String() string
}](t *testing.T, machine string, edges []edge[S], seen map[string]bool) {
	name := func(from, to S) string { return machine + " " + from.String() + " -> " + to.String() }
	allowed, halves := map[string]bool{}, map[string]bool{}
	for _, a := range edges {
		for _, b := range edges {
			if direct := slices.ContainsFunc(edges, func(c edge[S]) bool { return c.from == a.from && c.to == b.to }); a.to == b.from &&
				!direct && seen[name(a.from, b.to)] {
				halves[name(a.from, a.to)], halves[name(b.from, b.to)] = true, true
			}
		}
	}
	for i, a := range edges {
		whole := seen[name(a.from, a.to)]
		if strings.HasPrefix(a.why, "never ") {
			if whole {
				t.Errorf("seen: %s (%s)", name(a.from, a.to), a.why)
			}
		} else if !whole && !halves[name(a.from, a.to)] {
			t.Errorf("never seen: %s (%s)", name(a.from, a.to), a.why)
		}
		if slices.ContainsFunc(edges[:i], func(b edge[S]) bool { return a.from == b.from && a.to == b.to }) {
			t.Errorf("twice in the table: %s", name(a.from, a.to))
		}
		allowed[name(a.from, a.to)] = true
		for _, b := range edges {
			if b.from == a.to {
				allowed[name(a.from, b.to)] = true
			}
		}
	}
	for move := range seen {
		if strings.HasPrefix(move, machine+" ") && !allowed[move] {
			t.Errorf("not in the table: %s", move)
		}
	}
}
