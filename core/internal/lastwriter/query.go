package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Query is a machine that reads a record once: seen, or refused.
type Query struct {
	base.Quiet
	Key  string
	done bool
	seen core.Observed  `state:"scratch: of the latest Step"`
	out  [1]core.Action `state:"scratch: of the latest Step"`
}

// Step implements core.Machine.
func (l *Query) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	a := &l.out[0]
	switch {
	case ev.Kind == core.EventBegin:
		*a = core.Action{Kind: core.ActionGet, Request: 1, Key: l.Key, Limit: core.RequestLimit}
	case ev.Kind != core.EventAnswer || l.done:
		return nil, nil
	case ev.Outcome == core.OutcomeUnknown:
		l.done = true
		*a = core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnreachable, Class: ev.Class}
		if ev.Class.Permanent() {
			a.Reason = core.ReasonUnusable
		}
	default:
		l.done = true
		l.seen = Inspect(now, ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp)
		*a = core.Action{Kind: core.ActionSeen, Observed: &l.seen}
	}
	return l.out[:], nil
}

// Idle implements core.Machine.
func (l *Query) Idle() bool { return l.done }

// String implements core.Machine.
func (l *Query) String() string { return "looking" }
