//go:build unix

package main

import (
	"slices"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Flags of tests/bench/handover. A lease is held briefly where the waiter is told of the
// release, and long where waiters poll, until all poll as seldom as they ever do.
var (
	brief      = []string{"-samples", "60", "-least", "10ms", "-most", "30ms"}
	long       = []string{"-samples", "100", "-least", "5s", "-most", "40s"}
	lastWriter = []string{"-protocol", "lastwriter"}
	onS3       = []string{"-store", "s3"}
	inMemory   = []string{"-store", "mem://"}
)

func handingOver(curve, verb string, flags ...[]string) handOver {
	return handOver{args: append(slices.Concat(flags...), verb), curve: curve}
}

const askedOnS3 = "asked" // the file for how many requests a waiter makes in a poll interval

// These sources are drawn, or shown by several rows.
var (
	polled          = &once{source: handOver{args: slices.Concat(long, onS3, []string{"many"}), curve: "mopslock, S3 server, polls", asked: askedOnS3}}
	polledDirectory = &once{source: handingOver("mopslock, directory, polls alone", "many", long)}
	mopsWaiter      = &once{source: mopsHandOver{[]string{"40", "5", "40"}, "mops' waiter, directory"}}
)

var handoverRows = []row{
	{
		what:   "hand-over in one process, strict, memory / its requests, bare",
		ours:   handingOver("", "same", brief, inMemory),
		beside: handingOver("", "bare", brief, inMemory), budget: times(1.5), rounds: 3,
	},
	{
		what:   "hand-over in one process, strict, directory in memory / its requests, bare",
		ours:   onTmpfs{handingOver("", "same", brief)},
		beside: onTmpfs{handingOver("", "bare", brief)}, budget: moreTime(time.Millisecond), rounds: 3,
	},
	{
		what:   "hand-over in one process, strict, directory on disk / its requests, bare",
		ours:   handingOver("mopslock, one process, directory", "same", brief),
		beside: handingOver("", "bare", brief), rounds: 3,
	},
	{
		what:   "hand-over in one process, lastwriter, directory in memory / its requests and wait, bare",
		ours:   onTmpfs{handingOver("", "same", brief, lastWriter)},
		beside: onTmpfs{handingOver("", "bare", brief, lastWriter)}, budget: moreTime(time.Millisecond), rounds: 3,
	},
	{
		what: "hand-over between two processes, strict, directory / by polls alone",
		ours: handingOver("mopslock, two processes, directory", "two", brief), beside: polledDirectory,
		budget: atMost(float64(20 * time.Millisecond)), rounds: 3,
	},
	{
		what: "hand-over between two processes, lastwriter, directory / mops' waiter",
		ours: handingOver("", "two", brief, lastWriter), beside: mopsWaiter,
		budget: atMost(float64(core.ContendedMargin + 10*time.Millisecond)), rounds: 3,
	},
	{
		what: "hand-over on an S3 server, the slowest of 100 / the poll interval",
		ours: percentile{polled, 100}, beside: set(float64(core.PollCap), inTime), budget: times(1.1), rounds: 1,
	},
	{
		what: "hand-over on an S3 server / by mops' waiter, on a directory",
		ours: polled, beside: percentile{mopsWaiter, 50}, rounds: 1,
	},
	{
		what: "requests of a waiter a poll interval, S3 server / one",
		ours: content{polled, askedOnS3}, beside: set(1, inNumber), budget: times(1.25), rounds: 1,
	},
}
