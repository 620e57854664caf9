//go:build unix

package main

import (
	"strconv"
	"syscall"
	"testing"
)

// Losing contact never stops a companion's command: it joins again when the store is back.
func TestCompanionOutlivesAnOutage(t *testing.T) {
	s := newFrailScene(t)
	lease := s.acquire(ttl(6))
	p := s.host("accompany", "s.json", "--lease", lease, "--fleet-expire", "none", "--", "sh", "-c",
		`trap "echo >termed" TERM HUP INT; echo >up; while ! test -e enough; do sleep 0.05; done; exit 5`)
	s.eventually("the command", func() bool { return s.exists("up") })
	s.breakStore()
	p.says("lease n: contact with the store is lost")
	s.mendStore()
	p.says("lease n: joined again")
	count := s.count()
	s.eventually("renewals", func() bool { return s.count() > count+1 })
	s.write("enough", "")
	p.mustExit(5)
	s.decided("s.json", "command", 5, "exited")
	if s.exists("termed") || s.field("released_at") != "" {
		t.Error("the command was told to end, or the lease was released")
	}
}

func (s *scene) count() int {
	n, _ := strconv.Atoi(s.field("write_count"))
	return n
}

// The orchestrator is killed while a companion, started by its command, runs: the lease stays held for as long as
// the companion runs, and then expires and is the next one's.
func TestCompanionOutlivesItsOrchestrator(t *testing.T) {
	s := newScene(t)
	orchestrator := s.host("run", "run.json", "--ttl", ttl(6), "--fleet-expire", "none", "n", "--", "sh", "-c",
		`mopslock-host accompany --fleet-expire none -- sh -c 'echo $$ >pid; while ! test -e enough; do sleep 0.05; done; echo >ended' &
		wait`)
	s.pidIn("pid")
	orchestrator.signal(syscall.SIGKILL)
	orchestrator.wait()
	next := s.host("run", "next.json", "--ttl", "88s", "--fleet-expire", "none", "n", "--", "sh", "-c", "test -e ended && echo >taken")
	next.says("waiting for n")
	s.eventually("the companion's write", func() bool { return s.field("writer_name") == "remote" })
	// Five renewals at a third of the TTL each: it lives on beyond the TTL of a dead one.
	before := s.count()
	s.eventually("the companion's renewals", func() bool { return s.count() >= before+5 })
	if s.exists("taken") || s.field("writer_name") != "remote" {
		t.Fatal("taken from a living companion")
	}
	s.write("enough", "")
	next.mustExit(0)
	if !s.exists("taken") {
		t.Error("not taken over")
	}
}
