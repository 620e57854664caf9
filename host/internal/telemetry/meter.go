package telemetry

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

// meter has the instruments of a Host.
type meter struct {
	acquire, handover, left, took metric.Float64Histogram

	takeovers, renewals, losses, requests         metric.Int64Counter
	inFlight, leases, permits, sessions, waitings metric.Int64UpDownCounter

	mu   sync.RWMutex
	sets map[labels]*measured
}

// Scope is the name of the instruments' scope.
const Scope = "github.com/mopslock/mopslock/host"

// labels are the attributes of a measurement. Those that are "" are left out.
type labels struct{ kind, protocol, outcome, reason, from, verb string }

// measured is labels in the form that the instruments take, made once.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// newMeter makes the instruments. Without a provider it returns nil.
func newMeter(provider metric.MeterProvider) (*meter, error) {
	if provider == nil {
		return nil, nil
	}
	m := &meter{sets: map[labels]*measured{}}
	from := maker{Meter: provider.Meter(Scope)}
	m.acquire = from.histogram("mopslock.acquire.duration", "s", "Time from a caller's question to the answer.", waits...)
	m.handover = from.histogram("mopslock.handover.duration", "s", "Time from a lease's release until a waiter holds it.", waits...)
	m.takeovers = from.counter("mopslock.takeovers", "{lease}", "Leases taken from dead holders.")
	m.renewals = from.counter("mopslock.renewals", "{renewal}", "Renewals by outcome.")
	m.left = from.histogram("mopslock.renewal.left", "1", "Share of the TTL that was left to the deadline when a renewal's answer came.", shares...)
	m.losses = from.counter("mopslock.losses", "{loss}", "Losses of what was held, by reason.")
	m.requests = from.counter("mopslock.requests", "{request}", "Requests to the store by verb and outcome.")
	m.took = from.histogram("mopslock.request.duration", "s", "Time that requests to the store took.", answers...)
	m.inFlight = from.upDown("mopslock.requests.in_flight", "{request}", "Requests to which the store has not answered yet.")
	m.leases = from.upDown("mopslock.leases.held", "{lease}", "Leases held, or kept alive for another.")
	m.permits = from.upDown("mopslock.permits.held", "{permit}", "Permits held, by their weights.")
	m.sessions = from.upDown("mopslock.sessions", "{session}", "Sessions in force.")
	m.waitings = from.upDown("mopslock.waiters", "{waiter}", "Callers that have asked and have no answer yet.")
	if err := errors.Join(from.failed...); err != nil {
		return nil, fmt.Errorf("mopslock: host: Meter: %w", err)
	}
	return m, nil
}

// The bounds of the histograms' buckets; those of waits and answers are seconds.
var (
	waits   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	answers = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	shares  = []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9}
)

// maker makes instruments, and keeps their errors.
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

// of returns labels in the form that the instruments take. It keeps them: there are
// only as many as there are combinations of words.
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

// protocolText returns a protocol as the text of an attribute.
func protocolText(p core.Protocol) string {
	if p == 0 {
		return "unknown"
	}
	return p.String()
}
