//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// A fleet is what one process holds on one session.
const (
	fleetSize     = 10_000
	fleetTTL      = time.Minute
	fleetInterval = fleetTTL / 3 // in which a renewal is due
	fleetCallers  = 64
)

var fleetWindow = flag.Duration("window", 2*fleetInterval, "how long BenchmarkFleet measures the cost of leases that are only held")

// BenchmarkFleet holds 10,000 leases on a local directory. It reports the memory and the
// goroutines of each, and the requests and the processor's share of all over renewals.
func BenchmarkFleet(b *testing.B) {
	counts := sdk.NewManualReader()
	h, err := host.Open(context.Background(), "file://"+b.TempDir(), &host.Options{
		Meter: sdk.NewMeterProvider(sdk.WithReader(counts)), Memory: "-",
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { // without waiting until so many are released
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Close(gone)
	}()
	names := make([]string, fleetSize)
	for i := range names {
		names[i] = fmt.Sprintf("fleet/%05d", i)
	}
	held := make([]*host.Lease, fleetSize)
	take := func(i int, name string) {
		terms := host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(fleetTTL), Session: true}
		lease, err := h.Acquire(context.Background(), name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			b.Error(err)
			return
		}
		held[i] = lease
	}
	take(0, "first") // and the session with it
	bytes, goroutines := settled()
	each(func(i int) { take(i, names[i]) })
	bytesAfter, goroutinesAfter := settled()
	for b.Loop() {
		requests, spent, begun := requestsOf(b, counts), processor(b), time.Now()
		<-time.After(*fleetWindow)
		intervals := float64(time.Since(begun)) / float64(fleetInterval)
		b.ReportMetric(float64(requestsOf(b, counts)-requests)/intervals, "requests/interval")
		b.ReportMetric(100*float64(processor(b)-spent)/float64(time.Since(begun)), "core-%")
	}
	b.ReportMetric(float64(bytesAfter-bytes)/fleetSize, "B/lease")
	b.ReportMetric(float64(max(0, goroutinesAfter-goroutines))/fleetSize, "goroutines/lease")
	for _, l := range held {
		if l == nil || l.Err() != nil {
			b.Fatal("a lease was lost")
		}
	}
	runtime.KeepAlive(names)
}

// BenchmarkFleetPuts is what the same leases would cost at one PUT each an interval, made
// as fast as the store takes them, and nothing else.
func BenchmarkFleetPuts(b *testing.B) {
	s, err := store.Open(context.Background(), "file://"+b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	body := make([]byte, 400)
	puts := func() {
		each(func(i int) {
			if err := s.Put(context.Background(), fmt.Sprintf("fleet/%05d/beat", i), body, core.LockFileType); err != nil {
				b.Error(err)
			}
		})
	}
	puts() // the directories are there at the next renewal
	for b.Loop() {
		spent := processor(b)
		puts()
		b.ReportMetric(100*float64(processor(b)-spent)/float64(fleetInterval), "core-%")
	}
	b.ReportMetric(fleetSize, "requests/interval")
}

// each calls do for every lease of a fleet, many at once.
func each(do func(i int)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range fleetCallers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < fleetSize; i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// settled is what is live once all busy goroutines have ended.
func settled() (bytes int64, goroutines int) {
	<-time.After(time.Second)
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), runtime.NumGoroutine()
}

// processor is what this process has used of all processors.
func processor(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// requestsOf counts all requests so far.
func requestsOf(b *testing.B, counts *sdk.ManualReader) (n int64) {
	var all metricdata.ResourceMetrics
	if err := counts.Collect(context.Background(), &all); err != nil {
		b.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "mopslock.requests" {
				for _, point := range sum.DataPoints {
					n += point.Value
				}
			}
		}
	}
	return n
}
