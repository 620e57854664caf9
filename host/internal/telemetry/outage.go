package telemetry

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// Outage is a time in which the store answers no reads, or no writes. One goroutine at a
// time may use it. The zero value means that the store answers.
type Outage struct{ of [2]outage } // of reads, of writes

type outage struct {
	failed int   // requests in a row
	since  int64 // the Mono of the first
	told   bool
}

// outageAfter is how many requests in a row must fail before a log line says so. After a
// single failure the request is simply tried again.
const outageAfter = 3

func (o *Outage) way(verb core.ActionKind) *outage {
	switch verb {
	case core.ActionGet, core.ActionExists, core.ActionList:
		return &o.of[0]
	}
	return &o.of[1]
}

// Answered records a request that was answered. It ends the outage, if there is one.
func (o *Outage) Answered(r *Recorder, verb core.ActionKind) {
	of := o.way(verb)
	if log := r.log; of.told {
		log.Info("the store answers again", "failed", of.failed, "lasted", time.Duration(r.now()-of.since))
	}
	*of = outage{}
}

// Failed records a request without an answer. While one way is told to fail, that the other does
// as well is no news.
func (o *Outage) Failed(r *Recorder, verb core.ActionKind, class core.Class, err error) {
	of := o.way(verb)
	if of.failed++; of.failed == 1 {
		of.since = r.now()
	}
	if of.failed < outageAfter || o.of[0].told || o.of[1].told {
		return
	}
	of.told = true
	r.log.Warn(MessageOutage, "verb", verb.String(), "class", class.String(), "error", err)
}
