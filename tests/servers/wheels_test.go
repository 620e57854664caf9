package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// wheels is where make wheels leaves them.
var wheels = filepath.Join(module, "bin", "wheels")

// oneWheel is the wheel that a pattern finds. Without it the test is skipped, or fails where wheels are required, as in
// make wheels-test.
func oneWheel(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(wheels, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 && os.Getenv("MOPSLOCK_WHEELS") != "required" {
		t.Skip("not built: make wheels")
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d wheels like %s", wheels, len(found), pattern)
	}
	return absolute(t, found[0])
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// installs installs a wheel into a fresh environment, without Go, a compiler or anything else on PATH. The package of the
// command is found beside the wheel, what remains by pip's index.
func installs(t *testing.T, wheel string, more ...string) (bin string) {
	t.Helper()
	dir := t.TempDir()
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output() // and no script that finds it
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"-m", "pip", "--disable-pip-version-check", "install", "-q", "--only-binary", ":all:", "--find-links", filepath.Dir(wheel), wheel}
	for _, words := range [][]string{{string(python), "-m", "venv", dir}, append(append([]string{filepath.Join(dir, "bin", "python")}, words...), more...)} {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+t.TempDir())
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, said)
		}
	}
	return filepath.Join(dir, "bin")
}

// TestWheels: the wheels work where nothing else is, and exclude each other. The pure wheel, whose engine is the WASM
// module, the native one, the command and a program in Go take one lease in turn, on a directory and on a server, and the
// tokens grow over all of them. The wheels write the store by a keeper, and by themselves.
func TestWheels(t *testing.T) {
	if testing.Short() {
		t.Skip("it installs packages")
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	pureWheel, nativeWheel := oneWheel(t, "mopslock-*-any.whl"), oneWheel(t, "mopslock-*-manylinux_*_"+machine+".whl")
	server := use(t, S3)
	pure, native := installs(t, pureWheel, "s3fs==2026.9.0"), installs(t, nativeWheel, "s3fs==2026.9.0")
	for bin, engine := range map[string]string{pure: "WASM", native: "libmopslock-core"} {
		t.Run("examples/"+engine, func(t *testing.T) { runExamples(t, bin) })
	}
	if found, err := filepath.Glob(filepath.Join(native, "../lib/python3*/site-packages/wasmtime")); found != nil || err != nil {
		t.Errorf("the native wheel has brought %s, %v", found, err)
	}
	dir, prefix := t.TempDir(), strings.ReplaceAll(fresh("wheels"), " ", "-")
	for _, place := range []struct{ url, own string }{
		{"file://" + dir, dir},
		{server.Under(server.Address, prefix), "s3fs:" + bucket + "/" + prefix},
	} {
		t.Run("exclude/"+strings.Split(place.url, ":")[0], func(t *testing.T) {
			env := append(server.Env(server.Address), "ENDPOINT=http://"+server.Address)
			takeTurns(t, []turn{
				{"pure, own", python(t, pure, place.own, env)},
				{"command", command(t, native, place.url, env)},
				{"native, own", python(t, native, place.own, env)},
				{"Go", inGo(t, place.url, env)},
				{"pure, URL", python(t, pure, place.url, env)},
				{"native, URL", python(t, native, place.url, env)},
			})
		})
	}
}

// runExamples runs the first examples in Python of both pages.
func runExamples(t *testing.T, bin string) {
	for page, says := range map[string]string{
		"README.md":                 "only one of us runs this\n",
		"bindings/python/README.md": "only one of us does part 0\nonly one of us does part 1\nonly one of us does part 2\n",
	} {
		text, err := os.ReadFile(filepath.Join(module, page))
		if err != nil {
			t.Fatal(err)
		}
		example := regexp.MustCompile("(?ms)^```python\n(.*?)^```$").FindSubmatch(text)
		cmd := exec.Command(filepath.Join(bin, "python"), "-I", "-W", "error", "-c", string(example[1]))
		cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir(), "MOPSLOCK_STORE=file://" + t.TempDir()}
		if said, err := cmd.CombinedOutput(); err != nil || string(said) != says {
			t.Errorf("%s: %v\n%s", page, err, said)
		}
	}
}

// turn is a program that takes the lease: do says acquire or release, and hears the token, busy or free.
type turn struct {
	name string
	do   func(word string) string
}

func takeTurns(t *testing.T, all []turn) {
	var last uint64
	for i := range 2 * len(all) {
		by := all[i%len(all)]
		said := by.do("acquire")
		token, err := strconv.ParseUint(said, 10, 64)
		if err != nil || token <= last {
			t.Fatalf("%s: %s, after token %d", by.name, said, last)
		}
		last = token
		for _, other := range all {
			if other.name == by.name {
				continue
			}
			if said := other.do("acquire"); said != "busy" {
				t.Errorf("%s holds it, and %s says %s", by.name, other.name, said)
			}
		}
		if said := by.do("release"); said != "free" {
			t.Fatalf("%s: %s", by.name, said)
		}
	}
}

func python(t *testing.T, bin, place string, env []string) func(string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "python"), "-I", absolute(t, "testdata/holder.py"), place)
	cmd.Env = append(slices.Clone(env), "PATH="+t.TempDir(), "HOME="+bin) // where the compiled module is kept
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
		cancel()
	})
	lines := bufio.NewReader(out)
	return func(word string) string {
		if _, err := io.WriteString(stdin, word+"\n"); err != nil {
			return err.Error()
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(line)
	}
}

func command(t *testing.T, bin, url string, env []string) func(string) string {
	var lease string
	run := func(words ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "mopslock-host"), words...)
		cmd.Env = append(slices.Clone(env), "MOPSLOCK_STORE="+url, "HOME="+bin)
		out, err := cmd.Output()
		return string(out), err
	}
	return func(word string) string {
		if word == "release" {
			if _, err := run("release", lease); err != nil {
				return err.Error()
			}
			return "free"
		}
		out, err := run("acquire", "n", "--protocol", "strict", "--ttl", "60s", "--wait", "0")
		var held struct{ Token uint64 }
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 75:
			return "busy"
		case err != nil:
			return err.Error()
		case json.Unmarshal([]byte(out), &held) != nil:
			return out
		}
		lease = out
		return fmt.Sprint(held.Token)
	}
}

func inGo(t *testing.T, url string, env []string) func(string) string {
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	h, err := host.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var lease *host.Lease
	return func(word string) string {
		if word == "release" {
			if err := lease.Release(t.Context()); err != nil {
				return err.Error()
			}
			return "free"
		}
		got, err := h.TryAcquire(t.Context(), "n", &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(time.Minute)}})
		switch {
		case errors.Is(err, host.ErrNotAcquired):
			return "busy"
		case err != nil:
			return err.Error()
		}
		lease = got
		return fmt.Sprint(got.FencingToken())
	}
}
