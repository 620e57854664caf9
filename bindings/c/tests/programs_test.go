//go:build linux

package tests

import (
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// stores are so many URLs of empty directories, and nothing of theirs is beside them.
func stores(t *testing.T, count int) (urls []string) {
	t.Helper()
	parent := t.TempDir()
	for i := range count {
		dir := filepath.Join(parent, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "file://"+dir)
	}
	return urls
}

// refusing is an S3 server that refuses everything, as its bucket's name says.
func refusing(t *testing.T) string {
	t.Helper()
	answers := map[string]struct {
		status int
		code   string
	}{
		"denied": {http.StatusForbidden, "AccessDenied"}, "missing": {http.StatusNotFound, "NoSuchBucket"},
		"slow": {http.StatusServiceUnavailable, "SlowDown"}, "full": {http.StatusInsufficientStorage, "XMinioStorageFull"},
		"deaf": {http.StatusForbidden, "AccessDenied"}, "broken": {http.StatusNotImplemented, "NotImplemented"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("X-Amz-Request-Id", "1")                 // without it an answer is not the service's
		if bucket == "deaf" && r.URL.Query().Has("list-type") { // it lists nothing, and takes nothing
			_, _ = w.Write([]byte("<ListBucketResult><Name>deaf</Name><Prefix>" + r.URL.Query().Get("prefix") + "</Prefix><KeyCount>0</KeyCount></ListBucketResult>"))
			return
		}
		w.WriteHeader(answers[bucket].status)
		_, _ = w.Write([]byte("<Error><Code>" + answers[bucket].code + "</Code><Message>no</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// AddressSanitizer sees what C allocates; Go's own memory is Go's to collect.
var sanitize = []string{"-fsanitize=address", "-fno-omit-frame-pointer"}

const leaksFail = "ASAN_OPTIONS=detect_leaks=1:exitcode=9"

// program is one of testdata, and what it takes.
type program struct {
	source string
	lib    library
	plain  bool // it looks at what AddressSanitizer changes
	flags  []string
	dirs   int // URLs of directories, which are its first arguments
	args   []string
	env    []string
}

// TestPrograms: a program for each group of functions, each of which says at its top
// what it shows; nothing leaks in any, and together they produce every code of the
// header but two: no test makes the guest fail, which is EENGINE, and ECROWDED
// takes a thousand holders; the library's own test has their mapping.
func TestPrograms(t *testing.T) {
	t.Parallel()
	small, full := coreLibrary(t), fullLibrary(t)
	aws := []string{"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true", "XDG_CACHE_HOME=" + t.TempDir()}
	azure := []string{"AZURE_STORAGE_ACCOUNT=start", "AZURE_STORAGE_KEY=c3RhcnQ="}
	other := []string{"AWS_PROFILE=start", "AWS_CONFIG_FILE=/dev/null"}
	var mu sync.Mutex
	var seen []string
	programs := []program{
		{source: "core", lib: small, args: []string{config, acquire, refused}},
		{source: "core", lib: full, args: []string{config, acquire, refused}},
		{source: "threads", lib: small, args: []string{config, acquire, woke}},
		{source: "fork", lib: small, plain: true, args: []string{config}},
		{source: "fork", lib: full, plain: true, flags: []string{"-DHOST"}, args: []string{config}},
		{source: "load_in_child", plain: true, args: []string{small.dir + "/libmopslock-core.so"}},
		{source: "load_in_child", plain: true, args: []string{full.dir + "/libmopslock.so"}},
		{source: "errors", lib: full, dirs: 2, args: []string{refusing(t)}, env: aws},
		{source: "strict", lib: full, dirs: 1},
		{source: "events", lib: full, dirs: 2},
		{source: "list", lib: full, dirs: 1},
		{source: "permit", lib: full, dirs: 1},
		{source: "limiter", lib: full},
		{source: "hammer", lib: full},
		{source: "invoke", lib: full, dirs: 2},
		{source: "begin", lib: full, dirs: 2},
		{source: "remote", lib: full, dirs: 2},
		{source: "crowd", lib: full, plain: true},
		{source: "environment", lib: full, args: []string{"unset"}, env: append(azure, other...)},
		{source: "environment", lib: full, args: []string{"set"}, env: other},
	}
	t.Run("all", func(t *testing.T) {
		for _, p := range programs {
			t.Run(p.source, func(t *testing.T) {
				t.Parallel()
				flags := p.flags
				if !p.plain {
					flags = sanitize
				}
				made := compile(t, "testdata/"+p.source+".c", p.lib, flags...)
				out := command(t, append(p.env, leaksFail), made, append(stores(t, p.dirs), p.args...)...)
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, strings.Fields(out)...)
			})
		}
	})
	for _, code := range codes(t) {
		if code != "ENGINE" && code != "CROWDED" && !slices.Contains(seen, "MOPSLOCK_E"+code) {
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
// compiled, over one program that is those of all groups, one after the other. It does
// find a leak.
func TestValgrind(t *testing.T) {
	t.Parallel()
	need(t, "valgrind")
	// Of addresses it says what is Go's doing; those of C are AddressSanitizer's.
	memcheck := []string{"-q", "--undef-value-errors=no", "--leak-check=full", "--show-leak-kinds=definite"}
	const found = "definitely lost"
	var head, body strings.Builder
	var objects []string
	for _, p := range []program{
		{source: "core", args: []string{config, acquire, refused}},
		{source: "strict", dirs: 1},
		{source: "list", dirs: 1},
		{source: "permit", dirs: 1},
		{source: "limiter"},
		{source: "invoke", dirs: 2},
		{source: "begin", dirs: 2},
		{source: "remote", dirs: 2},
	} {
		object := filepath.Join(t.TempDir(), p.source+".o")
		command(t, nil, "gcc", "-std=gnu11", "-g", "-O1", "-I"+c, "-Dmain="+p.source+"_main", "-c", "-o", object, "testdata/"+p.source+".c")
		objects = append(objects, object)
		args := append([]string{p.source}, append(stores(t, p.dirs), p.args...)...)
		fmt.Fprintf(&head, "int %s_main(int, char **);\n", p.source)
		fmt.Fprintf(&body, "\tif (%s_main(%d, (char *[]){\"%s\", 0}) != 0)\n\t\treturn 1;\n", p.source, len(args), strings.Join(args, `", "`))
	}
	all := write(t, "all.c", head.String()+"int main(void)\n{\n"+body.String()+"\treturn 0;\n}\n")
	if out := command(t, nil, "valgrind", append(memcheck, compile(t, all, fullLibrary(t), objects...))...); strings.Contains(out, found) {
		t.Error(out)
	}
	if out := command(t, nil, "valgrind", append(memcheck, compile(t, "testdata/leak.c", coreLibrary(t)))...); !strings.Contains(out, found) {
		t.Errorf("a leak is not found: %s", out)
	}
}

// TestMemory: the library's own code, C and Go, under AddressSanitizer: nothing is
// written or read beyond what the caller gave.
func TestMemory(t *testing.T) {
	t.Parallel()
	need(t, "gcc")
	dir := t.TempDir()
	remembered := []string{"XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME")} // what Go has compiled before
	command(t, remembered, "go", "build", "-C", c, "-asan", "-buildmode=c-shared", "-tags", "mopslock_core",
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
// the two that libc and Go keep to themselves; and both libraries, and copies that
// forked children load, fit into one process.
func TestProcess(t *testing.T) {
	for _, lib := range []library{coreLibrary(t), fullLibrary(t)} {
		got := strings.Split(strings.TrimSpace(command(t, nil, compile(t, "testdata/signals.c", lib))), "\n")
		want := []string{"Bus error", "Floating point exception", "Segmentation fault", "Broken pipe", "Urgent I/O condition"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", lib.name, got, want)
		}
		file, err := elf.Open(filepath.Join(lib.dir, "lib"+lib.name+".so"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_TLS && segment.Memsz > mostTLS {
				t.Errorf("%s needs %d bytes of static TLS, more than %d", lib.name, segment.Memsz, mostTLS)
			}
		}
	}
}

// installed is what pkg-config says of the libraries that were installed; static, with
// the archive in the shared library's place.
func installed(t *testing.T, name string, static bool) []string {
	t.Helper()
	need(t, "pkg-config")
	fullLibrary(t)
	root := filepath.Join(scratch, "root")
	args := []string{"--cflags", "--libs", name}
	if static {
		args = append(args, "--static")
	}
	flags := strings.Fields(command(t, []string{
		"PKG_CONFIG_PATH=" + root + "/usr/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR=" + root,
		"PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS=1",
	}, "pkg-config", args...))
	if i := slices.Index(flags, "-l"+name); static && i >= 0 {
		flags[i] = "-l:lib" + name + ".a"
	}
	return flags
}

// TestInstall: with pkg-config alone a program compiles, shared and static, and
// runs from where it was installed. The example leaves a released record.
func TestInstall(t *testing.T) {
	t.Parallel()
	source := filepath.Join(c, "example/hold.c")
	shared := compile(t, source, library{}, append(installed(t, "mopslock", false), "-std=c11", "-pedantic")...)
	static := compile(t, source, library{}, append(installed(t, "mopslock", true), sanitize...)...)
	for program, env := range map[string]string{shared: "LD_LIBRARY_PATH=" + filepath.Join(scratch, "root/usr/lib"), static: leaksFail} {
		dir := t.TempDir()
		out := command(t, []string{env}, program, "file://"+dir, "nightly")
		record, err := os.ReadFile(filepath.Join(dir, "nightly/_mopslock/fffffffffffffffd/v"))
		var fields map[string]any
		if err != nil || json.Unmarshal(record, &fields) != nil {
			t.Fatalf("%v: %s", err, record)
		}
		if fields["state"] != "released" || fields["n"] != 2.0 || fields["tenure"] == "" || !strings.Contains(out, "token 1\nstep 1\nstep 2\nstep 3\n") {
			t.Errorf("the record is %s\n%s", record, out)
		}
	}
	if _, code := run(t, []string{"LD_LIBRARY_PATH="}, shared); code != 127 {
		t.Errorf("exit %d: it does not need the installed library", code)
	}
	command(t, nil, compile(t, "testdata/core.c", library{}, installed(t, "mopslock-core", true)...), config, acquire, refused)
}
