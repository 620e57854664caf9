//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A wait is ended by INT, TERM, HUP and QUIT: 128+N, and the other's record as it was.
func TestSignalEndsTheWait(t *testing.T) {
	besideOthers(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newScene(t)
			before := s.theirs()
			p := s.host("run", "s.json", "n", "--", "touch", "ran")
			p.says("waiting for n")
			p.signal(sig)
			p.mustExit(128 + int(sig))
			s.decided("s.json", "mopslock", 128+int(sig), "interrupted")
			if s.record() != before || s.exists("ran") {
				t.Error("something was done all the same")
			}
		})
	}
}

// The other signals do nothing while waiting: the lease is had all the same.
func TestOtherSignalsDoNotEndTheWait(t *testing.T) {
	s := newScene(t)
	s.theirs()
	p := s.host("run", "s.json", "n", "--", "sh", "-c", "exit 4")
	p.says("waiting for n")
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGPIPE} {
		p.signal(sig)
	}
	s.theirs("written=", "released=0s")
	p.mustExit(4)
}

// Interrupted between the claim and its verification, what is left in the store is released, not fresh.
func TestSignalWhileClaimingLeavesNothingHeld(t *testing.T) {
	besideOthers(t)
	for _, words := range [][]string{{"run", "n", "--", "touch", "ran"}, {"acquire", "n"}} {
		t.Run(words[0], func(t *testing.T) {
			s := newScene(t)
			p := s.host(words[0], "s.json", append([]string{"--ttl", "60s", "--acquire-margin", "30s"}, words[1:]...)...)
			s.eventually("a claim", func() bool { return s.field("written_at") != "" })
			p.signal(syscall.SIGTERM)
			p.mustExit(128 + int(syscall.SIGTERM))
			if s.field("released_at") == "" || s.exists("ran") || p.out.String() != "" {
				t.Errorf("left behind: %s", s.record())
			}
		})
	}
}

// Reading a LEASE from a pipe that says nothing is a wait, too.
func TestSignalEndsReadingTheLease(t *testing.T) {
	s := newScene(t)
	if err := syscall.Mkfifo(s.path("fifo"), 0o600); err != nil {
		t.Skip("no FIFO: ", err)
	}
	writer := make(chan *os.File, 1)
	go func() { // opens when the reader has
		f, _ := os.OpenFile(s.path("fifo"), os.O_WRONLY, 0)
		writer <- f
	}()
	p := s.start("mopslock-host", "renew", s.path("fifo"))
	defer (<-writer).Close()
	p.signal(syscall.SIGINT)
	p.mustExit(128 + int(syscall.SIGINT))
}

// While CMD runs signals are its own; it may live on, or end with 128+N, and the lease is released then.
func TestSignalsAreForwarded(t *testing.T) {
	s := newScene(t)
	p := s.host("run", "s.json", "n", "--", "sh", "-c",
		`for s in USR1 USR2 HUP INT QUIT; do trap "echo $s >got.$s" $s; done; echo >up; while :; do sleep 0.02; done`)
	s.eventually("the command", func() bool { return s.exists("up") })
	for name, sig := range map[string]syscall.Signal{
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	} {
		p.signal(sig)
		s.eventually(name+" at the command", func() bool { return s.exists("got." + name) })
	}
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	s.decided("s.json", "command", 128+int(syscall.SIGTERM), "signalled")
	if s.field("released_at") == "" {
		t.Error("not released")
	}
}

// A signal ignored at the start stays ignored, for us and for CMD.
func TestNohup(t *testing.T) {
	s := newScene(t)
	p := s.start("sh", "-c", `trap "" HUP; exec mopslock-host run --protocol lastwriter n -- sh -c 'echo >up; while ! test -e enough; do sleep 0.02; done; kill -HUP $$; exit 6'`)
	s.eventually("the command", func() bool { return s.exists("up") })
	p.signal(syscall.SIGHUP)
	s.write("enough", "")
	p.mustExit(6)
}

// If mopslock-host is killed its command goes with it, in every phase of its life. Linux only.
func TestKilledHostTakesItsCommandAlong(t *testing.T) {
	besideOthers(t)
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal here")
	}
	deaf := []string{"--", "sh", "-c", `trap "echo >termed" TERM; echo $$ >pid; while :; do sleep 0.1; done`}
	t.Run("running", func(t *testing.T) {
		s := newScene(t)
		p := s.host("run", "s.json", append([]string{"--ttl", ttl(6), "--fleet-expire", "none", "n"}, deaf...)...)
		pid := s.pidIn("pid")
		p.signal(syscall.SIGKILL)
		s.gone(pid)
		if s.read("s.json") != "" {
			t.Error("a killed process left a status")
		}
		next := s.host("run", "next.json", "--ttl", "88s", "--fleet-expire", "none", "n", "--", "true")
		next.mustExit(0) // takes over by itself
	})
	t.Run("in its grace", func(t *testing.T) {
		s := newScene(t)
		p := s.host("run", "s.json", append([]string{"--ttl", "30s", "--grace", "10s", "n"}, deaf...)...)
		pid := s.pidIn("pid")
		s.steals(func() bool { return s.exists("termed") }, "expire=30.0") // SIGTERM at the command
		p.signal(syscall.SIGKILL)
		s.gone(pid)
	})
	t.Run("accompany", func(t *testing.T) {
		s := newScene(t)
		p := s.host("accompany", "s.json", append([]string{"--lease", s.acquire("88s")}, deaf...)...)
		pid := s.pidIn("pid")
		p.signal(syscall.SIGKILL)
		s.gone(pid)
	})
}

// acquire acquires n and returns what is printed.
func (s *scene) acquire(ttl string) string {
	s.Helper()
	p := s.host("acquire", "acquired.json", "--ttl", ttl, "--fleet-expire", "none", "n")
	p.mustExit(0)
	return strings.TrimSpace(p.out.String())
}

// CMD's stdin is ours, to the byte, and so is its stdout.
func TestStandardStreamsAreTheCommands(t *testing.T) {
	s := newScene(t)
	cmd := exec.Command("mopslock-host", "run", "--protocol", "lastwriter", "--store", s.store.url, "n", "--", "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(in, strings.Repeat("x\x00\xff\n", 1<<16))
		_ = in.Close()
	}()
	out, err := cmd.Output()
	if err != nil || string(out) != strings.Repeat("x\x00\xff\n", 1<<16) {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}
