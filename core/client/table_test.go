package client_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

var update = flag.Bool("update", false, "write testdata/table.txt")

// kinds are the claims of the table: what is asked for, and the process that stands in its way.
var kinds = []struct {
	name  string
	kind  core.EventKind
	terms core.Terms
	with  core.Event
}{
	{"lease", core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolStrict}, core.Event{Wait: core.Forever}},
	{"lease on a session", core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolStrict, OnSession: true}, core.Event{Wait: core.Forever}},
	{"lease of lastwriter", core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}, core.Event{Wait: core.Forever}},
	{"permit", core.EventPermit, core.Terms{Name: "n"}, core.Event{Wait: core.Forever, Capacity: 1, Width: 1}},
	{"work", core.EventInvoke, core.Terms{Name: "n"}, core.Event{Wait: core.Forever}},
	{"companion", core.EventAccompany, core.Terms{Name: "n", Holder: "?"}, core.Event{}},
	{"remote", core.EventRemote, core.Terms{Name: "n", Holder: "?"}, core.Event{}},
	{"watch", core.EventWatch, core.Terms{Name: "n"}, core.Event{}},
}

// commands are those about a claim that exists.
var commands = []core.Event{
	{Kind: core.EventRelease},
	{Kind: core.EventCancel},
	{Kind: core.EventLeave},
	{Kind: core.EventClose},
	{Kind: core.EventEnded, Outcome: core.OutcomeYes, Result: true},
	{Kind: core.EventEnded, Outcome: core.OutcomeNo},
}

// stages are where a command may find a claim.
var stages = []string{"asked", "answered once", "waiting", "held", "releasing", "over"}

// TestTable: what each command does to each kind of claim, wherever it finds it. The file is
// testdata/table.txt; -update writes it, and then the difference is to be read.
func TestTable(t *testing.T) {
	var out strings.Builder
	for n, k := range kinds {
		for _, stage := range stages {
			for i := range commands {
				p, claim, ok := inStage(t, n, stage)
				if !ok {
					continue
				}
				ev := commands[i]
				if p.told = nil; ev.Kind != core.EventClose {
					ev.Claim = claim
				}
				p.do(ev)
				p.letGo()
				p.until(p.now + int64(core.Second))
				fmt.Fprintf(&out, "%s, %s: %v %v: %s\n", k.name, stage, ev.Kind, ev.Outcome, orNothing(p.heard()))
				p.do(core.Event{Kind: core.EventClose})
				p.until(p.now + int64(200*core.Second))
				if !p.Client.Idle() {
					t.Errorf("%s, %s: %v: the client does not come to its end", k.name, stage, ev.Kind)
				}
			}
		}
	}
	const file = "testdata/table.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != out.String() {
		t.Errorf("%s is not what happens now (%v): look at the difference, then run with -update", file, err)
	}
}

// inStage is a process with a claim of a kind in a stage; ok is false where there is none.
func inStage(t *testing.T, kind int, stage string) (p *process, claim uint64, ok bool) {
	t.Helper()
	k := kinds[kind]
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	joins := k.terms.Holder != ""
	if joins {
		q.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolStrict}, core.Event{Wait: core.Forever})
		k.terms.Holder, k.terms.Epoch = q.holder, 1
	}
	switch stage {
	case "asked":
		p.holds = all
	case "answered once":
		requests := 0
		p.holds = func(*core.Action) bool { requests++; return requests > 1 }
	case "waiting":
		if joins || k.kind == core.EventWatch {
			return nil, 0, false
		}
		q.begin(k.kind, k.terms, k.with)
		q.until(q.now + int64(core.Second))
		p.now = q.now
	}
	claim = p.begin(k.kind, k.terms, k.with)
	if stage == "asked" || stage == "answered once" || stage == "waiting" {
		return p, claim, true
	}
	p.until(p.now + int64(core.Second))
	switch stage {
	case "releasing":
		p.holds = all
		p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	case "over":
		p.do(core.Event{Kind: core.EventRelease, Claim: claim})
		p.until(p.now + int64(core.Second))
	}
	return p, claim, true
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
