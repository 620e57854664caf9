//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A holder that is paused past its deadline ends with 76 as soon as it wakes, with its command's whole group, and
// writes nothing over the next holder's record.
func TestPausedHolder(t *testing.T) {
	s := newScene(t)
	first := s.host("run", "first.json", "--ttl", ttl(6), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "" TERM; sleep 300 & echo $! >grandchild; echo $$ >pid; while :; do sleep 0.1; done`)
	pid, grandchild := s.pidIn("pid"), s.pidIn("grandchild")
	first.signal(syscall.SIGSTOP)
	second := s.host("run", "second.json", "--ttl", "88s", "n", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done; exit 5")
	s.eventually("the second holder", func() bool { return s.exists("up") })
	writer := s.field("writer_id") // whose renewals go on
	if !alive(pid) {
		t.Error("the first command was to run on, unwatched")
	}
	first.signal(syscall.SIGCONT)
	first.mustExit(statusLost)
	s.decided("first.json", "mopslock", statusLost, "expired")
	s.gone(pid)
	s.gone(grandchild)
	if s.field("writer_id") != writer || s.field("released_at") != "" {
		t.Errorf("the second holder's record was touched: %s", s.record())
	}
	s.write("enough", "")
	second.mustExit(5)
}

// Renewals fail: SIGTERM at deadline - grace, SIGKILL at the deadline, 76.
func TestRenewalsFail(t *testing.T) {
	s := newFrailScene(t)
	p := s.host("run", "s.json", "--ttl", ttl(9), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "echo >termed" TERM; sleep 300 & echo $! >grandchild; echo $$ >pid; while :; do sleep 0.1; done`)
	pid, grandchild := s.pidIn("pid"), s.pidIn("grandchild")
	s.breakStore()
	s.eventually("SIGTERM at the command", func() bool { return s.exists("termed") })
	p.mustExit(statusLost)
	s.decided("s.json", "mopslock", statusLost, "unreachable")
	s.gone(pid)
	s.gone(grandchild)
	p.says("renewals fail, and its deadline is in")
	p.says("lost (unreachable)")
}

// A command that ends between SIGTERM and the deadline was ended by us: 76 all the same.
func TestEndsBetweenSigtermAndDeadline(t *testing.T) {
	s := newFrailScene(t)
	p := s.host("run", "s.json", "--ttl", either("9s", "18s"), "--grace", either("3s", "6s"), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "exit 0" TERM; echo >up; while :; do sleep 0.05; done`)
	s.eventually("the command", func() bool { return s.exists("up") })
	s.breakStore()
	p.mustExit(statusLost)
	s.decided("s.json", "mopslock", statusLost, "unreachable")
}

// A renewal between SIGTERM and the deadline calls off the SIGKILL: the end is the command's own.
func TestRenewedAfterSigterm(t *testing.T) {
	s := newFrailScene(t)
	p := s.host("run", "s.json", "--ttl", either("9s", "27s"), "--grace", either("3s", "9s"), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "`+mendsStore()+`; echo >mended" TERM; echo >up; while ! test -e enough; do sleep 0.05; done; exit 5`)
	s.eventually("the command", func() bool { return s.exists("up") })
	s.breakStore()
	s.eventually("SIGTERM at the command", func() bool { return s.exists("mended") })
	p.says("renewed after all")
	s.write("enough", "")
	p.mustExit(5)
	s.decided("s.json", "command", 5, "exited")
	if s.field("released_at") == "" {
		t.Error("not released")
	}
}

// A large margin, or a short TTL of the fleet, brings the deadline near to the renewals; they are not late for that.
func TestGraceGivesWayToTheRenewals(t *testing.T) {
	besideOthers(t)
	for name, flags := range map[string]string{
		"margin": "--ttl 24s --margin 11600ms --grace 8s --fleet-expire none",
		"fleet":  "--ttl 88s --fleet-expire 18s",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			p := s.host("run", "s.json", append(strings.Fields(flags), "n", "--", "sh", "-c", "echo >up; while ! test -e enough; do sleep 0.05; done; exit 5")...)
			s.eventually("the command", func() bool { return s.exists("up") })
			s.eventually("two renewals", func() bool { return s.count() >= 4 })
			s.write("enough", "")
			p.mustExit(5)
			if text := p.err.String(); text != "" {
				t.Error(text)
			}
		})
	}
}

// When CMD has ended its status stands, whatever becomes of the release.
func TestReleaseFails(t *testing.T) {
	s := newFrailScene(t)
	p := s.host("run", "s.json", "--ttl", ttl(9), "--fleet-expire", "none", "n", "--", "sh", "-c", barsRecord()+"; exit 3")
	p.mustExit(3)
	s.decided("s.json", "command", 3, "exited")
	p.says("lease n could not be released; it will expire by itself, at the latest at 20")
}

// A second signal after CMD's end gives the release up, which else has 10 s here.
func TestReleaseGivenUp(t *testing.T) {
	s := newFrailScene(t)
	p := s.host("run", "s.json", "--ttl", "88s", "n", "--", "sh", "-c", barsRecord()+"; echo $$ >pid; exit 3")
	pid := s.pidIn("pid")
	s.gone(pid)
	ended := time.Now()
	for alive(p.cmd.Process.Pid) {
		p.signal(syscall.SIGTERM)
		time.Sleep(20 * time.Millisecond)
	}
	p.mustExit(3)
	if took := time.Since(ended); took >= closeLimit {
		t.Errorf("it took %v", took)
	}
	p.says("lease n could not be released")
	s.decided("s.json", "command", 3, "exited")
}

// A pause that ends between deadline - grace and the deadline is no failing renewal: one goes out at once.
func TestPauseShorterThanTheDeadline(t *testing.T) {
	s := newScene(t)
	p := s.host("run", "s.json", "--ttl", either("9s", "27s"), "--grace", either("3s", "9s"), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "echo >termed" TERM; echo >up; while ! test -e enough; do sleep 0.05; done; exit 5`)
	s.eventually("the command", func() bool { return s.exists("up") })
	p.signal(syscall.SIGSTOP)
	count := s.count()
	late := either(5400*time.Millisecond, 16200*time.Millisecond) // of 8.1 s, the last 3 of which are grace; or three times that
	s.eventually("its grace", func() bool {
		written, err := time.Parse(time.RFC3339, s.field("written_at"))
		return err == nil && time.Since(written) > late
	})
	p.signal(syscall.SIGCONT)
	s.eventually("a renewal", func() bool { return s.count() > count })
	s.write("enough", "")
	p.mustExit(5)
	if s.exists("termed") {
		t.Error("it was told to end")
	}
}

// A waiter carries on through an outage until --wait is over: 75, naming whom it last saw.
func TestOutageWhileWaiting(t *testing.T) {
	s := newFrailScene(t)
	s.theirs()
	p := s.host("run", "s.json", "--wait", "8s", "n", "--", "touch", "ran")
	p.says("waiting for n")
	s.breakRecord()
	p.mustExit(statusNotAcquired)
	p.says("the wait was over while the store did not answer")
	p.says("last seen held by GrandTiger.QkPpa9Jy on theirhost")
	s.decided("s.json", "mopslock", statusNotAcquired, "limit")
}

// A reader of our stderr who has stopped reading must not keep us from ending the command.
func TestNobodyReadsStderr(t *testing.T) {
	s := newFrailScene(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fd := int(writer.Fd()) // asking for it makes it blocking
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = syscall.Write(fd, block)
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	p := s.startWith(writer, "mopslock-host", "run", "--protocol", "lastwriter", "--status-file", s.path("s.json"), "--ttl", ttl(9), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`trap "" TERM; echo $$ >pid; while :; do sleep 0.1; done`)
	_ = writer.Close()
	pid := s.pidIn("pid")
	s.breakStore()
	s.gone(pid)
	p.mustExit(statusLost)
	s.decided("s.json", "mopslock", statusLost, "unreachable")
}

// Processes that want one name run one after the other. All of them start at once, which an acquire margin of many
// writes' length makes safe under lastwriter.
func TestOneAtATime(t *testing.T) {
	s := newScene(t)
	workers := make([]*process, 4)
	for i := range workers {
		workers[i] = s.start("mopslock-host", "run", "--protocol", "lastwriter", "--ttl", "30s", "--acquire-margin", "3s", "n", "--", "sh", "-c",
			"mkdir critical || echo >overlap; sleep 0.1; rmdir critical; echo >>done")
	}
	for _, worker := range workers {
		worker.mustExit(0)
	}
	if s.exists("overlap") || strings.Count(s.read("done"), "\n") != len(workers) {
		t.Error("two at a time, or one that did not run")
	}
}

// A command that ends at once of SIGTERM takes no grace from the rest of its group.
func TestGraceIsForTheGroup(t *testing.T) {
	s := newScene(t)
	p := s.host("run", "s.json", "--ttl", "60s", "--grace", "20s", "--fleet-expire", "none", "n", "--", "sh", "-c",
		`(trap "echo >termed; `+waits("enough", "echo >cleaned; exit")+`" TERM; echo >up; while :; do sleep 0.05; done) & `+waits("up", "echo $$ >pid; exec sleep 300"))
	pid := s.pidIn("pid")
	s.remove("n/lock.json")
	s.steals(func() bool { return s.exists("termed") }, "expire=60.0") // SIGTERM at the grandchild
	s.gone(pid)
	s.write("enough", "")
	p.mustExit(statusLost)
	if !s.exists("cleaned") {
		t.Error("the grandchild was killed in its grace")
	}
}
