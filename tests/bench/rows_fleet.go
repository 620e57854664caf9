//go:build unix

package main

import "time"

// The cost of 10,000 leases of one process while they are only held, on a session of TTL
// 60 s. It runs for a window of two renewals, once: each figure is of many.
var (
	fleet     = trialOf(goBench{"tests/bench", "Fleet"})
	fleetPuts = trialOf(goBench{"tests/bench", "FleetPuts"})
	lockHeld  = trialOf(goBench{"tests/bench", "LockHeld"}).figure("ns/p99.9", inTime)

	fleetRows = []row{
		{what: "10,000 leases held, memory of a lease", ours: fleet.figure("B/lease", inBytes), budget: atMost(1536), rounds: 1},
		{what: "10,000 leases held, goroutines of a lease", ours: fleet.figure("goroutines/lease", inNumber), budget: atMost(0), rounds: 1},
		{
			what: "10,000 leases held, requests in an interval / one put each", budget: times(1. / 5000), rounds: 1,
			ours: fleet.figure("requests/interval", inNumber), beside: fleetPuts.figure("requests/interval", inNumber),
		},
		{
			what: "10,000 leases held, of a core / one put each", budget: atMost(0.5), rounds: 1,
			ours: fleet.figure("core-%", inPercent), beside: fleetPuts.figure("core-%", inPercent),
		},
		{what: "10,000 claims renewing, the Host's lock held, the 99.9th percentile", ours: onTmpfs{lockHeld}, budget: atMost(float64(time.Millisecond)), rounds: 1},
	}
)
