// # Metrics
//
// The metrics of a Host with Options.Meter. Names, units and attributes are stable;
// no attribute has a name, a holder, a key, a URL or any other text of users in it:
//
//	metric                       type           unit       attributes             what it says
//	mopslock.acquire.duration    histogram      s          kind protocol outcome  how long who asked for a lease, a permit, to join or to have work done waited for the answer
//	mopslock.handover.duration   histogram      s          protocol from          from a lease's release to held by who waited: here, exactly; elsewhere, at most (see below)
//	mopslock.takeovers           counter        {lease}    protocol               leases that who waited took from a dead holder
//	mopslock.renewals            counter        {renewal}  kind protocol outcome  renewals that were good, and requests of renewals without an answer, which are tried again
//	mopslock.renewal.left        histogram      1          kind protocol          how much was left to the deadline when a renewal's answer came, as a share of the TTL; 0 and below is late
//	mopslock.losses              counter        {loss}     kind protocol reason   what was held, or joined, and lost before it was given back
//	mopslock.requests            counter        {request}  verb outcome           requests to the store that have ended
//	mopslock.request.duration    histogram      s          verb                   how long they took
//	mopslock.requests.in_flight  updowncounter  {request}  -                      requests that are with the store
//	mopslock.leases.held         updowncounter  {lease}    kind protocol          leases held, or kept alive for another (kind companion)
//	mopslock.permits.held        updowncounter  {permit}   -                      permits held by this process, by their weights
//	mopslock.sessions            updowncounter  {session}  -                      sessions in force
//	mopslock.waiters             updowncounter  {waiter}   kind                   who has asked and has no answer yet
//
// kind is lease, companion, permit, session or invocation (which ends with held when
// there is work to launch, with found when there is a result). protocol is strict or
// lastwriter, or unknown where the store was not there to tell. outcome of acquire is
// held, found, refused (another holds it, or there is no room), unavailable (the
// store), unfit, cancelled or lost; of renewals renewed or failed; of requests yes,
// no (absent, exists), cancelled, or the class of the failure.
//
// A release by this Host and the held that follows are on one clock: from is here. Of
// others' releases nobody tells when they were. A waiter knows that the holder had
// not released when it sent its last look that still showed him: from is elsewhere,
// and the time counts from there, so it is too long by a poll at most.
//
//	holder   . . . . . . . . . . put(released)
//	waiter   look(held) . . . . . . . . . . . . look(released) claim ── held
//	         |------------------ elsewhere -------------------------------|
//
// What stands on a session is held and lost for itself; what is renewed is the session,
// and a renewal of it is one.
package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mopslock/mopslock/core"
)

// meter counts what a Host does, as the package comment says. nil counts nothing.
type meter struct {
	clock Clock

	acquire, handover, left, took metric.Float64Histogram

	takeovers, renewals, losses, requests         metric.Int64Counter
	inFlight, leases, permits, sessions, waitings metric.Int64UpDownCounter

	mu   sync.RWMutex
	sets map[labels]*measured
}

// scope is whom the metrics are of.
const scope = "github.com/mopslock/mopslock/host"

// labels are the attributes of a measurement; "" is left out.
type labels struct{ kind, protocol, outcome, reason, from, verb string }

// measured is labels as the instruments take them, made once.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// newMeter makes the instruments. Of no provider there is none: a nil meter counts
// nothing and costs nothing.
func newMeter(provider metric.MeterProvider, clock Clock) (*meter, error) {
	if provider == nil {
		return nil, nil
	}
	m := &meter{clock: clock, sets: map[labels]*measured{}}
	from := maker{Meter: provider.Meter(scope)}
	m.acquire = from.histogram("mopslock.acquire.duration", "s", "Time from asking to the answer.", waits...)
	m.handover = from.histogram("mopslock.handover.duration", "s", "Time from a lease's release to held by who waited.", waits...)
	m.takeovers = from.counter("mopslock.takeovers", "{lease}", "Leases taken from dead holders.")
	m.renewals = from.counter("mopslock.renewals", "{renewal}", "Renewals by outcome.")
	m.left = from.histogram("mopslock.renewal.left", "1", "Share of the TTL that was left to the deadline when a renewal's answer came.", shares...)
	m.losses = from.counter("mopslock.losses", "{loss}", "What was held and lost, by reason.")
	m.requests = from.counter("mopslock.requests", "{request}", "Requests to the store by verb and outcome.")
	m.took = from.histogram("mopslock.request.duration", "s", "Time that requests to the store took.", answers...)
	m.inFlight = from.upDown("mopslock.requests.in_flight", "{request}", "Requests that are with the store.")
	m.leases = from.upDown("mopslock.leases.held", "{lease}", "Leases held, or kept alive for another.")
	m.permits = from.upDown("mopslock.permits.held", "{permit}", "Permits held, by their weights.")
	m.sessions = from.upDown("mopslock.sessions", "{session}", "Sessions in force.")
	m.waitings = from.upDown("mopslock.waiters", "{waiter}", "Who has asked and has no answer yet.")
	if err := errors.Join(from.failed...); err != nil {
		return nil, fmt.Errorf("mopslock: host: Meter: %w", err)
	}
	return m, nil
}

// The bounds of the histograms' buckets: of waits and requests in seconds.
var (
	waits   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	answers = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	shares  = []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9}
)

// maker makes instruments, and remembers what went wrong.
type maker struct {
	metric.Meter
	failed []error
}

func (f *maker) histogram(name, unit, help string, bounds ...float64) metric.Float64Histogram {
	h, err := f.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(bounds...))
	f.failed = append(f.failed, err)
	return h
}

func (f *maker) counter(name, unit, help string) metric.Int64Counter {
	c, err := f.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	f.failed = append(f.failed, err)
	return c
}

func (f *maker) upDown(name, unit, help string) metric.Int64UpDownCounter {
	c, err := f.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
	f.failed = append(f.failed, err)
	return c
}

// of is labels as the instruments take them. There are as many as there are words
// for them, so they are kept.
func (m *meter) of(l labels) *measured {
	m.mu.RLock()
	found := m.sets[l]
	m.mu.RUnlock()
	if found != nil {
		return found
	}
	var all []attribute.KeyValue
	for _, pair := range [][2]string{
		{"kind", l.kind}, {"protocol", l.protocol}, {"outcome", l.outcome}, {"reason", l.reason}, {"from", l.from}, {"verb", l.verb},
	} {
		if pair[1] != "" {
			all = append(all, attribute.String(pair[0], pair[1]))
		}
	}
	option := metric.WithAttributeSet(attribute.NewSet(all...))
	made := &measured{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets[l] = made
	return made
}

func (m *meter) count(c metric.Int64Counter, l labels) {
	c.Add(context.Background(), 1, m.of(l).add...)
}

func (m *meter) change(c metric.Int64UpDownCounter, by int64, l labels) {
	c.Add(context.Background(), by, m.of(l).add...)
}

func (m *meter) seconds(h metric.Float64Histogram, nanoseconds int64, l labels) {
	h.Record(context.Background(), time.Duration(nanoseconds).Seconds(), m.of(l).record...)
}

func (m *meter) now() int64 { return m.clock.Now().Mono }

// The kinds.
const (
	kindLease      = "lease"
	kindCompanion  = "companion"
	kindPermit     = "permit"
	kindSession    = "session"
	kindInvocation = "invocation"
)

// kind is what a member is counted as.
func (m *member) kind() string {
	switch {
	case m.beats != nil:
		return kindSession
	case m.claim != nil:
		return kindPermit
	case m.guarded:
		return kindLease
	}
	return kindCompanion
}

// protocolText is a protocol as an attribute.
func protocolText(p core.Protocol) string {
	if p == 0 {
		return "unknown"
	}
	return p.String()
}

// asking is a question of a caller's, from when it was asked. The zero asking is
// that of nobody who counts.
type asking struct {
	meter *meter
	kind  string
	begun int64
}

// asks begins to count one who waits for an answer.
func (m *meter) asks(kind string) asking {
	if m == nil {
		return asking{}
	}
	m.change(m.waitings, 1, labels{kind: kind})
	return asking{meter: m, kind: kind, begun: m.now()}
}

// answered takes how it ended. What was wrong with the question itself counts for
// nothing: no store was asked.
func (a asking) answered(ctx context.Context, protocol core.Protocol, err error) {
	if a.meter == nil {
		return
	}
	a.end(protocol, outcomeOf(ctx, err))
}

func (a asking) end(protocol core.Protocol, outcome string) {
	m := a.meter
	if m == nil {
		return
	}
	m.change(m.waitings, -1, labels{kind: a.kind})
	if outcome != "" {
		m.seconds(m.acquire, m.now()-a.begun, labels{kind: a.kind, protocol: protocolText(protocol), outcome: outcome})
	}
}

// outcomeOf is what became of an acquire, in a word; "" if nothing did.
func outcomeOf(ctx context.Context, err error) string {
	e, ours := errors.AsType[*Error](err)
	_, engine := errors.AsType[*EngineError](err)
	switch {
	case err == nil:
		return "held"
	case !ours && (ctx.Err() != nil || errors.Is(err, ErrClosed)), ours && e.Reason == core.ReasonCancelled:
		return "cancelled"
	case !ours && !engine:
		return ""
	case !ours, e.Class.Permanent(), e.Reason == core.ReasonUnreachable, e.Reason == core.ReasonUnusable, e.Reason == core.ReasonUnreadable:
		return "unavailable"
	case e.Kind == Unfit, e.Reason == core.ReasonCrowded:
		return "unfit"
	case e.Kind == Lost:
		return "lost"
	}
	return "refused"
}
