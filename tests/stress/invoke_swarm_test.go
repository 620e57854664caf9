//go:build linux || darwin

package stress

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// swarmProcesses is how many processes a swarm has, of swarmWaiters each.
const swarmProcesses = 8

// TestSwarm: two hundred invocations of one name from eight processes. The work
// is done once, all get the same bytes, and how long after the work's end is
// printed, beside when mops would have looked: its waiters poll after 1, 2, 4, 8,
// 16, 22, 22 … s.
func TestSwarm(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string, d time.Duration, _ bool) {
		// The work is as long as most of the time, for the schedules to differ.
		work := d - 500*time.Millisecond
		url, logs := store(t), t.TempDir()
		workLog := filepath.Join(logs, "work")
		var all []*process
		for i := range swarmProcesses {
			report := filepath.Join(logs, fmt.Sprint(i))
			all = append(all, start(t, self, invokeMark, "swarm", url, protocol, work.String(), workLog, report))
		}
		for i, p := range all {
			if status := p.status(t, work+gateLimit); status != 0 {
				t.Fatalf("process %d ended with %d: %s", i, status, p.stderr.String())
			}
		}
		var seen []waited
		for i := range all {
			seen = append(seen, readWaited(t, filepath.Join(logs, fmt.Sprint(i)))...)
		}
		judgeSwarm(t, seen, readLog(t, workLog))
	})
}

func readWaited(t *testing.T, path string) (all []waited) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func judgeSwarm(t *testing.T, seen []waited, work []entry) {
	t.Helper()
	if len(work) != 2 || work[0].what != "begin" || work[1].what != "end" {
		t.Fatalf("one execution should have begun and ended: %v", work)
	}
	ended := work[1].at // a moment before the result's write
	var ours, mops []time.Duration
	for _, w := range seen {
		if w.Err != "" || w.Sum != seen[0].Sum {
			t.Errorf("one got %q, another %q: %s", w.Sum, seen[0].Sum, w.Err)
		}
		if w.Asked >= ended {
			continue // it found the result
		}
		ours = append(ours, w.Got-ended)
		mops = append(mops, mopsLook(w.Asked, ended)-ended)
	}
	if len(seen) != swarmProcesses*swarmWaiters {
		t.Errorf("%d answers", len(seen))
	}
	if len(ours) < len(seen)/2 {
		t.Fatalf("only %d of %d waited", len(ours), len(seen))
	}
	slices.Sort(ours)
	slices.Sort(mops)
	figures(t, "%d waiters, 1 execution; from the work's end to the result: median %v, p90 %v, max %v; by mops' schedule: median %v, p90 %v, max %v",
		len(ours), part(ours, 50), part(ours, 90), part(ours, 100), part(mops, 50), part(mops, 90), part(mops, 100))
}

// mopsLook is when a waiter of mops looks for the first time at or after an instant.
func mopsLook(asked, ended time.Duration) time.Duration {
	for step := time.Second; asked < ended; step = min(2*step, 22*time.Second) {
		asked += step
	}
	return asked
}

// part is a percentile of sorted durations.
func part(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100].Round(time.Millisecond)
}
