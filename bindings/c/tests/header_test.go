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
	named := func(least int, of func(uint8) string) map[string]int {
		numbers := map[string]int{}
		for n := least; n < 256; n++ {
			if name := of(uint8(n)); !strings.Contains(name, "(") {
				numbers[strings.ToUpper(name)] = n
			}
		}
		return numbers
	}
	states := named(1, func(n uint8) string { return core.Observation(n).String() })
	states["NONE"] = 0
	protocols := named(1, func(n uint8) string { return core.Protocol(n).String() })
	protocols["AUTO"] = 0
	for prefix, want := range map[string]map[string]int{
		"REASON_": named(0, func(n uint8) string { return core.Reason(n).String() }),
		"CLASS_":  named(0, func(n uint8) string { return core.Class(n).String() }),
		"STATE_":  states, "PROTOCOL_": protocols,
		"GUARDED_": {"MAX": fence.MaxBody}, "MAX_": {"MESSAGE": core.MaxMessage},
		"HOLDER_": {"SIZE": core.MaxHolder + 1}, // with its NUL
	} {
		if got := constants(t, prefix); !maps.Equal(got, want) {
			t.Errorf("MOPSLOCK_%s: %v, the core has %v", prefix, got, want)
		}
	}
	key := regexp.MustCompile(`\bchar key\[([0-9]+)\];`).FindStringSubmatch(header(t))
	if room, err := strconv.Atoi(key[1]); err != nil || room <= len(core.FailurePrefix)+core.MaxName+len("/"+core.ResultFile) {
		t.Errorf("a result's key has %d bytes of room", room)
	}
}

// TestHeaderCompiles in the languages and standards that callers use.
func TestHeaderCompiles(t *testing.T) {
	need(t, "g++")
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
		return run(t, nil, filepath.Join(c, "check-exports.sh"), write(t, "mopslock.h", text), lib.dir+"/libmopslock-core.so", until)
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
	need(t, "gcc")
	program := "#include <mopslock.h>\n#include <assert.h>\n"
	for of, fields := range map[string]string{
		"open_options":  "engine 8, timeout_ns 16, in_flight 24",
		"options":       "ttl_ns 8, blind 40, wait_ns 48, cancel 64, seen 72, protocol 80, session 84, label 88, memo_failures 96, without_lease 100",
		"break_options": "why 8, now 16, protocol 20, timeout_ns 24, seen 32, holder 40",
		"result":        "failed 8, own 12, key 16",
		"slot":          "number 8, token 16, written 24, stamp_ns 32, holder 40, nonce 553",
		"status": "state 8, ttl_ns 16, released_ns 56, holder 64, host 577, pid 834, epoch 1096, " +
			"token 1104, protocol 1112, store_clock 1116, companions 1120, label 1633, session 1762, why 2019, by 2532",
		"event": "kind 8, code 12, reason 16, store_class 20, call 24, member 32, left_ns 40, seen 48, text 56",
	} {
		for field := range strings.SplitSeq(fields, ", ") {
			name, offset, _ := strings.Cut(field, " ")
			program += fmt.Sprintf("static_assert(offsetof(mopslock_%s, %s) == %s, \"\");\n", of, name, offset)
		}
	}
	command(t, nil, "gcc", "-std=c11", "-fsyntax-only", "-I"+c, write(t, "layout.c", program))
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
