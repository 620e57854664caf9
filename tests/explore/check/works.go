package check

import (
	"bytes"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// The names of the checkers of invocations.
const (
	FirstResultWins    = "FirstResultWins"
	LoserWritesNothing = "LoserWritesNothing"
	NoIdleDouble       = "NoIdleDouble"
	ResultHeeded       = "ResultHeeded"
	FoundIsThere       = "FoundIsThere"
)

// Caller watches one invocation: what it was answered, said and sent. Its zero
// value is ready, and a copy is independent.
type Caller struct {
	knows bool            // it was answered that the result is there
	loser bool            // its lease is another's, and it has won none since
	end   core.ActionKind // found, absent or refused, once said
}

// AppendState appends all that is remembered as canonical bytes.
func (c *Caller) AppendState(dst []byte) []byte {
	flags := byte(0)
	if c.knows {
		flags |= 1
	}
	if c.loser {
		flags |= 2
	}
	return append(dst, flags, byte(c.end))
}

// Heard tells of the answer to a request about the result itself.
func (c *Caller) Heard(verb core.ActionKind, outcome core.Outcome) {
	c.knows = c.knows || verb == core.ActionExists && outcome == core.OutcomeYes ||
		verb == core.ActionCreateResult && outcome != core.OutcomeUnknown
}

// Watch looks at the actions of one Step, in their order.
func (c *Caller) Watch(m core.Stepper, actions []core.Action) *Violation {
	wake := false
	for i := range actions {
		a := &actions[i]
		if v := c.action(a); v != nil {
			return v
		}
		wake = wake || a.Kind == core.ActionWake
	}
	if wake && m.Idle() {
		return found(QuietWhenIdle, "an invocation that waits for nothing, %s, wants to be woken", m)
	}
	return nil
}

func (c *Caller) action(a *core.Action) *Violation {
	switch a.Kind {
	case core.ActionHeld:
		c.loser = false
	case core.ActionLost:
		c.loser = a.Reason == core.ReasonTaken || a.Reason == core.ReasonBroken
	case core.ActionLaunch:
		if c.knows {
			return found(ResultHeeded, "an invocation launches although it was told that the result is there")
		}
		if c.end != 0 {
			return found(NoResurrection, "an invocation says %s after it said %s", a.Kind, c.end)
		}
	case core.ActionCreateResult, core.ActionPutResult:
		switch {
		case c.loser:
			return found(LoserWritesNothing, "an invocation sends %s of %s, and its lease is another's", a.Kind, a.Key)
		case c.knows:
			return found(ResultHeeded, "an invocation sends %s of %s although it was told that there is one", a.Kind, a.Key)
		case c.end != 0:
			return found(NoClobber, "an invocation sends %s of %s after it said %s", a.Kind, a.Key, c.end)
		}
	case core.ActionFound, core.ActionAbsent, core.ActionRefused:
		if c.end != 0 {
			return found(NoResurrection, "an invocation says %s after it said %s", a.Kind, c.end)
		}
		c.end = a.Kind
	}
	return nil
}

// Launch is work that was begun, and the lease under which it began.
type Launch struct {
	Actor  string
	Tenure string
	Epoch  core.Epoch
}

// work is what the ledger knows of an actor that may launch.
type work struct {
	Launch
	idle bool // the result was there when its lease was won
}

// Won is told of each lease that an invocation has just won or joined, and
// whether the result was there by then.
func (l *Ledger) Won(actor string, there bool) {
	i := slices.IndexFunc(l.works, func(w work) bool { return w.Actor == actor })
	if i < 0 {
		i = len(l.works)
		l.works = append(l.works, work{Launch: Launch{Actor: actor}})
	}
	l.works[i].idle = there
}

// Launched is NoIdleDouble, told of each launch with all claims that are relied on.
func (l *Ledger) Launched(actor string, believed []Claim) *Violation {
	mine := slices.IndexFunc(believed, func(c Claim) bool { return c.Actor == actor })
	i := slices.IndexFunc(l.works, func(w work) bool { return w.Actor == actor })
	if mine < 0 || i < 0 {
		return found(NoIdleDouble, "%s launches without a lease", actor)
	}
	own := &believed[mine]
	for j := range believed {
		if c := &believed[j]; c.Name == own.Name && c.Tenure != own.Tenure {
			return found(NoIdleDouble, "%s launches while %s relies on the lease as another's", actor, c.Actor)
		}
	}
	if l.works[i].idle {
		return found(NoIdleDouble, "%s launches, and the result was there when it won the lease", actor)
	}
	l.works[i].Launch = Launch{actor, own.Tenure, own.Epoch}
	return nil
}

// Launch is the latest launch of an actor.
func (l *Ledger) Launch(actor string) (Launch, bool) {
	for i := range l.works {
		if w := &l.works[i]; w.Actor == actor && w.Tenure != "" {
			return w.Launch, true
		}
	}
	return Launch{}, false
}

// Stored is FirstResultWins, told of what was there and what is there now; nil is nothing.
func Stored(key string, before, after []byte) *Violation {
	if before == nil || bytes.Equal(before, after) {
		return nil
	}
	return found(FirstResultWins, "%s was %q, and is now %q", key, before, after)
}

// Finds is FoundIsThere, told which actor says found, and whether the result is there.
func Finds(actor, key string, there bool) *Violation {
	if there {
		return nil
	}
	return found(FoundIsThere, "%s has found %s, and there is nothing", actor, key)
}
