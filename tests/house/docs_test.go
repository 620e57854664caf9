package house

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block returns the first fenced block of a language in a document.
func block(t *testing.T, document, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, document), "\n```"+language+"\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s has no ```%s block", document, language)
	}
	return text + "\n"
}

// TestReadmeGoRuns builds README's Go example, vets it, and runs it.
func TestReadmeGoRuns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(block(t, "README.md", "go")), 0o600); err != nil {
		t.Fatal(err)
	}
	goCommand(t, "vet", file)
	program := filepath.Join(dir, "example")
	goCommand(t, "build", "-o", program, file)
	example := exec.Command(program)
	example.Env = append(os.Environ(), "MOPSLOCK_STORE=file://"+filepath.ToSlash(dir)+"/leases")
	out, err := example.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("only one of us runs this")) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReadmeShellRuns runs README's shell example as it stands, in a home of
// its own.
func TestReadmeShellRuns(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	goCommand(t, "build", "-o", filepath.Join(dir, "bin", "mopslock-host"), "./cmd/mopslock-host")
	report := "#!/bin/sh\necho report of $MOPSLOCK_NAME\n"
	if err := os.WriteFile(filepath.Join(dir, "report.sh"), []byte(report), 0o700); err != nil { //nolint:gosec // it is to be executed
		t.Fatal(err)
	}
	script := exec.Command(shell, "-euo", "pipefail", "-c", block(t, "README.md", "sh"))
	script.Dir = dir
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			script.Env = append(script.Env, line)
		}
	}
	script.Env = append(script.Env, "HOME="+dir, "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Count(string(out), "report of nightly-report\n"); got != 2 {
		t.Errorf("report.sh ran %d times, not 2: %s", got, out)
	}
	if !regexp.MustCompile(`(?m)^nightly-report +released `).Match(out) {
		t.Errorf("ls does not show the lease released: %s", out)
	}
}

func goCommand(t *testing.T, args ...string) {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestReadmeShowsTheCommands: the first screen has both, and they exist.
func TestReadmeShowsTheCommands(t *testing.T) {
	first := strings.Join(strings.SplitAfterN(read(t, "README.md"), "\n", 61)[:60], "")
	for _, must := range []string{"    make run ", "    make test ", "```go\n", "```sh\n"} {
		if !strings.Contains(first, must) {
			t.Errorf("README.md: no %q within its first 60 lines", strings.TrimSpace(must))
		}
	}
}

// TestMakefileHelp: every target has one line of help, and no target is missing.
func TestMakefileHelp(t *testing.T) {
	target := regexp.MustCompile(`^([a-z][a-z-]*):(.*)$`)
	found := map[string]bool{}
	for line := range strings.Lines(read(t, "Makefile")) {
		match := target.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil || strings.HasPrefix(match[2], "=") {
			continue
		}
		found[match[1]] = true
		if _, help, ok := strings.Cut(match[2], "## "); !ok || len(help) < 10 {
			t.Errorf("Makefile: target %s has no help", match[1])
		}
	}
	for _, must := range []string{"help", "run", "build", "test", "check", "generate", "bench", "stress"} {
		if !found[must] {
			t.Errorf("Makefile: there is no target %s", must)
		}
	}
}

// TestArchitectureNamesEveryFolder: each folder with files of its own has its
// line in ARCHITECTURE.md, and each line its folder. What is in testdata is
// told in the line of the folder that it lies in.
func TestArchitectureNamesEveryFolder(t *testing.T) {
	exists := map[string]bool{}
	for _, name := range tracked(t) {
		if dir := path.Dir(name); dir != "." && !strings.Contains(dir, "testdata") {
			exists[dir] = true
		}
	}
	line := regexp.MustCompile("(?m)^\\| `([a-z0-9./_-]+)/` \\| .{10,} \\|$")
	named := map[string]bool{}
	for _, match := range line.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1) {
		named[match[1]] = true
		if !exists[match[1]] {
			t.Errorf("ARCHITECTURE.md names %s/, which does not exist", match[1])
		}
	}
	for dir := range exists {
		if !named[dir] {
			t.Errorf("ARCHITECTURE.md has no line for %s/", dir)
		}
	}
}

// TestDocumentsNameWhatExists: what the documents put into backquotes and looks
// like a path of ours is there, and so are the tests that they name.
func TestDocumentsNameWhatExists(t *testing.T) {
	tests := map[string]bool{}
	testName := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, match := range testName.FindAllStringSubmatch(read(t, s.path), -1) {
			tests[match[1]] = true
		}
	}
	pythonTestName := regexp.MustCompile(`(?m)^ *(?:async )?def (test_\w+)\(`)
	for _, name := range pythons(t) {
		for _, match := range pythonTestName.FindAllStringSubmatch(read(t, name), -1) {
			tests[match[1]] = true
		}
	}
	quoted := regexp.MustCompile("`([^`\n]+)`")
	ours := regexp.MustCompile(`^(core|host|wasm|bindings|cmd|tests|\.ci)/[\w./-]*$`)
	aTest := regexp.MustCompile(`^((Test|Fuzz|Benchmark|Example)[A-Z]\w+|test_[a-z0-9_]+)$`)
	for _, document := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md"} {
		for _, match := range quoted.FindAllStringSubmatch(read(t, document), -1) {
			name := match[1]
			if _, err := os.Stat(filepath.Join(root, name)); ours.MatchString(name) && err != nil {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
			if aTest.MatchString(name) && !tests[name] {
				t.Errorf("%s names %s, and there is no such test", document, name)
			}
		}
	}
}
