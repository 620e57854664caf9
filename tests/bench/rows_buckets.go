//go:build unix

package main

// canal_lock's own benchmark is an acquire and a release. We take the lower figure for
// one alone and the higher for a crowd.
const canalLockPage = "canal_lock's own benchmark, capacity 100 and width 10, on Erlang/OTP 25: 33 to 154 µs"

var (
	canalLock     = quote(33_000, inTime, canalLockPage)
	canalLockMany = quote(154_000, inTime, canalLockPage)
	byName        = goBench{"tests/bench", "Limiter"}
	byNameMany    = goBench{"tests/bench", "LimiterMany"}
	sema          = goBench{"tests/bench", "Semaphore"}
	semaMany      = goBench{"tests/bench", "SemaphoreMany"}

	bucketRows = []row{
		{what: "limiter, acquire + release, 1 goroutine / canal_lock", ours: byName, beside: canalLock, budget: times(1. / 400), noAllocs: true},
		{what: "limiter, acquire + release, 100 goroutines / canal_lock", ours: byNameMany, beside: canalLockMany, budget: times(1. / 400), noAllocs: true},
		{what: "limiter, by name and holder, 1 goroutine / x/sync/semaphore", ours: byName, beside: sema, budget: times(6), noAllocs: true},
		{what: "limiter, by name and holder, 100 goroutines / x/sync/semaphore", ours: byNameMany, beside: semaMany, budget: times(4), noAllocs: true},
		{what: "limiter, on a slot, 1 goroutine / x/sync/semaphore", ours: goBench{"tests/bench", "LimiterSlot"}, beside: sema, budget: times(3), noAllocs: true},
		{what: "limiter, on a slot, 100 goroutines / x/sync/semaphore", ours: goBench{"tests/bench", "LimiterSlotMany"}, beside: semaMany, budget: times(2.5), noAllocs: true},
		{what: "limiter, 1 M names live, a name", ours: trialOf(goBench{"tests/bench", "LimiterMemory"}).figure("B/name", inBytes), budget: atMost(200)},
		{
			what: "shared semaphore, commits of 100 callers together, in and out / one each", budget: times(1. / 40),
			ours: requestCosts.figure("commits-of-a-hundred", inNumber), beside: set(200, inNumber),
		},
	}
)
