package main

import "time"

// Times that are measured around a start and an outage.
const (
	startMinutes  = 3 // after the last has begun
	outageAfter   = time.Minute
	backWithin    = 30 * time.Second
	outageMinutes = 4 // after that
)

// fullSize is the fleet for which limits are the clouds' own.
const fullSize = 100_000

// plan is a scenario, for a fleet of a size.
type plan struct {
	number int
	key    string
	what   string
	table  table
	cloud  cloud

	orchestrators, leases int

	ttl      time.Duration // 0: 60 s
	prefixes int           // store prefixes over which orchestrators are spread
	byName   bool          // it is the names that are spread: a process is on many
	splits   int           // partitions into which the store has split a prefix
	waiters  int           // leases of a thousand for which another process waits
	life     time.Duration // of a tenure on average: from half of it to one and a half. 0: forever
	deaths   int           // orchestrators of a thousand that die in the window
	cold     bool          // limits apply from the beginning, and all is measured from there

	within  time.Duration // orchestrators begin
	lenient time.Duration // until when there are no limits, and nothing is measured
	window  time.Duration // what is measured
	outage  time.Duration // in the window, after outageAfter
	shrunk  bool          // limits are those of a smaller fleet
	heavy   bool          // a fleet breaks down, or is watched for long: hours at full size
	tenth   bool          // so it is a tenth of the fleet, against a tenth of the limits
}

// table is where in the report a scenario stands.
type table uint8

const (
	tableSteady table = iota
	tableWaits
	tableStart
	tableOutage
	tableCount
)

// plans are all the scenarios, of this size.
func plans(o *options) []*plan {
	const minute, half = time.Minute, 30 * time.Second
	all := []*plan{
		{key: "s3-1", what: "S3, 1 prefix, not split", cloud: s3, heavy: true},
		{key: "s3-1-ttl120", what: "S3, 1 prefix, not split", cloud: s3, ttl: 2 * minute},
		{key: "s3-1-ttl300", what: "S3, 1 prefix, not split", cloud: s3, ttl: 5 * minute},
		{key: "s3-split16", what: "S3, 1 prefix that S3 has split in 16", cloud: s3, splits: 16},
		{key: "s3-2", what: "S3, 2 prefixes", cloud: s3, prefixes: 2},
		{key: "s3-4", what: "S3, 4 prefixes", cloud: s3, prefixes: 4},
		{key: "s3-16", what: "S3, 16 prefixes", cloud: s3, prefixes: 16},
		{key: "s3-4-by-name", what: "S3, 4 prefixes, chosen by the lease's name", cloud: s3, prefixes: 4, byName: true, heavy: true},
		{key: "gcs-1", what: "GCS, a new bucket", cloud: gcs, heavy: true},
		{key: "gcs-1-ttl600", what: "GCS, a new bucket", cloud: gcs, ttl: 10 * minute},
		{key: "gcs-8", what: "GCS, grown to 8 times", cloud: gcs.grown()},
		{key: "azure-1", what: "Azure, 1 account", cloud: azure},

		{key: "s3-1-waiters", table: tableWaits, what: "S3, 1 prefix, not split", cloud: s3, ttl: 5 * minute, heavy: true},
		{key: "s3-4-waiters", table: tableWaits, what: "S3, 4 prefixes", cloud: s3, prefixes: 4, heavy: true},
		{key: "s3-8-waiters", table: tableWaits, what: "S3, 8 prefixes", cloud: s3, prefixes: 8},
		{key: "azure-1-waiters", table: tableWaits, what: "Azure, 1 account", cloud: azure, heavy: true},
		{key: "azure-2-waiters", table: tableWaits, what: "Azure, 2 accounts", cloud: azure, prefixes: 2},
		{key: "s3-16-hour", table: tableWaits, what: "S3, 16 prefixes, an hour", cloud: s3, prefixes: 16, window: time.Hour, heavy: true},

		{key: "s3-1-herd", table: tableStart, what: "S3, 1 prefix, not split", cloud: s3, within: time.Second, heavy: true},
		{key: "s3-16-herd", table: tableStart, what: "S3, 16 prefixes", cloud: s3, prefixes: 16, within: time.Second, heavy: true},
		{key: "s3-16-minute", table: tableStart, what: "S3, 16 prefixes", cloud: s3, prefixes: 16, within: minute},
		{key: "s3-4-ramp", table: tableStart, what: "S3, 4 prefixes", cloud: s3, prefixes: 4, within: 10 * minute},
		{key: "azure-1-ramp", table: tableStart, what: "Azure, 1 account", cloud: azure, within: 10 * minute},
		{key: "gcs-8-ramp", table: tableStart, what: "GCS, grown to 8 times", cloud: gcs.grown(), within: 10 * minute},

		{key: "s3-2-outage", table: tableOutage, what: "S3, 2 prefixes", cloud: s3, prefixes: 2, outage: half},
		{key: "s3-4-outage", table: tableOutage, what: "S3, 4 prefixes", cloud: s3, prefixes: 4, outage: half},
		{key: "s3-16-outage", table: tableOutage, what: "S3, 16 prefixes", cloud: s3, prefixes: 16, outage: half},
		{key: "gcs-8-outage", table: tableOutage, what: "GCS, grown to 8 times", cloud: gcs.grown(), outage: half},
		{key: "azure-1-outage", table: tableOutage, what: "Azure, 1 account", cloud: azure, outage: half},
	}
	for i, p := range all {
		p.number = i
		p.complete(o)
	}
	return all
}

// complete fills in what a scenario does not say.
func (p *plan) complete(o *options) {
	p.orchestrators, p.leases, p.shrunk = o.orchestrators, o.leases, o.shrunk
	switch {
	case o.shrunk:
		p.cloud = p.cloud.scaled(int64(o.orchestrators), fullSize)
	case p.heavy && o.orchestrators >= 10:
		p.tenth, p.orchestrators, p.leases, p.cloud = true, o.orchestrators/10, o.leases/10, p.cloud.scaled(1, 10)
	}
	if p.ttl == 0 {
		p.ttl = time.Minute
	}
	p.prefixes, p.splits = max(1, p.prefixes), max(1, p.splits)
	window := max(3*time.Minute, 2*p.ttl)
	switch p.table {
	case tableWaits:
		p.waiters, p.life, p.deaths = 100, 30*time.Minute, 10
	case tableStart:
		p.cold = true
		window = p.within + startMinutes*time.Minute
	case tableOutage:
		window = outageAfter + p.outage + backWithin + outageMinutes*time.Minute
	}
	if !p.cold {
		// Renewals are then spread evenly over their interval: three of them, of 11/36
		// of a TTL on average.
		p.within = p.ttl * 11 / 12
		p.lenient = p.within + p.ttl/4
	}
	if p.waiters > 0 { // and waits are under way
		p.lenient += time.Minute
	}
	if p.window == 0 {
		p.window = window
	}
}

// name is what readers know it by, and -only.
func (p *plan) name() string {
	if p.tenth {
		return p.what + " `" + p.key + "` " + tenthMark
	}
	return p.what + " `" + p.key + "`"
}

// tenthMark is in the name of a scenario that was played on a tenth of the fleet.
const tenthMark = "⅒"

// from and end are of the window.
func (p *plan) from() time.Duration { return p.lenient }
func (p *plan) end() time.Duration  { return p.from() + p.window }

// outageFrom is when the outage begins.
func (p *plan) outageFrom() time.Duration { return p.from() + outageAfter }

func (p *plan) isOut(at int64) bool {
	return p.outage > 0 && at >= int64(p.outageFrom()) && at < int64(p.outageFrom()+p.outage)
}
