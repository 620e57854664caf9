//go:build linux

package tests

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refusing is an S3 server that refuses everything, as its bucket's name says.
func refusing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		status, code := http.StatusNotImplemented, "NotImplemented"
		switch bucket {
		case "denied":
			status, code = http.StatusForbidden, "AccessDenied"
		case "missing":
			status, code = http.StatusNotFound, "NoSuchBucket"
		case "slow":
			status, code = http.StatusServiceUnavailable, "SlowDown"
		case "full":
			status, code = http.StatusInsufficientStorage, "XMinioStorageFull"
		case "deaf": // it lists nothing, and takes nothing
			if r.URL.Query().Has("list-type") {
				_, _ = w.Write([]byte("<ListBucketResult><Name>deaf</Name><KeyCount>0</KeyCount></ListBucketResult>"))
				return
			}
			status, code = http.StatusForbidden, "AccessDenied"
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>no</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

var keys = []string{"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true"}

// stores are the URLs of two empty directories, and nothing of theirs is beside them.
func stores(t *testing.T) []string {
	t.Helper()
	parent := t.TempDir()
	var urls []string
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "file://"+dir)
	}
	return urls
}

// TestErrors: every code of the header is produced by some call, and strict.c is
// about strict and the guard besides, invoke.c about invocations, permit.c about shared
// semaphores and limiter.c about the limiter. EENGINE is not: nobody has made the guest
// fail yet, nor ECROWDED, which takes a thousand holders; the library's own test has
// their mapping.
func TestErrors(t *testing.T) {
	lib := fullLibrary(t)
	cold := "XDG_CACHE_HOME=" + t.TempDir() // for the WASM engine
	out := command(t, append([]string{cold}, keys...), compile(t, "testdata/errors.c", lib),
		"file://"+t.TempDir(), "file://"+t.TempDir(), refusing(t))
	out += command(t, nil, compile(t, "testdata/core.c", lib), config, acquire, refused)
	out += command(t, nil, compile(t, "testdata/strict.c", lib), "file://"+t.TempDir())
	out += command(t, nil, compile(t, "testdata/invoke.c", lib), stores(t)...)
	out += command(t, nil, compile(t, "testdata/permit.c", lib), "file://"+t.TempDir())
	out += command(t, nil, compile(t, "testdata/limiter.c", lib))
	out += command(t, nil, compile(t, "testdata/fork.c", lib, "-DHOST"), config)
	seen := strings.Fields(out)
	for _, code := range codes(t) {
		if code != "ENGINE" && code != "CROWDED" && !slices.Contains(seen, "MOPSLOCK_E"+code) {
			t.Errorf("MOPSLOCK_E%s is produced by nothing", code)
		}
	}
}

// TestHammer: however views change, nobody is let in beyond his own.
func TestHammer(t *testing.T) {
	command(t, nil, compile(t, "testdata/hammer.c", fullLibrary(t)))
}

// TestEvents: whatever is begun ends in one event, and what it gave in another.
func TestEvents(t *testing.T) {
	command(t, nil, compile(t, "testdata/events.c", fullLibrary(t)), "file://"+t.TempDir(), "file://"+t.TempDir())
}

// TestInvoke: a work is begun once, and everybody has its result. begun.c is about
// the same calls as begun ones, and about what a close of the host does to them.
func TestInvoke(t *testing.T) {
	lib := fullLibrary(t)
	command(t, nil, compile(t, "testdata/begun.c", lib), stores(t)...)
	command(t, nil, compile(t, "testdata/remote.c", lib), stores(t)...)
}

// TestEnvironment: each open sees what the program has done to its environment
// since it was started.
func TestEnvironment(t *testing.T) {
	program := compile(t, "testdata/environment.c", fullLibrary(t))
	gone := []string{"AZURE_STORAGE_ACCOUNT=start", "AZURE_STORAGE_KEY=c3RhcnQ=", "AWS_PROFILE=start", "AWS_CONFIG_FILE=/dev/null"}
	command(t, gone, program, "unset")
	command(t, gone[2:], program, "set")
}

func TestList(t *testing.T) {
	command(t, nil, compile(t, "testdata/list.c", fullLibrary(t)), "file://"+t.TempDir())
}

// TestCrowd: what is held and what waits costs no thread.
func TestCrowd(t *testing.T) {
	command(t, nil, compile(t, "testdata/crowd.c", fullLibrary(t)))
}

// installed is what pkg-config says of the libraries that were installed.
func installed(t *testing.T, args ...string) []string {
	t.Helper()
	fullLibrary(t)
	root := filepath.Join(scratch, "root")
	return strings.Fields(command(t, []string{
		"PKG_CONFIG_PATH=" + root + "/usr/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR=" + root,
		"PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS=1",
	}, "pkg-config", args...))
}

// hold runs the example on a fresh directory and looks at what it leaves.
func hold(t *testing.T, env []string, command ...string) {
	t.Helper()
	dir := t.TempDir()
	out, code := run(t, env, command[0], append(command[1:], "file://"+dir, "nightly")...)
	if code != 0 || !strings.Contains(out, "token 1\nstep 1\nstep 2\nstep 3\n") {
		t.Fatalf("exit %d: %s", code, out)
	}
	record, err := os.ReadFile(filepath.Join(dir, "nightly/_mopslock/fffffffffffffffd/v"))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(record, &fields); err != nil {
		t.Fatal(err)
	}
	if fields["state"] != "released" || fields["n"] != 2.0 || fields["tenure"] == "" {
		t.Errorf("the record is %s", record)
	}
	if strings.Contains(out, "not now") || strings.Contains(out, "ERROR SUMMARY") && !strings.Contains(out, "ERROR SUMMARY: 0 errors") {
		t.Error(out)
	}
}

// TestInstall: with pkg-config alone a program compiles, shared and static, and
// runs from where it was installed.
func TestInstall(t *testing.T) {
	source := filepath.Join(c, "example/hold.c")
	shared := compile(t, source, library{}, append(installed(t, "--cflags", "--libs", "mopslock"), "-std=c11", "-pedantic")...)
	lib := filepath.Join(scratch, "root/usr/lib")
	hold(t, []string{"LD_LIBRARY_PATH=" + lib}, shared)
	if _, code := run(t, []string{"LD_LIBRARY_PATH="}, shared); code != 127 {
		t.Errorf("exit %d: it does not need the installed library", code)
	}

	static := compile(t, source, library{}, staticFlags(t, "mopslock")...)
	hold(t, nil, static)
	core := compile(t, "testdata/core.c", library{}, staticFlags(t, "mopslock-core")...)
	command(t, nil, core, config, acquire, refused)
}

// staticFlags are pkg-config's, with the archive in the shared library's place.
func staticFlags(t *testing.T, name string) []string {
	t.Helper()
	flags := installed(t, "--static", "--cflags", "--libs", name)
	for i, flag := range flags {
		if flag == "-l"+name {
			flags[i] = "-l:lib" + name + ".a"
		}
	}
	return flags
}
