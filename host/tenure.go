package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// tenure is what a caller has while something is held: a lease, a companion or a permit. The loop
// writes what becomes of it. There may be ten thousand of them, so what only some need is
// made on demand.
type tenure struct {
	belief
	facts
	host  *Host
	of    loop.Claim // by which it is held
	name  string
	epoch atomic.Uint64 // the newest that is known

	mu     sync.Mutex
	ctx    context.Context         // its caller's, until its own is asked for
	cancel context.CancelCauseFunc // of ctx, from then on
	err    error                   // not nil: it may not be relied on any more
	over   bool                    // err is the last word
}

// facts are known when it is held, and do not change then. They are in the order in which they take
// the least room.
type facts struct {
	protocol core.Protocol
	kind     telemetry.Kind
	weight   uint32 // of a permit, with total: so much was held when it was let in
	ttl      core.TTL
	holder   string
	token    core.Epoch
	session  string // the id of the one on which it stands, or ""
	acquired int64  // wall
	total    uint64
}

// hold takes that it is held from now on. A companion may hear that again.
func (t *tenure) hold(a *core.Action) {
	if t.holder == "" {
		t.protocol, t.ttl = a.Protocol, t.ttl.Under(a.Protocol)
		t.holder, t.token, t.session, t.acquired, t.total = string(a.Holder), a.Token, a.Session, a.Wall, a.Total
		if s := t.host.heard.sessions[a.On]; s != nil {
			t.session = s.id // one text for all that stand on it
		}
	}
	t.epoch.Store(uint64(a.Epoch))
	t.believe(a)
}

// believe takes until when it may be relied on.
func (t *tenure) believe(a *core.Action) { t.belief.believe(a, t.host.heard.sessions[a.On]) }

// guards reports whether it is not relied on past its deadline. A companion goes on then.
func (t *tenure) guards() bool { return t.kind != telemetry.Companion }

// context is of what is held. It outlives the call that asked for it; the values of that
// call's ctx go on.
func (t *tenure) context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil {
		t.ctx, t.cancel = context.WithCancelCause(t.within(context.WithoutCancel(t.ctx)))
		if t.err != nil {
			t.cancel(t.err)
		}
	}
	return t.ctx
}

// invalidate ends what relies on it, before anything is written that lets others in:
//
//	us      Release: put(released) . . . . . . . . . answered
//	store                          released
//	other                              get(released) put … held
//
// What works under its Context must have been told by then. Past the deadline it is not given
// back but lost, and the client says so.
func (t *tenure) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.guards() && t.holder != "" && t.err == nil && !t.isLate() {
		t.stop(&Error{Kind: Ended, Name: t.name, of: t.subject()})
	}
}

// end says, once, how it ended. The caller holds mu.
func (t *tenure) end(err error) {
	if t.over {
		return
	}
	t.over = true
	if t.err == nil {
		t.stop(err)
	}
	t.err = err
}

// stop ends its context, if anybody has it. One that is made later is over from the
// beginning. The caller holds mu.
func (t *tenure) stop(err error) {
	t.err = err
	if t.cancel != nil {
		t.cancel(err)
	}
}

// failure is why it may not be relied on any more, or nil.
func (t *tenure) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// isOver reports whether its end was told.
func (t *tenure) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

func (t *tenure) isLate() bool { return t.host.clock.Now().Mono >= t.until() }

// current is failure, but never nil past the deadline. Before it says so it has the client
// look at the clock, which may be about to tell of a renewal that was answered in time.
func (t *tenure) current() error {
	err := t.failure()
	if err != nil || !t.guards() || !t.isLate() {
		return err
	}
	t.host.loop.CatchUp()
	if err = t.failure(); err != nil || !t.isLate() {
		return err
	}
	t.mu.Lock()
	t.end(&Error{Kind: Lost, Name: t.name, Reason: core.ReasonExpired, of: t.subject()}) // whatever is told later
	t.mu.Unlock()
	t.host.loop.Command(t.of, core.Event{Kind: core.EventCancel}, nil)
	return t.failure()
}

// left is how long it may still be relied on: not at all, whatever its deadline, once it is
// lost or given back.
func (t *tenure) left() time.Duration {
	until, left := t.until(), time.Duration(core.Never)
	if until != core.Never {
		left = time.Duration(until - t.host.clock.Now().Mono)
	}
	if t.failure() != nil {
		return min(left, 0)
	}
	return left
}

// subject is what errors are about.
func (t *tenure) subject() subject {
	if t.kind == telemetry.Permit {
		return ofPermit
	}
	return ofLease
}

// leaseKey is the key of a lease, or of what accompanies one, in the contexts of what is
// done under it.
type leaseKey struct {
	place any // of the store (store.Place), or the Host of a store without one
	name  string
}

func (h *Host) leaseKey(name string) leaseKey {
	if place := h.terms.place; place != "" {
		return leaseKey{place, name}
	}
	return leaseKey{h, name}
}

// within is ctx for what is done under the lease: a caller that waits there for the same name
// waits for itself. Of a semaphore one may hold two permits.
func (t *tenure) within(ctx context.Context) context.Context {
	if t == nil || t.kind == telemetry.Permit {
		return ctx
	}
	return context.WithValue(ctx, t.host.leaseKey(t.name), t)
}

// ownOf is the lease on this name that ctx is of, or nil.
func (h *Host) ownOf(ctx context.Context, name string) *tenure {
	own, _ := ctx.Value(h.leaseKey(name)).(*tenure)
	return own
}

// holding is the tenure as telemetry has it.
func (t *tenure) holding() telemetry.Holding {
	return telemetry.Holding{
		Kind: t.kind, Name: t.name, Protocol: t.protocol, TTL: t.ttl.Duration(), Token: t.token,
		Holder: Printable(t.holder), Weight: int64(t.weight), OnSession: t.session != "" && t.guards(),
	}
}
