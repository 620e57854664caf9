//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// invoke starts an invocation of n under lastwriter, whose lock.json these tests look into.
func (s *scene) invoke(statusFile string, words ...string) *process {
	s.Helper()
	return s.host("invoke", statusFile, append([]string{"--protocol", "lastwriter", "--fleet-expire", "none"}, words...)...)
}

// waits is a launcher's script that ends once a file is there.
func waits(file, then string) string {
	return "while ! test -e " + file + "; do sleep 0.02; done; " + then
}

const putResult = "echo the result | sh-object put - n/result"

// A signal ends every wait with 128+N: for another's result, and for that of a remote once the launcher has ended.
func TestSignalEndsInvoke(t *testing.T) {
	besideOthers(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run("waiting/"+sig.String(), func(t *testing.T) {
			s := newScene(t)
			before := s.theirs()
			p := s.invoke("s.json", "n", "--", "touch", "ran")
			p.says("waiting for n")
			p.signal(sig)
			p.mustExit(128 + int(sig))
			s.decided("s.json", "mopslock", 128+int(sig), "interrupted")
			if s.record() != before || s.exists("ran") || p.out.String() != "" {
				t.Error("something was done all the same")
			}
		})
		t.Run("awaiting/"+sig.String(), func(t *testing.T) {
			s := newScene(t)
			p := s.invoke("s.json", "n", "--", "sh", "-c", "mopslock-host remote n -- sh -c 'echo >up; "+waits("enough", "echo late")+"' </dev/null & "+waits("up", ""))
			p.says("the launcher of n has ended; waiting for the result") // a second after its end
			p.signal(sig)
			p.mustExit(128 + int(sig))
			s.decided("s.json", "mopslock", 128+int(sig), "interrupted")
			if s.field("released_at") == "" {
				t.Error("not released")
			}
			s.write("enough", "") // the remote's result counts all the same
			s.eventually("the remote's result", func() bool { return s.get("n/result") == "late\n" })
		})
	}
}

// While the launcher runs signals are its own, and what it makes of them decides.
func TestInvokeForwardsSignals(t *testing.T) {
	s := newScene(t)
	p := s.invoke("s.json", "n", "--", "sh", "-c",
		`trap "echo >got.USR1" USR1; trap "`+putResult+`; exit 7" TERM; echo >up; while :; do sleep 0.02; done`)
	s.eventually("the launcher", func() bool { return s.exists("up") })
	p.signal(syscall.SIGUSR1)
	s.eventually("USR1 at the launcher", func() bool { return s.exists("got.USR1") })
	p.signal(syscall.SIGTERM)
	p.mustExit(0)
	if p.out.String() != "the result\n" || s.field("released_at") == "" {
		t.Errorf("%s%s", p.out, s.record())
	}
	s.decided("s.json", "mopslock", 0, "found")
	q := s.host("invoke", "q.json", "--memo-failures", "m", "--", "sh", "-c", `trap "exit 9" TERM; echo >up2; while :; do sleep 0.02; done`)
	s.eventually("the other launcher", func() bool { return s.exists("up2") })
	q.signal(syscall.SIGTERM)
	q.mustExit(statusNoResult)
	q.says("the launcher of m ended (exit status 9)")
	if s.has("_mopslock/f/m/result") {
		t.Error("what somebody has ended was kept as a failure")
	}
}

// The orchestrator is killed: launcher and remote go on, and whoever asks again waits for their result.
func TestInvokeIsKilled(t *testing.T) {
	s := newScene(t)
	p := s.invoke("s.json", "--ttl", ttl(6), "n", "--", "sh", "-c", "echo $$ >launcher; mopslock-host remote n -- sh -c 'echo >up; "+waits("enough", "echo done")+"'; echo >ended")
	launcher := s.pidIn("launcher")
	s.eventually("the remote's command", func() bool { return s.exists("up") })
	p.signal(syscall.SIGKILL)
	p.wait()
	again := s.invoke("again.json", "--ttl", "88s", "n", "--", "touch", "ran")
	again.says("waiting for n")
	count := s.count()
	s.eventually("renewals by the remote", func() bool { return s.count() >= count+4 })
	if !alive(launcher) {
		t.Error("the launcher was killed with its orchestrator")
	}
	s.write("enough", "")
	again.mustExit(0)
	if again.out.String() != "done\n" || s.exists("ran") {
		t.Errorf("launched again: %s", again.out)
	}
	s.gone(launcher)
}

// A killed remote takes its command along (Linux), and stores nothing; when its lease has run out the next one launches.
func TestRemoteIsKilled(t *testing.T) {
	s := newScene(t)
	lease := s.acquire(ttl(6))
	p := s.host("remote", "s.json", "n", "--lease", lease, "--fleet-expire", "none", "--", "sh", "-c", "echo half; echo $$ >pid; exec sleep 300")
	pid := s.pidIn("pid")
	p.signal(syscall.SIGKILL)
	if s.gone(pid); s.has("n/result") {
		t.Error("half a result was stored")
	}
	next := s.invoke("next.json", "--ttl", "88s", "n", "--", "sh", "-c", putResult)
	next.mustExit(0)
	if next.out.String() != "the result\n" {
		t.Error(next.out)
	}
}

// Signals to a remote are its command's; what a signal ended has no result, and leaves no file behind.
func TestRemoteForwardsSignals(t *testing.T) {
	s := newScene(t)
	if err := os.Mkdir(s.path("tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	lease := s.acquire("60s")
	p := s.start("env", "TMPDIR="+s.path("tmp"), "mopslock-host", "remote", "n", "--lease", lease, "--status-file", s.path("s.json"), "--",
		"sh", "-c", "echo half; echo >up; while :; do sleep 0.02; done")
	s.eventually("the command", func() bool { return s.exists("up") })
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	s.decided("s.json", "command", 128+int(syscall.SIGTERM), "signalled")
	left, err := os.ReadDir(s.path("tmp"))
	if err != nil || len(left) > 0 || s.has("n/result") {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The lease is taken: the launcher is ended, and the thief's result is the answer; or his lease, and another launch.
func TestInvokeIsLost(t *testing.T) {
	besideOthers(t)
	const launcher = `echo >>launched; test -e again && { ` + putResult + `; exit 0; }; trap "" TERM; echo $$ >pid; while :; do sleep 0.05; done`
	for name, then := range map[string]func(s *scene){
		"his result": func(s *scene) { s.put("n/result", "the result\n") },
		"his lease": func(s *scene) {
			s.write("again", "")
			s.theirs("written=", "released=0s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			p := s.invoke("s.json", "--ttl", ttl(9), "--grace", "200ms", "n", "--", "sh", "-c", launcher)
			pid := s.pidIn("pid")
			thief := s.steals(func() bool { return !alive(pid) }, "expire=60.0")
			p.says(`lease "n" lost (taken): the record is now that of GrandTiger`)
			p.says("the launcher of n has ended without the lease; waiting for the result, or for the lease")
			if s.record() != thief {
				t.Error("the thief's record was touched: ", s.record())
			}
			then(s)
			p.mustExit(0)
			s.decided("s.json", "mopslock", 0, "found")
			launched := strings.Count(s.read("launched"), "\n")
			if p.out.String() != "the result\n" || launched != 1 && s.exists("again") == (launched == 1) {
				t.Errorf("launched %d times: %s", launched, p.out)
			}
		})
	}
}

// Renewals fail: SIGTERM, SIGKILL, and once the store is back the work is launched again.
func TestInvokeOutlivesAnOutage(t *testing.T) {
	s := newFrailScene(t)
	p := s.invoke("s.json", "--ttl", ttl(9), "n", "--", "sh", "-c",
		`test -e again && { `+putResult+`; exit 0; }; trap "echo >termed" TERM; echo $$ >pid; while :; do sleep 0.1; done`)
	pid := s.pidIn("pid")
	mend := s.breakRecord()
	s.eventually("SIGTERM at the launcher", func() bool { return s.exists("termed") })
	s.gone(pid)
	p.says("lost (unreachable)")
	s.write("again", "")
	mend()
	p.mustExit(0)
	if p.out.String() != "the result\n" {
		t.Error(p.out)
	}
}

// The result is printed and counts, whatever becomes of the release.
func TestInvokeCannotRelease(t *testing.T) {
	s := newFrailScene(t)
	p := s.invoke("s.json", "--ttl", ttl(9), "n", "--", "sh", "-c", barsRecord()+"; "+putResult)
	p.mustExit(0)
	s.decided("s.json", "mopslock", 0, "found")
	p.says("lease n could not be released; it will expire by itself, at the latest at 20")
	if p.out.String() != "the result\n" {
		t.Error(p.out)
	}
}

// A result that cannot be stored is kept in its file: 69.
func TestRemoteCannotStore(t *testing.T) {
	s := newFrailScene(t)
	lease := s.acquire("60s")
	p := s.host("remote", "s.json", "n", "--lease", lease, "--", "sh", "-c", "echo precious; "+barsStore())
	p.mustExit(statusUnavailable)
	_, kept, _ := strings.Cut(p.err.String(), "the result of n was not stored, and is kept in ")
	path, why, _ := strings.Cut(kept, ": ")
	defer os.Remove(path)
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious\n" || why == "" {
		t.Errorf("%q, %v: %s", text, err, p.err)
	}
	if text := s.read("s.json"); !strings.HasPrefix(text, `{"by":"mopslock","status":69,"reason":"`) {
		t.Error(text)
	}
}

// So is one whose transfer a signal has ended: 128+N.
func TestSignalEndsStoring(t *testing.T) {
	s := newScene(t)
	bucket := &smallS3{creates: true}
	hanging := make(chan struct{})
	defer close(hanging)
	under := make(chan struct{}, 8)
	bucket.objects = map[string]object{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/result") {
			under <- struct{}{}
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
			return
		}
		bucket.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	p := s.withStore(s3URL(server.URL), "remote", "n", "--without-lease", "--", "echo", "precious")
	<-under
	p.says("storing the result of n, 9 bytes")
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	_, kept, _ := strings.Cut(p.err.String(), "is kept in ")
	path, _, _ := strings.Cut(strings.TrimSpace(kept), ": ")
	defer os.Remove(path)
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious\n" {
		t.Errorf("%q, %v: %s", text, err, p.err)
	}
}

// A result of any size goes through in pieces, on its way there and back.
func TestBigResult(t *testing.T) {
	const size = 96 << 20
	limit := int64(size)
	if !onDirectories() { // an SDK has some 50 MiB, and buffers of its own
		limit = size * 3 / 2
	}
	s := newSceneAlone(t) // a server that takes so much answers nobody else for seconds
	script := fmt.Sprintf("head -c %d /dev/zero; echo end", size)
	remote := s.host("remote", "r.json", "n", "--without-lease", "--", "sh", "-c", script)
	remote.mustExit(0)
	cmd := exec.Command("mopslock-host", "invoke", "n", "--", "false")
	cmd.Env = s.environment()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := new(tail)
	n, copyErr := io.Copy(last, out)
	if err := cmd.Wait(); err != nil || copyErr != nil || n != size+4 || !bytes.HasSuffix(last.bytes, []byte("\x00end\n")) {
		t.Errorf("%v, %v, %d bytes, the last %q", err, copyErr, n, last.bytes)
	}
	for what, state := range map[string]*os.ProcessState{"remote": remote.cmd.ProcessState, "invoke": cmd.ProcessState} {
		usage := state.SysUsage().(*syscall.Rusage)
		most := rssBytes(usage)
		if most > limit {
			t.Errorf("%s took %d MiB for %d", what, most>>20, size>>20)
		}
	}
}

// rssBytes is the most memory that a process had.
func rssBytes(usage *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}

// tail keeps the last bytes.
type tail struct{ bytes []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.bytes = append(t.bytes, b[max(0, len(b)-8):]...)
	t.bytes = t.bytes[max(0, len(t.bytes)-8):]
	return len(b), nil
}

// Whoever reads our stdout and has had enough ends us as SIGPIPE would.
func TestReaderOfTheResultLeaves(t *testing.T) {
	s := newScene(t)
	s.put("n/result", strings.Repeat("x", 1<<20))
	p := s.start("sh", "-c", "{ mopslock-host invoke n -- false; echo $? >rc; } | head -c 1")
	p.mustExit(0)
	s.eventually("the status", func() bool { return s.read("rc") == fmt.Sprintln(statusSignal+int(syscall.SIGPIPE)) })
}

// What is kept of a failure is no more than the end of its stderr, and what a terminal could obey in it is escaped.
func TestKeptFailureIsEscaped(t *testing.T) {
	s := newScene(t)
	p := s.host("remote", "s.json", "n", "--without-lease", "--memo-failures", "--", "sh", "-c",
		`head -c 100000 /dev/zero | tr '\0' x >&2; printf '\nlast \033[2J\377 line\n' >&2; exit 4`)
	p.mustExit(4)
	if n := len(p.err.String()); n < 100000 {
		t.Errorf("%d bytes of stderr got through", n)
	}
	kept := s.get("_mopslock/f/n/result")
	if !strings.Contains(kept, "last \x1b[2J\xff line\n") || len(kept) > maxStderr+200 {
		t.Errorf("%d bytes are kept", len(kept))
	}
	q := s.host("invoke", "q.json", "--memo-failures", "n", "--", "touch", "ran")
	q.mustExit(4)
	q.says(`last \x1b[2J\xff line` + "\n")
	s.decided("q.json", "command", 4, "failed")
}

// A script opens its outputs anew as often as it likes: nothing of what was printed before is lost.
func TestOutputsAreOpenedAnew(t *testing.T) {
	if _, err := os.Stat("/dev/stdout"); err != nil {
		t.Skip(err)
	}
	s := newScene(t)
	script := "echo one; echo two >/dev/stdout; echo three; echo first >&2; echo second >/dev/stderr; echo third >&2"
	p := s.host("remote", "s.json", "n", "--without-lease", "--memo-failures", "--", "sh", "-c", script)
	p.mustExit(0)
	if got := s.get("n/result"); got != "one\ntwo\nthree\n" {
		t.Errorf("the result is %q", got)
	}
	p.says("first\nsecond\nthird\n")
	q := s.host("remote", "q.json", "m", "--without-lease", "--memo-failures", "--", "sh", "-c", script+"; exit 6")
	q.mustExit(6)
	if kept := s.get("_mopslock/f/m/result"); !strings.Contains(kept, "first\nsecond\nthird\n") {
		t.Errorf("kept: %q", kept)
	}
}

// What has CMD's outputs open after its end, or prints for ever, is not waited for; what CMD printed counts.
func TestGrandchildrenHoldTheOutputs(t *testing.T) {
	s := newScene(t)
	const size = 1 << 18 // more than a pipe holds
	p := s.host("remote", "s.json", "n", "--without-lease", "--memo-failures", "--", "sh", "-c",
		fmt.Sprintf("sleep 300 & echo $! >silent; head -c %d /dev/zero; echo end; echo end >&2", size))
	silent := s.pidIn("silent")
	p.mustExit(0)
	if got := s.get("n/result"); len(got) != size+4 || !strings.HasSuffix(got, "\x00end\n") {
		t.Errorf("%d bytes", len(got))
	}
	_ = syscall.Kill(silent, syscall.SIGKILL)
	q := s.host("remote", "q.json", "m", "--without-lease", "--", "sh", "-c", "echo begin; yes & echo $! >loud")
	loud := s.pidIn("loud")
	q.mustExit(0)
	if got := s.get("m/result"); !strings.HasPrefix(got, "begin\n") {
		t.Errorf("%d bytes, the first %q", len(got), got[:min(8, len(got))])
	}
	s.gone(loud) // its pipe has no reader
}

// A full disk does not end CMD, whose own status stands; a result that is not whole is not stored: 69, and why.
func TestSpoolIsFull(t *testing.T) {
	s := newScene(t)
	full := func(statusFile string, words ...string) *process { // the shell's limit on the size of files, in blocks of 512 or 1,024 bytes
		return s.start("sh", "-c", `trap "" XFSZ; ulimit -f 64; exec "$@"`, "sh", "mopslock-host", "remote", "--status-file", s.path(statusFile),
			"n", "--without-lease", "--memo-failures", "--", "sh", "-c", strings.Join(words, " "))
	}
	p := full("p.json", "head -c 1000000 /dev/zero; echo >went.on; echo the last >&2; exit 5")
	p.mustExit(5)
	s.decided("p.json", "command", 5, "exited")
	s.remove("_mopslock/f/n/result")
	q := full("q.json", "head -c 1000000 /dev/zero && echo >went.on.again")
	q.mustExit(statusUnavailable)
	s.decided("q.json", "mopslock", statusUnavailable, "output")
	q.says("the result of n was not stored: its file could not be written: after ")
	if !s.exists("went.on") || !s.exists("went.on.again") || s.has("n/result") || s.has("_mopslock/f/n/result") {
		t.Error("the command was ended, or something was kept")
	}
}

// What invoke keeps of a launcher speaks of the work, not of mopslock's or a shell's own troubles.
func TestInvokeKeepsFailuresOfTheWork(t *testing.T) {
	s := newScene(t)
	for _, status := range []int{64, 69, 70, 75, 76, 77, 78, 126, 127, 129, 137, 143, 255} {
		name := fmt.Sprint("not/", status)
		p := s.invoke("s.json", "--memo-failures", name, "--", "sh", "-c", fmt.Sprint("exit ", status))
		p.mustExit(statusNoResult)
		if s.has("_mopslock/f/" + name + "/") {
			t.Errorf("status %d of a launcher was kept", status)
		}
	}
	for _, status := range []int{1, 65, 74, 125} {
		p := s.invoke("s.json", "--memo-failures", fmt.Sprint("kept/", status), "--", "sh", "-c", fmt.Sprint("exit ", status))
		p.mustExit(status)
	}
	for status, kept := range map[int]bool{1: true, 69: true, 76: true, 125: true, 126: false, 127: false, 137: false, 255: false} { // CMD's own
		name := fmt.Sprint("cmd/", status)
		p := s.host("remote", "s.json", "--memo-failures", "--without-lease", name, "--", "sh", "-c", fmt.Sprint("exit ", status))
		p.mustExit(status)
		if s.has("_mopslock/f/"+name+"/result") != kept {
			t.Errorf("status %d of CMD was kept: %v", status, !kept)
		}
	}
}

// Nor is anything kept that a launcher made of a lease that was lost.
func TestInvokeKeepsNothingOnceLost(t *testing.T) {
	s := newScene(t)
	p := s.invoke("s.json", "--memo-failures", "--ttl", ttl(9), "n", "--", "sh", "-c",
		`test -e again && { `+putResult+`; exit 0; }; trap "exit 3" TERM; echo $$ >pid; while :; do sleep 0.05; done`)
	s.pidIn("pid")
	s.steals(func() bool { return strings.Contains(p.err.String(), "the launcher of n has ended without the lease") }, "expire=60.0")
	s.write("again", "")
	s.theirs("written=", "released=0s")
	p.mustExit(0)
	if s.has("_mopslock/f/n/result") {
		t.Error("it was kept")
	}
}

// A signal that comes right after the launcher's end is heeded a second later.
func TestSignalRightAfterTheLauncher(t *testing.T) {
	s := newScene(t)
	p := s.invoke("s.json", "n", "--", "sh", "-c", "echo $$ >pid; mopslock-host remote n --fleet-expire none -- sh -c 'echo >up; "+waits("enough", "echo late")+"' </dev/null & "+waits("up", ""))
	s.gone(s.pidIn("pid"))
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
	s.decided("s.json", "mopslock", 128+int(syscall.SIGTERM), "interrupted")
	s.write("enough", "")
	s.eventually("the remote's result", func() bool { return s.get("n/result") == "late\n" })
}

// A store that refuses midway is told of once, as it said it, and no failure is spoken of that nobody wanted kept.
func TestStoreRefusesMidway(t *testing.T) {
	s := newScene(t)
	bucket := &smallS3{creates: true, objects: map[string]object{}}
	var refuses atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		bucket.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	p := s.withStore(s3URL(server.URL), "invoke", "n", "--", "sh", "-c", "echo >up; "+waits("enough", "exit 5"))
	s.eventually("the launcher", func() bool { return s.exists("up") })
	refuses.Store(true)
	s.write("enough", "")
	p.mustExit(statusNoResult)
	p.says("the launcher of n ended (exit status 5), and there is no result: store: ")
	if text := p.err.String(); strings.Contains(text, `\"`) || strings.Contains(text, "could not be kept") {
		t.Error(text)
	}
}
