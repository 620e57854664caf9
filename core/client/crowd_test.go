package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestCrowds: whatever happens to five hundred claims at once is told of each, though no Step
// has room for all.
func TestCrowds(t *testing.T) {
	const crowd = 500
	wants := func(t *testing.T, p *process, what string) {
		t.Helper()
		if got := strings.Count(p.heard(), what); got != crowd {
			t.Errorf("%d of %d: %s", got, crowd, what)
		}
	}
	config := core.Config{Seed: [16]byte{1}, OwnStore: true, Watches: true}
	t.Run("wait for one name, and each has it in turn", func(t *testing.T) {
		p := newProcessOf(t, newBucket(), config)
		for range crowd {
			p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		}
		p.until(p.now + int64(core.Second))
		for claim := range uint64(crowd) {
			p.do(core.Event{Kind: core.EventRelease, Claim: claim + 1})
		}
		p.until(p.now + int64(core.Second))
		wants(t, p, " re")
		if !p.Client.Idle() {
			t.Error("not idle")
		}
	})
	t.Run("wait for the store to be tried", func(t *testing.T) {
		p := newProcess(t, newBucket(), 1)
		p = newProcessOf(t, p.bucket, core.Config{Seed: [16]byte{1}})
		p.holds = func(a *core.Action) bool { return a.Key == "_mopslock/store.json" }
		for n := range crowd {
			p.begin(core.EventAcquire, core.Terms{Name: fmt.Sprint("n", n)}, core.Event{Wait: core.Forever})
		}
		p.letGo()
		p.until(p.now + int64(core.Second))
		wants(t, p, " held")
	})
	t.Run("are out of patience at one instant", func(t *testing.T) {
		p := newProcessOf(t, newBucket(), config)
		p.holds = all
		for n := range crowd {
			p.begin(core.EventAcquire, core.Terms{Name: fmt.Sprint("n", n)}, core.Event{Wait: 3 * core.Second})
		}
		p.now += int64(4 * core.Second)
		for range crowd {
			p.do(core.Event{Kind: core.EventWoke})
		}
		p.letGo()
		p.until(p.now + int64(10*core.Second))
		if got := p.heard(); strings.Count(got, " refused ")+strings.Count(got, " held") != crowd {
			t.Error(got)
		}
	})
	t.Run("hear of one change", func(t *testing.T) {
		p := newProcessOf(t, newBucket(), config)
		for range crowd {
			p.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
		}
		p.told = nil
		newProcess(t, p.bucket, 2).begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{})
		for range 2 { // the first says that it watches
			for _, key := range slices.Clone(p.Watched) {
				p.do(core.Event{Kind: core.EventChanged, Key: []byte(key)})
			}
		}
		wants(t, p, " seen held")
	})
	t.Run("have a permit of one name, and lose it with their session", func(t *testing.T) {
		p := newProcessOf(t, newBucket(), config)
		for range crowd {
			p.begin(core.EventPermit, core.Terms{Name: "s"}, core.Event{Wait: core.Forever, Capacity: crowd, Width: 1})
		}
		p.until(p.now + int64(core.Second))
		if got := strings.Count(p.heard(), " held"); got != crowd+1 { // and the session
			t.Error(got, "held")
		}
		p.now += int64(100 * core.Second)
		p.do(core.Event{Kind: core.EventWoke})
		p.until(p.now + int64(core.Second))
		if got := strings.Count(p.heard(), " lost expired"); got != crowd+1 {
			t.Error(got, "lost")
		}
	})
}
