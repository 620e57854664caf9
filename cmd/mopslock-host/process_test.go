//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scene is a directory with or without a store in it, and the processes of one test.
type scene struct {
	*testing.T
	dir   string
	store place
	way   []string // to the store, if it is not everybody's: its part of the environment
}

func newScene(t *testing.T) *scene {
	t.Parallel()
	return newSceneAlone(t)
}

// newSceneAlone is that of a test which others must not run beside.
func newSceneAlone(t *testing.T) *scene {
	dir := t.TempDir()
	return &scene{T: t, dir: dir, store: newPlace(dir, "store")}
}

// onlyDirectories skips a test on servers, and says why.
func (s *scene) onlyDirectories(why string) {
	s.Helper()
	if !onDirectories() {
		s.Skip("only on directories: ", why)
	}
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// process is one that was started by start.
type process struct {
	*scene
	cmd  *exec.Cmd
	out  *transcript
	err  *transcript
	once sync.Once
}

// start starts a command in the scene's directory. It is killed at the end of
// the test, by its own id, if it still lives.
func (s *scene) start(words ...string) *process {
	s.Helper()
	return s.startWith(nil, words...)
}

// startWith is start with a stderr that nobody collects.
func (s *scene) startWith(stderr *os.File, words ...string) *process {
	s.Helper()
	p := &process{scene: s, cmd: exec.Command(words[0], words[1:]...), out: new(transcript), err: new(transcript)}
	p.cmd.Dir = s.dir
	p.cmd.Env = s.environment()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if stderr != nil {
		p.cmd.Stderr = stderr
	}
	p.cmd.WaitDelay = time.Second // grandchildren that hold our pipes
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if s.Failed() {
			s.Logf("%q\nstdout: %s\nstderr: %s", words, p.out, p.err)
		}
	})
	return p
}

func (s *scene) environment() []string {
	return append(append(os.Environ(), s.way...), "MOPSLOCK_STORE="+s.store.url, "MOPSLOCK_LEASE=", "MOPSLOCK_HELD=")
}

// host starts mopslock-host with --status-file. Who acquires does so under
// lastwriter, for these tests look into its lock.json; --protocol among words wins.
func (s *scene) host(command, statusFile string, words ...string) *process {
	s.Helper()
	own := []string{"mopslock-host", command, "--status-file", s.path(statusFile)}
	if command == "run" || command == "acquire" {
		own = append(own, "--protocol", "lastwriter")
	}
	return s.start(append(own, words...)...)
}

// wait returns the exit status, or minus the signal that ended it.
func (p *process) wait() int {
	p.once.Do(func() {
		timer := time.AfterFunc(bound, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
		_ = p.cmd.Wait()
	})
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) mustExit(want int) {
	p.Helper()
	if got := p.wait(); got != want {
		p.Fatalf("exit status %d, want %d", got, want)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.Fatal(err)
	}
}

func (p *process) says(text string) {
	p.Helper()
	p.eventually(fmt.Sprintf("%q on stderr", text), func() bool { return strings.Contains(p.err.String(), text) })
}

// transcript collects what a process prints.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func (s *scene) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(pace()) {
		if holds() {
			return
		}
	}
	s.Fatalf("never: %s", what)
}

func (s *scene) exists(name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}

func (s *scene) read(name string) string {
	text, _ := os.ReadFile(s.path(name))
	return string(text)
}

func (s *scene) write(name, text string) {
	s.Helper()
	path := s.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path+".new", []byte(text), 0o666), os.Rename(path+".new", path)); err != nil {
		s.Fatal(err)
	}
}

// pidIn waits for a file with a process id in it.
func (s *scene) pidIn(name string) (pid int) {
	s.Helper()
	s.eventually("a pid in "+name, func() bool {
		text := s.read(name)
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(text))
		return err == nil && strings.HasSuffix(text, "\n")
	})
	return pid
}

// gone waits for a process to end; a zombie, which in a container may stay for
// ever, has ended.
func (s *scene) gone(pid int) {
	s.Helper()
	s.eventually(fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// theirs puts another's record on the name n: fresh, released and so on by fields.
func (s *scene) theirs(fields ...string) string {
	s.Helper()
	text := recordText(fieldsOf(fields), time.Now())
	s.put("n/lock.json", text)
	return text
}

// steals is theirs until somebody has noticed, since one may be overwritten by an owner
// that is between its look and its write. It returns the last.
func (s *scene) steals(noticed func() bool, fields ...string) (text string) {
	s.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if noticed() {
			return text
		}
		text = s.theirs(fields...)
	}
	s.Fatal("never noticed: ", text)
	return ""
}

func (s *scene) record() string { return s.get("n/lock.json") }

// get is an object's text; "" if there is none, or it cannot be read.
func (s *scene) get(key string) string {
	text, _ := get(s.store.looks, key)
	return string(text)
}

func (s *scene) put(key, text string) {
	s.Helper()
	if err := put(s.store.looks, key, []byte(text)); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) remove(key string) {
	s.Helper()
	if err := remove(s.store.looks, key); err != nil {
		s.Fatal(err)
	}
}

// has reports whether there is an object at key, or below it if it ends in "/".
func (s *scene) has(key string) bool {
	s.Helper()
	there, err := exists(s.store.looks, key)
	if err != nil {
		s.Fatal(err)
	}
	return there
}

// field is of the record of n; "" if there is none.
func (s *scene) field(name string) string {
	found := regexp.MustCompile(`"` + name + `": "?([^",\n]*)`).FindStringSubmatch(s.record())
	if found == nil {
		return ""
	}
	return found[1]
}

// decided checks a --status-file.
func (s *scene) decided(file, by string, status int, reason string) {
	s.Helper()
	want := fmt.Sprintf(`{"by":%q,"status":%d,"reason":%q}`+"\n", by, status, reason)
	if got := s.read(file); got != want {
		s.Errorf("%s: %swant %s", file, got, want)
	}
}
