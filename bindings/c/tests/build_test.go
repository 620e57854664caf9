//go:build linux

package tests

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// c is bindings/c.
const c = ".."

var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "mopslock-c"); err != nil {
			panic("mopslock: " + err.Error())
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}())
}

// dependOn reads what the libraries are made of, so that the go command knows
// when a result that it remembers is of yesterday's sources.
var dependOn = sync.OnceValue(func() error {
	for _, dir := range []string{c, "../../../core", "../../../host", "../../../wasm"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			return file.Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
})

func makeC(args ...string) error {
	args = append([]string{"-C", c, "LIB=" + filepath.Join(scratch, "lib")}, args...)
	out, err := exec.Command("make", args...).CombinedOutput()
	if err != nil {
		return errors.New("make: " + err.Error() + "\n" + string(out))
	}
	return dependOn()
}

var (
	buildCore = sync.OnceValue(func() error { return makeC("core") })
	// install builds everything, and installs it below scratch/root/usr. It is
	// the one build of the full library.
	install = sync.OnceValue(func() error {
		return makeC("install", "PREFIX=/usr", "DESTDIR="+filepath.Join(scratch, "root"))
	})
)

// A library to link with: its name, and its directory as built or installed.
type library struct{ name, dir string }

func coreLibrary(t testing.TB) library {
	t.Helper()
	if err := buildCore(); err != nil {
		t.Fatal(err)
	}
	return library{"mopslock-core", filepath.Join(scratch, "lib")}
}

func fullLibrary(t testing.TB) library {
	t.Helper()
	if err := install(); err != nil {
		t.Fatal(err)
	}
	return library{"mopslock", filepath.Join(scratch, "lib")}
}

// compile makes a program of a C source, with a library or, if that is zero,
// with what pkg-config says in more.
func compile(t testing.TB, source string, lib library, more ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := []string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-pthread"}
	if lib.name != "" {
		args = append(args, "-I"+c, "-L"+lib.dir, "-l"+lib.name, "-Wl,-rpath,"+lib.dir)
	}
	command(t, nil, "gcc", append(args, more...)...)
	return program
}

// command runs what must succeed and returns what it said.
func command(t testing.TB, env []string, name string, args ...string) string {
	t.Helper()
	out, code := run(t, env, name, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit %d\n%s", name, strings.Join(args, " "), code, out)
	}
	return out
}

// run returns what a command said, and its exit code.
func run(t testing.TB, env []string, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(scratch, "cache")), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", name, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
