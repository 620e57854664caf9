package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// half is one of the two machines that a bridge is made of, or none.
type half struct {
	machine part
	wake    int64  `state:"due"` // when it wants to be woken
	leaves  bool   // it was told to leave, or to give back what is its tenure's
	before  uint64 // how many requests earlier ones have issued
	said    spoken `state:"scratch: of this Step"`
}

// part is a machine that another one is made of.
type part interface {
	core.Machine
	Base() *base.Machine
}

// spoken is what a half said when it was told something.
type spoken struct {
	held, waits bool
	out         bool            // it has lost contact
	ended       core.ActionKind // refused, lost, released or cannot_maintain
	why         core.Reason
	class       core.Class
	seen        *core.Observed
}

// forget drops a half that is over.
func (h *half) forget() {
	if h.machine != nil {
		h.before += uint64(h.machine.Base().Issued)
		h.machine, h.wake = nil, base.Unset
	}
}

// isOver reports whether nothing more comes of it.
func (h *half) isOver() bool { return h.machine == nil || h.machine.Idle() }

// Requests of the register have even numbers, those of lock.json odd ones, so that neither needs a table.
const halves = 2

// number is how the host knows a request of a half.
func (h *half) number(id core.RequestID, odd core.RequestID) core.RequestID {
	return halves*(core.RequestID(h.before)+id) - odd
}

// find is the request of this very machine that a host's number means, or 0: of one before it.
func (h *half) find(id core.RequestID) (core.RequestID, bool) {
	n := uint64(id+1) / halves
	switch {
	case n == 0 || n > h.before && (h.machine == nil || n-h.before > uint64(h.machine.Base().Issued)):
		return 0, false
	case n <= h.before:
		return 0, true
	}
	return core.RequestID(n - h.before), true
}

// leaseState is that of a half of a lease; of none, it is over.
func (h *half) leaseState() core.LeaseState {
	switch m := h.machine.(type) {
	case *strict.Lease:
		return m.State
	case *lastwriter.Lease:
		return m.State
	}
	return core.LeaseReleased
}
