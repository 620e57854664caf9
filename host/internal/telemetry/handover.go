package telemetry

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// Handover is what a waiter has seen of the holder for which it waits. It tells a handover
// from a takeover once the waiter holds the lease. A nil Handover has seen nothing.
type Handover struct {
	epoch  core.Epoch // the newest that was seen, under strict
	given  bool       // the newest was released or broken
	looked int64      // Mono: when the last observation was sent that showed it not free
	freed  int64      // Mono: when this Host released it; 0 if another did
	// Under lastwriter: what the latest observation showed, and whether the waiter has put
	// since then. After a put it reads its own record.
	record core.Observation
	wrote  bool
}

// NewHandover begins with what the waiter first sees of a holder.
func NewHandover(epoch core.Epoch, state core.Observation) *Handover {
	return &Handover{epoch: epoch, given: state == core.ObservedReleased || state == core.ObservedBroken}
}

// FreedHere records when this Host released the lease: at a Mono, or 0.
func (h *Handover) FreedHere(at int64) {
	if h != nil {
		h.freed = at
	}
}

// Freed returns when this Host released the lease, or 0.
func (h *Handover) Freed() int64 {
	if h == nil {
		return 0
	}
	return h.freed
}

// Put records a put of the waiter, after which it reads its own record.
func (h *Handover) Put() { h.wrote = true }

// Read records what a get of the record showed under lastwriter.
func (h *Handover) Read(now core.Instant, ev *core.Event) {
	if !h.wrote {
		h.record = machines.Inspect(now, ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp).State
	}
}

// NotFree records an observation, sent at a Mono, after which the waiter still waits.
func (h *Handover) NotFree(sent int64) { h.looked, h.wrote = sent, false }

// fromDead reports whether the lease was taken without a release.
func (h *Handover) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but an old client makes none
		return !h.given && h.epoch != 0 && token == h.epoch+1
	}
	return h.record == core.ObservedHeld || h.record == core.ObservedStale || h.record == core.ObservedCorrupt
}

// handedOver says from where a lease has come, and records how long that took.
func (r *Recorder) handedOver(to *Holding, h *Handover) (from string) {
	m, protocol := r.meter, to.Protocol.String()
	switch {
	case h == nil:
		return "free"
	case h.freed == 0 && h.fromDead(to.Protocol, to.Token):
		if m != nil {
			m.count(m.takeovers, labels{protocol: protocol})
		}
		return "dead"
	}
	from, begun := "elsewhere", h.looked
	if h.freed != 0 {
		from, begun = "here", h.freed
	}
	if m != nil {
		m.seconds(m.handover, r.now()-begun, labels{protocol: protocol, from: from})
	}
	return from
}
