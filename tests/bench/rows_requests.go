//go:build unix

package main

import "strings"

var (
	requestCosts = countsOf("host", "Requests")
	hourlyCosts  = countsOf("host", "RequestsPerHour")
	strictCrowd  = trialOf(goBench{"tests/bench", "Contenders/strict"})
	writersCrowd = trialOf(goBench{"tests/bench", "Contenders/lastwriter"})
)

// costing is a row of the requests that one thing makes, which are counted, beside
// those that it cannot do without.
func costing(what, verbs string) row {
	n := float64(len(strings.Split(verbs, " + ")))
	return row{
		what: "requests, " + what + " / " + verbs, budget: times(1), rounds: 1,
		ours: requestCosts.figure(strings.ReplaceAll(what, " ", "-"), inNumber), beside: set(n, inNumber),
	}
}

// requestRows are counted in virtual time, by hosts on a store that writes down what
// it is asked. Probes of a store, samples of its clock and the check for an old
// client's record are not counted.
var requestRows = []row{
	costing("strict, never used", "list + create + list"),
	costing("strict, after another", "list + get + create"),
	costing("strict, again", "create"),
	costing("strict, take-over", "list + get + create"),
	costing("strict, take-over from a session", "list + get + session + create"),
	costing("strict, join", "list + get + create"), // the version's body tells what a join copies
	costing("strict, never used, on a session", "list + create + list"),
	costing("strict, release", "create"),
	costing("lastwriter, acquire", "get + put + get + put + later look"),
	costing("lastwriter, release", "get + put"),
	costing("strict, renewal", "put + exists"),
	costing("strict, renewal beside a lock.json", "put + exists + get"),
	costing("strict, renewal with an adoption", "put + exists + get + put + exists"),
	costing("session of 1,000, renewal", "put + exists"),
	costing("lastwriter, renewal", "get + put"),

	{what: "1,000 contenders, strict: requests of a waiter in a poll interval", ours: strictCrowd.figure("requests/poll", inNumber), budget: atMost(3), rounds: 1},
	{what: "1,000 contenders, strict: never served", ours: strictCrowd.figure("starved", inNumber), budget: atMost(0), rounds: 1},
	{what: "1,000 contenders, strict: hand-over, all but one of a hundred / a poll interval", ours: strictCrowd.figure("ns-hand-over-p99", inTime), beside: set(5e9, inTime), budget: times(0.5), rounds: 1},
	{what: "1,000 contenders, lastwriter: requests of a waiter in a poll interval", ours: writersCrowd.figure("requests/poll", inNumber), budget: atMost(2), rounds: 1},
	{what: "1,000 contenders, lastwriter: never served", ours: writersCrowd.figure("starved", inNumber), budget: atMost(0), rounds: 1},
	{what: "1,000 contenders, lastwriter: hand-over, all but one of a hundred / a poll interval", ours: writersCrowd.figure("ns-hand-over-p99", inTime), beside: set(5e9, inTime), budget: times(0.5), rounds: 1},
}

// Requests of a held lease in an hour: each project with its own defaults and renewals.
const (
	hourly     = "requests of a held lease in an hour, "
	hourlyOurs = hourly + "on a session of "

	aloneCurve, sessionCurve, mopsCurve = "mopslock, each alone", "mopslock, on a session", "mops"
)

// mopsPuts is mops' puts in an hour, by its own constants.
var mopsPuts = plainly{python{script: "interval.py", needs: []string{"thds.mops"}}, mopsCurve}

// plainly is a script's figure that is no time.
type plainly struct {
	python

	curve string
}

func (p plainly) measure(w *workshop) (figure, error) {
	f, err := p.python.measure(w)
	f.Unit, f.Curve = inNumber, p.curve
	return f, err
}

func hourlyOf(figure string) reading { return hourlyCosts.figure(figure, inNumber) }

func hourAlone(leases, figure string, held int) row {
	return row{what: hourly + leases, ours: hourlyOf(figure).on(aloneCurve), held: held, rounds: 1}
}

func hourOnSession(leases, figure string, held int) row {
	return row{what: hourlyOurs + leases, ours: hourlyOf(figure).on(sessionCurve), held: held, rounds: 1}
}

// hourBeside is a session of 1,000 beside another project, which has no session and
// renews as often as its defaults say.
func hourBeside(whose, curve, by string, perHour float64) row {
	beside := quote(perHour, inNumber, whose+", one held lease in an hour: "+by)
	beside.Curve = curve
	return row{
		what: hourlyOurs + "1,000 / " + whose, rounds: 1, held: 1000, budget: times(1. / perHour),
		ours: hourlyOf("session-1000"), beside: beside,
	}
}

// hourRows are at a TTL of a minute. Those with held are the points of a picture: the
// figure beside them is another project's line.
var hourRows = []row{
	{what: hourly + "alone, puts", ours: hourlyOf("alone-puts"), budget: atMost(216), rounds: 1},
	{what: hourly + "alone, exists of the next version", ours: hourlyOf("alone-exists"), budget: atMost(216), rounds: 1},
	{what: hourly + "alone, exists of its own version", ours: hourlyOf("alone-looks"), budget: atMost(108), rounds: 1},
	hourAlone("alone, all", "alone", 1),
	hourAlone("100 each alone, all", "alone-100", 100),
	hourOnSession("1", "session-1", 1),
	hourOnSession("10", "session-10", 10),
	hourOnSession("100", "session-100", 100),
	{what: hourlyOurs + "1,000", ours: hourlyOf("session-1000").on(sessionCurve), budget: atMost(1), held: 1000, rounds: 1},
	{
		what: hourlyOurs + "10,000 / one put a lease and interval", budget: times(1. / 1000), held: 10_000, rounds: 1,
		ours: hourlyOf("session-10000").on(sessionCurve), beside: hourlyOf("alone-puts"),
	},
	{what: hourlyOurs + "1,000 / mops' own puts, expire 88 s", ours: hourlyOf("session-1000"), beside: mopsPuts, held: 1000, rounds: 1},
	hourBeside("client-go's leader election", "client-go", "RetryPeriod is 2 s by the usual values of its LeaderElectionConfig", 1800),
	hourBeside("dynamolock", "dynamolock", "its heartbeat period is 5 s", 720),
	hourBeside("certmagic", "certmagic", "it writes a lock's file every 5 s", 720),
	hourBeside("Redisson", "Redisson", "a third of lockWatchdogTimeout, which is 30 s", 360),
	hourBeside("FooBarWidget's lock on GCS", "FooBarWidget GCS", "it refreshes about every 33 s", 108),
}
