package house

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// The tests read Python's sources by lines. These are formatted as ruff leaves them,
// which `make check` demands, so indentation says where a block ends.

var pythonDef = regexp.MustCompile(`^( *)(?:async )?def (\w+)\(`)

// pythons lists the Python files of the package, and of the examples.
func pythons(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range tracked(t) {
		if strings.HasSuffix(name, ".py") && !strings.Contains(name, "/testdata/") {
			all = append(all, name)
		}
	}
	return all
}

// pythonTest reports whether a Python file is a test, or helps one.
func pythonTest(name string) bool { return within(path.Dir(name), "bindings/python/tests") }

// TestPythonModules: every module begins with its docstring, and those that are no tests
// have the limits of Go.
func TestPythonModules(t *testing.T) {
	for _, name := range pythons(t) {
		text := read(t, name)
		if !regexp.MustCompile(`^(#!.*\n)?"""`).MatchString(text) {
			t.Errorf("%s does not begin with a docstring", name)
		}
		if pythonTest(name) {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", name, len(lines), maxFileLines)
		}
		for number, line := range lines {
			if match := pythonDef.FindStringSubmatch(line); match != nil {
				if long := pythonBlock(lines[number:], len(match[1])); long > maxFunctionLines {
					t.Errorf("%s:%d: %s: %d lines, at most %d", name, number+1, match[2], long, maxFunctionLines)
				}
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

// TestVersion: all that is released has one version.
func TestVersion(t *testing.T) {
	for file, pattern := range map[string]string{
		".github/actions/run/README.md":            `actions/run@v(\S+)`,
		"README.md":                                `oci-archive:\S+-image\.tar:(\S+) `,
		"bindings/c/Makefile":                      `(?m)^VERSION \?= (\S+)$`,
		"bindings/command/pyproject.toml":          `(?m)^version = "([^"]+)"`,
		"bindings/python/src/mopslock/_version.py": `(?m)^VERSION = "([^"]+)"`,
	} {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file)); found == nil || found[1] != core.Version {
			t.Errorf("%s: version %q, and core.Version is %q", file, found, core.Version)
		}
	}
}
