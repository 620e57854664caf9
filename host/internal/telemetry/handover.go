package telemetry

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// HandoverTracker keeps what a waiter has seen of the holder that it waits for. It tells a
// hand-over from a take-over once the waiter holds the lease. nil has seen nothing.
type HandoverTracker struct {
	epoch  core.Epoch // the newest that was seen, under strict
	given  bool       // the newest was released or broken
	looked int64      // Mono: when the last observation was sent that showed it not free
	freed  int64      // Mono: when this Host released it; 0 if another did
	// Under lastwriter: what the latest observation showed, and whether the waiter has put
	// since then. After a put it reads its own record.
	record core.Observation
	wrote  bool
}

// TrackHandover begins with what the waiter sees first of a holder.
func TrackHandover(epoch core.Epoch, state core.Observation) *HandoverTracker {
	return &HandoverTracker{epoch: epoch, given: state == core.ObservedReleased || state == core.ObservedBroken}
}

// FreedHere notes when this Host released what is waited for: at a Mono, or 0.
func (h *HandoverTracker) FreedHere(at int64) {
	if h != nil {
		h.freed = at
	}
}

// Freed is when this Host released what is waited for, or 0.
func (h *HandoverTracker) Freed() int64 {
	if h == nil {
		return 0
	}
	return h.freed
}

// Put takes a put of the waiter's own, after which it reads itself.
func (h *HandoverTracker) Put() { h.wrote = true }

// Read takes what a get of the record showed under lastwriter.
func (h *HandoverTracker) Read(now core.Instant, ev *core.Event) {
	if !h.wrote {
		h.record = machines.Inspect(now, ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp).State
	}
}

// NotFree takes a look, sent at a Mono, after which the waiter still waits.
func (h *HandoverTracker) NotFree(sent int64) { h.looked, h.wrote = sent, false }

// fromDead reports whether nobody had given the lease back that was taken.
func (h *HandoverTracker) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but not that of an old client
		return !h.given && h.epoch != 0 && token == h.epoch+1
	}
	return h.record == core.ObservedHeld || h.record == core.ObservedStale || h.record == core.ObservedCorrupt
}

// handedOver says from whom a lease has come, and counts how long that took.
func (r *Recorder) handedOver(to *Holding, h *HandoverTracker) (from string) {
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
