package host

import (
	"sync/atomic"

	"github.com/mopslock/mopslock/core"
)

// session is the heartbeat of all that stands on it. The loop writes until; callers that ask
// about a lease on the session read it, so its renewals cost its ten thousand leases nothing.
type session struct {
	id    string
	ttl   core.TTL
	until atomic.Int64 // Mono
}

// belief is until when something that is held may be relied on: the later of its own deadline
// and that of the session on which it stands. The loop writes it, in the order of the
// client's notices, and any caller reads it without a lock.
type belief struct {
	own atomic.Int64 // Mono
	on  atomic.Pointer[session]
}

// until reads the session's deadline first, and the own one second. What no longer stands on
// the session was fixed before the session was renewed again:
//
//	client   deadline, fixed ──── session renewed
//	caller              on? ─ session's ────┴─── own ─ on the same still?
func (b *belief) until() int64 {
	for {
		s := b.on.Load()
		if s == nil {
			return b.own.Load()
		}
		until := s.until.Load()
		if until = max(until, b.own.Load()); b.on.Load() == s {
			return until
		}
	}
}

// believe takes held, renewed or deadline. on is the session that the notice names, or nil.
func (b *belief) believe(a *core.Action, on *session) {
	if a.Kind == core.ActionRenewed {
		b.own.Store(a.At)
		return
	}
	b.own.Store(a.At)
	b.on.Store(on)
}
