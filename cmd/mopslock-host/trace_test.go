//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A FIFO that nobody reads holds up neither the lease nor its renewals nor the end; that there is no recording is told.
func TestTraceToAFIFONobodyReads(t *testing.T) {
	besideOthers(t)
	for _, opened := range []bool{false, true} {
		t.Run(map[bool]string{false: "nor opens", true: "but holds open"}[opened], func(t *testing.T) {
			s := newScene(t)
			if err := syscall.Mkfifo(s.path("fifo"), 0o600); err != nil {
				t.Skip("no FIFO: ", err)
			}
			if opened {
				reader, err := os.OpenFile(s.path("fifo"), os.O_RDWR, 0) // both ends, so that neither open waits
				if err != nil {
					t.Fatal(err)
				}
				defer reader.Close()
				if err := fill(reader); err != nil {
					t.Fatal(err)
				}
			}
			p := s.host("run", "s.json", "--trace", s.path("fifo"), "--ttl", "9s", "--fleet-expire", "none", "n", "--", "sh", "-c",
				"echo >up; while ! test -e enough; do sleep 0.05; done; exit 5")
			s.eventually("the command", func() bool { return s.exists("up") })
			before := s.count()
			s.eventually("renewals beyond the TTL of a dead one", func() bool { return s.count() >= before+5 })
			s.write("enough", "")
			p.mustExit(5)
			s.decided("s.json", "command", 5, "exited")
			if s.field("released_at") == "" {
				t.Error("not released")
			}
			if text := p.err.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "--trace: trace: the end of the recording was not written in time") {
				t.Errorf("stderr: %s", text)
			}
		})
	}
}

// fill fills a pipe until it takes no more.
func fill(w *os.File) error {
	for !full(w) {
		if _, err := w.Write(make([]byte, 512)); err != nil { // atomic, and so never half done
			return err
		}
	}
	return nil
}

// A recording holds what the core was told, and nothing of where the store is or how it is entered.
func TestTraceHoldsNoSecret(t *testing.T) {
	s := newScene(t)
	server := newFakeS3(t, http.StatusForbidden, "AccessDenied")
	p := s.withStore(server.url, "run", "--protocol", "lastwriter", "--trace", s.path("t"), "n", "--", "touch", "ran")
	p.mustExit(statusUnavailable)
	text := s.read("t")
	if !strings.Contains(text, "unauthorized") || !strings.Contains(text, "n/lock.json") {
		t.Errorf("not the recording of what happened: %q", text)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(server.url, "s3://bucket?endpoint=http://"), "&region=us-east-1&use_path_style=true")
	// Two letters alone are now and then among the bytes of a seed: with what goes before or after them in a recording.
	for _, secret := range []string{"hunter2", "bucket", "s3:", "\xa2s3", "endpoint", "AccessDenied", host} {
		if strings.Contains(text, secret) {
			t.Errorf("the recording holds %q: %q", secret, text)
		}
	}
	replay := s.start("mopslock-host", "replay", s.path("t"))
	replay.mustExit(0)
}

// A process that is killed leaves a recording of what it did until then.
func TestTraceOfAKilledProcess(t *testing.T) {
	s := newScene(t)
	p := s.host("run", "s.json", "--trace", s.path("t"), "--ttl", either("9s", "12s"), "--fleet-expire", "none", "n", "--", "sh", "-c", "echo >up; exec sleep 300")
	s.eventually("the command", func() bool { return s.exists("up") })
	s.eventually("a recorded renewal", func() bool { return strings.Contains(s.read("t"), "\xa4kind\xa7renewed") })
	p.signal(syscall.SIGKILL)
	p.wait()
	replay := s.start("mopslock-host", "replay", s.path("t"))
	replay.mustExit(0)
	replay.says("the recording ends early")
	if !strings.HasPrefix(replay.out.String(), "2 machines, ") { // the lease's, and the look for a strict one beside it
		t.Error(replay.out)
	}
}

const (
	aConfig   = `{"machine":"lease","protocol":"lastwriter","name":"n","seed":"AQIDBAUGBwgJCgsMDQ4PEA=="}` + "\n"
	anAcquire = `{"mono":1,"wall":2,"kind":"acquire"}` + "\n"
)

// Each answer is there before the next input is given, and a signal ends the wait for one.
func TestStepAnswersAtOnce(t *testing.T) {
	s := newScene(t)
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	p := s.piped(in, out, "mopslock-host", "step", "--trace", s.path("t"))
	lines := bufio.NewReader(stdout)
	for _, turn := range [][2]string{{aConfig, `{"state":"idle"`}, {anAcquire, `{"state":"observing"`}, {"\n", `{"error":"message"`}, {anAcquire, `{"error":"event"`}} {
		if _, err := io.WriteString(stdin, turn[0]); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, turn[1]) {
			t.Fatalf("%q %v", line, err)
		}
	}
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	if text := p.err.String(); text != "" {
		t.Errorf("stderr: %s", text)
	}
	replay := s.start("mopslock-host", "replay", s.path("t"))
	replay.mustExit(0)
}

// A reader that went away ends step as it ends every command.
func TestStepWithoutAReader(t *testing.T) {
	s := newScene(t)
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	stdout.Close()
	p := s.piped(in, out, "mopslock-host", "step")
	if _, err := io.WriteString(stdin, aConfig); err != nil {
		t.Fatal(err)
	}
	p.mustExit(128 + int(syscall.SIGPIPE))
}

// A reader that has stopped reading does not keep step from being ended.
func TestStepWithAStuckReader(t *testing.T) {
	s := newScene(t)
	in, stdin := pipe(t)
	_, out := pipe(t)
	p := s.piped(in, out, "mopslock-host", "step")
	written := make(chan error, 1)
	go func() { // until step no longer reads, because nobody reads it
		text := aConfig + strings.Repeat("{}\n", 1<<18)
		_, err := io.WriteString(stdin, text)
		written <- err
	}()
	s.eventually("a full pipe", func() bool { return full(out) })
	p.signal(syscall.SIGINT)
	p.mustExit(128 + int(syscall.SIGINT))
	stdin.Close()
	<-written
}

// full reports whether a write to a pipe would have to wait.
func full(w *os.File) bool {
	raw, err := w.SyscallConn()
	if err != nil {
		return false
	}
	ready := 1
	_ = raw.Control(func(fd uintptr) {
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	})
	return ready == 0
}

// pipe is a pipe whose ends are closed with the test.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// piped is start with a stdin and a stdout of the test's own.
func (s *scene) piped(in, out *os.File, words ...string) *process {
	s.Helper()
	p := &process{scene: s, cmd: exec.Command(words[0], words[1:]...), out: new(transcript), err: new(transcript)}
	p.cmd.Dir, p.cmd.Env = s.dir, s.environment()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, p.err
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	in.Close()
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if s.Failed() {
			s.Logf("%q\nstderr: %s", words, p.err)
		}
	})
	return p
}
