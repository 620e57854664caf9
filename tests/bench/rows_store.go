//go:build unix

package main

import (
	"fmt"
	"time"
)

// uncontended are the rows of an acquire and a release under strict without contention.
// Beside them are exactly the requests that they send, bare, on the same store.
func uncontended() (rows []row) {
	for _, form := range []struct{ bench, what string }{
		{"StrictAgain", "acquire + release, strict, again, %s / create + create, bare"},
		{"StrictFresh", "acquire + release, strict, never used, %s / its requests, bare"},
	} {
		for _, kind := range [][2]string{{"file", "directory"}, {"s3", "S3"}, {"gs", "GCS"}, {"azblob", "Azure Blob"}} {
			both := trialOf(goBench{"tests/bench", form.bench + "/" + kind[0]})
			rows = append(rows, row{
				what: fmt.Sprintf(form.what, kind[1]), budget: times(1.3), rounds: 3,
				ours: both.figure("ns-ours", inTime), beside: both.figure("ns-bare", inTime),
			})
		}
	}
	return rows
}

// The longest poll interval of a waiter at a TTL of 2 s and of 10 s; and by how much
// stamps of whole seconds and front-ends may differ.
const (
	pollOf2s  = 500 * time.Millisecond
	pollOf10s = 1250 * time.Millisecond
	slop      = 2 * time.Second
)

// takeOvers are of 20 names whose holder was killed, the slowest of them: from the
// holder's last beat until another process holds them.
func takeOvers() []row {
	of := func(bench string) source {
		return trialOf(goBench{"tests/bench", "TakeOver/" + bench}).figure("ns-slowest", inTime)
	}
	return []row{
		{what: "take-over from a dead holder, same boot, directory / TTL", ours: of("boot"), beside: set(2e9, inTime), budget: moreTime(pollOf2s), rounds: 2},
		{what: "take-over from a dead holder, calibrated, S3 / TTL", ours: of("calibrated"), beside: set(10e9, inTime), budget: moreTime(slop + pollOf10s), rounds: 1},
		{what: "take-over from a dead holder, observed, by a waiter that comes a TTL late / TTL", ours: of("observed"), beside: set(2e9, inTime), budget: moreTime(2*time.Second + pollOf2s), rounds: 2},
	}
}

var storeRows = append(uncontended(), takeOvers()...)
