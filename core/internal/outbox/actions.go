package outbox

import (
	"github.com/mopslock/mopslock/core"
)

// Bounds of one Step. A machine's own step returns core.MaxActions actions and one body at
// the most, and a session may be stepped before the lease on it, so no other work is begun
// when less than that is left.
const (
	mostActions = core.MaxClientActions
	roomFor     = 3 * core.MaxActions
	// roomyBytes of texts and bodies leave room in one message for a record and what
	// belongs to it.
	roomyBytes = core.MaxMessage - core.MaxRecord - 24<<10
)

// Actions are those of one Step, and the bytes that they bring.
type Actions struct {
	all   []core.Action
	arena []byte // bodies
	bytes int    // of texts and bodies
}

// Reset begins a Step.
func (o *Actions) Reset() {
	if o.all == nil {
		o.all = make([]core.Action, 0, mostActions)
	}
	o.all, o.arena, o.bytes = o.all[:0], o.arena[:0], 0
}

// All are good until the next Step.
func (o *Actions) All() []core.Action { return o.all }

// HasRoom reports whether one more machine may be stepped.
func (o *Actions) HasRoom() bool {
	return len(o.all)+roomFor < mostActions && o.bytes <= roomyBytes
}

// Emit adds an action, which is the caller's to fill in where it stands.
func (o *Actions) Emit(kind core.ActionKind) *core.Action {
	n := len(o.all)
	o.all = o.all[:n+1]
	a := &o.all[n]
	*a = core.Action{}
	a.Kind = kind
	return a
}

// Carry adds a machine's action. It copies the bytes, which are the machine's: that may be stepped again.
func (o *Actions) Carry(a *core.Action) *core.Action {
	n := len(o.all)
	o.all = o.all[:n+1]
	to := &o.all[n]
	*to = *a
	if len(a.Body) > 0 {
		to.Body = o.Keep(a.Body)
	}
	if a.Observed != nil {
		seen := *a.Observed
		seen.Detach()
		to.Observed = &seen
		o.bytes += len(seen.Permits) + 2048
	}
	o.bytes += len(a.Key) + len(a.After) + 128
	return to
}

// Keep copies bytes that must be good until the next Step.
func (o *Actions) Keep(body []byte) []byte {
	from := len(o.arena)
	o.arena = append(o.arena, body...)
	o.bytes += len(body)
	return o.arena[from:len(o.arena):len(o.arena)]
}
