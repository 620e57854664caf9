//go:build unix

// Command demo shows leases at work: it starts real processes of
// mopslock-host on a fresh local directory and prints who held what and when.
// `make run` builds what it needs.
//
// It holds no lease itself: it starts, stops, asks and prints.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "work":
		err = work(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 4 && os.Args[1] == "orchestrate":
		err = orchestrate(os.Args[2], os.Args[3])
	case len(os.Args) == 2:
		err = demonstrate(os.Args[1])
	default:
		err = errors.New("usage: demo PATH-OF-MOPSLOCK-HOST")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demonstrate(binary string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mopslock-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStage(binary, dir)
	if err != nil {
		return err
	}
	defer s.strikeSet()
	s.say("store: %s (a fresh directory; a bucket works the same)", s.store)
	for _, scene := range []func(*stage) error{takeTurns, outliveOrchestrator} {
		if err := scene(s); err != nil {
			return err
		}
	}
	s.printHistory()
	return nil
}

// takeTurns: two processes want one lease and the second waits; a third does not want to wait.
func takeTurns(s *stage) error {
	fmt.Println("\n-- two machines want to run nightly-report, and it must run on one at a time")
	anna, err := s.start("anna", "run", "nightly-report", "--", s.self, "work", "anna", "nightly-report", "1200ms")
	if err != nil {
		return err
	}
	if err := s.await("anna has begun", func() bool { return s.held("anna") }); err != nil {
		return err
	}
	ben, err := s.start("ben", "run", "nightly-report", "--", s.self, "work", "ben", "nightly-report", "400ms")
	if err != nil {
		return err
	}
	if err := s.status("nightly-report"); err != nil {
		return err
	}
	carl, err := s.start("carl", "run", "--wait", "0", "nightly-report", "--", s.self, "work", "carl", "nightly-report", "1s")
	if err != nil {
		return err
	}
	s.say("carl would not wait (--wait 0): exit status %d", s.end(carl))
	s.say("anna: exit status %d", s.end(anna))
	s.say("ben: exit status %d", s.end(ben))
	return s.status("nightly-report")
}

// outliveOrchestrator: the holder is killed; its remote part keeps the lease
// alive, and a waiter waits for it.
func outliveOrchestrator(s *stage) error {
	fmt.Println("\n-- an orchestrator dies while its remote part goes on")
	orchestrator, err := s.start("otto", "run", "--ttl", "1500ms", "training", "--", s.self, "orchestrate", s.binary, "2s")
	if err != nil {
		return err
	}
	if err := s.await("the remote part has begun", func() bool { return s.held("otto's remote") }); err != nil {
		return err
	}
	paula, err := s.start("paula", "run", "--ttl", "1500ms", "training", "--", s.self, "work", "paula", "training", "300ms")
	if err != nil {
		return err
	}
	s.say("otto's mopslock-host is killed (SIGKILL), and its command with it")
	if err := orchestrator.cmd.Process.Kill(); err != nil {
		return err
	}
	s.end(orchestrator)
	time.Sleep(1700 * time.Millisecond) // longer than the TTL: without the remote it would be free by now
	if err := s.status("training"); err != nil {
		return err
	}
	s.say("paula: exit status %d", s.end(paula))
	return nil
}

// work is a command under a lease: it says when it runs.
func work(who, name, length string) error {
	d, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	fmt.Println(began, name, who)
	time.Sleep(d)
	fmt.Println(ended, name, who)
	return nil
}

// orchestrate is a command under a lease that has its work done elsewhere: by a
// process of its own session, which joins the lease in MOPSLOCK_LEASE.
func orchestrate(binary, length string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	remote := exec.Command(binary, "accompany", "--", self, "work", "otto's_remote", os.Getenv("MOPSLOCK_NAME"), length)
	remote.Stdout, remote.Stderr = os.Stdout, os.Stderr
	remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives us
	if err := remote.Start(); err != nil {
		return err
	}
	return remote.Wait()
}

// status prints what `mopslock-host status` says, on one line.
func (s *stage) status(name string) error {
	out, err := s.command("status", name).Output()
	var vacant *exec.ExitError
	if err != nil && !(errors.As(err, &vacant) && vacant.ExitCode() == 1) {
		return fmt.Errorf("status: %w", err)
	}
	var words []string
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch value = strings.TrimSpace(value); key {
		case "state", "left":
			words = append(words, key+" "+value)
		case "holder":
			words = append(words, "holder "+value[:min(8, len(value))]+"…")
		case "companions":
			words = append(words, "kept alive by the companion "+value)
		}
	}
	s.say("status %s: %s", name, strings.Join(words, ", "))
	return nil
}
