//go:build linux || darwin

package stress

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// contenders is how many processes loop on one name.
const contenders = 8

// TestContend: eight processes loop `mopslock-host run` on one name. Under strict
// the commands never run at the same time, and everybody gets a turn. Under
// lastwriter that holds with an acquire margin that covers two requests. Without
// one (0 is mops' own wait, twice what read and write took) it can fail, so the
// figure is only reported.
//
//	us:     read (free) ─ put ─ wait ≥ margin ─ read: ours ─ put ─ held
//	other:  read (free) ──────── put (within the margin) ─ … ─ read: ours
//	                                            └ we read this one: lost race
func TestContend(t *testing.T) {
	for _, story := range []struct {
		name      string
		flags     []string
		mayBeBoth bool
	}{
		{"strict", []string{"--protocol", "strict"}, false},
		{"margin=1s", []string{"--protocol", "lastwriter", "--acquire-margin", "1s"}, false},
		{"margin=0", []string{"--protocol", "lastwriter", "--acquire-margin", "0"}, true},
	} {
		t.Run(story.name, func(t *testing.T) {
			d, _ := duration(t)
			c := contend(t, here(store(t)), d, 0, append(story.flags, "--ttl", "10s"))
			c.report(t)
			for _, status := range c.badStatus {
				t.Errorf("a run ended with status %s", status)
			}
			if story.mayBeBoth {
				return
			}
			if c.overlaps > 0 {
				t.Errorf("%d of %d commands ran at the same time as another, the longest for %v", c.overlaps, len(c.intervals), c.longest)
			}
			c.mustBeFair(t)
		})
	}
}

// interval is when one command ran, as it wrote down itself.
type interval struct{ begin, end time.Duration }

type contention struct {
	turns     [contenders]int
	intervals []interval // by begin
	handOvers []time.Duration
	overlaps  int
	longest   time.Duration // of all overlaps
	badStatus []string
}

// patience is how much longer contenders go on for one who has had no turn yet: in a
// short run chance alone can leave somebody without, and in this time it does not.
const patience = 2 * time.Minute

// contend has each worker rest for up to rest after its turn, and goes on for d, and
// until everybody has had a turn.
func contend(t *testing.T, place place, d, rest time.Duration, flags []string) *contention {
	logs := t.TempDir()
	c := &contention{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	over := make(chan struct{})
	go func() {
		defer close(over)
		time.Sleep(d)
		within(patience, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Min(c.turns[:]) > 0
		})
	}()
	for worker := range contenders {
		workers.Go(func() {
			log := filepath.Join(logs, fmt.Sprint(worker))
			for !closed(over) {
				length := time.Duration(5+rand.IntN(45)) * time.Millisecond //nolint:gosec // no secret
				p, err := launch(t, place.env, run(place.url, "stress/contend", flags, "hold", log, length.String())...)
				if err != nil {
					t.Error(err)
					return
				}
				status := await(t, p, over)
				mu.Lock()
				switch status {
				case 0:
					c.turns[worker]++
				case 128 + int(syscall.SIGTERM): // we ended its wait
				default:
					c.badStatus = append(c.badStatus, fmt.Sprintf("%d: %s", status, p.stderr.String()))
				}
				mu.Unlock()
				if rest > 0 {
					select {
					case <-over:
					case <-time.After(rand.N(rest)): //nolint:gosec // no secret
					}
				}
			}
		})
	}
	workers.Wait()
	for worker := range contenders {
		c.collect(t, filepath.Join(logs, fmt.Sprint(worker)))
	}
	c.judge()
	return c
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// await lets a process finish its turn, and ends its wait when it is over.
func await(t *testing.T, p *process, over <-chan struct{}) int {
	select {
	case <-p.done:
	case <-over:
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // a running command ignores it and ends by itself
	}
	return p.status(t, 10*time.Second)
}

func (c *contention) collect(t *testing.T, log string) {
	var open *interval
	for _, e := range readLog(t, log) {
		switch {
		case e.what == "begin":
			c.intervals = append(c.intervals, interval{begin: e.at, end: -1})
			open = &c.intervals[len(c.intervals)-1]
		case open != nil:
			open.end = e.at
		}
	}
}

func (c *contention) judge() {
	slices.SortFunc(c.intervals, func(a, b interval) int { return int(a.begin - b.begin) })
	last := time.Duration(-1)
	for i, now := range c.intervals {
		if i > 0 && now.begin < last {
			c.overlaps++
			c.longest = max(c.longest, min(last, now.end)-now.begin)
		} else if i > 0 {
			c.handOvers = append(c.handOvers, now.begin-last)
		}
		last = max(last, now.end)
	}
}

func (c *contention) mustBeFair(t *testing.T) {
	if slices.Min(c.turns[:]) == 0 {
		t.Errorf("somebody got no turn in %v more than planned: %v", patience, c.turns)
	}
}

func (c *contention) report(t *testing.T) {
	slices.Sort(c.handOvers)
	median, most := time.Duration(0), time.Duration(0)
	if n := len(c.handOvers); n > 0 {
		median, most = c.handOvers[n/2], c.handOvers[n-1]
	}
	figures(t, "%d turns %v, hand-over median %v max %v, overlaps %d (longest %v)", len(c.intervals), c.turns,
		median.Round(time.Millisecond), most.Round(time.Millisecond), c.overlaps, c.longest.Round(time.Millisecond))
}
