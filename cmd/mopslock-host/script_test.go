//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/defaults"
)

// The test binary is mopslock-host too, if it is called so: nothing is built.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "mopslock-host" {
		a := newApp(os.Stdin, os.Stdout, os.Stderr)
		if os.Getenv(patientVariable) != "" {
			a.closing = time.Hour
		}
		os.Exit(a.execute(os.Args[1:]))
	}
	os.Exit(withCommand(m.Run))
}

// withCommand runs the tests with mopslock-host in PATH.
func withCommand(run func() int) int {
	defaults.Signals()
	dir, err := os.MkdirTemp("", "mopslock-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err := errors.Join(err, os.Symlink(self, filepath.Join(dir, "mopslock-host"))); err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"PATH":           dir + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"XDG_CACHE_HOME": dir,                 // one cache of compiled modules between them
		"GORACE":         "atexit_sleep_ms=0", // the race detector sleeps for a second at every exit unless told not to
	} {
		_ = os.Setenv(name, value)
	}
	return run()
}

// moduleVariable is bytes for --engine wasm to run in the place of the core.
const moduleVariable = "MOPSLOCK_TEST_MODULE"

// terminalVariable gives a program of a script the live line of a terminal.
const terminalVariable = "MOPSLOCK_TEST_TERMINAL"

// patientVariable makes it try a release for as long as the lease is held, which no test waits for.
const patientVariable = "MOPSLOCK_TEST_PATIENT"

// A script's first comment says what it shows: words, flags, statuses, JSON. Each has a world of its own, whose clock
// stands still unless all wait. They run one after the other: the working directory is the process's.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			file := filepath.Join(here, file)
			root := t.TempDir()
			t.Chdir(root)
			t.Setenv("TMPDIR", filepath.Join(root, "tmp")) // where the output files are
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				t.Cleanup(w.end)
				params := scriptParams(w, root)
				params.Files, params.WorkdirRoot = []string{file}, root
				testscript.RunT(inBubble{t}, params)
			})
		})
	}
}

// inBubble is a test whose scripts are no tests of their own, which a bubble cannot have.
type inBubble struct{ *testing.T }

func (t inBubble) Run(_ string, script func(testscript.T)) { script(t) }
func (t inBubble) Parallel()                               {}
func (t inBubble) Verbose() bool                           { return testing.Verbose() }

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func scriptParams(w *world, root string) testscript.Params {
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[worldKey{}] = w
			for name, value := range map[string]string{
				"XDG_STATE_HOME": filepath.Join(env.WorkDir, "state"), "TMPDIR": filepath.Join(root, "tmp"), "SHELL": "/bin/sh",
				"STORE": "shelf://one", "STORE2": "shelf://two", "MOPSLOCK_STORE": "shelf://one",
			} {
				env.Setenv(name, value)
				w.names = append(w.names, name)
			}
			return errors.Join(os.Chdir(env.WorkDir), os.MkdirAll(filepath.Join(root, "tmp"), 0o777))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mopslock-host": cmdHost,
			"sh":            cmdShell,
			"exits":         cmdExits,
			"await":         cmdAwait,
			"signal":        cmdSignal,
			"says":          cmdSays,
			"input":         cmdInput,
			"sleep":         cmdSleep,
			"store":         func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).setStore(args) },
			"object":        cmdObject,
			"writerec":      cmdWriteRecord,
			"waitfor":       cmdWaitFor,
			"eventually":    cmdEventually,
			"steal":         cmdSteal,
			"pack":          cmdPack,
			"unpack":        cmdUnpack,
			"swap":          cmdSwap,
		},
	}
}

// environment is a script's.
func (w *world) environment(ts *testscript.TestScript) (env []string) {
	_ = os.Setenv("TMPDIR", ts.Getenv("TMPDIR")) // of this process, as for the code under test
	for _, name := range append([]string{"MOPSLOCK_LEASE", "MOPSLOCK_HELD", "MOPSLOCK_NAME", moduleVariable, terminalVariable, "HOME", "PATH"}, w.names...) {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// run is a line of a script: mopslock-host … or sh SCRIPT, and &NAME& behind it for the background.
func run(ts *testscript.TestScript, args []string) (status int, waited bool) {
	w := worldOf(ts)
	background := ""
	if last := args[len(args)-1]; strings.HasPrefix(last, "&") {
		background, args = strings.Trim(last, "&"), args[:len(args)-1]
	}
	r := &running{out: new(transcript), err: new(transcript)}
	stdin := strings.NewReader(w.stdin)
	w.stdin = ""
	switch args[0] {
	case "mopslock-host":
		p := w.launch(w.environment(ts), stdin, r.out, r.err, args[1:])
		r.signal, r.wait = p.signal, func() int { <-p.ended; return p.status }
	case "sh":
		j := newJob(w, w.environment(ts), stdin, r.out, r.err)
		w.running.Go(func() {
			j.status = j.run(append([]string{"sh", "-c"}, args[1:]...))
			close(j.done)
		})
		r.signal, r.wait = j.signal, func() int { <-j.done; return j.status.ExitStatus() }
	default:
		ts.Fatalf("neither mopslock-host nor sh: %q", args)
	}
	if background != "" {
		w.behind[background] = r
		return 0, false
	}
	return r.ended(ts), true
}

// running is a process of a script.
type running struct {
	out, err *transcript
	signal   func(sig syscall.Signal)
	wait     func() int
}

func (r *running) ended(ts *testscript.TestScript) int {
	status := r.wait()
	_, _ = io.WriteString(ts.Stdout(), r.out.String())
	_, _ = io.WriteString(ts.Stderr(), r.err.String())
	return status
}

func cmdHost(ts *testscript.TestScript, neg bool, args []string) {
	succeeds(ts, neg, append([]string{"mopslock-host"}, args...))
}

// cmdShell is `sh SCRIPT`, in the words of (*job).word.
func cmdShell(ts *testscript.TestScript, neg bool, args []string) {
	succeeds(ts, neg, append([]string{"sh"}, args...))
}

func succeeds(ts *testscript.TestScript, neg bool, args []string) {
	if status, waited := run(ts, args); waited && (status == 0) == neg {
		ts.Fatalf("exit status %d", status)
	}
}

// cmdExits is `exits N mopslock-host …` or `exits N sh …`.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if status, _ := run(ts, args[1:]); status != want {
		ts.Fatalf("exit status %d, want %d", status, want)
	}
}

// cmdAwait is `await [NAME [STATUS]]`: the end of what was begun with &NAME&, and what it has printed; or of all.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		for _, r := range worldOf(ts).behind {
			r.wait()
		}
		return
	}
	want, err := strconv.Atoi(cmp.Or(strings.Join(args[1:], ""), "0"))
	ts.Check(err)
	if status := behind(ts, args[0]).ended(ts); status != want {
		ts.Fatalf("%s: exit status %d, want %d", args[0], status, want)
	}
}

func behind(ts *testscript.TestScript, name string) *running {
	r := worldOf(ts).behind[name]
	if r == nil {
		ts.Fatalf("nothing was begun as &%s&", name)
	}
	return r
}

// cmdSignal is `signal NAME SIGNAL`.
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	behind(ts, args[0]).signal(unix.SignalNum("SIG" + args[1]))
}

// cmdSays is `says NAME REGEXP`: on its stderr or stdout, sooner or later.
func cmdSays(ts *testscript.TestScript, _ bool, args []string) {
	r := behind(ts, args[0])
	eventually(ts, args, func() string { return r.err.String() + r.out.String() }, regexp.MustCompile("(?m)"+args[1]).MatchString)
}

// cmdInput is `input FILE`: stdin for the next one.
func cmdInput(ts *testscript.TestScript, _ bool, args []string) {
	worldOf(ts).stdin = ts.ReadFile(args[0])
}

func cmdSleep(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	time.Sleep(d)
}

// ages is how long a script waits for anything: virtual, so it costs nothing.
const ages = 20 * time.Minute

func eventually(ts *testscript.TestScript, what []string, look func() string, holds func(string) bool) {
	for end := time.Now().Add(ages); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds(look()) {
			return
		}
	}
	ts.Fatalf("%q: never came; now it is %q", what, look())
}

// cmdWaitFor is `waitfor FILE [REGEXP]`.
func cmdWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + strings.Join(args[1:], ""))
	look := func() string {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return fmt.Sprint(err == nil, string(text))
	}
	eventually(ts, args, look, func(text string) bool {
		text, there := strings.CutPrefix(text, "true")
		return there && pattern.MatchString(text)
	})
}

// cmdEventually is `eventually WORD…`: in the words of sh, until its status is 0.
func cmdEventually(ts *testscript.TestScript, _ bool, args []string) {
	j := newJob(worldOf(ts), worldOf(ts).environment(ts), strings.NewReader(""), io.Discard, io.Discard)
	eventually(ts, args, func() string { return "" }, func(string) bool { return j.word(args) == 0 })
}

// setStore is `store CLASS [VERB] [KEY REGEXP]`: requests fail so; `store well` ends it. ignores: creates win always.
func (w *world) setStore(args []string) {
	classes := map[string]core.Class{
		"unreachable": core.ClassUnreachable, "unauthorized": core.ClassUnauthorized, "missing": core.ClassNoSuchStore,
		"throttled": core.ClassThrottled, "silent": core.ClassNone, "ignores": core.ClassOther, "read_only": core.ClassReadOnly,
	}
	s := w.shelf("one")
	if args[0] == "well" {
		s.setFault(nil)
		return
	}
	class, verb, key := classes[args[0]], regexp.MustCompile(""), regexp.MustCompile("")
	if args[0] == "ignores" {
		verb = regexp.MustCompile("create")
	}
	if len(args) > 1 {
		verb = regexp.MustCompile(args[1])
	}
	if len(args) > 2 {
		key = regexp.MustCompile(args[2])
	}
	s.setFault(func(v, k string) (core.Class, bool) { return class, verb.MatchString(v) && key.MatchString(k) })
}

// cmdWriteRecord is `writerec KEY [field=value…]`: a lock.json as mops writes
// it. Stamps (written, acquired, released, first) are ages: 10s is ten seconds ago.
func cmdWriteRecord(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs("theirs"), []byte(recordText(fieldsOf(args[1:]), time.Now())), 0o666))
	cmdObject(ts, false, []string{"put", ts.MkAbs("theirs"), args[0]})
}

// cmdSteal is `steal KEY FILE REGEXP [field=value…]`: writerec, again and again,
// until that is noticed in FILE, or by what was begun as &NAME& with @NAME. Once may be lost: under lastwriter an owner that is
// between its look and its write overwrites it. The last one is in the file theirs.
func cmdSteal(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[2])
	for end := time.Now().Add(ages); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		text, _ := os.ReadFile(ts.MkAbs(args[1]))
		if name, is := strings.CutPrefix(args[1], "@"); is {
			text = []byte(behind(ts, name).err.String())
		}
		if pattern.Match(text) {
			return
		}
		cmdWriteRecord(ts, false, append(args[:1:1], args[3:]...))
	}
	ts.Fatalf("%q: never noticed", args)
}

// fieldsOf is another's record but for what is given: field=value.
func fieldsOf(given []string) map[string]string {
	f := map[string]string{
		"holder": "GrandTiger.QkPpa9Jy", "written": "0s", "expire": "88.0", "count": "3", "host": "theirhost", "pid": "4711",
		"first": "0s", "acquired": "0s", "released": "", "remote": "",
	}
	for _, field := range given {
		key, value, _ := strings.Cut(field, "=")
		f[key] = value
	}
	return f
}

func recordText(f map[string]string, now time.Time) string {
	stamp := func(age string) string {
		if age == "" {
			return ""
		}
		d, err := time.ParseDuration(age)
		if err != nil {
			panic(err)
		}
		return now.Add(-d).UTC().Format("2006-01-02T15:04:05.000000+00:00")
	}
	quote := func(text string) string { // values may bring JSON escapes of their own
		return `"` + text + `"`
	}
	lines := []string{
		`"writer_id": ` + quote(f["holder"]), `"written_at": ` + quote(stamp(f["written"])), `"expire_s": ` + f["expire"],
		`"write_count": ` + f["count"], `"hostname": ` + quote(f["host"]), `"pid": ` + quote(f["pid"]), `"tid": 1`,
		`"first_written_at": ` + quote(stamp(f["first"])), `"first_acquired_at": ` + quote(stamp(f["acquired"])),
		`"released_at": ` + quote(stamp(f["released"])),
	}
	if f["remote"] != "" {
		lines = append(lines, `"writer_name": "remote"`)
	}
	return "{\n  " + strings.Join(lines, ",\n  ") + "\n}"
}
