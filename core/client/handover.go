package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
)

// handover keeps what a waiter has seen of the holder that it waits for. It tells a
// hand-over from a take-over once the waiter holds the name. nil has seen nothing.
type handover struct {
	epoch  core.Epoch // the newest that was seen, under strict
	given  bool       // the newest was released or broken
	looked int64      // Mono: when the last look was asked for that showed it not free
	freed  int64      // Mono: when this client released it; 0 if another did
	// Under lastwriter: what the latest look showed, and whether the waiter has put since
	// then. After a put it reads its own record.
	record core.Observation
	wrote  bool
}

// waitsFor begins to follow a holder, and begins again when the holder is another.
func (cl *claim) waitsFor(now int64, s *core.Observed) {
	if s != nil {
		given := s.State == core.ObservedReleased || s.State == core.ObservedBroken
		cl.handover = &handover{epoch: s.Epoch, given: given, looked: now}
	}
}

// follow takes the answer to a waiter's request, after the machine has judged it.
func (c *Client) follow(cl *claim, f *flight, ev *core.Event) {
	h := cl.handover
	if h == nil || ev.Outcome == core.OutcomeUnknown {
		return
	}
	switch {
	case f.verb == core.ActionPut:
		h.wrote = true
	case f.verb == core.ActionGet && cl.protocol == core.ProtocolLastWriter && !h.wrote:
		h.record = lastwriter.Inspect(c.now, ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp).State
	}
	if leaseState(cl) == core.LeaseWaiting {
		h.looked, h.wrote = f.asked, false
	}
}

// whence says from whom a name has come that is held now, and how long it was nobody's.
func (h *handover) whence(c *Client, protocol core.Protocol, token core.Epoch) (from core.Origin, took core.Duration) {
	switch {
	case h == nil:
		return core.OriginFree, 0
	case h.freed != 0:
		return core.OriginHere, core.Duration(c.now.Mono - h.freed)
	case h.fromDead(protocol, token):
		return core.OriginDead, 0
	}
	return core.OriginElsewhere, core.Duration(c.now.Mono - h.looked)
}

// fromDead reports whether nobody had given back what was taken.
func (h *handover) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but not that of an old client
		return !h.given && h.epoch != 0 && token == h.epoch+1
	}
	return h.record == core.ObservedHeld || h.record == core.ObservedStale || h.record == core.ObservedCorrupt
}

func (h *handover) snapshot(s *base.Snapshot) {
	s.Uint(uint64(h.epoch))
	s.Bools(h.given, h.wrote)
	s.Int(h.looked)
	s.Int(h.freed)
	s.Octet(uint8(h.record))
}
