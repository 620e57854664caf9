package client

import "github.com/mopslock/mopslock/core"

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

// follows a holder that was seen, if one was, and begins again when the holder is another.
func (h *handover) follows(now int64, s *core.Observed) *handover {
	if s == nil {
		return h
	}
	return &handover{epoch: s.Epoch, given: s.State == core.ObservedReleased || s.State == core.ObservedBroken, looked: now}
}

// whence says from whom a name has come that is held now, and how long it was nobody's.
func (h *handover) whence(now int64, protocol core.Protocol, token core.Epoch) (from core.Origin, took core.Duration) {
	switch {
	case h == nil:
		return core.OriginFree, 0
	case h.freed != 0:
		return core.OriginHere, core.Duration(now - h.freed)
	case h.fromDead(protocol, token):
		return core.OriginDead, 0
	}
	return core.OriginElsewhere, core.Duration(now - h.looked)
}

// fromDead reports whether nobody had given back what was taken.
func (h *handover) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but not that of an old client
		return !h.given && h.epoch != 0 && token == h.epoch+1
	}
	return h.record == core.ObservedHeld || h.record == core.ObservedStale || h.record == core.ObservedCorrupt
}
