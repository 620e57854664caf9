package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Step is one line of a counter-example.
type Step struct {
	At    time.Duration // true time since the beginning
	Actor string        // "" is time itself
	Text  string
	// Kind says what it is about: request, notice, command, fault or time.
	Kind string
	// Verb is of a request: get, put, …; of a notice its name.
	Verb string
	// Holds are the actors that rely on the lease after it.
	Holds []string
}

// The kinds of a Step.
const (
	KindRequest = "request"
	KindNotice  = "notice"
	KindCommand = "command"
	KindFault   = "fault"
	KindTime    = "time"
)

// teller puts transitions into words.
type teller struct {
	*engine
	words Words
	steps []Step
}

func newTeller(e *engine) *teller {
	t := &teller{engine: e, words: e.sc.Words}
	if t.words == nil {
		t.words = plainWords{}
	}
	return t
}

// tell adds the steps of one transition.
func (t *teller) tell(before, after *state, m *move) {
	if m.kind == moveTick {
		t.time(after)
		return
	}
	if m.first != nil {
		t.tell(before, before, m.first)
	}
	name := t.sc.Actors[m.actor].Name
	first := len(t.steps)
	switch m.kind {
	case moveTell:
		t.add(before, name, KindCommand, "", t.sc.Actors[m.actor].Tell[m.choice].Words)
	case moveLose:
		t.add(before, name, KindFault, "", "the reply to the "+t.verb(m)+" of "+name+" is lost")
	case moveGiveUp:
		t.add(before, name, KindFault, "", name+" gives up the "+t.verb(m)+" that it sent")
	case moveCrash:
		t.add(before, name, KindFault, "", name+" crashes")
	case moveApply:
		t.applied(before, name, m)
	}
	if m.kind <= moveGiveUp {
		for _, notice := range t.step(m.actor, m.step).notices {
			t.add(before, name, KindNotice, notice.Kind.String(), t.words.Noticed(name, &notice))
		}
	}
	holds := t.holds(after)
	for i := first; i < len(t.steps); i++ {
		t.steps[i].Holds = holds
	}
}

func (t *teller) applied(before *state, name string, m *move) {
	request, reply := &t.actions.items[m.action], &t.replies.items[m.reply]
	text := t.words.Applied(name, request, reply)
	if text == "" {
		return
	}
	if m.stray {
		text += ", long after it was given up"
	}
	if m.choice != 0 {
		text += ", and the store does it in an odd way"
		if o, ok := t.stores.items[before.store].(interface{ Odd(choice int) string }); ok {
			text = t.words.Applied(name, request, reply) + ": " + o.Odd(int(m.choice))
		}
	}
	t.add(before, name, KindRequest, request.Kind.String(), text)
}

func (t *teller) verb(m *move) string {
	a := &t.actions.items[m.action]
	return a.Kind.String() + " of " + shortKey(a.Key)
}

func (t *teller) add(w *state, actor, kind, verb, text string) {
	if text == "" {
		return
	}
	t.steps = append(t.steps, Step{At: t.at(w), Actor: actor, Kind: kind, Verb: verb, Text: text})
}

func (t *teller) at(w *state) time.Duration { return time.Duration(int64(w.now) * t.sc.Tick) }

// time passes in one step, however many ticks it is.
func (t *teller) time(after *state) {
	if last := len(t.steps) - 1; last >= 0 && t.steps[last].Kind == KindTime {
		t.steps = t.steps[:last]
	}
	t.steps = append(t.steps, Step{
		At: t.at(after), Kind: KindTime, Text: fmt.Sprintf("time passes, to %s", t.at(after)), Holds: t.holds(after),
	})
}

func (t *teller) holds(w *state) []string {
	var names []string
	for _, c := range t.believed(w) {
		if !slices.Contains(names, c.Actor) {
			names = append(names, c.Actor)
		}
	}
	return names
}

// plainWords describes the machines of the core.
type plainWords struct{}

// Applied implements Words.
func (plainWords) Applied(actor string, a *core.Action, reply *core.Event) string {
	what, said := shortKey(a.Key), ": "+gist(a.Body)
	if a.Kind == core.ActionPutResult || a.Kind == core.ActionCreateResult {
		said = ", " + string(a.Body)
	}
	no := reply.Outcome == core.OutcomeNo
	switch a.Kind {
	case core.ActionGet:
		if no {
			return actor + " reads " + what + ": nothing there"
		}
		return actor + " reads " + what + ": " + gist(reply.Body)
	case core.ActionPut, core.ActionPutResult:
		return actor + " puts " + what + said
	case core.ActionCreate, core.ActionCreateResult:
		if no {
			return actor + " creates " + what + ": there is one already"
		}
		return actor + " creates " + what + said
	case core.ActionExists:
		if no {
			return actor + " asks whether " + what + " exists: no"
		}
		return actor + " asks whether " + what + " exists: yes"
	case core.ActionList:
		var names []string
		for i := range reply.Entries {
			names = append(names, shortKey(string(reply.Entries[i].Key)))
		}
		if names == nil {
			names = []string{"nothing there"}
		}
		return actor + " lists " + what + ": " + strings.Join(names, ", ")
	case core.ActionDelete:
		return actor + " deletes " + what
	}
	return actor + ": " + a.Kind.String()
}

// Noticed implements Words.
func (plainWords) Noticed(actor string, a *core.Action) string {
	if a.Permit != 0 {
		return noticedPermit(actor, a)
	}
	switch a.Kind {
	case core.ActionHeld:
		if a.Token != 0 {
			return fmt.Sprintf("%s holds it: epoch %d, token %d", actor, a.Epoch, a.Token)
		}
		return actor + " holds it"
	case core.ActionRenewed:
		return actor + " has renewed it"
	case core.ActionLost, core.ActionRefused, core.ActionCannotMaintain:
		return actor + " says " + a.Kind.String() + ": " + a.Reason.String()
	case core.ActionWaiting, core.ActionSampleStoreClock, core.ActionDeadline:
		return ""
	case core.ActionLaunch:
		return actor + " launches the work"
	case core.ActionFound:
		return actor + " has found " + shortKey(a.Key)
	case core.ActionAbsent:
		return actor + " says " + a.Kind.String() + ": " + a.Reason.String()
	case core.ActionAdopted:
		return fmt.Sprintf("%s adopts epoch %d", actor, a.Epoch)
	}
	return actor + " says " + a.Kind.String()
}

// noticedPermit describes what a semaphore says of one permit.
func noticedPermit(actor string, a *core.Action) string {
	what := fmt.Sprintf(" permit %d", a.Permit)
	switch a.Kind {
	case core.ActionHeld:
		return fmt.Sprintf("%s holds%s, by version %d", actor, what, a.Epoch)
	case core.ActionWaiting:
		return actor + " waits for" + what
	case core.ActionRefused, core.ActionLost:
		return actor + " says " + a.Kind.String() + what + ": " + a.Reason.String()
	}
	return actor + " says " + a.Kind.String() + what
}
