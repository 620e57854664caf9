//go:build linux

package tests

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

func header(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c, "mopslock.h"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// constants are the header's names that begin with a prefix, which is cut off.
func constants(t *testing.T, prefix string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`\bMOPSLOCK_`+prefix+`([A-Z_]+)(?: =)? (-?[0-9]+)`).FindAllStringSubmatch(header(t), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		found[m[1]] = n
	}
	return found
}

// TestNumbers: the header's limit is the core's, and its document is short enough to be read.
func TestNumbers(t *testing.T) {
	if got := constants(t, "MAX_")["MESSAGE"]; got != core.MaxMessage {
		t.Errorf("MOPSLOCK_MAX_MESSAGE is %d, the core has %d", got, core.MaxMessage)
	}
	if lines := strings.Count(header(t), "\n"); lines > 250 {
		t.Errorf("mopslock.h has %d lines", lines)
	}
}

// TestHeaderShows: the header's messages are true, told by the command as JSON. The error is what
// the last input brings when it comes twice.
func TestHeaderShows(t *testing.T) {
	t.Parallel()
	command, err := theCommand()
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(header(t), "With the keys of a client:\n")
	shown, _, _ = strings.Cut(shown, "Durations")
	shown = strings.ReplaceAll(shown, "\n *               ", " ") // what goes on in the next line
	shown = strings.ReplaceAll(shown, "<16 bytes>", `"AQIDBAUGBwgJCgsMDQ4PEA=="`)
	shown = regexp.MustCompile(`([{ ])(\w+):`).ReplaceAllString(shown, `$1"$2":`)
	var inputs, answers []string
	for _, line := range regexp.MustCompile(`(?m)^ \*     (\w+) +(\{.*\})$`).FindAllStringSubmatch(shown, -1) {
		if line[1] == "answer" || line[1] == "error" {
			answers = append(answers, strings.NewReplacer(", ", ",", ": ", ":").Replace(line[2]))
		} else {
			inputs = append(inputs, line[2])
		}
	}
	if len(inputs) != 3 || len(answers) != 2 {
		t.Fatalf("%q\n%q", inputs, answers)
	}
	step := exec.Command(command, "step")
	step.Stdin = strings.NewReader(strings.Join(inputs, "\n") + "\n" + inputs[2] + "\n")
	out, err := step.CombinedOutput()
	said := strings.Split(strings.NewReplacer(", ", ",").Replace(string(out)), "\n")
	if err != nil || len(said) != 5 || said[1] != answers[0] || said[3] != answers[1] {
		t.Errorf("the command says %v\n%s\nand the header %q", err, out, answers)
	}
}

// TestHeaderCompiles in the languages and standards that callers use.
func TestHeaderCompiles(t *testing.T) {
	need(t, "g++")
	strict := []string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I" + c}
	for _, std := range []string{"c99", "c11", "c17"} {
		command(t, nil, "gcc", append(strict, "-std="+std, "-x", "c", filepath.Join(c, "mopslock.h"))...)
	}
	command(t, nil, "gcc", append(strict, "-std=c11", filepath.Join(c, "replay/replay.c"))...)
	lib, program := coreLibrary(t), filepath.Join(t.TempDir(), "header")
	for _, std := range []string{"c++11", "c++20"} {
		command(t, nil, "g++", "-std="+std, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"+c, "-o", program,
			"testdata/header.cpp", "-L"+lib.dir, "-l"+lib.name, "-Wl,-rpath,"+lib.dir)
		command(t, nil, program)
	}
}

// TestExportsCheck: the check that the build makes finds what it is there for.
func TestExportsCheck(t *testing.T) {
	lib := coreLibrary(t)
	good := header(t)
	more := strings.Replace(good, "int mopslock_drop(", "int mopslock_forget(uint64_t handle);\nint mopslock_drop(", 1)
	less := strings.Replace(good, "int mopslock_drop(", "// (", 1)
	for _, test := range []struct{ what, text, names string }{
		{"the header as it is", good, ""},
		{"a function that the library lacks", more, "mopslock_forget"},
		{"a function that the header lacks", less, "mopslock_drop"},
		{"no functions", "", "mopslock_new"},
	} {
		out, code := run(t, nil, filepath.Join(c, "check-exports.sh"), write(t, "mopslock.h", test.text), lib.dir+"/libmopslock-core.so")
		if (code == 0) != (test.names == "") || !strings.Contains(out, test.names) {
			t.Errorf("%s: exit %d, %s", test.what, code, out)
		}
	}
}

// codes are the names of the header's error codes.
func codes(t *testing.T) []string {
	t.Helper()
	found := constants(t, "E")
	maps.DeleteFunc(found, func(_ string, n int) bool { return n >= 0 }) // other names with an E
	if len(found) < 5 {
		t.Fatalf("only %d codes found", len(found))
	}
	numbers := slices.Sorted(maps.Values(found))
	if len(slices.Compact(slices.Clone(numbers))) != len(numbers) {
		t.Errorf("a number is used twice: %v", found)
	}
	return slices.Sorted(maps.Keys(found))
}
