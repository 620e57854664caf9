//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/simulate"
)

// BenchmarkContenders has a thousand contenders that want one lease once, on a simulated
// store that takes 50 ms a request: how many requests a waiter sends in a poll interval, how
// many contenders are never served, and how long a hand-over takes at most, but for one in a
// hundred.
func BenchmarkContenders(b *testing.B) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		b.Run(protocol.String(), func(b *testing.B) {
			var r simulate.Result
			for seed := uint64(1); b.Loop(); seed++ {
				r = simulate.Run(simulate.Options{
					Protocol: protocol, Seed: seed, Actors: 1000, Names: 1, Companions: -1, Once: true, Think: time.Second,
					TTL: time.Minute, Hold: 100 * time.Millisecond, Duration: time.Second,
					Weather: simulate.Fair, Faults: &simulate.Faults{Latency: simulate.Constant, Mean: 50 * time.Millisecond},
				})
				if r.Violation != nil {
					b.Fatal(r.String())
				}
			}
			b.ReportMetric(r.PollsPerInterval, "requests/poll")
			b.ReportMetric(float64(r.Fairness.Starved), "starved")
			b.ReportMetric(float64(r.HandOver.P99), "ns-hand-over-p99")
		})
	}
}
