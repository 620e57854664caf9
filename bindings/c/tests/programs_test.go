//go:build linux

package tests

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
)

func leaseConfig(seed byte) []byte {
	return core.AppendConfig(nil, &core.Config{
		Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n"}, Seed: [16]byte{seed, 1},
	})
}

func input(mono int64, ev core.Event) []byte {
	return core.AppendInput(nil, core.Instant{Mono: mono, Wall: 1}, &ev)
}

// Messages that programs about the core are given.
var (
	config  = hex.EncodeToString(leaseConfig(1))
	refused = hex.EncodeToString(core.AppendConfig(nil, &core.Config{Machine: core.MachineLease}))
	acquire = hex.EncodeToString(input(1, core.Event{Kind: core.EventAcquire, Wait: core.Forever}))
	woke    = hex.EncodeToString(input(1, core.Event{Kind: core.EventWoke}))
)

// AddressSanitizer sees what C allocates; Go's own memory is Go's to collect.
var sanitize = []string{"-fsanitize=address", "-fno-omit-frame-pointer"}

const leaksFail = "ASAN_OPTIONS=detect_leaks=1:exitcode=9"

// TestPrograms: each program says at its top what it shows. Nothing leaks in any, and together they
// produce every code of the header.
func TestPrograms(t *testing.T) {
	t.Parallel()
	lib := coreLibrary(t)
	var mu sync.Mutex
	var seen []string
	t.Run("all", func(t *testing.T) {
		for _, p := range []struct {
			source string
			lib    library
			flags  []string // without AddressSanitizer, which changes what the program looks at
			args   []string
		}{
			{"core", lib, sanitize, []string{config, acquire, refused}},
			{"threads", lib, sanitize, []string{config, acquire, woke}},
			{"fork", lib, nil, []string{config}},
			{"load_in_child", library{}, nil, []string{lib.dir + "/libmopslock-core.so"}},
		} {
			t.Run(p.source, func(t *testing.T) {
				t.Parallel()
				made := compile(t, "testdata/"+p.source+".c", p.lib, p.flags...)
				out := command(t, []string{leaksFail}, made, p.args...)
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, strings.Fields(out)...)
			})
		}
	})
	for _, code := range codes(t) {
		if !slices.Contains(seen, "MOPSLOCK_E"+code) {
			t.Errorf("MOPSLOCK_E%s is produced by nothing", code)
		}
	}
}

// TestLeaksAreFound, or no test above shows anything.
func TestLeaksAreFound(t *testing.T) {
	made := compile(t, "testdata/leak.c", coreLibrary(t), sanitize...)
	if out, code := run(t, []string{leaksFail}, made); code != 9 || !strings.Contains(out, "LeakSanitizer") {
		t.Errorf("a leak is not found: exit %d, %s", code, out)
	}
}

// TestValgrind: nothing leaks in the library's own C, which AddressSanitizer has not seen
// compiled, nor in a tenure of the example's host. It does find a leak.
func TestValgrind(t *testing.T) {
	t.Parallel()
	need(t, "valgrind")
	lib := coreLibrary(t)
	example := filepath.Join(c, "example")
	// Of addresses it says what is Go's doing; those of C are AddressSanitizer's.
	leaks := func(made string, args ...string) bool {
		memcheck := []string{"-q", "--undef-value-errors=no", "--leak-check=full", "--show-leak-kinds=definite", made}
		return strings.Contains(command(t, nil, "valgrind", append(memcheck, args...)...), "definitely lost")
	}
	if leaks(compile(t, "testdata/core.c", lib), config, acquire, refused) {
		t.Error("the library leaks")
	}
	host := compile(t, filepath.Join(example, "host.c"), lib, filepath.Join(example, "directory.c"))
	if leaks(host, "-t", "60", filepath.Join(t.TempDir(), "store"), "n", "true") {
		t.Error("the host leaks")
	}
	if !leaks(compile(t, "testdata/leak.c", lib)) {
		t.Error("a leak is not found")
	}
}

// TestAsan: the library's own code, C and Go, under AddressSanitizer: nothing is
// written or read beyond what the caller gave.
func TestAsan(t *testing.T) {
	t.Parallel()
	need(t, "gcc")
	dir := t.TempDir()
	remembered := []string{"XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME")} // what Go has compiled before
	command(t, remembered, "go", "build", "-C", c, "-asan", "-buildmode=c-shared",
		"-o", filepath.Join(dir, "libmopslock-core.so"), ".")
	lib := library{"mopslock-core", dir}
	command(t, nil, compile(t, "testdata/core.c", lib, sanitize...), config, acquire, refused)
	command(t, nil, compile(t, "testdata/threads.c", lib, sanitize...), config, acquire, woke)
	// A buffer is used as far as it goes. No answer of the core is as long as that, so
	// the C side is tried with a Go side of the test's.
	none := write(t, "_cgo_export.h", "/* room.c has the declarations */\n")
	command(t, nil, compile(t, "testdata/room.c", library{}, append(sanitize, "-I"+c, "-I"+filepath.Dir(none))...))
}

// mostTLS is a fraction of the 1,664 bytes that glibc keeps for all libraries
// that are loaded at run time and ask for static TLS, as Go's do.
const mostTLS = 64

// TestProcess: the handlers that the header names are those that there are, but for
// the two that libc and Go keep to themselves; and copies of the library that forked
// children load fit into one process.
func TestProcess(t *testing.T) {
	lib := coreLibrary(t)
	got := strings.Split(strings.TrimSpace(command(t, nil, compile(t, "testdata/signals.c", lib))), "\n")
	want := []string{"Bus error", "Floating point exception", "Segmentation fault", "Broken pipe", "Urgent I/O condition"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	file, err := elf.Open(filepath.Join(lib.dir, "libmopslock-core.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_TLS && segment.Memsz > mostTLS {
			t.Errorf("it needs %d bytes of static TLS, more than %d", segment.Memsz, mostTLS)
		}
	}
	if names, err := file.DynString(elf.DT_SONAME); err != nil || !slices.Equal(names, []string{"libmopslock-core.so.0"}) {
		t.Errorf("programs that are linked to libmopslock-core.so.0 do not find it: %q, %v", names, err)
	}
}

// installed is what pkg-config says of the library that was installed; static, with
// the archive in the shared library's place.
func installed(t *testing.T, static bool) []string {
	t.Helper()
	need(t, "pkg-config")
	coreLibrary(t)
	root := filepath.Join(scratch, "root")
	args := []string{"--cflags", "--libs", "mopslock-core"}
	if static {
		args = append(args, "--static")
	}
	flags := strings.Fields(command(t, []string{
		"PKG_CONFIG_PATH=" + root + "/usr/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR=" + root,
		"PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS=1",
	}, "pkg-config", args...))
	if i := slices.Index(flags, "-lmopslock-core"); static && i >= 0 {
		flags[i] = "-l:libmopslock-core.a"
	}
	return flags
}

// TestInstall: with pkg-config alone a program compiles, shared and static, and
// runs from where it was installed.
func TestInstall(t *testing.T) {
	t.Parallel()
	shared := compile(t, "testdata/core.c", library{}, append(installed(t, false), "-std=c11", "-pedantic")...)
	static := compile(t, "testdata/core.c", library{}, append(installed(t, true), sanitize...)...)
	command(t, []string{"LD_LIBRARY_PATH=" + filepath.Join(scratch, "root/usr/lib")}, shared, config, acquire, refused)
	command(t, []string{leaksFail}, static, config, acquire, refused)
	if _, code := run(t, []string{"LD_LIBRARY_PATH="}, shared); code != 127 {
		t.Errorf("exit %d: it does not need the installed library", code)
	}
}
