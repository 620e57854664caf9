package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// Program is what takes part as an actor: a process with its client, or an ancestor. It speaks as a machine does. The error of a Step
// may be a *check.Violation.
type Program interface {
	core.Stepper
	// AppendState appends the whole dynamic state as canonical bytes.
	AppendState(dst []byte) []byte
	// Copy is an independent copy.
	Copy() Program
	// Claims is what is relied on now. It is not changed by later Steps.
	Claims() []check.Claim
}

// asking is what programs that are no machines of the core have in common: a state with
// a name, and requests of which an answer to the latest counts.
type asking struct {
	state  string
	issued core.RequestID
}

func (a *asking) ask(state string, verb core.ActionKind, key, body string) []core.Action {
	a.state = state
	a.issued++
	return []core.Action{{Kind: verb, Request: a.issued, Key: key, Body: []byte(body)}}
}

// end is the last that is said.
func (a *asking) end(state string, notices ...core.Action) []core.Action {
	a.state = state
	return notices
}

// String implements Program.
func (a *asking) String() string { return a.state }
