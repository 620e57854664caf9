package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Python's sources are read by lines: formatted as ruff leaves them, which
// `make check` demands, indentation says where a block ends.

var (
	pythonDef  = regexp.MustCompile(`^( *)(?:async )?def (\w+)\(`)
	sleepCall  = regexp.MustCompile(`\btime\.sleep\(|^\s*sleep\(|\basyncio\.sleep\(`)
	boundedFor = regexp.MustCompile(`^\s*(?:async )?(?:for .* in |while [^T])`) // while True has no bound
)

// pythons lists the Python files of the package, and of the examples.
func pythons(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range tracked(t) {
		if strings.HasSuffix(name, ".py") && !strings.Contains(name, "/testdata/") {
			all = append(all, name)
		}
	}
	if !slices.Contains(all, "bindings/python/setup.py") {
		t.Fatalf("bindings/python/setup.py is not among the %d Python files", len(all))
	}
	return all
}

// pythonTest reports whether a Python file is a test, or helps one.
func pythonTest(name string) bool { return within(path.Dir(name), "bindings/python/tests") }

// TestPythonLengths holds Python to the limits of Go.
func TestPythonLengths(t *testing.T) {
	for _, name := range pythons(t) {
		if pythonTest(name) {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(read(t, name), "\n"), "\n")
		if len(lines) > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", name, len(lines), maxFileLines)
		}
		for number, line := range lines {
			match := pythonDef.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			if long := pythonBlock(lines[number:], len(match[1])); long > maxFunctionLines {
				t.Errorf("%s:%d: %s: %d lines, at most %d", name, number+1, match[2], long, maxFunctionLines)
			}
		}
	}
}

// pythonBlock counts the lines of the block that the first line opens, without
// blank ones at its end. A line that closes a signature belongs to it.
func pythonBlock(lines []string, indent int) int {
	long := 1
	for i, line := range lines[1:] {
		text := strings.TrimLeft(line, " ")
		if text == "" {
			continue
		}
		if len(line)-len(text) <= indent && !strings.HasPrefix(text, ")") {
			break
		}
		long = i + 2
	}
	return long
}

// TestPythonModulesSayWhatTheyAre: every module begins with its docstring.
func TestPythonModulesSayWhatTheyAre(t *testing.T) {
	for _, name := range pythons(t) {
		text := read(t, name)
		if strings.HasPrefix(text, "#!") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if !strings.HasPrefix(text, `"""`) {
			t.Errorf("%s does not begin with a docstring", name)
		}
	}
}

// TestPythonNoSleep: of the tests only stress waits by the clock as it likes;
// elsewhere a sleep paces a loop that has a bound, or says beside it what real
// time must pass. The package itself may wait.
func TestPythonNoSleep(t *testing.T) {
	for _, name := range pythons(t) {
		if !pythonTest(name) || within(path.Dir(name), "bindings/python/tests/stress") {
			continue
		}
		lines := strings.Split(read(t, name), "\n")
		for number, line := range lines {
			if sleepCall.MatchString(line) && !strings.Contains(line, "  # ") && !inBoundedLoop(lines[:number+1]) {
				t.Errorf("%s:%d: a sleep outside a bounded loop that does not say why", name, number+1)
			}
		}
	}
}

// inBoundedLoop reports whether the last line is within a loop that ends, of
// its own function.
func inBoundedLoop(lines []string) bool {
	indentOf := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	indent := indentOf(lines[len(lines)-1])
	for _, line := range slices.Backward(lines[:len(lines)-1]) {
		if strings.TrimSpace(line) == "" || indentOf(line) >= indent {
			continue
		}
		if boundedFor.MatchString(line) {
			return true
		}
		if indent = indentOf(line); indent == 0 || pythonDef.MatchString(line) {
			return false
		}
	}
	return false
}

// TestPythonVersion: the package has the version of the C libraries in it.
func TestPythonVersion(t *testing.T) {
	ours := regexp.MustCompile(`(?m)^VERSION \?= (\S+)$`).FindStringSubmatch(read(t, "bindings/c/Makefile"))
	theirs := regexp.MustCompile(`(?m)^version = "([^"]+)"`).FindStringSubmatch(read(t, "bindings/python/pyproject.toml"))
	if ours == nil || theirs == nil || ours[1] != theirs[1] {
		t.Errorf("the C libraries' version is %q, and the Python package's %q", ours, theirs)
	}
}
