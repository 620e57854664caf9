//go:build linux || darwin

// Package examples runs what the pages and these folders show. The invocation's
// example, which waits for a lease to expire, is run by tests/stress.
package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/defaults"
)

const root = "../.."

// binaries is where mopslock-host and a stand-in for kubectl are; TestMain sets
// it once.
var binaries string

// TestMain plays kubectl under that name: the test binary is linked to it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	defaults.Signals()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-examples-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-tags", "mopslock_nocloud", "-o", filepath.Join(dir, "mopslock-host"), "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "kubectl"))
	}
	if err != nil {
		panic(err)
	}
	binaries = dir
	return m.Run()
}

// bound ends a test that hangs.
const bound = time.Minute

// stage is a directory in which commands run, with a store of their own.
type stage struct {
	*testing.T
	dir string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return &stage{t, t.TempDir()}
}

func (s *stage) store() string { return "file://" + filepath.Join(s.dir, "store") }

// environment is ours, with our commands first, and without a lease that we may have.
func environment(more ...string) (env []string) {
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			env = append(env, line)
		}
	}
	return append(env, append(more, "PATH="+binaries+string(os.PathListSeparator)+os.Getenv("PATH"))...)
}

// process is a process that was started, with what it printed.
type process struct {
	*exec.Cmd
	out, said bytes.Buffer
	done      chan struct{} // closed when it has ended
}

func (s *stage) start(words ...string) *process {
	s.Helper()
	return s.startWith(func(*exec.Cmd) {}, words...)
}

// startWith starts a process whose command is changed before.
func (s *stage) startWith(change func(*exec.Cmd), words ...string) *process {
	s.Helper()
	if words[0] == "mopslock-host" {
		words[0] = filepath.Join(binaries, words[0])
	}
	p := &process{Cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	p.Dir, p.Env = s.dir, environment("MOPSLOCK_STORE="+s.store())
	p.Stdout, p.Stderr = &p.out, &p.said
	p.WaitDelay = time.Second
	change(p.Cmd)
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	s.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
		if s.Failed() {
			s.Logf("%q\n%s%s", words, p.out.String(), p.said.String())
		}
	})
	return p
}

// exits waits until a process has ended, and checks its status.
func (s *stage) exits(p *process, want int) {
	s.Helper()
	s.eventually("its end", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if got := p.ProcessState.ExitCode(); got != want {
		s.Fatalf("%q: status %d, want %d", p.Args, got, want)
	}
}

func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("never: %s", what)
		}
	}
}

func (s *stage) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(text)
}

// write puts a whole file, which can be executed, into its place at once.
func (s *stage) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	err := os.WriteFile(path+".new", []byte(text), 0o700) //nolint:gosec // tests execute it
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// fenced joins the blocks of one language on a page.
func fenced(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(match[1]))
	}
	return strings.Join(blocks, "\n")
}

// pages are the paths of all pages, from the root.
func pages(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "*.md")
	list.Dir = root
	out, err := list.Output()
	if err != nil || len(out) == 0 {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestGoRuns: the Go examples of the pages run, each page's as one program, and the
// fence example refuses a stale writer.
func TestGoRuns(t *testing.T) {
	for program, says := range map[string][]string{
		"README.md":      {"only one of us runs this"},
		"host/README.md": {"lease done, token ", "companion done", "invocation done", "permit done, held by all: 1", "in one process done"},
		"./tests/examples/fence": {
			"A has written slot 1: by A: 100 rows\n", "and finds: by A: 100 rows\n", "B has written slot 3: by A: 100 rows; by B: 200 more\n",
			"A is refused: ", "is stale", "(written just now: true)", "(written just now: false)",
		},
	} {
		t.Run(strings.ReplaceAll(program, "/", "_"), func(t *testing.T) {
			s := newStage(t)
			source, binary := program, filepath.Join(s.dir, "program")
			if strings.HasSuffix(program, ".md") {
				s.write("main.go", fenced(t, program, "go"))
				source = filepath.Join(s.dir, "main.go")
			}
			build := exec.Command("go", "build", "-o", binary, source)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			p := s.start("env", "HOME="+s.dir, binary)
			s.exits(p, 0)
			for _, must := range says {
				if out := p.out.String() + p.said.String(); !strings.Contains(out, must) {
					t.Errorf("no %q in:\n%s", must, out)
				}
			}
		})
	}
}

// TestShellRuns runs the shell examples of every page as they stand, each page's one
// after the other, in a home of its own. A script that an example calls prints its own name,
// arguments and lease; a script whose name begins with never does not exist. Pages whose
// examples another test runs name that test.
func TestShellRuns(t *testing.T) {
	tests := map[string]struct {
		by   string
		says []string
	}{
		"README.md": {says: []string{
			`deploy of deploy\n`, `report of nightly/\d+-\d+-\d+\n`, `(?m)^deploy +released `, `upload --token [1-9]\d* of deploy`, `state +held`,
			`train of train\n`, `(report of report/2026-11\n){2}crawl of api\n`, `train of gpu\n`,
		}},
		"cmd/mopslock-host/README.md": {says: []string{
			`"name":"deploy"`, `state +released`, `report of report/2026-11\nreport of report/2026-12\n`, `heavy of backends\n`, `held +0/120`,
			`the same to the byte`, `violation found: NoOverlap`, `fairness`,
		}},
		"host/store/README.md":                {says: []string{`verdict +strict`, `leases a second`}},
		"bindings/c/README.md":                {by: "bindings/c/tests"},
		"bindings/python/README.md":           {by: "bindings/python/tests"},
		"tests/examples/kubernetes/README.md": {by: "TestLauncherAndJob"},
	}
	script := regexp.MustCompile(`\./([a-z]+)\.sh`)
	for _, page := range pages(t) {
		shown := fenced(t, page, "sh")
		test, known := tests[page]
		if known != (shown != "") {
			t.Errorf("%s: it shows commands: %v, and this test knows of some: %v", page, shown != "", known)
		}
		if shown == "" || test.by != "" {
			continue
		}
		t.Run(strings.ReplaceAll(page, "/", "_"), func(t *testing.T) {
			s := newStage(t)
			for _, match := range script.FindAllStringSubmatch(shown, -1) {
				if name := match[1]; !strings.HasPrefix(name, "never") {
					s.write(name+".sh", "#!/bin/sh\necho "+name+" $@ of $MOPSLOCK_NAME\n")
				}
			}
			p := s.start("env", "HOME="+s.dir, "bash", "-euo", "pipefail", "-c", shown)
			s.exits(p, 0)
			for _, must := range test.says {
				if !regexp.MustCompile(must).Match(p.out.Bytes()) {
					t.Errorf("no %q", must)
				}
			}
		})
	}
}

// TestPagesNameCommands: each command and each flag that a page names exists, and the
// page of the command line has all commands.
func TestPagesNameCommands(t *testing.T) {
	help := func(command ...string) string {
		out, err := exec.Command(filepath.Join(binaries, "mopslock-host"), append(command, "--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", command, err, out)
		}
		return string(out)
	}
	texts := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^  ([a-z]+)  +\w`).FindAllStringSubmatch(help(), -1) {
		texts[match[1]] = help(match[1])
	}
	if len(texts) < 20 {
		t.Fatalf("%d commands", len(texts))
	}
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("`mopslock-host ([a-z]+)([^`]*)`").FindAllStringSubmatch(string(text), -1) {
			ours, _, _ := strings.Cut(match[2], " -- ")
			if texts[match[1]] == "" {
				t.Errorf("%s: mopslock-host has no %s", page, match[1])
			}
			for _, name := range flag.FindAllString(ours, -1) {
				if !strings.Contains(texts[match[1]], name+" ") {
					t.Errorf("%s: %s has no %s", page, match[1], name)
				}
			}
		}
		for command := range texts {
			if page == "cmd/mopslock-host/README.md" && !regexp.MustCompile("(?m)^\\| .*`"+command+"[ `].* \\|").Match(text) {
				t.Errorf("%s: no row has %s", page, command)
			}
		}
	}
}
