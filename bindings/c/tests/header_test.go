//go:build linux

package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/fence"
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

// TestNumbers: the header's numbers are the core's, all of them.
func TestNumbers(t *testing.T) {
	reasons, classes, states := map[string]int{}, map[string]int{}, map[string]int{"NONE": 0}
	for n := range 256 {
		if name := core.Reason(n).String(); !strings.Contains(name, "(") {
			reasons[strings.ToUpper(name)] = n
		}
		if name := core.Class(n).String(); !strings.Contains(name, "(") {
			classes[strings.ToUpper(name)] = n
		}
		if name := core.Observation(n).String(); n != 0 && !strings.Contains(name, "(") {
			states[strings.ToUpper(name)] = n
		}
	}
	if got := constants(t, "REASON_"); !maps.Equal(got, reasons) {
		t.Errorf("reasons\n%v, the core has\n%v", got, reasons)
	}
	if got := constants(t, "CLASS_"); !maps.Equal(got, classes) {
		t.Errorf("classes\n%v, the core has\n%v", got, classes)
	}
	if got := constants(t, "STATE_"); !maps.Equal(got, states) {
		t.Errorf("states\n%v, the core has\n%v", got, states)
	}
	protocols := map[string]int{
		"AUTO": 0, "LASTWRITER": int(core.ProtocolLastWriter), "STRICT": int(core.ProtocolStrict),
	}
	if got := constants(t, "PROTOCOL_"); !maps.Equal(got, protocols) {
		t.Errorf("protocols\n%v, the core has\n%v", got, protocols)
	}
	if got := constants(t, "GUARDED_")["MAX"]; got != fence.MaxBody {
		t.Errorf("MOPSLOCK_GUARDED_MAX %d, package fence has %d", got, fence.MaxBody)
	}
	if got := constants(t, "MAX_")["MESSAGE"]; got != core.MaxMessage {
		t.Errorf("MOPSLOCK_MAX_MESSAGE %d, the core has %d", got, core.MaxMessage)
	}
	if room := roomOf(t, "key"); room <= len(core.FailurePrefix)+core.MaxName+len("/"+core.ResultFile) {
		t.Errorf("a result's key has %d bytes of room", room)
	}
	if got := constants(t, "HOLDER_")["SIZE"]; got != core.MaxHolder+1 {
		t.Errorf("MOPSLOCK_HOLDER_SIZE %d, the core has %d and there is a NUL", got, core.MaxHolder)
	}
}

// roomOf is how long a field that is a text may be, with its NUL.
func roomOf(t *testing.T, field string) int {
	t.Helper()
	found := regexp.MustCompile(`\bchar ` + field + `\[([0-9]+)\];`).FindStringSubmatch(header(t))
	if found == nil {
		t.Fatalf("there is no %s", field)
	}
	room, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// TestHeaderCompiles in the languages and standards that callers use.
func TestHeaderCompiles(t *testing.T) {
	strict := []string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I" + c}
	for _, std := range []string{"c99", "c11", "c17"} {
		command(t, nil, "gcc", append(strict, "-std="+std, "-x", "c", filepath.Join(c, "mopslock.h"))...)
	}
	command(t, nil, "gcc", append(strict, "-std=c11", filepath.Join(c, "example/hold.c"))...)
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
	check := func(text, until string) (string, int) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "mopslock.h")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return run(t, nil, filepath.Join(c, "check-exports.sh"), file, lib.dir+"/libmopslock-core.so", until)
	}
	good := header(t)
	more := strings.Replace(good, "int mopslock_drop(", "int mopslock_forget(uint64_t handle);\nint mopslock_drop(", 1)
	less := strings.Replace(good, "int mopslock_drop(", "// (", 1)
	for _, test := range []struct {
		what, text, until, names string
	}{
		{"the header as it is", good, "THE HOST:", ""},
		{"a function that the library lacks", more, "THE HOST:", "mopslock_forget"},
		{"a function that the header lacks", less, "THE HOST:", "mopslock_drop"},
		{"the other library's header", good, "", "mopslock_acquire"},
		{"no functions", "", "", "mopslock_new"},
	} {
		out, code := check(test.text, test.until)
		if (code == 0) != (test.names == "") || !strings.Contains(out, test.names) {
			t.Errorf("%s: exit %d, %s", test.what, code, out)
		}
	}
}

// TestLayoutIsForEver: a struct that is in callers' memory only grows at its end.
// The offsets are those of 64-bit Linux.
func TestLayoutIsForEver(t *testing.T) {
	var program strings.Builder
	program.WriteString("#include <mopslock.h>\n#include <assert.h>\n")
	for _, l := range []struct {
		of, field string
		offset    int
	}{
		{"open_options", "engine", 8},
		{"open_options", "timeout_ns", 16},
		{"open_options", "in_flight", 24},
		{"options", "ttl_ns", 8},
		{"options", "blind", 40},
		{"options", "wait_ns", 48},
		{"options", "cancel", 64},
		{"options", "seen", 72},
		{"options", "protocol", 80},
		{"options", "session", 84},
		{"options", "label", 88},
		{"options", "memo_failures", 96},
		{"options", "without_lease", 100},
		{"break_options", "why", 8},
		{"break_options", "now", 16},
		{"break_options", "protocol", 20},
		{"break_options", "timeout_ns", 24},
		{"break_options", "seen", 32},
		{"result", "failed", 8},
		{"result", "own", 12},
		{"result", "key", 16},
		{"slot", "number", 8},
		{"slot", "token", 16},
		{"slot", "written", 24},
		{"slot", "stamp_ns", 32},
		{"slot", "holder", 40},
		{"slot", "nonce", 553},
		{"status", "state", 8},
		{"status", "ttl_ns", 16},
		{"status", "released_ns", 56},
		{"status", "holder", 64},
		{"status", "host", 577},
		{"status", "pid", 834},
		{"status", "epoch", 1096},
		{"status", "token", 1104},
		{"status", "protocol", 1112},
		{"status", "store_clock", 1116},
		{"status", "companions", 1120},
		{"status", "label", 1633},
		{"status", "session", 1762},
		{"status", "why", 2019},
		{"status", "by", 2532},
		{"event", "kind", 8},
		{"event", "code", 12},
		{"event", "reason", 16},
		{"event", "store_class", 20},
		{"event", "call", 24},
		{"event", "member", 32},
		{"event", "left_ns", 40},
		{"event", "seen", 48},
		{"event", "text", 56},
	} {
		fmt.Fprintf(&program, "static_assert(offsetof(mopslock_%s, %s) == %d, \"\");\n", l.of, l.field, l.offset)
	}
	file := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "gcc", "-std=c11", "-fsyntax-only", "-I"+c, file)
}

// codes are the names of the header's error codes.
func codes(t *testing.T) []string {
	t.Helper()
	found := constants(t, "E")
	maps.DeleteFunc(found, func(_ string, n int) bool { return n >= 0 }) // other names with an E
	if len(found) < 15 {
		t.Fatalf("only %d codes found", len(found))
	}
	numbers := slices.Sorted(maps.Values(found))
	if len(slices.Compact(slices.Clone(numbers))) != len(numbers) {
		t.Errorf("a number is used twice: %v", found)
	}
	return slices.Sorted(maps.Keys(found))
}
