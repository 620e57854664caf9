//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mopslock/mopslock/tests/servers"
)

// engineFlag puts --engine before every command line of these tests:
//
//	go test ./cmd/mopslock-host -args -engine=wasm
var engineFlag = flag.String("engine", "", "the `engine` of every mopslock-host that the tests start")

// engineVariable carries engineFlag to them. Only this file reads it.
const engineVariable = "MOPSLOCK_TEST_ENGINE"

// moduleVariable is bytes for --engine wasm to run in the place of the core.
const moduleVariable = "MOPSLOCK_TEST_MODULE"

// The test binary is mopslock-host too, if it is called so: nothing is built.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "mopslock-host" {
		_ = os.Setenv("GORACE", raceOptions)    // for all that we start
		_ = flag.Set("test.parallel", parallel) // unless it is given
	}
	testscript.Main(onEngine{m}, map[string]func(){"mopslock-host": func() {
		if engine := os.Getenv(engineVariable); engine != "" {
			os.Args = slices.Insert(os.Args, 1, "--engine", engine)
		}
		if text := os.Getenv(moduleVariable); text != "" {
			a := newApp(os.Stdin, os.Stdout, os.Stderr)
			a.engine.module = []byte(text)
			os.Exit(a.execute(os.Args[1:]))
		}
		main()
	}, "sh-object": objectMain})
}

// onEngine runs the tests with one cache of compiled modules between them.
type onEngine struct{ *testing.M }

func (m onEngine) Run() int {
	flag.Parse()
	cache, err := os.MkdirTemp("", "mopslock-test-cache-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	if *engineFlag == "wasm" { // it takes a processor's time to begin, and TTLs do not wait
		_ = flag.Set("test.parallel", "8")
	}
	_ = os.Setenv(engineVariable, *engineFlag)
	_ = os.Setenv("XDG_CACHE_HOME", cache)
	return withServer(m.M.Run)
}

// parallel is not a matter of processors: nearly all that these tests do is wait.
const parallel = "24"

// raceOptions: the race detector sleeps for a second at every exit unless told not to.
const raceOptions = "atexit_sleep_ms=0"

// A script's first comment says what it shows. Every script has a store of its
// own, in MOPSLOCK_STORE, and looks into it with object. What is about directories
// begins with [dir], or the script ends where it begins.
func TestScripts(t *testing.T) {
	besideOthers(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setupScript,
		Condition:           onStore,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"object":   cmdObject,
			"writerec": cmdWriteRecord,
			"waitfor":  cmdWaitFor,
			"steal":    cmdSteal,
			"sameas":   cmdSame,
			"pack":     cmdPack,
			"unpack":   cmdUnpack,
			"swap":     cmdSwap,
		},
	})
}

// onStore is the conditions [dir], [s3], [gs] and [azblob].
func onStore(condition string) (bool, error) {
	switch condition {
	case "dir":
		return onDirectories(), nil
	case servers.S3, servers.GCS, servers.Azure:
		return condition == *storeFlag, nil
	}
	return false, fmt.Errorf("unknown condition %s", condition)
}

// setupScript sets what depends on the store, besides what every script needs.
func setupScript(env *testscript.Env) error {
	env.Defer(func() { killWithin(env.WorkDir) })
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("GORACE", raceOptions)
	env.Setenv(engineVariable, *engineFlag)
	env.Setenv("XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME"))
	env.Setenv("SHELL", "/bin/sh")
	if server != nil {
		env.Vars = append(env.Vars, server.Env(server.Address)...)
	}
	at, other := newPlace(env.WorkDir, "store"), newPlace(env.WorkDir, "store2")
	env.Setenv("MOPSLOCK_STORE", at.url)
	env.Setenv("STORE", at.url)
	env.Setenv("STORE2", other.url)
	env.Setenv("TTL6", ttl(6))
	env.Setenv("TTL6_S", strconv.Itoa(ttlSeconds(6))) // as JSON has it
	// How long to sleep until a lease of TTL6 has expired, were it not renewed. By a server's
	// stamps, of whole seconds and of clocks that may disagree, that is some time later.
	env.Setenv("PAST6", either("7", "11.5"))
	// A --wait that is over before anything ends, and not before the first look is.
	env.Setenv("BRIEF", either("5s", "12s"))
	return nil
}

// killWithin kills what a script that has failed left at work in its directory: it
// would keep the output of its shell open, and the script from ending.
func killWithin(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // none where there is no /proc
	for _, link := range links {
		at, _ := os.Readlink(link)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && (at == dir || strings.HasPrefix(at, dir+"/")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// cmdExits is `exits N COMMAND…`: exec, with the very status.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	status := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var failed *exec.ExitError
		if !errors.As(err, &failed) {
			ts.Fatalf("%v", err)
		}
		status = failed.ExitCode()
	}
	if status != want {
		ts.Fatalf("exit status %d, want %d", status, want)
	}
}

// cmdWriteRecord is `writerec KEY [field=value…]`: a lock.json as mops writes
// it. Stamps (written, acquired, released, first) are ages: 10s is ten seconds ago.
func cmdWriteRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: writerec KEY field=value…")
	}
	ts.Check(put(ts.Getenv("MOPSLOCK_STORE"), args[0], []byte(recordText(fieldsOf(args[1:]), time.Now()))))
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

// bound is how long anything in these tests may take; nothing else is asserted
// about time.
const bound = time.Minute

// cmdWaitFor is `waitfor FILE [REGEXP]`, or `! waitfor FILE` until it is gone.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: [!] waitfor FILE [REGEXP]")
	}
	pattern := regexp.MustCompile("")
	if len(args) == 2 {
		pattern = regexp.MustCompile("(?m)" + args[1])
	}
	var text []byte
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		text, err = os.ReadFile(ts.MkAbs(args[0]))
		if (err == nil && pattern.Match(text)) != neg {
			return
		}
	}
	ts.Fatalf("%s: never came; now it is %q", fmt.Sprint(args), text)
}

// cmdSteal is `steal KEY FILE REGEXP [field=value…]`: writerec, again and again,
// until that is noticed in FILE. Once may be lost: under lastwriter an owner that is
// between its look and its write overwrites it. The last one is in the file theirs.
func cmdSteal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: steal KEY FILE REGEXP field=value…")
	}
	pattern := regexp.MustCompile("(?m)" + args[2])
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if text, err := os.ReadFile(ts.MkAbs(args[1])); err == nil && pattern.Match(text) {
			return
		}
		body := []byte(recordText(fieldsOf(args[3:]), time.Now()))
		ts.Check(put(ts.Getenv("MOPSLOCK_STORE"), args[0], body))
		ts.Check(os.WriteFile(ts.MkAbs("theirs"), body, 0o666))
	}
	ts.Fatalf("%s: never noticed", fmt.Sprint(args))
}

// cmdSame is `sameas FILE FILE`: cmp without a diff of long lines.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if same := ts.ReadFile(args[0]) == ts.ReadFile(args[1]); same == neg {
		ts.Fatalf("%s and %s: the same is %v", args[0], args[1], same)
	}
}
