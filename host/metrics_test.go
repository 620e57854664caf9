package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// gauge is what a Host's metrics are read from.
type gauge struct {
	world  *world
	reader *sdk.ManualReader
}

// metered adds a Host with a Meter.
func (w *world) metered(change ...func(*Options)) (*actor, *gauge) {
	w.Helper()
	g := &gauge{world: w, reader: sdk.NewManualReader()}
	provider := sdk.NewMeterProvider(sdk.WithReader(g.reader))
	return w.hostWith(func(o *Options) {
		o.Meter = provider
		for _, also := range change {
			also(o)
		}
	}), g
}

func (g *gauge) collect() []metricdata.Metrics {
	g.world.Helper()
	var all metricdata.ResourceMetrics
	g.world.ok(g.reader.Collect(background, &all))
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	g.world.same("scopes", len(all.ScopeMetrics), 1)
	g.world.same("scope", all.ScopeMetrics[0].Scope.Name, telemetry.Scope)
	return all.ScopeMetrics[0].Metrics
}

// text is attributes as tests have them: "kind=lease protocol=strict".
func text(set attribute.Set) string {
	var out []string
	for _, pair := range set.ToSlice() {
		out = append(out, string(pair.Key)+"="+pair.Value.AsString())
	}
	return strings.Join(out, " ")
}

// point is what a metric has by some attributes: a sum, or a count of a histogram.
type point struct {
	of               attribute.Set
	n                int64
	sum, least, most float64
}

func pointsOf(m metricdata.Metrics) (kind string, points []point) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		kind = "updowncounter"
		if data.IsMonotonic {
			kind = "counter"
		}
		for _, p := range data.DataPoints {
			points = append(points, point{of: p.Attributes, n: p.Value})
		}
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			least, _ := p.Min.Value()
			most, _ := p.Max.Value()
			points = append(points, point{p.Attributes, int64(p.Count), p.Sum, least, most})
		}
	}
	return kind, points
}

// all are the points of a metric by attributes. Those that are 0 again are left out.
func (g *gauge) all(name string) map[string]point {
	g.world.Helper()
	found := map[string]point{}
	for _, m := range g.collect() {
		if m.Name == "mopslock."+name {
			_, points := pointsOf(m)
			for _, p := range points {
				if p.n != 0 {
					found[text(p.of)] = p
				}
			}
		}
	}
	return found
}

// points are their numbers.
func (g *gauge) points(name string) map[string]int64 {
	g.world.Helper()
	found := map[string]int64{}
	for at, p := range g.all(name) {
		found[at] = p.n
	}
	return found
}

// is fails the test unless a metric is just so: "attributes 1; attributes 2", in
// order, as points has them.
func (g *gauge) is(name, want string) {
	g.world.Helper()
	points := g.points(name)
	var got []string
	for _, at := range slices.Sorted(maps.Keys(points)) {
		got = append(got, strings.TrimSpace(fmt.Sprint(at, " ", points[at])))
	}
	if text := strings.Join(got, "; "); text != want {
		g.world.Errorf("%s:\n     %s\nwant %s", name, text, want)
	}
}

// sum is all that a histogram took, in its unit, and the least and the most.
func (g *gauge) sum(name, attributes string) (sum, least, most float64) {
	g.world.Helper()
	p, ok := g.all(name)[attributes]
	g.world.same(name+" has "+attributes, ok, true)
	return p.sum, p.least, p.most
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// One lease from acquire to release, with three renewals.
func TestMetricsOfALease(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, g := w.metered()
		protocol := "protocol=" + terms.Protocol.String()
		begun := time.Now()
		l := p.hold("n", terms)
		took := time.Since(begun).Seconds()
		held := "kind=lease outcome=held " + protocol
		g.is("acquire.duration", held+" 1")
		if sum, _, _ := g.sum("acquire.duration", held); !near(sum, took) {
			w.Errorf("acquire took %v, not %v", sum, took)
		}
		g.is("leases.held", "kind=lease "+protocol+" 1")
		g.is("waiters", "")
		w.until(time.Second, func() bool { return g.points("renewals")["kind=lease outcome=renewed "+protocol] == 3 })
		g.is("renewals", "kind=lease outcome=renewed "+protocol+" 3")
		g.is("renewal.left", "kind=lease "+protocol+" 3")
		// Renewed at a third of the TTL or up to a sixth before, with 0.9 of it to the deadline.
		if _, least, most := g.sum("renewal.left", "kind=lease "+protocol); least < .9-1./3-.01 || most > .9-1./3*5/6 {
			w.Errorf("left from %v to %v of the TTL", least, most)
		}
		w.ok(l.Release(background))
		g.is("leases.held", "")
		g.is("losses", "")
		g.is("handover.duration", "")
		g.is("requests.in_flight", "")
	})
}

// Each end that a holder does not want is counted by its reason, and by none other.
func TestMetricsOfLosses(t *testing.T) {
	breaks := func(p *actor) { p.world.host().breaks("n", &BreakOptions{Why: "a test"}) }
	each(t, map[core.Reason]func(p *actor){
		core.ReasonTaken:       func(p *actor) { p.world.place("n", theirs()) },
		core.ReasonReleased:    breaks,
		core.ReasonBroken:      breaks,
		core.ReasonUnreachable: func(p *actor) { p.store.always(fault{class: core.ClassUnreachable}) },
		core.ReasonExpired:     func(p *actor) { p.clock.jump(10 * minute) },
	}, func(w *world, reason core.Reason, end func(p *actor)) {
		p, g := w.metered()
		by := terms
		if reason == core.ReasonBroken {
			by = strict
		}
		l := p.hold("n", by)
		w.sleep(time.Second)
		end(p)
		<-l.Done()
		synctest.Wait()
		g.is("losses", "kind=lease protocol="+by.Protocol.String()+" reason="+reason.String()+" 1")
		g.is("leases.held", "")
	})
}

// A session that dies is one loss, and so is each that stood on it; a renewal of it
// is one for all.
func TestMetricsOfASession(t *testing.T) {
	bubble(t, func(w *world) {
		p, g := w.metered()
		l := p.sessional("a")
		p.sessional("b")
		p.permit("n", six, PermitOptions{Weight: 2})
		g.is("sessions", "1")
		g.is("permits.held", "2")
		g.is("leases.held", "kind=lease protocol=strict 2")
		w.until(time.Second, func() bool { return len(g.points("renewals")) > 0 })
		g.is("renewals", "kind=session outcome=renewed protocol=strict 1")
		g.is("renewal.left", "kind=session protocol=strict 1")
		p.store.always(fault{class: core.ClassUnreachable})
		<-l.Done()
		w.sleep(time.Second)
		g.is("losses", "kind=lease protocol=strict reason=unreachable 2; kind=permit protocol=strict reason=unreachable 1; "+
			"kind=session protocol=strict reason=unreachable 1")
		warned := strings.Join(p.log.lines("WARN"), "\n")
		w.same("one warning for all", strings.Count(warned, " lost"), 1)
		w.same("of the session", strings.Contains(warned, `msg="session lost, and with it every lease on it" reason=unreachable`), true)
		g.is("sessions", "")
		g.is("permits.held", "")
		g.is("leases.held", "")
		p.store.heal()
		p.sessional("c")
		g.is("sessions", "1")
		w.ok(p.Close(background))
		g.is("sessions", "")
		g.is("leases.held", "")
		g.is("requests.in_flight", "")
	})
}

// Who waits is counted while he does; who gives up, who is refused and whom the store
// fails, by how it ended. What was wrong with the question is nobody's wait.
func TestMetricsOfWaiters(t *testing.T) {
	bubble(t, func(w *world) {
		holder := w.host()
		held := holder.strictly("n")
		p, g := w.metered()
		p.sessional("warm")
		w.is(errOf(p.tryStrictly("n")), ErrNotAcquired)
		for range 6 {
			p.permit("s", six)
		}
		ctx := w.limited(2 * time.Second)
		lease := beside(func() error { return errOf(p.Acquire(ctx, "n", &AcquireOptions{Terms: strict})) })
		permit := beside(func() error { return errOf(p.AcquirePermit(ctx, "s", six, &PermitOptions{Terms: permitTerms})) })
		w.sleep(time.Second)
		g.is("waiters", "kind=lease 1; kind=permit 1")
		g.is("permits.held", "6")
		w.is(<-lease, context.DeadlineExceeded)
		w.is(<-permit, context.DeadlineExceeded)
		w.is(errOf(p.tryPermit("s", six)), ErrFull)
		_, err := p.Acquire(background, "", nil)
		w.same("bad name", err != nil, true)
		_, err = p.AcquirePermit(background, "s", View{}, nil)
		w.same("bad view", err != nil, true)
		p.store.always(fault{class: core.ClassUnauthorized})
		w.is(errOf(p.tryStrictly("other")), ErrNotAcquired)
		p.store.heal()
		g.is("waiters", "")
		g.is("acquire.duration", "kind=lease outcome=cancelled protocol=strict 1; kind=lease outcome=held protocol=strict 1; "+
			"kind=lease outcome=refused protocol=strict 1; kind=lease outcome=unavailable protocol=strict 1; "+
			"kind=permit outcome=cancelled protocol=strict 1; kind=permit outcome=held protocol=strict 6; "+
			"kind=permit outcome=refused protocol=strict 1")
		holder.release(held)
	})
}

// A companion is counted as one: that it comes too late is no loss, that it is out of
// touch is none either, and the renewal that ends this was late.
func TestMetricsOfACompanion(t *testing.T) {
	bubble(t, func(w *world) {
		holder := w.host()
		l := holder.strictly("n")
		p, g := w.metered()
		c := p.joins(l.Handle())
		g.is("leases.held", "kind=companion protocol=strict 1")
		w.until(time.Second, func() bool { return len(g.points("renewals")) > 0 })
		g.is("renewals", "kind=companion outcome=renewed protocol=strict 1")
		p.store.always(fault{class: core.ClassUnreachable})
		w.sleep(minute)
		w.same("renewals that failed", g.points("renewals")["kind=companion outcome=failed protocol=strict"] > 2, true)
		p.store.heal()
		w.sleep(10 * time.Second)
		if _, least, _ := g.sum("renewal.left", "kind=companion protocol=strict"); least >= 0 {
			w.Errorf("the latest came with %v left", least)
		}
		g.is("losses", "")
		g.is("leases.held", "kind=companion protocol=strict 1")
		w.ok(c.Leave(background))
		holder.release(l)
		w.is(errOf(p.Accompany(background, l.Handle(), nil)), ErrLost)
		g.is("leases.held", "")
		g.is("losses", "")
		g.is("acquire.duration", "kind=companion outcome=held protocol=strict 1; kind=companion outcome=lost protocol=strict 1")
	})
}

// Sessions are counted as long as they are renewed: not when the client is gone, by a failed engine or by a
// Close that was forced.
func TestMetricsOfSessionsThatAreGone(t *testing.T) {
	each(t, map[string]bool{"engine": true, "close": false}, func(w *world, _ string, trap bool) {
		engine := &fragile{}
		p, g := w.metered(func(o *Options) { o.Engine = engine })
		p.sessional("n")
		g.is("sessions", "1")
		if p.store.always(fault{hang: true}); trap {
			engine.broken.Store(true)
			w.is(errOf(p.try("other")), errTrap)
		} else {
			_ = p.Close(w.limited(0))
		}
		synctest.Wait()
		g.is("sessions", "")
	})
}

// An invocation waits until there is work to launch, or a result; its lease is a lease.
func TestMetricsOfAnInvocation(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, g := w.metered()
		protocol := "protocol=" + terms.Protocol.String()
		_, err := p.invoke("n", func(ctx context.Context, work *Work) error {
			g.is("leases.held", "kind=lease "+protocol+" 1")
			g.is("waiters", "")
			return returns("42", minute)(ctx, work)
		}, terms)
		w.ok(err)
		w.sleep(time.Second)
		_, err = p.invoke("n", w.never, terms)
		w.ok(err)
		w.is(errOf(p.invoke("m", func(context.Context, *Work) error { return errors.New("no") }, terms)), ErrNoResult)
		g.is("acquire.duration", "kind=invocation outcome=found "+protocol+" 1; kind=invocation outcome=held "+protocol+" 2")
		g.is("waiters", "")
		g.is("leases.held", "")
	})
}

// Every request that the store saw is counted, of every sender, and no other.
func TestMetricsOfRequests(t *testing.T) {
	bubble(t, func(w *world) {
		p, g := w.metered()
		story(w, p)
		g.is("requests.in_flight", "")
		seen, verbs := map[string]int64{}, g.points("request.duration")
		for _, c := range p.store.log() {
			seen["verb="+c.verb]++
		}
		counted := map[string]int64{}
		for at, n := range g.points("requests") {
			_, verb, _ := strings.Cut(at, " ")
			counted[verb] += n
		}
		w.same("requests", fmt.Sprint(counted), fmt.Sprint(seen))
		w.same("durations", fmt.Sprint(verbs), fmt.Sprint(seen))
		w.same("verbs", len(seen), 6)
		w.same("what is not there", g.points("requests")["outcome=no verb=exists"] > 0, true)
		w.has(fmt.Sprint(g.points("requests")), "outcome=yes", "outcome=no", "outcome=cancelled", "outcome=throttled", "outcome=unauthorized")
	})
}

// story has a bit of everything in it.
func story(w *world, p *actor) {
	other := w.host()
	other.strictly("customer 4711/held")
	l := p.strictly("customer 4711/a")
	p.sessional("customer 4711/b")
	old := p.acquire("customer 4711/old")
	permit := p.permit("customer 4711/s", six)
	w.is(errOf(p.tryStrictly("customer 4711/held")), ErrNotAcquired)
	ctx := w.limited(3 * time.Second)
	w.is(errOf(p.Acquire(ctx, "customer 4711/held", &AcquireOptions{Terms: strict})), context.DeadlineExceeded)
	result, err := p.invoke("customer 4711/work", returns("42", time.Second), strict)
	w.ok(err)
	w.holds(result, "42")
	_, err = p.Took(background, "customer 4711/work")
	w.ok(err)
	for _, err := range p.List(background, "customer") {
		w.ok(err)
	}
	_, err = p.Inspect(background, "customer 4711/old")
	w.ok(err)
	for _, class := range []core.Class{core.ClassThrottled, core.ClassUnauthorized} {
		p.store.always(fault{class: class})
		w.sleep(20 * time.Second)
		p.store.heal()
		w.sleep(20 * time.Second)
	}
	p.store.always(fault{hang: true})
	_, err = p.Inspect(w.limited(time.Second), "customer 4711/old")
	w.same("hangs", err != nil, true)
	ctx, stop := context.WithCancel(background)
	time.AfterFunc(time.Second, stop)
	_, err = p.Inspect(ctx, "customer 4711/old")
	w.same("cancelled", err != nil, true)
	p.store.heal()
	w.sleep(20 * time.Second)
	p.release(l)
	p.release(old)
	p.giveBack(permit)
	w.ok(p.Close(background))
}

// words are all that attributes may say: none is anybody's text.
var words = strings.Fields(`lease companion permit session invocation strict lastwriter unknown
	held found refused unavailable unfit cancelled lost renewed failed yes no here elsewhere
	taken broken released unreachable expired
	get put create exists list delete create_result put_result
	other throttled unauthorized no_such_store read_only full`)

// The metrics are those of the package comment, with the types, units and attributes
// that it says; and an attribute is a word of ours, never a name, a key or a holder.
func TestMetricsTable(t *testing.T) {
	type row struct{ kind, unit string }
	documented, attributes := map[string]row{}, map[string][]string{}
	for _, cells := range tables(t, "metrics.go") {
		if strings.HasPrefix(cells[0], "mopslock.") {
			documented[cells[0]] = row{cells[1], cells[2]}
			attributes[cells[0]] = strings.Fields(strings.Trim(cells[3], "-"))
		}
	}
	bubble(t, func(w *world) {
		p, g := w.metered()
		story(w, p)
		lease := telemetry.Holding{Kind: telemetry.Lease, Protocol: core.ProtocolStrict, Token: 2} // what the story lacks
		p.telemetry.Lost(lease, core.ReasonTaken, nil)
		p.telemetry.Held(lease, core.OriginDead, 0)
		p.telemetry.Held(lease, core.OriginElsewhere, time.Second)
		found := map[string]row{}
		for _, m := range g.collect() {
			kind, points := pointsOf(m)
			found[m.Name] = row{kind, m.Unit}
			w.same(m.Name+" is described", m.Description != "", true)
			for _, point := range points {
				for _, pair := range point.of.ToSlice() {
					if !slices.Contains(words, pair.Value.AsString()) || !slices.Contains(attributes[m.Name], string(pair.Key)) {
						t.Errorf("%s: %s=%s is none of our words, or not in the comment", m.Name, pair.Key, pair.Value.AsString())
					}
				}
			}
		}
		same(t, "metrics", found, documented)
	})
}

// Without a Meter nothing stands between a Host and its store, and to count costs no
// allocation; with one, sets of attributes are made once.
func TestMetricsCost(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.same("the store itself", p.verbs, p.Host.store)
		request := func(r *telemetry.Recorder) func() {
			return func() { r.Ended(background, core.ActionPut, r.Sent(), false, nil) }
		}
		renewal := func(r *telemetry.Recorder) func() {
			return func() {
				r.Renewed(telemetry.Holding{Kind: telemetry.Lease, Protocol: core.ProtocolStrict, TTL: minute}, time.Second)
			}
		}
		w.same("a request uncounted", testing.AllocsPerRun(100, request(p.telemetry)), 0.)
		w.same("a renewal uncounted", testing.AllocsPerRun(100, renewal(p.telemetry)), 0.)
		quiet := w.hostWith(func(o *Options) { o.Logger, o.Meter = nil, noop.NewMeterProvider() })
		w.same("a request", testing.AllocsPerRun(100, request(quiet.telemetry)), 0.)
		w.same("a renewal", testing.AllocsPerRun(100, renewal(quiet.telemetry)), 0.)
	})
}

// A Meter that cannot make an instrument is told at once.
func TestBadMeter(t *testing.T) {
	bubble(t, func(w *world) {
		_, err := New(newFakeStore(w.backend), &Options{Meter: badProvider{}})
		if !errors.Is(err, errBadMeter) || !strings.HasPrefix(err.Error(), "mopslock: host: Meter: ") {
			w.Error(err)
		}
	})
}

var errBadMeter = errors.New("no such instrument")

type badProvider struct{ embedded.MeterProvider }

func (badProvider) Meter(string, ...metric.MeterOption) metric.Meter { return badMeter{} }

type badMeter struct{ noop.Meter }

func (badMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, errBadMeter
}
