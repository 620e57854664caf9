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

// dependOn reads what the library and the command are made of, so that the go command knows
// when a result that it remembers is of yesterday's sources.
var dependOn = sync.OnceValue(func() error {
	for _, dir := range []string{c, "../../../core", "../../../host", "../../../cmd"} {
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

// install builds everything, once, and installs it below scratch/root/usr.
var install = sync.OnceValue(func() error {
	args := []string{"-j2", "-C", c, "install", "LIB=" + filepath.Join(scratch, "lib"), "PREFIX=/usr", "DESTDIR=" + filepath.Join(scratch, "root")}
	out, err := exec.Command("make", args...).CombinedOutput()
	if err != nil {
		return errors.New("make: " + err.Error() + "\n" + string(out))
	}
	return dependOn()
})

// A library to link with: its name, and its directory as built or installed.
type library struct{ name, dir string }

// need skips a test where a tool is missing, and says so; where MOPSLOCK_TOOLS is
// required, as in CI, it fails.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	if os.Getenv("MOPSLOCK_TOOLS") == "required" {
		t.Fatalf("there is no %s", tool)
	}
	t.Skipf("there is no %[1]s: install %[1]s to test the C library as its users build and run it", tool)
}

func coreLibrary(t *testing.T) library {
	t.Helper()
	need(t, "gcc")
	if err := install(); err != nil {
		t.Fatal(err)
	}
	return library{"mopslock-core", filepath.Join(scratch, "lib")}
}

// compile makes a program of a C source, with a library or, if that is zero,
// with what pkg-config says in more.
func compile(t *testing.T, source string, lib library, more ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-pthread", "-I" + c}, more...)
	if lib.name != "" {
		args = append(args, "-L"+lib.dir, "-l"+lib.name, "-Wl,-rpath,"+lib.dir)
	}
	command(t, nil, "gcc", args...)
	return program
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs what must succeed and returns what it said.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	out, code := run(t, env, name, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit %d\n%s", name, strings.Join(args, " "), code, out)
	}
	return out
}

// run returns what a command said, and its exit code.
func run(t *testing.T, env []string, name string, args ...string) (string, int) {
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
