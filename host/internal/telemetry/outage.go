package telemetry

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// Outage is a time in which the store answers nothing. It may be used by one goroutine
// at a time; the zero value is that all is well.
type Outage struct {
	failed int   // requests in a row
	since  int64 // Mono, of the first
	told   bool
}

// outageAfter is how many requests in a row must fail to be told: a single failure is
// nothing, the request is tried again.
const outageAfter = 3

// Answered ends the outage, if there is one.
func (o *Outage) Answered(r *Recorder) {
	if log := r.log; o.told {
		log.Info("the store answers again", "failed", o.failed, "lasted", time.Duration(r.now()-o.since))
	}
	*o = Outage{}
}

// Failed takes a request without an answer.
func (o *Outage) Failed(r *Recorder, verb core.ActionKind, class core.Class, err error) {
	if o.failed++; o.failed == 1 {
		o.since = r.now()
	}
	if o.failed < outageAfter || o.told {
		return
	}
	o.told = true
	r.log.Warn(MessageOutage, "verb", verb.String(), "class", class.String(), "error", err)
}
