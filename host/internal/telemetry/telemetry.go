// Package telemetry writes the log lines and counts the metrics of a Host: what is held,
// renewed, lost and handed over, and how the store answers. It decides nothing. The
// package comment of host lists every line and every metric.
package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mopslock/mopslock/core"
)

// Recorder logs and counts. Its methods may be called from any goroutine.
type Recorder struct {
	log   *slog.Logger
	meter *meter // nil if nothing is counted
	clock Clock
}

// Clock is the clock of the Host.
type Clock interface{ Now() core.Instant }

// New makes a Recorder. Without a provider it counts nothing, at no cost.
func New(log *slog.Logger, provider metric.MeterProvider, clock Clock) (*Recorder, error) {
	meter, err := newMeter(provider)
	return &Recorder{log, meter, clock}, err
}

// Kind is the sort of thing that is counted.
type Kind uint8

// The kinds.
const (
	Lease Kind = iota
	Companion
	Permit
	Session
	Invocation
)

// String is the kind as the text of an attribute.
func (k Kind) String() string {
	return [...]string{"lease", "companion", "permit", "session", "invocation"}[k]
}

// Holding is what is held, renewed or lost. Texts from other processes must be printable.
type Holding struct {
	Kind      Kind
	Name      string
	Protocol  core.Protocol
	TTL       time.Duration
	Holder    string
	Token     core.Epoch
	Weight    int64 // of a permit
	OnSession bool  // its session renews it, and it is lost with the session
}

func (h *Holding) labels() labels {
	return labels{kind: h.Kind.String(), protocol: protocolText(h.Protocol)}
}

// Messages whose events the caller also learns.
const (
	MessageContactLost  = "contact with the store lost; trying on"
	MessageLeaseLost    = "lease lost"
	MessagePermitLost   = "permit lost"
	MessageOutage       = "the store fails all reads, or all writes"
	MessageLeftToExpire = "closed before it was released; it expires by itself"
)

func (r *Recorder) now() int64 { return r.clock.Now().Mono }

// Question is a caller's request, from the time of asking to the answer. The zero Question
// is not counted.
type Question struct {
	of    *Recorder
	kind  Kind
	begun int64
}

// Ask begins to count a caller that waits for an answer.
func (r *Recorder) Ask(kind Kind) Question {
	if r.meter == nil {
		return Question{}
	}
	r.meter.change(r.meter.waitings, 1, labels{kind: kind.String()})
	return Question{r, kind, r.now()}
}

// Answer ends a question. An outcome of "" says that no store was asked: then Answer only
// ends the waiting.
func (q Question) Answer(protocol core.Protocol, outcome string) {
	if q.of == nil {
		return
	}
	m := q.of.meter
	m.change(m.waitings, -1, labels{kind: q.kind.String()})
	if outcome != "" {
		m.seconds(m.acquire, q.of.now()-q.begun, labels{kind: q.kind.String(), protocol: protocolText(protocol), outcome: outcome})
	}
}

// Held says that something is held from now on, and counts it until Gone. origin is of whom a
// lease has come, and took for how long it was nobody's.
func (r *Recorder) Held(h Holding, origin core.Origin, took time.Duration) {
	r.hold(&h, 1)
	if h.Kind == Lease {
		r.handedOver(&h, origin, took)
	}
	log := r.log
	switch h.Kind {
	case Session:
		log.Info("session opened", "session", h.Holder, "ttl", h.TTL)
	case Permit:
		log.Debug("permit acquired", "name", h.Name, "holder", h.Holder, "token", uint64(h.Token), "weight", h.Weight)
	case Companion:
		log.Info("companion joined", "name", h.Name, "protocol", h.Protocol.String(), "holder", h.Holder,
			"token", uint64(h.Token), "ttl", max(0, h.TTL))
	default:
		log.Info("lease acquired", "name", h.Name, "protocol", h.Protocol.String(), "holder", h.Holder,
			"token", uint64(h.Token), "ttl", max(0, h.TTL), "from", origin.String())
	}
}

// Gone takes a holding out of the count.
func (r *Recorder) Gone(h Holding) { r.hold(&h, -1) }

// hold adds a holding to the count, or takes it out of it.
func (r *Recorder) hold(h *Holding, sign int64) {
	m := r.meter
	if m == nil {
		return
	}
	switch h.Kind {
	case Session:
		m.change(m.sessions, sign, labels{})
	case Permit:
		m.change(m.permits, sign*h.Weight, labels{})
	default:
		m.change(m.leases, sign, h.labels())
	}
}

// handedOver counts from whom a lease has come, and how long that took.
func (r *Recorder) handedOver(to *Holding, origin core.Origin, took time.Duration) {
	m, l := r.meter, labels{protocol: to.Protocol.String(), from: origin.String()}
	switch {
	case m == nil:
	case origin == core.OriginDead:
		l.from = ""
		m.count(m.takeovers, l)
	case origin == core.OriginHere || origin == core.OriginElsewhere:
		m.seconds(m.handover, int64(took), l)
	}
}

// Released logs that a holding was given back.
func (r *Recorder) Released(h Holding) {
	log := r.log
	switch h.Kind {
	case Permit:
		log.Debug("permit released", "name", h.Name, "holder", h.Holder)
	case Companion:
		log.Info("companion left", "name", h.Name, "token", uint64(h.Token))
	default:
		log.Info("lease released", "name", h.Name, "token", uint64(h.Token))
	}
}

// LeftToExpire logs that a Close had no time to release a lease.
func (r *Recorder) LeftToExpire(h Holding) {
	r.log.Warn(MessageLeftToExpire, "name", h.Name, "token", uint64(h.Token))
}

// ContactLost logs that a companion's deadline has passed without a renewal.
func (r *Recorder) ContactLost(name string) { r.log.Warn(MessageContactLost, "name", name) }

// Counts reports whether there is a meter.
func (r *Recorder) Counts() bool { return r.meter != nil }

// Renewed counts a good renewal, and records how much of the TTL was left to the deadline
// when its answer came.
func (r *Recorder) Renewed(h Holding, left time.Duration) {
	m := r.meter
	if m == nil || h.OnSession {
		return
	}
	l := h.labels()
	if h.TTL > 0 {
		share := float64(left) / float64(h.TTL)
		m.left.Record(context.Background(), share, m.of(l).record...)
	}
	l.outcome = "renewed"
	m.count(m.renewals, l)
}

// RenewalFailed counts a request of a renewal that got no answer.
func (r *Recorder) RenewalFailed(h Holding) {
	if m := r.meter; m != nil {
		l := h.labels()
		l.outcome = "failed"
		m.count(m.renewals, l)
	}
}

// Lost logs that a holding is lost, and counts the loss. A lease that is lost with its session
// is one of many: the session's own line is the warning.
func (r *Recorder) Lost(h Holding, why core.Reason, err error) {
	log, level := r.log, slog.LevelWarn
	if h.OnSession && (why == core.ReasonUnreachable || why == core.ReasonExpired) {
		level = slog.LevelInfo
	}
	switch h.Kind {
	case Session:
		log.Warn("session lost, and with it every lease on it", "reason", why.String())
	case Permit:
		log.Log(context.Background(), level, MessagePermitLost, "name", h.Name, "reason", why.String(), "error", err)
	default:
		log.Log(context.Background(), level, MessageLeaseLost, "name", h.Name, "reason", why.String(), "error", err)
	}
	if m := r.meter; m != nil {
		l := h.labels()
		l.reason = why.String()
		m.count(m.losses, l)
	}
}

// NotOurs logs that a companion came too late to join. It has lost nothing.
func (r *Recorder) NotOurs(name string, why core.Reason, err error) {
	log := r.log
	log.Info("the lease is not ours any more", "name", name, "reason", why.String(), "error", err)
}

// Outage logs that the store fails: three reads in a row, or three writes.
func (r *Recorder) Outage(verb core.ActionKind, class core.Class, err error) {
	r.log.Warn(MessageOutage, "verb", verb.String(), "class", class.String(), "error", err)
}

// Recovered logs that the store answers again.
func (r *Recorder) Recovered(failed uint64, took time.Duration) {
	log := r.log
	log.Info("the store answers again", "failed", failed, "lasted", took)
}
