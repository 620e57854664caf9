//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// permit starts one of n with --status-file.
func (s *scene) permit(capacity, width int, statusFile string, words ...string) *process {
	s.Helper()
	own := []string{"mopslock-host", "permit", "n", "--status-file", s.path(statusFile), "--capacity", fmt.Sprint(capacity), "--width", fmt.Sprint(width)}
	return s.start(append(own, words...)...)
}

// held is what status says of n.
func (s *scene) held() string {
	s.Helper()
	p := s.start("mopslock-host", "status", "--json", "n")
	p.wait()
	_, rest, _ := strings.Cut(p.out.String(), `"held":`)
	held, _, _ := strings.Cut(rest, ",")
	return held
}

// Of 3 x 2 there are six at once, and never a seventh: each command takes a slot, and those who find none say so. The
// first six wait for each other inside.
func TestPermitsWithinTheView(t *testing.T) {
	s := newScene(t)
	const body = `slot=
for i in 1 2 3 4 5 6; do mkdir slot$i 2>/dev/null && slot=slot$i && break; done
test "$slot" || echo >overlap
echo in >>in
while test $(wc -l <in) -lt 6; do sleep 0.05; done
rmdir "$slot"; echo out >>out`
	workers := make([]*process, 8)
	for i := range workers {
		workers[i] = s.start("mopslock-host", "permit", "n", "--capacity", "3", "--width", "2", "--", "sh", "-c", body)
	}
	for _, worker := range workers {
		worker.mustExit(0)
	}
	if s.exists("overlap") || strings.Count(s.read("out"), "\n") != len(workers) {
		t.Error("more than six at a time, or one that did not run")
	}
	if held := s.held(); held != "0" {
		t.Errorf("%s are held in the end", held)
	}
}

// The permit of one that was killed goes to who waits, when its session is dead; its command went along.
func TestPermitOfAKilledHolder(t *testing.T) {
	s := newScene(t)
	first := s.permit(1, 1, "first.json", "--ttl", ttl(6), "--", "sh", "-c", "echo $$ >pid; while :; do sleep 0.05; done")
	pid := s.pidIn("pid")
	second := s.permit(1, 1, "second.json", "--ttl", "60s", "--", "sh", "-c", "exit 5")
	second.says("waiting for a permit of n, which is full: 1/1 permits (1 x 1) held by ")
	first.signal(syscall.SIGKILL)
	s.gone(pid)
	second.mustExit(5)
	s.decided("second.json", "command", 5, "exited")
	if s.read("first.json") != "" {
		t.Error("a killed process left a status")
	}
}

// Renewals of the session fail: SIGTERM at deadline - grace, SIGKILL at the deadline, 76.
func TestPermitRenewalsFail(t *testing.T) {
	s := newFrailScene(t)
	p := s.permit(1, 1, "s.json", "--ttl", ttl(9), "--", "sh", "-c",
		`trap "echo >termed" TERM; sleep 300 & echo $! >grandchild; echo $$ >pid; while :; do sleep 0.1; done`)
	pid, grandchild := s.pidIn("pid"), s.pidIn("grandchild")
	s.breakStore()
	s.eventually("SIGTERM at the command", func() bool { return s.exists("termed") })
	p.mustExit(statusLost)
	s.decided("s.json", "mopslock", statusLost, "unreachable")
	s.gone(pid)
	s.gone(grandchild)
	p.says("permit of n: renewals fail, and its deadline is in ")
	p.says(`permit of "n" lost (unreachable): it could not be renewed before its deadline; stop what the permit allows, and check the store`)
}

// --on-loss continue ends nothing: a line on stderr, and 76 at the end.
func TestPermitLostGoesOn(t *testing.T) {
	s := newFrailScene(t)
	p := s.permit(1, 1, "s.json", "--ttl", ttl(9), "--on-loss", "continue", "--", "sh", "-c",
		`trap "echo >termed" TERM; echo >up; while ! test -e enough; do sleep 0.05; done; exit 3`)
	s.eventually("the command", func() bool { return s.exists("up") })
	s.breakStore()
	p.says("permit of n: renewals fail, and its deadline is near; the command goes on (--on-loss continue)")
	p.says("the command goes on without the permit (--on-loss continue)")
	s.write("enough", "")
	p.mustExit(statusLost)
	s.decided("s.json", "mopslock", statusLost, "unreachable")
	if s.exists("termed") {
		t.Error("it was told to end")
	}
}

// A renewal between SIGTERM and the deadline calls off the SIGKILL: the end is the command's own.
func TestPermitRenewedAfterSigterm(t *testing.T) {
	s := newFrailScene(t)
	p := s.permit(1, 1, "s.json", "--ttl", either("9s", "27s"), "--grace", either("3s", "9s"), "--", "sh", "-c",
		`trap "`+mendsStore()+`; echo >mended" TERM; echo >up; while ! test -e enough; do sleep 0.05; done; exit 5`)
	s.eventually("the command", func() bool { return s.exists("up") })
	s.breakStore()
	s.eventually("SIGTERM at the command", func() bool { return s.exists("mended") })
	p.says("permit of n: renewed after all")
	s.write("enough", "")
	p.mustExit(5)
	s.decided("s.json", "command", 5, "exited")
	if held := s.held(); held != "0" {
		t.Errorf("%s are held in the end", held)
	}
}

// A holder that is paused past its deadline ends with 76 as soon as it wakes, with its command's whole group, and the
// permit is another's meanwhile.
func TestPausedPermit(t *testing.T) {
	s := newScene(t)
	first := s.permit(1, 1, "first.json", "--ttl", ttl(6), "--", "sh", "-c",
		`trap "" TERM; sleep 300 & echo $! >grandchild; echo $$ >pid; while :; do sleep 0.1; done`)
	pid, grandchild := s.pidIn("pid"), s.pidIn("grandchild")
	first.signal(syscall.SIGSTOP)
	second := s.permit(1, 1, "second.json", "--ttl", "60s", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done; exit 5")
	s.eventually("the second holder", func() bool { return s.exists("up") })
	first.signal(syscall.SIGCONT)
	first.mustExit(statusLost)
	s.decided("first.json", "mopslock", statusLost, "expired")
	s.gone(pid)
	s.gone(grandchild)
	if held := s.held(); held != "1" {
		t.Errorf("%s are held beside the second holder", held)
	}
	s.write("enough", "")
	second.mustExit(5)
}

// When CMD has ended its status stands, and it is said when the permit will be free.
func TestPermitReleaseFails(t *testing.T) {
	s := newFrailScene(t)
	p := s.permit(1, 1, "s.json", "--ttl", ttl(9), "--", "sh", "-c", breaksStore()+"; exit 3")
	p.mustExit(3)
	s.decided("s.json", "command", 3, "exited")
	p.says("permit of n could not be released; it will expire by itself, at the latest at 20")
}

// A wait is ended by a signal, and nothing of it stays behind.
func TestSignalEndsTheWaitForAPermit(t *testing.T) {
	s := newScene(t)
	holder := s.permit(1, 1, "holder.json", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done")
	s.eventually("the holder", func() bool { return s.exists("up") })
	p := s.permit(1, 1, "s.json", "--", "touch", "ran")
	p.says("waiting for a permit of n")
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	s.decided("s.json", "mopslock", 128+int(syscall.SIGTERM), "interrupted")
	s.write("enough", "")
	holder.mustExit(0)
	if held := s.held(); held != "0" || s.exists("ran") {
		t.Errorf("%s are held, ran %v", held, s.exists("ran"))
	}
}

// While CMD runs signals are its own, and the permit is released when one has ended it.
func TestSignalsAreForwardedUnderAPermit(t *testing.T) {
	s := newScene(t)
	p := s.permit(1, 1, "s.json", "--", "sh", "-c", `trap "echo >got" USR1; echo >up; while :; do sleep 0.02; done`)
	s.eventually("the command", func() bool { return s.exists("up") })
	p.signal(syscall.SIGUSR1)
	s.eventually("USR1 at the command", func() bool { return s.exists("got") })
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	s.decided("s.json", "command", 128+int(syscall.SIGTERM), "signalled")
	if held := s.held(); held != "0" {
		t.Errorf("%s are held in the end", held)
	}
}

// takesNothing is a store that answers, and has no time for writes.
func takesNothing(t *testing.T) string {
	within := &smallS3{creates: true, objects: map[string]object{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && !strings.HasSuffix(r.URL.Path, "/store.json") {
			fail(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		within.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return s3URL(server.URL)
}

// --wait bounds the limit, too: 69 if the store has not answered by then, 75 if it has, and then nobody knows whether
// the limit is kept.
func TestWaitBoundsTheStoreLimit(t *testing.T) {
	besideOthers(t)
	limit := []string{"--capacity", "1", "--width", "1", "--store-limit", "1", "--wait", "5s", "--", "touch", "ran"}
	t.Run("silent", func(t *testing.T) {
		s := newScene(t)
		p := s.withStore(newFakeS3(t, http.StatusServiceUnavailable, "SlowDown").url, append([]string{"permit", "n", "--status-file", s.path("s.json")}, limit...)...)
		p.mustExit(statusUnavailable)
		s.decided("s.json", "mopslock", statusUnavailable, "unreachable")
		p.says("limit of n not set: the store has not answered once; check its URL and the network")
	})
	t.Run("answered", func(t *testing.T) {
		s := newScene(t)
		p := s.withStore(takesNothing(t), append([]string{"permit", "n", "--status-file", s.path("s.json")}, limit...)...)
		p.mustExit(statusNotAcquired)
		s.decided("s.json", "mopslock", statusNotAcquired, "limit")
		p.says("limit of n: the wait was over, and it is unknown whether the store has taken it; status shows it")
	})
}

// A waiter carries on through an outage until --wait is over: 75.
func TestOutageWhileWaitingForAPermit(t *testing.T) {
	s := newScene(t)
	p := s.withStore(takesNothing(t), "permit", "n", "--capacity", "1", "--width", "1", "--wait", "5s", "--status-file", s.path("s.json"), "--", "touch", "ran")
	p.mustExit(statusNotAcquired)
	s.decided("s.json", "mopslock", statusNotAcquired, "limit")
	p.says(`permit of "n" not acquired: the wait was over`)
	if s.exists("ran") {
		t.Error("it was run")
	}
}

// A record that has no room for another holder is 78.
func TestCrowdedIsUnfit(t *testing.T) {
	out := exitOf(&host.Error{Kind: host.Refused, Name: "n", Reason: core.ReasonCrowded})
	if out.Status != statusUnfit || out.Reason != "crowded" {
		t.Errorf("%+v", out)
	}
}

// Waiting for room shows one live line: how much is held of how much, and by whom. It is cleared in the end.
func TestLiveLineOfPermit(t *testing.T) {
	besideOthers(t)
	for name, width := range map[string]uint16{"wide": 250, "narrow": 80} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			holder := s.permit(2, 3, "holder.json", "--weight", "5", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done")
			s.eventually("the holder", func() bool { return s.exists("up") })
			p := s.onTerminal(width, "mopslock-host", "permit", "n", "--capacity", "2", "--width", "3", "--weight", "2", "--", "sh", "-c", "echo it runs")
			p.shows("waiting for a permit of n: 5/6 permits (2 x 3) held by ")
			s.write("enough", "")
			holder.mustExit(0)
			p.mustExit(0)
			before, found := strings.CutSuffix(p.out.String(), "it runs\r\n")
			if !found || !strings.HasSuffix(before, "\r\x1b[K") || strings.Contains(before, "\n") {
				t.Errorf("not one live line, cleared before the command: %q", p.out)
			}
			for line := range strings.SplitSeq(before, "\r\x1b[K") {
				if len([]rune(line)) >= int(width) {
					t.Errorf("%d columns: %q", len([]rune(line)), line)
				}
			}
		})
	}
}

// A look that comes after the wait draws nothing, and one within it brings the line up to date.
func TestStillWaiting(t *testing.T) {
	s := newScene(t)
	holder := s.permit(1, 2, "holder.json", "--label", "x", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done")
	s.eventually("the holder", func() bool { return s.exists("up") })
	p := s.onTerminal(200, "mopslock-host", "permit", "n", "--capacity", "1", "--width", "2", "--weight", "2", "--", "true")
	p.shows("1/2 permits (1 x 2) held by ")
	other := s.permit(1, 2, "other.json", "--wait", "0", "--", "sh", "-c", "echo >up2; while ! test -e enough; do sleep 0.05; done")
	s.eventually("the other", func() bool { return s.exists("up2") })
	p.shows("2/2 permits (1 x 2) held by ")
	s.write("enough", "")
	holder.mustExit(0)
	other.mustExit(0)
	p.mustExit(0)
}

// The beat of a permit's session goes with its process.
func TestPermitLeavesNoSession(t *testing.T) {
	s := newScene(t)
	for range 3 {
		s.permit(1, 1, "s.json", "--", "true").mustExit(0)
	}
	sessions, err := list(s.store.looks, "_mopslock/s/")
	if err != nil || len(sessions) != 0 {
		t.Errorf("%q, %v", sessions, err)
	}
}

// Who is shown on a row: as much as there is, three of them by name, whole where that fits.
func TestRoomText(t *testing.T) {
	one := host.PermitHolder{ID: "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "build-07", PID: "7", Weight: 1}
	two := host.PermitHolder{ID: "99dc2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "evil\x1b[2J", PID: "8", Weight: 2}
	many := []host.PermitHolder{one, two, one, one}
	for _, test := range []struct {
		room  room
		s     host.Status
		width int
		want  string
	}{
		{room{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 200, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 (pid 7)"},
		{room{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 80, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a… on build-07"},
		{room{host.View{Capacity: 50, Width: 2}, 1, 4}, host.Status{Held: 140, Limit: 60, Holders: many}, 190, `waiting for a permit of n: 140/60 permits (50 x 2, limit 60 in the store, 4 spared) held by 3f0c2b1a… on build-07, 99dc2b1a… on "evil\x1b[2J" with 2, 3f0c2b1a… on build-07 and others`},
		{room{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 40, "waiting for a permit of n: 1/6 permits "},
		{room{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 6}, 80, "waiting for a permit of n: 6/6 permits (3 x 2) held by others"},
	} {
		if got := test.room.line("n", &test.s, test.width); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// Of a semaphore ls --stale looks at each holder, of a lease at its state.
func TestHasExpired(t *testing.T) {
	for _, test := range []struct {
		s    host.Status
		want bool
	}{
		{host.Status{State: core.ObservedStale}, true},
		{host.Status{State: core.ObservedHeld}, false},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}, {Stale: true}}}, true},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}}}, false},
		{host.Status{State: core.ObservedVacant, Capacity: 1}, false},
	} {
		if got := hasExpired(&test.s); got != test.want {
			t.Errorf("%+v: %v", test.s, got)
		}
	}
}
