//go:build linux

package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoLeak runs the example under AddressSanitizer, and under valgrind where
// there is one. Both see what C allocates; Go's own memory is Go's to collect. That
// they do see it is shown by a program that leaks.
func TestNoLeak(t *testing.T) {
	lib, small := fullLibrary(t), coreLibrary(t)
	example := filepath.Join(c, "example/hold.c")
	sanitize := []string{"-fsanitize=address", "-fno-omit-frame-pointer"}
	env := []string{"ASAN_OPTIONS=detect_leaks=1:exitcode=9"}
	hold(t, env, compile(t, example, lib, sanitize...))
	command(t, env, compile(t, "testdata/core.c", lib, sanitize...), config, acquire, refused)
	command(t, env, compile(t, "testdata/threads.c", lib, sanitize...), config, acquire, woke)
	command(t, env, compile(t, "testdata/events.c", lib, sanitize...), "file://"+t.TempDir(), "file://"+t.TempDir())
	command(t, env, compile(t, "testdata/list.c", lib, sanitize...), "file://"+t.TempDir())
	command(t, env, compile(t, "testdata/permit.c", lib, sanitize...), "file://"+t.TempDir())
	command(t, env, compile(t, "testdata/limiter.c", lib, sanitize...))
	command(t, env, compile(t, "testdata/hammer.c", lib, sanitize...))
	for _, program := range []string{"invoke.c", "remote.c", "begun.c"} {
		command(t, env, compile(t, "testdata/"+program, lib, sanitize...), stores(t)...)
	}
	if out, code := run(t, env, compile(t, "testdata/leak.c", small, sanitize...)); code != 9 || !strings.Contains(out, "LeakSanitizer") {
		t.Errorf("a leak is not found: exit %d, %s", code, out)
	}

	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Log("no valgrind here; AddressSanitizer has run")
		return
	}
	memcheck := []string{
		"valgrind", "-q", "--suppressions=testdata/go.supp", "--leak-check=full", "--error-exitcode=9",
		"--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
	}
	hold(t, nil, append(memcheck, compile(t, example, lib))...)
	leaky := append(memcheck[1:], compile(t, "testdata/leak.c", small))
	if out, code := run(t, nil, memcheck[0], leaky...); code != 9 || !strings.Contains(out, "definitely lost") {
		t.Errorf("a leak is not found: exit %d, %s", code, out)
	}
}

// TestMemory: the library's own code, C and Go, under AddressSanitizer: nothing is
// written or read beyond what the caller gave.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	command(t, nil, "go", "build", "-C", c, "-asan", "-buildmode=c-shared", "-tags", "mopslock_core",
		"-o", filepath.Join(dir, "libmopslock-core.so"), ".")
	lib := library{"mopslock-core", dir}
	command(t, nil, compile(t, "testdata/core.c", lib, "-fsanitize=address"), config, acquire, refused)
	command(t, nil, compile(t, "testdata/threads.c", lib, "-fsanitize=address"), config, acquire, woke)
}
