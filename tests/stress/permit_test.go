//go:build linux

package stress

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/servers"
)

const (
	permitters = 20
	capacity   = 3
	width      = 2
)

// TestPermits: twenty processes loop `mopslock-host permit` on one semaphore, and a
// third of them are killed with SIGKILL while they hold or wait. As many as there are
// permits begin together, so that the house is full for once whatever chance does
// later. Never more than capacity x width commands run at the same time, and after the
// last kill all permits come back to one who wants all of them, within a TTL and a
// poll: by this boot's clock on a directory, by the store's (with what stamps and
// front-ends may be apart) on a server.
func TestPermits(t *testing.T) {
	for _, story := range []struct {
		name  string
		store func(*testing.T) string
		ttl   time.Duration
		slop  time.Duration
	}{
		{"directory", store, 2 * time.Second, 0},
		{"s3", onS3, 5 * time.Second, 2 * time.Second},
	} {
		t.Run(story.name, func(t *testing.T) {
			d, long := duration(t)
			if story.slop > 0 && !long {
				t.Skip("its TTL is at least 5 s: make stress")
			}
			if !long {
				d = shortRun - 2*story.ttl + time.Second
			}
			p := &permitting{url: story.store(t), logs: t.TempDir(), ttl: story.ttl}
			p.fill(t)
			p.contend(t, d)
			p.judge(t, long)
			poll := max(500*time.Millisecond, story.ttl/8)
			p.takeAll(t, story.ttl+story.slop+poll)
		})
	}
}

// onS3 is the URL of an S3 server of the test's own.
func onS3(t *testing.T) string {
	server := servers.Need(t, servers.S3)
	return server.URL(server.Address)
}

// permitting is what became of everybody.
type permitting struct {
	url, logs string
	ttl       time.Duration

	mu        sync.Mutex
	intervals []interval
	turns     [permitters]int
	killed    int
	lastKill  time.Duration
	badStatus []string
}

// permit is the argv of `mopslock-host permit` with one of our helpers as its command.
func (p *permitting) permit(flags []string, helper ...string) []string {
	argv := append([]string{
		binary, "permit", "--store", p.url, "--ttl", p.ttl.String(),
		"--capacity", fmt.Sprint(capacity), "--width", fmt.Sprint(width),
	}, flags...)
	return append(append(argv, "stress/permits", "--", self), helper...)
}

// fill has every permit held by a process of its own at the same time, and given back.
func (p *permitting) fill(t *testing.T) {
	gate, jobs := filepath.Join(p.logs, "gate"), filepath.Join(p.logs, "jobs")
	var all []*process
	for range capacity * width {
		all = append(all, start(t, p.permit([]string{"--ttl", "1m"}, invokeMark, "job", jobs, gate)...))
	}
	eventually(t, gateLimit, "as many commands run as there are permits", func() bool { return len(readLog(t, jobs)) == len(all) })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if status := c.status(t, gateLimit); status != 0 {
			t.Fatalf("one that had a permit ended with status %d: %s", status, c.stderr.String())
		}
	}
}

func (p *permitting) contend(t *testing.T, d time.Duration) {
	end := time.Now().Add(d)
	var workers sync.WaitGroup
	for worker := range permitters {
		workers.Go(func() {
			for turn := 0; time.Now().Before(end) && !t.Failed(); turn++ {
				p.turn(t, worker, turn, end)
			}
		})
	}
	workers.Wait()
}

// turn is one process. One in three is killed at some moment of its life.
func (p *permitting) turn(t *testing.T, worker, turn int, end time.Time) {
	log := filepath.Join(p.logs, fmt.Sprintf("%d.%d", worker, turn))
	length := time.Duration(20+rand.IntN(300)) * time.Millisecond
	c, err := launch(t, nil, p.permit(nil, helperMark, "hold", log, length.String())...)
	if err != nil {
		t.Error(err)
		return
	}
	victim := rand.IntN(3) == 0
	select {
	case <-c.done:
	case <-time.After(time.Until(end)):
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // a running command ignores it and ends by itself
	case <-p.moment(victim):
		_ = c.cmd.Process.Kill()
	}
	status := c.status(t, 4*p.ttl+10*time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case status == 0:
		p.turns[worker]++
	case status == 128+int(syscall.SIGKILL):
		p.killed++
		p.lastKill = max(p.lastKill, c.ended)
	case status == 128+int(syscall.SIGTERM): // we ended its wait
	default:
		p.badStatus = append(p.badStatus, fmt.Sprintf("%d: %s", status, c.stderr.String()))
	}
	if begin, ok := find(t, log, "begin"); ok {
		last, ok := find(t, log, "end")
		if !ok { // killed: its command died with it
			last.at = c.ended
		}
		p.intervals = append(p.intervals, interval{begin.at, last.at})
	}
}

// moment is when a victim is killed; for others it never comes.
func (p *permitting) moment(victim bool) <-chan time.Time {
	if !victim {
		return nil
	}
	return time.After(time.Duration(rand.Int64N(int64(time.Second))))
}

func (p *permitting) judge(t *testing.T, long bool) {
	for _, status := range p.badStatus {
		t.Errorf("a permit ended with status %s", status)
	}
	type change struct {
		at   time.Duration
		step int
	}
	var changes []change
	for _, i := range p.intervals {
		changes = append(changes, change{i.begin, 1}, change{i.end, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step))
	})
	inside, most := 0, 0
	for _, c := range changes {
		inside += c.step
		most = max(most, inside)
	}
	figures(t, "%d commands, %d processes killed, most inside %d of %d, turns %v", len(p.intervals), p.killed, most, capacity*width, p.turns)
	if most > capacity*width {
		t.Errorf("%d commands ran at the same time, %d permits", most, capacity*width)
	}
	if long && p.killed == 0 {
		t.Error("nobody was killed: that shows nothing")
	}
}

// takeAll waits for all permits at once. Some time goes into starting a process and a
// session of its own.
func (p *permitting) takeAll(t *testing.T, limit time.Duration) {
	log := filepath.Join(p.logs, "all")
	c := start(t, p.permit([]string{"--weight", fmt.Sprint(capacity * width)}, helperMark, "hold", log, "1ms")...)
	if status := c.status(t, limit+30*time.Second); status != 0 {
		t.Fatalf("status %d: %s", status, c.stderr.String())
	}
	begin, _ := find(t, log, "begin")
	took := begin.at - p.lastKill
	figures(t, "all permits were back %v after the last kill, TTL %v", took.Round(time.Millisecond), p.ttl)
	const starting = time.Second
	if took > limit+starting {
		t.Errorf("all permits were back %v after the last kill, want %v at most", took, limit)
	}
}
