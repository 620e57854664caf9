package machines

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestTable tries every event and every kind of answer in every state and sub-phase
// that can be reached by them, and holds what comes of it against testdata/table: each
// is a move, an action, remembered, ignored or an error, and none is a panic.
//
// There is a file for each state of each machine. It begins with what each event does in
// that state, as a rule; one that is not there is an error that changes nothing. Then come
// the sub-phases, those in which the same happens together, each with the machines that
// come to be in it if not all of them do; and below them what differs from the rule, and
// what each answer does.
//
//	release, cancel: -> releasing, create version    it moves, and asks for that
//	called: remembered                               nothing is seen of it now
//	changed, woke: ignored                           it is as it was
//	yes late: ...                                    the answer comes a ttl later; "in time": only if not
//	17 other answers: ...                            of every kind that is not named
//
// After a change of a rule write what it changes, and look at that:
//
//	go test ./core -run TestTable -update && git diff core/testdata/table
func TestTable(t *testing.T) {
	tables, problems := explored()
	for _, problem := range problems {
		t.Error(problem)
	}
	files := map[string][]byte{}
	for file, sections := range sectionsOf(tables) {
		files[file] = []byte(sections.text())
	}
	goldens(t, "../testdata/table", files)
}

// goldens holds a tree of files against what they are to be.
func goldens(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	there, err := filepath.Glob(dir + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if name, _ := filepath.Rel(dir, path); files[filepath.ToSlash(name)] == nil {
			t.Errorf("%s stands for nothing any more: run with -update", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, path, files[name])
	}
}

// golden holds a file against what it is to be.
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
	if bytes.Equal(got, want) {
		return
	}
	t.Errorf("%s is not what happens now: look at the difference, then run with -update", path)
	wants, gots := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			t.Fatalf("line %d:\nwant %.999s\ngot  %.999s", i+1, wants[i], gots[i])
		}
	}
	t.Fatalf("%d lines, want %d", len(gots), len(wants))
}

// A table is the exploration of one machine from its beginning: the row of every
// sub-phase that was met.
type table struct {
	start    tableStart
	world    *world
	rows     map[string]row
	todo     []core.Machine
	problems []string
}

// A row is what came of each saying in one sub-phase.
type row struct {
	state string
	came  []outcome
}

// An outcome is what came of one saying; of an answer also what it is if it comes late.
type outcome struct {
	saying, came, late string
	answer             bool
}

// tableStart is a machine to begin with.
type tableStart struct {
	machine, variant string
	cfg              core.Config
}

const tableTTL = 20 * time.Second

func tableStarts() []tableStart {
	cfg := core.Config{Terms: core.Terms{
		Protocol: core.ProtocolLastWriter, Name: "n", TTL: core.TTL(tableTTL),
	}, Seed: [16]byte{1}, Machine: core.MachineLease}
	with := func(machine, variant string, change func(*core.Config)) tableStart {
		c := cfg
		change(&c)
		return tableStart{machine, variant, c}
	}
	return append([]tableStart{
		with("lease", "plain", func(*core.Config) {}),
		with("lease", "printed", func(c *core.Config) { c.Holder = "h" }),
		with("lease", "blind", func(c *core.Config) { c.Renewal = core.RenewalBlind }),
		with("companion", "plain", func(c *core.Config) { c.Machine, c.Holder = core.MachineCompanion, "h" }),
	}, strictStarts()...)
}

func strictStarts() []tableStart {
	cfg := core.Config{Terms: core.Terms{
		Protocol: core.ProtocolStrict, Name: "n", TTL: core.TTL(tableTTL),
	}, Seed: [16]byte{1}, Machine: core.MachineLease, Boot: "b1", OwnStore: true}
	with := func(machine, variant string, change func(*core.Config)) tableStart {
		c := cfg
		change(&c)
		return tableStart{machine, variant, c}
	}
	return []tableStart{
		with("strict_lease", "plain", func(*core.Config) {}),
		with("strict_lease", "printed", func(c *core.Config) { c.Holder, c.Epoch = "h", 1 }),
		with("strict_lease", "on a session", func(c *core.Config) { c.OnSession = true }),
		with("strict_lease", "without ttl", func(c *core.Config) { c.TTL = core.TTLEndless }),
		with("strict_companion", "plain", func(c *core.Config) { c.Machine, c.Holder, c.Epoch = core.MachineCompanion, "h", 1 }),
		with("session", "plain", func(c *core.Config) { c.Machine = core.MachineSession }),
		with("breaker", "plain", func(c *core.Config) { c.Machine, c.Why = core.MachineRevocation, "stuck" }),
		with("observer", "plain", func(c *core.Config) { c.Machine = core.MachineInspection }),
		with("calibration", "plain", func(c *core.Config) { c.Machine = core.MachineStoreClockSample }),
		with("semaphore", "plain", func(c *core.Config) { c.Machine = core.MachineSemaphore }),
	}
}

// explored is every table, made once for all tests.
var explored = sync.OnceValues(func() (tables []*table, problems []string) {
	for _, start := range tableStarts() {
		tb := &table{start: start, world: newWorld(nil), rows: map[string]row{}}
		tb.explore()
		tables, problems = append(tables, tb), append(problems, tb.problems...)
	}
	return tables, problems
})

func (tb *table) explore() {
	m, err := New(tb.start.cfg)
	if err == nil {
		_, err = m.Step(core.Instant{Mono: 1, Wall: worldStart}, core.Event{Kind: core.EventChanged})
	}
	if err != nil {
		tb.problem("%s, %s: %v", tb.start.machine, tb.start.variant, err)
		return
	}
	for tb.meet(m); len(tb.todo) > 0; {
		m, tb.todo = tb.todo[0], tb.todo[1:]
		tb.rows[label(m)] = tb.row(m)
	}
}

func (tb *table) problem(format string, args ...any) {
	tb.problems = append(tb.problems, fmt.Sprintf(format, args...))
}

func (tb *table) meet(m core.Machine) {
	if _, met := tb.rows[label(m)]; !met {
		tb.rows[label(m)] = row{}
		tb.todo = append(tb.todo, m)
	}
}

// row says what each saying does to a machine like m.
func (tb *table) row(m core.Machine) row {
	r := row{state: m.String()}
	for _, s := range sayings(m) {
		if name, late := strings.CutSuffix(s.name, " late"); late && len(r.came) > 0 && r.came[len(r.came)-1].saying == name {
			r.came[len(r.came)-1].late = tb.try(m.Clone(), s)
			continue
		}
		came := tb.try(m.Clone(), s)
		r.came = append(r.came, outcome{s.name, came, came, s.answer})
	}
	return r
}

// try says one thing to m and tells what came of it.
func (tb *table) try(m core.Machine, s saying) string {
	k, before, from := baseOf(m), m.AppendState(nil), m.String()
	now, later := k.Now, s.later(k)
	now.Mono, now.Wall = now.Mono+later, now.Wall+later
	twin := m.Clone()
	actions, err := m.Step(now, s.event(m))
	if err != nil {
		if !bytes.Equal(before, m.AppendState(nil)) {
			tb.problem("%s %s: %s: the error changed it", tb.start.machine, label(m), s.name)
		}
		return "error " + err.(*core.Error).Code.String()
	}
	if len(actions) > core.MaxActions {
		tb.problem("%s %s: %s: %d actions", tb.start.machine, label(m), s.name, len(actions))
	}
	tb.world.noteEdge(m, from)
	result := outcomeText(tb.world, from, m, actions)
	tb.meet(m)
	if baseOf(twin).Now = now; bytes.Equal(twin.AppendState(nil), m.AppendState(nil)) && result == "" {
		return "ignored"
	}
	return cmp.Or(result, "remembered")
}

// outcomeText is where the machine went and what it did, wakes aside.
func outcomeText(w *world, from string, m core.Machine, actions []core.Action) string {
	var parts []string
	if to := m.String(); to != from {
		parts = append(parts, "-> "+to)
	}
	for _, a := range actions {
		text := a.Kind.String()
		switch {
		case a.Kind == core.ActionWake:
			continue
		case a.Kind <= core.ActionDelete && isStrict(m):
			text += " " + what(w, a.Key)
		case a.Reason != core.ReasonNone:
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

// label is the state with all that changes what an event means in it.
func label(m core.Machine) string {
	var out line
	k := baseOf(m)
	out.WriteString(m.String())
	if k.Flight.ID != 0 {
		out.WriteString(" " + k.Flight.Verb.String())
	}
	out.flag("next", k.Timers[base.TimerNext] != base.Unset)
	switch m := m.(type) {
	case *lastwriter.Lease:
		labelLease(&out, m)
	case *lastwriter.Companion:
		out.flag("failing", m.Failing && m.Timers[base.TimerDeadline] != base.Unset)
		out.flag("rejoin", m.Rejoin && m.State != core.CompanionJoined)
		out.flag("rival", m.RivalSince != base.Unset)
	case *strict.Lease:
		labelRegister(&out, &m.Register)
		out.flag("patient", !m.LastTry && m.State < core.LeaseHeld)
		out.flag("answered", m.Reach.HasServed(base.Reads) && m.State == core.LeaseObserving)
		out.flag("wants", m.Wants)
		out.flag("checking", m.Checking)
		out.flag("tidying", m.Flight.ID != 0 && m.Tidying())
		out.flag("shutting", m.Closing != 0 && m.State == core.LeaseReleasing)
		out.flag("raced", m.Ending == base.EndRaced && m.State == core.LeaseReleasing)
		out.flag("refused", m.Ending == base.EndRefused && m.State == core.LeaseReleasing)
		out.flag("failing", m.Failing && m.State == core.LeaseHeld)
	case *strict.Companion:
		labelRegister(&out, &m.Register)
		out.flag("rejoin", m.Rejoin && m.State != core.CompanionJoined)
	case *strict.Revocation:
		labelRegister(&out, &m.Register)
	case *strict.Inspection:
		labelRegister(&out, &m.Register)
	case *semaphore.Semaphore:
		labelSemaphore(&out, m)
	case *strict.Session:
		if m.Flight.ID != 0 {
			fmt.Fprintf(&out, " for=%d", m.Doing)
		}
		out.flag("failing", m.Failing)
		out.flag("calls", len(m.Calls) > 0)
	}
	return out.String()
}

func labelLease(out *line, m *lastwriter.Lease) {
	out.flag("failing", m.Failing && m.Timers[base.TimerDeadline] != base.Unset)
	out.flag("patient", !m.LastTry && m.State < core.LeaseHeld)
	out.flag("answered", m.Reach.HasServed(base.Reads) && m.State == core.LeaseObserving)
	out.flag("confirming", m.Confirming && (m.State == core.LeaseClaiming || m.State == core.LeaseDoubtful))
	out.flag("expired-twice", m.Rounds == core.RewriteRounds-1)
	out.flag("looking", m.Rereading)
	out.flag("settling", m.Settling)
	out.flag("doubts", m.Doubts > 0 && m.State == core.LeaseReleasing && m.Ending == base.EndReleased)
	out.flag("raced", m.Ending == base.EndRaced && m.State == core.LeaseReleasing)
	out.flag("refused", m.Ending == base.EndRefused && m.State == core.LeaseReleasing)
}

// purposes name what a request is for, as far as answers to it differ.
var purposes = map[register.Purpose]string{
	register.ForList: "list", register.ForVersion: "version", register.ForNext: "next", register.ForEnded: "ended", register.ForSession: "session", register.ForBeat: "beat",
	register.ForLock: "lock", register.ForCalls: "calls",
	register.ForCall: "call", register.ForNewCall: "new-call", register.ForSelf: "self", register.ForBeating: "beating", register.ForCreate: "create",
	register.ForReadBack: "read-back", register.ForConfirm: "confirm", register.ForHint: "hint", register.ForGarbage: "garbage", register.ForGarbageClock: "garbage-clock", register.ForGarbageAge: "garbage-age", register.ForDelete: "delete",
}

func labelRegister(out *line, r *register.Register) {
	if r.Flight.ID != 0 {
		out.WriteString(" for " + purposes[r.Doing])
	}
	switch {
	case r.Cur.N != 0 && r.Cur.State == 0:
		out.WriteString(" of unreadable")
	case r.Cur.N != 0:
		out.WriteString(" of " + r.Cur.State.String())
	}
}
