package explore

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// resultOf is the key of what the work of a name comes to.
func resultOf(name string) string { return name + "/" + core.ResultFile }

// object is what the store has at a key, or nil.
func (e *engine) object(w *state, key string) []byte {
	if k, ok := e.stores.items[w.store].(Keeper); ok {
		return k.Object(key)
	}
	return nil
}

// worked tells the ledger of what an invocation has said.
func (e *engine) worked(next *state, actor uint8, notices []core.Action) *check.Violation {
	name := e.sc.Actors[actor].Name
	there := e.object(next, e.sc.Result) != nil
	for i := range notices {
		var v *check.Violation
		switch a := &notices[i]; a.Kind {
		case core.ActionHeld:
			v = e.note(next, func(l *check.Ledger) *check.Violation { l.Won(name, there); return nil })
		case core.ActionLaunch:
			believed := slices.Clone(e.believed(next))
			v = e.note(next, func(l *check.Ledger) *check.Violation { return l.Launched(name, believed) })
			if e.needs { // an actor that follows may begin at once
				next.turn, next.sweep = 0, true
			}
		case core.ActionFound:
			v = check.Finds(name, a.Key, e.object(next, a.Key) != nil)
		}
		if v != nil {
			return v
		}
	}
	return nil
}

func (e *engine) note(w *state, how func(*check.Ledger) *check.Violation) *check.Violation {
	ledger := e.ledgers.items[w.ledger].Clone()
	if v := how(ledger); v != nil {
		return v
	}
	w.ledger = e.internLedger(ledger)
	return nil
}
