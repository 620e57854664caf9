//go:build linux

package stress

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// storm is what happens to processes that all want one lease, or permits of one
// semaphore, at one place.
type storm struct {
	name    string
	climate climate
	workers int
	calm    time.Duration   // at most, from one gust to the next
	kills   int             // of a hundred gusts; the others stop a process for a while
	clocks  []time.Duration // off by so much, in turns; nil is none
	outage  func() error    // the first gust, if there is one
	// trouble goes on beside the gusts until over, and has ended when it returns.
	trouble func(t *testing.T, over <-chan struct{})
	// command: every second process takes it by the command. Such a process is killed and never
	// stopped: what runs under the command looks at no deadline.
	command bool

	env    []string // what a process needs for the place
	ways   []string // the processes' ways there, in turns; nil is climate.URL
	direct string   // the test's own way there, around any proxy

	running   []*process
	killed    int
	stopped   int
	succeeded uint64 // the token of the tenure after the storm
}

var (
	strictly    = host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(time.Second)}
	lastWriters = host.Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(3 * time.Second), AcquireMargin: 3 * time.Second / 2, FleetExpire: core.TTLEndless}
	onServers   = host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(5 * time.Second)} // the shortest where stamps are whole seconds
	aView       = host.View{Capacity: 3, Width: 2}
)

// onLinux a command is killed with mopslock-host.
const onLinux = runtime.GOOS == "linux"

// TestStorm: processes take one lease and increment one guarded counter under its token,
// while they are stopped, continued and killed. A stopped process often goes on in
// the middle of a write that it began under a lease that another holds by then:
//
//	A, token 5:  read 7 ── SIGSTOP ═════════════════════ SIGCONT ── create 8: exists ── stale
//	B, token 6:               TTL … held ── 8 ── 9 ── …
//
// No two of them believe at once that they hold it, no update is lost or counted twice,
// tokens never go back along the slots, what all of them saw together is linearizable, and
// the lease can be acquired after them. The same holds for the permits of a semaphore; for
// processes that take each other for other machines, whose clocks are an hour off; and under
// lastwriter, which has no tokens, if an acquire margin covers two requests and no process is
// stopped between them.
func TestStorm(t *testing.T) {
	for _, s := range []*storm{
		{name: "strict", workers: 8, calm: 800 * time.Millisecond, kills: 12, climate: climate{Terms: strictly, Pace: time.Second / 100}},
		{name: "clocks", workers: 6, calm: 700 * time.Millisecond, kills: 30, climate: climate{Terms: strictly, Pace: time.Second / 100}, clocks: []time.Duration{0, time.Hour, -time.Hour}},
		{name: "permits", workers: 12, calm: 300 * time.Millisecond, kills: 60, command: onLinux, climate: climate{Terms: strictly, Pace: time.Second / 10, View: aView}},
		{name: "lastwriter", workers: 4, calm: 5 * time.Second, kills: 100, command: onLinux, climate: climate{Terms: lastWriters, Pace: time.Second / 100}},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.direct = store(t)
			s.climate.URL = s.direct
			s.play(t)
		})
	}
}

// TestServers is TestStorm on a real server of each kind, behind a network that hits one
// request in fifteen. The server also goes away for longer than a TTL: connections are
// refused, or requests get no answer.
func TestServers(t *testing.T) {
	duration(t)
	var all []*storm
	for i, kind := range slices.Repeat(servers.Kinds, 2)[:len(servers.Kinds)+1] {
		server := servers.Need(t, kind)
		before, err := proxy.New(kind, server.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			figures(t, "%s: %d requests, faults %v", kind, before.Counts().Total(), before.Counts().Faults)
			before.Close()
		})
		before.SetDelay(300 * time.Millisecond)
		before.Choose(proxy.Weather(rand.Uint64(), 15))
		address := before.Address()
		s := &storm{
			name: kind, workers: 4, calm: 4 * time.Second, kills: 20, env: server.Env(address), direct: server.Under(server.Address, "storm"),
			climate: climate{URL: server.Under(address, "storm"), Terms: onServers, Pace: time.Second / 5},
			outage: func() error {
				before.Down()
				time.Sleep(onServers.TTL.Duration() + 3*time.Second)
				return before.Up()
			},
		}
		if i%2 == 1 {
			s.outage = func() error {
				if err := server.Silence(); err != nil {
					return err
				}
				time.Sleep(onServers.TTL.Duration() + 3*time.Second)
				return server.Resume()
			}
		}
		if i == len(servers.Kinds) {
			s.name, s.workers, s.climate.View = kind+" permits", 8, aView
		}
		all = append(all, s)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.play(t)
		})
	}
}

func (s *storm) play(t *testing.T) {
	d := duration(t)
	s.climate.Ledger, s.climate.Over, s.climate.Binary = newLedger(t), string(newLedger(t)), binary
	for i := range s.workers {
		s.running = append(s.running, s.start(t, i))
	}
	a := s.audit(t)
	over, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() { s.blow(t, over) })
	if s.trouble != nil {
		ended.Go(func() { s.trouble(t, over) })
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 4) {
		a.look(t)
	}
	eventually(t, "there is something to judge", func() bool {
		a.look(t)
		return s.hasShown(t)
	})
	close(over)
	ended.Wait()
	if err := os.WriteFile(s.climate.Over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.running {
		p.signal(syscall.SIGCONT)
	}
	for _, p := range s.running {
		p.ended(t, 0)
	}
	a.look(t)
	s.succeed(t)
	s.judge(t, a.slots)
}

// start starts worker i.
func (s *storm) start(t *testing.T, i int) *process {
	told := s.climate
	if s.clocks != nil {
		told.Off = s.clocks[i%len(s.clocks)]
	}
	if s.ways != nil {
		told.URL = s.ways[i%len(s.ways)]
	}
	what := "storm"
	if s.byCommand(i) {
		what = "command"
	}
	text, _ := json.Marshal(told) // of plain data
	return start(t, s.env, helper(what, string(text))...)
}

// byCommand reports whether worker i takes it by the command.
func (s *storm) byCommand(i int) bool { return s.command && i/max(1, len(s.ways))%2 == 1 }

// hasShown reports whether the storm has shown enough: gusts, tenures of more than one process,
// and a lost tenure if all that the storm does is to stop processes.
func (s *storm) hasShown(t *testing.T) bool {
	held, pids := map[string]bool{}, map[int]bool{}
	for _, e := range s.climate.Ledger.read(t, "sure") {
		held[e.words[0]], pids[e.pid] = true, true
	}
	lost := s.kills == 100 || s.command || len(s.climate.Ledger.read(t, "lost")) > 0
	return len(s.climate.Ledger.read(t, "gust")) >= 2 && len(held) >= 4 && len(pids) >= 2 && lost
}

// blow kills a process and starts another in its place, or stops one for about a TTL,
// again and again. Every other time it hits the holder.
func (s *storm) blow(t *testing.T, over <-chan struct{}) {
	s.climate.Ledger.await(t, "sure")
	for {
		select {
		case <-over:
			return
		case <-time.After(rand.N(s.calm)):
		}
		s.climate.Ledger.note("gust")
		if s.outage != nil {
			if err := s.outage(); err != nil {
				t.Error(err)
			}
			s.outage = nil
			continue
		}
		i := rand.IntN(s.workers)
		if all := s.climate.Ledger.read(t, "sure", "released", "unreleased", "lost"); all[len(all)-1].what == "sure" {
			holds := slices.IndexFunc(s.running, func(p *process) bool { return p.Process.Pid == all[len(all)-1].pid })
			if holds >= 0 && rand.IntN(2) == 0 {
				i = holds
			}
		}
		p := s.running[i]
		switch asleep := func(p *process) bool { return p.stopped.Load() }; {
		case asleep(p):
		case s.byCommand(i) || rand.IntN(100) < s.kills:
			s.killed++
			p.signal(syscall.SIGKILL)
			<-p.done
			s.running[i] = s.start(t, i)
		case !slices.ContainsFunc(s.running[i/2*2:i/2*2+2], asleep): // half of them stay awake
			s.stopped++
			p.stopped.Store(true)
			p.signal(syscall.SIGSTOP)
			time.AfterFunc(s.climate.Terms.TTL.Duration()/4+rand.N(2*s.climate.Terms.TTL.Duration()), func() {
				p.signal(syscall.SIGCONT)
				p.stopped.Store(false)
			})
		}
	}
}

// succeed takes the lease, or all permits, after the storm: what dead processes held is free again.
func (s *storm) succeed(t *testing.T) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	h, err := host.Open(ctx, s.direct, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	held, err := s.climate.acquire(ctx, h, max(1, s.climate.View.Limit()))
	if err != nil {
		t.Fatalf("it cannot be acquired after the storm: %v", err)
	}
	s.succeeded = held.FencingToken()
	figures(t, "%d workers, %d kills, %d stops; all was free again %v after them", s.workers, s.killed, s.stopped, time.Since(began).Round(time.Millisecond))
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
}
