package telemetry

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// Outage is a time in which the store does not answer. One goroutine at a time may use
// it. The zero value means that the store answers.
type Outage struct {
	failed int   // requests in a row
	since  int64 // the Mono of the first
	told   bool
}

// outageAfter is how many requests in a row must fail before a log line says so. After a
// single failure the request is simply tried again.
const outageAfter = 3

// Answered records a request that was answered. It ends the outage, if there is one.
func (o *Outage) Answered(r *Recorder) {
	if log := r.log; o.told {
		log.Info("the store answers again", "failed", o.failed, "lasted", time.Duration(r.now()-o.since))
	}
	*o = Outage{}
}

// Failed records a request without an answer.
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
