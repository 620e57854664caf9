package host

import (
	"errors"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// What the log and the meter are told of what becomes of claims. All of it is called under the
// loop's lock, and told after it, in order: they are the user's, and may block.

func (h *Host) record(tell func(*telemetry.Recorder)) {
	h.loop.Later(func() { tell(h.telemetry) })
}

// recordHeld counts what is held from now on, and logs it.
func (h *Host) recordHeld(t *tenure, a *core.Action) {
	if h.quiet {
		return
	}
	holding, origin, took := t.holding(), a.Origin, a.Took
	h.record(func(r *telemetry.Recorder) { r.Held(holding, origin, took) })
}

// recordRenewed counts a good renewal, by what was left of the deadline before it.
func (h *Host) recordRenewed(t *tenure) {
	if !h.telemetry.Counts() {
		return
	}
	holding, left := t.holding(), time.Duration(t.own.Load()-h.clock.Now().Mono)
	h.record(func(r *telemetry.Recorder) { r.Renewed(holding, left) })
}

// recordRenewalFailed counts a request of a renewal that got no answer.
func (h *Host) recordRenewalFailed(holding telemetry.Holding) {
	if h.telemetry.Counts() {
		h.record(func(r *telemetry.Recorder) { r.RenewalFailed(holding) })
	}
}

// recordLost counts a loss, and logs it.
func (h *Host) recordLost(t *tenure, why core.Reason, err error) {
	holding := t.holding()
	h.record(func(r *telemetry.Recorder) { r.Lost(holding, why, err) })
}

// recordGone counts what is not held any more, and logs what was given back.
func (h *Host) recordGone(t *tenure, err error) {
	if h.quiet {
		return
	}
	holding := t.holding()
	e, _ := errors.AsType[*Error](err)
	back := e != nil && e.Kind == Ended && (e.Reason == core.ReasonReleased || t.kind == telemetry.Companion)
	h.record(func(r *telemetry.Recorder) {
		if back {
			r.Released(holding)
		}
		r.Gone(holding)
	})
}
