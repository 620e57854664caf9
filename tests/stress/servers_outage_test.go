//go:build linux

package stress

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServersOutage: the server goes away for longer than the TTL, and comes back.
// Connections are refused, or requests get no answer.
//
//	server     ─────────────────── away ──────────────────── back ─────
//	holders    renew ── renew · · · · · · deadline: unreachable
//	waiters       poll ── poll · · · · · · · · · · · · · · · · poll ── held
//	companion  renew ── renew · · · · · · contact lost · · · · joins again
//	remote     its work · · · ends · · · · · · · · · · · · · · stores it
//
// Nobody who held is lost before or after its deadline, nobody who waits gives up,
// nobody is stuck, and nobody answers silence with a storm.
func TestServersOutage(t *testing.T) {
	if _, long := duration(t); !long {
		t.Skip("its TTL is at least 5 s: make stress")
	}
	eachServer(t, func(t *testing.T, s *server) {
		for _, way := range []struct {
			name       string
			away, back func() error
		}{
			{"refused", func() error { s.proxy.Down(); return nil }, s.proxy.Up},
			{"silent", s.Silence, s.Resume},
		} {
			t.Run(way.name, func(t *testing.T) {
				o := &outage{place: s.place(way.name), dir: t.TempDir()}
				o.begin(t)
				o.last(t, way.away, way.back)
				o.judge(t)
			})
		}
	})
}

const (
	sessionLeases = 20
	outageLength  = serverTTL + 3*time.Second
	// outageEnd is when who waits has a lease whose holder is gone: a TTL, what stamps
	// and front-ends may be apart, a poll, and some time of a busy machine's.
	outageEnd = serverTTL + 2*time.Second + serverTTL/8*12/10 + 2*time.Second
	// deadlineSlack is how exactly a loss is told on a busy machine.
	deadlineSlack = time.Second
)

// outage is one, and who is in it. Each is called by what the files of it begin with.
type outage struct {
	place
	dir        string
	away, back time.Duration // CLOCK_MONOTONIC

	actors map[string]*process
	first  observed // the lease that is accompanied
}

func (o *outage) path(name string) string { return filepath.Join(o.dir, name) }

// host is the argv of a mopslock-host whose requests are recorded.
func (o *outage) host(who, verb string, words ...string) []string {
	argv := []string{binary, verb, "--trace", o.path(who + ".trace"), "--status-file", o.path(who + ".status")}
	if verb != "accompany" && verb != "remote" { // these are told by the lease
		argv = append(argv, "--store", o.url, "--ttl", serverTTL.String())
	}
	if verb == "permit" {
		argv = append(argv, "--capacity", "1", "--width", "1")
	}
	return append(argv, words...)
}

// holding is a command that notes when it begins, and ends after a time.
func (o *outage) holding(who, length string) []string {
	return []string{"--", self, helperMark, "hold", o.path(who + ".log"), length}
}

// job is a command that works until the gate of that name is open.
func (o *outage) job(who string) []string {
	return []string{"--", self, invokeMark, "job", o.path(who + ".log"), o.path(who + ".gate")}
}

func (o *outage) start(t *testing.T, who string, argv []string) {
	t.Helper()
	o.actors[who] = startIn(t, o.env, argv...)
}

// begin starts all who hold, and then all who wait for what they hold.
func (o *outage) begin(t *testing.T) {
	o.actors = map[string]*process{}
	o.keep(t, "one", 1)
	o.keep(t, "many", sessionLeases)
	o.start(t, "run", append(o.host("run", "run", "run"), o.holding("run", "2m")...))
	o.start(t, "permit", append(o.host("permit", "permit", "permit"), o.holding("permit", "2m")...))
	o.start(t, "joined", append(o.host("joined", "run", "joined", "--", self, helperMark, "orchestrate", o.path("orchestrator.log")),
		append(o.host("companion", "accompany"), o.job("companion")...)...))
	o.invoke(t, "invoke")
	for _, log := range []string{"one.0", fmt.Sprint("many.", sessionLeases-1), "run.log", "permit.log", "companion.log", "invoke-remote.log"} {
		eventually(t, 30*time.Second, log+" is there", func() bool { return len(readLog(t, o.path(log))) > 0 })
	}
	t.Cleanup(func() { // they are in sessions of their own
		for log, what := range map[string]string{"orchestrator.log": "remote", "invoke.log": "remote", "invoke-waiter.log": "remote"} {
			if p, ok := find(t, o.path(log), what); ok && t.Failed() {
				stop(p.pid)
			}
		}
	})
	o.first = observeIn(t, o.place, "joined")

	for i, name := range []string{"one/0", "many/0", fmt.Sprint("many/", sessionLeases-1), "run"} {
		who := fmt.Sprint("waiter-", i)
		o.start(t, who, append(o.host(who, "run", "--wait", "2m", name), o.holding(who, "1ms")...))
	}
	o.start(t, "permit-waiter", append(o.host("permit-waiter", "permit", "--wait", "2m", "permit"), o.holding("permit-waiter", "1ms")...))
	o.invoke(t, "invoke-waiter")
	for who := range o.actors {
		if strings.Contains(who, "waiter") {
			eventually(t, 30*time.Second, who+" waits", func() bool { return readTrace(t, o.path(who+".trace")).waits })
		}
	}
	time.Sleep(rand.N(serverTTL / 3)) // another phase of their renewals each time
}

func (o *outage) keep(t *testing.T, name string, count int) {
	o.start(t, name, []string{self, keepMark, o.url, name, fmt.Sprint(count), serverTTL.String(), o.path(name), o.path(name + ".trace")})
}

// invoke asks for the same work each time. Its result goes into a file.
func (o *outage) invoke(t *testing.T, who string) {
	launcher := []string{"--", self, invokeMark, "launch", o.path(who + ".log")}
	remote := append(o.host(who+"-remote", "remote", "work"), "--", self, invokeMark, "job", o.path(who+"-remote.log"), o.path("work.gate"))
	o.start(t, who, intoFile(o.path(who+".out"), append(append(o.host(who, "invoke", "work"), launcher...), remote...)...))
}

func (o *outage) open(t *testing.T, gate string) {
	if err := os.WriteFile(o.path(gate+".gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// last is the outage itself. The remote's work ends in it.
func (o *outage) last(t *testing.T, away, back func() error) {
	if err := away(); err != nil {
		t.Fatal(err)
	}
	o.away = monotonic()
	time.Sleep(outageLength / 2)
	o.open(t, "work")
	time.Sleep(outageLength / 2)
	o.back = monotonic()
	if err := back(); err != nil {
		t.Fatal(err)
	}
}

func (o *outage) judge(t *testing.T) {
	o.judgeKept(t, "one", 1, exactly)
	o.judgeKept(t, "many", sessionLeases, sessionSlack)
	for _, who := range []string{"run", "permit", "joined"} {
		o.judgeHolder(t, who)
	}
	o.judgeRevived(t)
	o.judgeWaiters(t)
	o.judgeCompanion(t)
	o.judgeInvoked(t)
	o.judgeRequests(t)
}

const (
	exactly = 10 * time.Millisecond
	// sessionSlack: a lease on a session ends with it. The deadline that its own create
	// gave it is later, by the age that the session's beat had, until the next beat.
	sessionSlack = serverTTL / 3
)

// judgeKept: each lease was lost at its own deadline, or so much before, and while
// the server was away.
func (o *outage) judgeKept(t *testing.T, who string, count int, early time.Duration) {
	if status := o.actors[who].status(t, outageEnd); status != 0 {
		t.Errorf("%s ended with %d: %s", who, status, o.actors[who].stderr.String())
	}
	var late time.Duration
	for i := range count {
		log := readLog(t, o.path(fmt.Sprintf("%s.%d", who, i)))
		last := len(log) - 1
		if last < 1 || log[last].what != "lost:unreachable" {
			t.Errorf("%s/%d was not lost as unreachable: %v", who, i, log)
			continue
		}
		deadline, lost := log[last-1].at, log[last].at
		late = max(late, lost-deadline)
		if lost < deadline-early || lost > deadline+deadlineSlack || lost > o.back {
			t.Errorf("%s/%d was lost %v after its deadline, %v after the server was back", who, i, lost-deadline, lost-o.back)
		}
	}
	figures(t, "%s: lost %v after the deadline at most, ended %v after the server went", who, late.Round(time.Millisecond), o.since(o.actors[who]))
}

func (o *outage) since(p *process) time.Duration { return (p.ended - o.away).Round(time.Millisecond) }

// judgeHolder: the command was ended at the deadline that its trace tells of last.
func (o *outage) judgeHolder(t *testing.T, who string) {
	status := o.actors[who].status(t, outageEnd)
	said := o.said(t, who)
	if status != statusLost || said.By != "mopslock" || said.Reason != "unreachable" {
		t.Errorf("%s ended with %d, said %+v: %s", who, status, said, o.actors[who].stderr.String())
		return
	}
	deadline := readTrace(t, o.path(who+".trace")).deadline
	late := o.actors[who].ended - deadline
	figures(t, "%s: ended %v after the server went, %v after its deadline", who, o.since(o.actors[who]), late.Round(time.Millisecond))
	if late < 0 || late > deadlineSlack || deadline > o.away+serverTTL-serverTTL/10 {
		t.Errorf("%s ended %v after its deadline, which was %v after the server went", who, late, deadline-o.away)
	}
	if _, whole := find(t, o.path(who+".log"), "end"); whole {
		t.Errorf("the command of %s came to its end", who)
	}
}

// hasSaid reports whether somebody has ended, as its status file shows.
func (o *outage) hasSaid(who string) bool {
	info, err := os.Stat(o.path(who + ".status"))
	return err == nil && info.Size() > 0
}

// said is what is in a status file.
func (o *outage) said(t *testing.T, who string) (said struct {
	By, Reason string
	Status     int
},
) {
	text, err := os.ReadFile(o.path(who + ".status"))
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		t.Errorf("the status file of %s: %q: %v", who, text, err)
	}
	return said
}

// judgeWaiters: each has what it waited for soon after the server is back.
func (o *outage) judgeWaiters(t *testing.T) {
	var took []string
	for _, who := range slices.Sorted(maps.Keys(o.actors)) {
		if !strings.HasPrefix(who, "waiter") && who != "permit-waiter" {
			continue
		}
		if status := o.actors[who].status(t, outageEnd); status != 0 {
			t.Errorf("%s ended with %d: %s", who, status, o.actors[who].stderr.String())
			continue
		}
		began, _ := find(t, o.path(who+".log"), "begin")
		after := began.at - o.back
		took = append(took, fmt.Sprint(who, " ", after.Round(time.Millisecond)))
		if after < 0 || after > outageEnd {
			t.Errorf("%s had it %v after the server was back", who, after)
		}
	}
	figures(t, "held after the server was back: %s", strings.Join(took, ", "))
}

// judgeRevived: the tenure that is accompanied is alive again.
func (o *outage) judgeRevived(t *testing.T) {
	eventually(t, outageEnd, "the companion keeps its tenure alive again", func() bool { return o.revived(t) })
	figures(t, "revived %v after the server was back", (monotonic() - o.back).Round(time.Millisecond))
}

// judgeCompanion: its command runs on, and its tenure lives on, also when all that was
// written late is too old to count.
func (o *outage) judgeCompanion(t *testing.T) {
	time.Sleep(o.back + serverTTL + 2*time.Second - monotonic())
	if !o.revived(t) {
		t.Errorf("the tenure that is accompanied is %+v, and was %+v", observeIn(t, o.place, "joined"), o.first)
	}
	if _, ended := find(t, o.path("companion.log"), "end"); ended {
		t.Error("the companion's command has ended")
	}
	o.open(t, "companion")
	eventually(t, outageEnd, "the companion has ended", func() bool { return o.hasSaid("companion") })
	if said := o.said(t, "companion"); said.By != "command" || said.Status != 0 {
		t.Errorf("the companion said %+v", said)
	}
}

func (o *outage) revived(t *testing.T) bool {
	now := observeIn(t, o.place, "joined")
	return now.State == "held" && now.Holder == o.first.Holder && now.Token == o.first.Token
}

// judgeInvoked: both have the one result, whoever had the lease in the end.
func (o *outage) judgeInvoked(t *testing.T) {
	var results []string
	for _, who := range []string{"invoke", "invoke-waiter"} {
		if status := o.actors[who].status(t, outageEnd); status != 0 {
			t.Errorf("%s ended with %d: %s", who, status, o.actors[who].stderr.String())
		}
		text, err := os.ReadFile(o.path(who + ".out"))
		if err != nil {
			t.Error(err)
		}
		results = append(results, string(text))
	}
	done := append(readLog(t, o.path("invoke-remote.log")), readLog(t, o.path("invoke-waiter-remote.log"))...)
	known := slices.ContainsFunc(done, func(e entry) bool { return results[0] == fmt.Sprintf("worked out by process %d\n", e.pid) })
	if results[0] != results[1] || !known {
		t.Errorf("invoke printed %q and %q after %v", results[0], results[1], done)
	}
	eventually(t, outageEnd, "the remote has ended", func() bool { return o.hasSaid("invoke-remote") })
	if said := o.said(t, "invoke-remote"); said.Status != 0 && said.Status != statusLost {
		t.Errorf("the remote said %+v", said)
	}
	figures(t, "invoke: ended %v and %v after the server went; jobs %v", o.since(o.actors["invoke"]), o.since(o.actors["invoke-waiter"]), done)
}

// mostAway is how many requests a process may send in a second to a server that is
// away. A machine polls as it does else, but hurries as its deadline comes near, and
// a process has up to three: a lease's or a semaphore's, a session's, and one that
// asks for the store's clock.
const mostAway = 10

// judgeRequests counts what was wanted of the store while it was away.
func (o *outage) judgeRequests(t *testing.T) {
	files, err := filepath.Glob(o.path("*.trace"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, file := range files {
		r, n := readTrace(t, file), 0
		if !r.whole {
			t.Errorf("%s is not whole", file)
		}
		for _, at := range r.requests {
			if o.away < at && at < o.back {
				n++
			}
		}
		who := strings.TrimSuffix(filepath.Base(file), ".trace")
		said = append(said, fmt.Sprint(who, " ", n))
		if most := mostAway * int(outageLength/time.Second); n > most {
			t.Errorf("%s sent %d requests while the server was away, %d at most", who, n, most)
		}
	}
	figures(t, "requests in the outage of %v: %s", outageLength, strings.Join(said, ", "))
}
