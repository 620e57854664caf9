//go:build linux

package tests

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// BenchmarkStep measures one step of a renewal called from C, and the same steps
// on a core.Registry in Go beside it, A B A B in one run. BUDGETS: at most 3 times.
func BenchmarkStep(b *testing.B) {
	if err := buildCore(); err != nil {
		b.Fatal(err)
	}
	const machines, rounds = 64, 100
	vector := renewals(machines, rounds)
	file := filepath.Join(b.TempDir(), "renewals.vec")
	if err := os.WriteFile(file, []byte(vector), 0o600); err != nil {
		b.Fatal(err)
	}
	lib := library{"mopslock-core", filepath.Join(scratch, "lib")}
	replay := compile(b, filepath.Join(c, "replay/replay.c"), lib, "-O2")
	var inC, inGo []float64
	for b.Loop() {
		out := command(b, nil, replay, "--bench", "20", file)
		ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			b.Fatal(err)
		}
		inC, inGo = append(inC, ns), append(inGo, native(b, vector, 20))
	}
	b.ReportMetric(median(inC), "c-ns/step")
	b.ReportMetric(median(inGo), "go-ns/step")
	b.ReportMetric(median(inC)/median(inGo), "ratio")
}

// native is what replay --bench does, in Go.
func native(b *testing.B, vector string, rounds int) float64 {
	type line struct {
		machine int
		bytes   []byte
	}
	var news, steps []line
	for text := range strings.Lines(vector) {
		fields := strings.Fields(text)
		if fields[0] == "answer" {
			continue
		}
		bytes, err := hex.DecodeString(fields[2])
		if err != nil {
			b.Fatal(err)
		}
		var l line
		if _, err := fmt.Sscan(fields[1], &l.machine); err != nil {
			b.Fatal(err)
		}
		l.bytes = bytes
		if fields[0] == "new" {
			news = append(news, l)
		} else {
			steps = append(steps, l)
		}
	}
	answer := make([]byte, 0, core.MaxMessage)
	var spent time.Duration
	for range rounds {
		var r core.Registry
		handles := map[int]core.Handle{}
		for _, l := range news {
			handles[l.machine], _ = r.New(nil, l.bytes)
		}
		start := time.Now()
		for _, l := range steps {
			answer = r.Step(answer[:0], handles[l.machine], l.bytes)
		}
		spent += time.Since(start)
	}
	return float64(spent.Nanoseconds()) / float64(rounds*len(steps))
}

func median(of []float64) float64 {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
