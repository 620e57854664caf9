//go:build linux || darwin

package stress

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers"
)

// TestClocksAnHourOff: two processes of which one has a wall clock that is an
// hour off want one strict lease, and each takes itself for another machine than
// the other. The waiter takes nothing while the holder lives, and takes the
// lease once the holder is killed, or stopped for long: never before the instant
// until which the holder believed. A machine that stands still stops a holder too; such
// a round is judged in the same way, and another is played.
//
//	A  held ── renew ── renew ── SIGKILL or SIGSTOP ─ its deadline ─ · · · SIGCONT ─ lost
//	B     waits, an hour off                                       ── held
func TestClocksAnHourOff(t *testing.T) {
	type kind struct {
		name string
		ttl  time.Duration
		url  func(t *testing.T) string
	}
	kinds := []kind{{"directory", 600 * time.Millisecond, store}}
	if _, long := duration(t); long { // a round takes 15 s there
		kinds = append(kinds, kind{"server", serverTTL, func(t *testing.T) string {
			s := serversOf(t, servers.S3)[0]
			s.badWeather(t, 25)
			return s.place("clocks").url
		}})
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			url := kind.url(t)
			for i, off := range [][2]time.Duration{{0, time.Hour}, {0, -time.Hour}, {time.Hour, 0}, {-time.Hour, time.Hour}} {
				t.Run(fmt.Sprint(off[0], "_", off[1]), func(t *testing.T) {
					t.Parallel()
					clocksOff(t, url, kind.ttl, off[0], off[1], i)
				})
			}
		})
	}
}

// mostRounds is how often a machine that stands still is given another chance.
const mostRounds = 20

// clocksOff goes on with one pair of clocks until the time is up and the holder has
// been ended once, killing and stopping it in turn: an even first kills first.
func clocksOff(t *testing.T, url string, ttl, holder, waiter time.Duration, first int) {
	d, _ := duration(t)
	var took []time.Duration
	ended := 0
	for round, end := 0, time.Now().Add(d); ended == 0 && round < mostRounds || time.Now().Add(6*ttl).Before(end); round++ {
		c := &clockRound{
			url: url, ttl: ttl, name: fmt.Sprintf("clock/%v/%v/%d", holder, waiter, round),
			logs: [2]string{filepath.Join(t.TempDir(), "holder"), filepath.Join(t.TempDir(), "waiter")},
		}
		late, byUs := c.run(t, holder, waiter, (first+ended)%2 == 0)
		if t.Failed() {
			return
		}
		took = append(took, late)
		if byUs {
			ended++
		}
	}
	if ended == 0 {
		t.Errorf("in %d rounds no holder has kept its lease for some renewals", len(took))
	}
	slices.Sort(took)
	figures(t, "%d take-overs, after the holder's deadline median %v max %v", len(took),
		took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}

// clockRound is one lease that changes hands.
type clockRound struct {
	url, name string
	ttl       time.Duration
	logs      [2]string
}

// run returns how long after the holder's deadline the waiter held, and whether we have
// ended the holder's tenure: else it was lost, because the machine stood still.
func (c *clockRound) run(t *testing.T, holder, waiter time.Duration, kill bool) (late time.Duration, byUs bool) {
	a := c.start(t, c.logs[0], holder)
	if !within(20*time.Second, func() bool { return len(c.until(t, 0)) > 0 }) {
		t.Errorf("%s: the first does not get the lease: %s", c.name, c.logText(0))
		return 0, false
	}
	b := c.start(t, c.logs[1], waiter)
	lost := func() bool { _, lost := find(t, c.logs[0], "lost"); return lost }
	// Renewals come each third of a TTL: wait for some of them.
	renewed := func() bool { return len(c.until(t, 0)) > 6 }
	if !within(20*time.Second, func() bool { return renewed() || lost() }) {
		t.Errorf("%s: the lease of a living holder is not renewed: %s", c.name, c.logText(0))
		return 0, false
	}
	byUs = renewed()
	switch {
	case byUs && kill:
		_ = a.cmd.Process.Kill()
		<-a.done
	case byUs:
		_ = a.cmd.Process.Signal(syscall.SIGSTOP)
	}
	if !within(20*time.Second+4*c.ttl, func() bool { return len(c.until(t, 1)) > 0 }) {
		t.Errorf("%s: an expired lease is not taken", c.name)
		return 0, false
	}
	if byUs && !kill {
		_ = a.cmd.Process.Signal(syscall.SIGCONT)
		if !within(20*time.Second, lost) {
			t.Errorf("%s: who was stopped does not notice that it has lost the lease: %s", c.name, c.logText(0))
		}
	}
	deadline := slices.MaxFunc(c.until(t, 0), func(x, y entry) int { return cmp.Compare(x.at, y.at) })
	held, found := find(t, c.logs[1], "held")
	if !found || held.at < deadline.at {
		t.Errorf("%s: taken %v before the holder's deadline: %s / %s", c.name, deadline.at-held.at, c.logText(0), c.logText(1))
	}
	for _, p := range []*process{a, b} {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return held.at - deadline.at, byUs
}

func (c *clockRound) start(t *testing.T, log string, off time.Duration) *process {
	t.Helper()
	return start(t, self, helperMark, "clock", c.url, c.name, log, c.ttl.String(), off.String())
}

// until is every deadline that a holder wrote down.
func (c *clockRound) until(t *testing.T, i int) []entry {
	return slices.DeleteFunc(readLog(t, c.logs[i]), func(e entry) bool { return e.what != "until" })
}

func (c *clockRound) logText(i int) string {
	text, _ := os.ReadFile(c.logs[i])
	return strings.ReplaceAll(string(text), "\n", "; ")
}

// within polls until ok, or says false after limit.
func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// offClock is the clock of another machine: booted at another time, and with a
// wall clock that is off.
type offClock struct{ off time.Duration }

func (c offClock) Now() core.Instant {
	return core.Instant{Mono: (monotonic() + 3*c.off + 24*time.Hour).Nanoseconds(), Wall: time.Now().Add(c.off).UnixNano()}
}

// holdByClock URL NAME LOG TTL OFF: takes the lease on a machine whose clock is
// OFF, and writes down until when it believes, by everybody's CLOCK_MONOTONIC,
// whenever that changes; then that it is lost.
func holdByClock(url, name, log, ttlText, offText string) int {
	ttl, err := time.ParseDuration(ttlText)
	if err != nil {
		return fail(err)
	}
	off, err := time.ParseDuration(offText)
	if err != nil {
		return fail(err)
	}
	ctx := context.Background()
	h, err := host.Open(ctx, url, &host.Options{Clock: offClock{off}, Boot: "booted-by-" + offText, Memory: "-"})
	if err != nil {
		return fail(err)
	}
	defer h.Close(ctx)
	lease, err := h.Acquire(ctx, name, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict, TTL: ttl}})
	if err != nil {
		return fail(err)
	}
	note := func(what string, at time.Duration) {
		if err := appendLine(log, what, os.Getpid(), at); err != nil {
			os.Exit(fail(err))
		}
	}
	note("held", monotonic())
	last := time.Duration(0)
	for {
		// The clock before Left: what is written is not after the true deadline.
		now := monotonic()
		left := lease.Left()
		if lease.Err() != nil {
			break
		}
		if until := now + left; until > last+time.Millisecond {
			note("until", until)
			last = until
		}
		time.Sleep(2 * time.Millisecond)
	}
	note("lost", monotonic())
	return 0
}
