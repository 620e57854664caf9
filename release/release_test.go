package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// released returns the path of the one artefact that a pattern fits. The tests use what
// make release has packed.
func released(t *testing.T, pattern string) string {
	t.Helper()
	dir := os.Getenv("MOPSLOCK_RELEASE")
	if dir == "" {
		t.Skip("there is no release to try: run make release-test")
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q in %s, %v", pattern, found, dir, err)
	}
	return found[0]
}

// here is this machine, if a release has anything for it that can be tried.
func here(t *testing.T) (arch string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only what is for Linux is tried")
	}
	return runtime.GOARCH
}

func rootOnly(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("MOPSLOCK_TOOLS") == "required" {
			t.Fatalf("there is no %s", tool)
		}
		t.Skipf("there is no %s", tool)
	}
}

// run returns what a command prints on both, and its status.
func run(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func mustRun(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, status := run(t, cmd)
	if status != 0 {
		t.Fatalf("%s: status %d\n%s", cmd, status, out)
	}
	return out
}

// unpack writes the entries of a tar below dir, and returns their names.
func unpack(t *testing.T, from io.Reader, dir string) (names []string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		name := filepath.Join(dir, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, name)
		default:
			if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
				err = create(name, func(to io.Writer) error { _, err := io.Copy(to, r); return err })
			}
		}
		if err == nil && header.Typeflag != tar.TypeSymlink {
			err = os.Chmod(name, header.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unpackGz returns the directory that a tar.gz was unpacked into.
func unpackGz(t *testing.T, name string) (dir string, names []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	return dir, unpack(t, plain, dir)
}

// useCommand takes a lease on a directory, sees it held, and gives it back.
func useCommand(t *testing.T, binary string) {
	t.Helper()
	store := "--store=file://" + t.TempDir()
	out := mustRun(t, exec.Command(binary, "run", store, "deploy", "--", binary, "status", store, "deploy"))
	if !strings.Contains(out, "held") {
		t.Errorf("under its lease, deploy is said to be\n%s", out)
	}
	if out, status := run(t, exec.Command(binary, "status", store, "deploy")); status != 1 {
		t.Errorf("after the lease, status %d\n%s", status, out)
	}
}

// TestSums: SHA256SUMS has each artefact, and each has its sum.
func TestSums(t *testing.T) {
	listed := map[string]string{}
	text, err := os.ReadFile(released(t, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[name] = sum
	}
	files, err := readDir(filepath.Dir(released(t, sumsFile)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.name == sumsFile || f.name == "mopslock-host.rb" {
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(f.data)); listed[f.name] != sum {
			t.Errorf("%s: %s, and SHA256SUMS says %q", f.name, sum, listed[f.name])
		}
		delete(listed, f.name)
	}
	for name := range listed {
		t.Errorf("%s is listed and not there", name)
	}
}

// TestArchive: its command runs, and knows the commit that it was built from.
func TestArchive(t *testing.T) {
	dir, names := unpackGz(t, released(t, command+"-*-linux-"+here(t)+".tar.gz"))
	top := filepath.Join(dir, filepath.Dir(names[0]))
	binary := filepath.Join(top, command)
	var version struct{ Version, Commit string }
	if err := json.Unmarshal([]byte(mustRun(t, exec.Command(binary, "version", "--json"))), &version); err != nil {
		t.Fatal(err)
	}
	if len(version.Commit) != 40 || filepath.Base(top) != command+"-"+version.Version+"-linux-"+runtime.GOARCH {
		t.Errorf("%s has version %q, commit %q", filepath.Base(top), version.Version, version.Commit)
	}
	for _, name := range []string{"LICENSE", "README.md", "man/mopslock-host-run.1", "completions/mopslock-host.bash"} {
		if !slices.Contains(names, filepath.Base(top)+"/"+name) {
			t.Errorf("%s is not in the archive", name)
		}
	}
	useCommand(t, binary)
}

// TestDeb: dpkg installs it into an empty root, it is used, and dpkg leaves nothing of it.
func TestDeb(t *testing.T) {
	deb := released(t, "*_"+here(t)+".deb")
	need(t, "dpkg", "bash")
	rootOnly(t, "dpkg gives files to root")
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, exec.Command("dpkg", "--root="+root, "-i", deb))
	useCommand(t, root+"/usr/bin/mopslock-host")
	mustRun(t, exec.Command("bash", "-c", "source "+root+"/usr/share/bash-completion/completions/mopslock-host && complete -p mopslock-host"))
	if _, err := exec.LookPath("man"); err == nil {
		mustRun(t, exec.Command("man", "-M", root+"/usr/share/man", "mopslock-host-run"))
	}
	mustRun(t, exec.Command("dpkg", "--root="+root, "-P", command))
	if left, err := os.ReadDir(filepath.Join(root, "usr")); err == nil {
		t.Errorf("left below usr: %q", left)
	}
}

// packaged are files that each package has.
var packaged = []string{
	"/usr/bin/mopslock-host", "/usr/share/man/man1/mopslock-host.1.gz", "/usr/share/man/man1/mopslock-host-run.1.gz", "/usr/share/doc/mopslock-host/copyright",
	"/usr/share/bash-completion/completions/mopslock-host", "/usr/share/zsh/site-functions/_mopslock-host", "/usr/share/fish/vendor_completions.d/mopslock-host.fish",
}

func TestRpm(t *testing.T) {
	f, err := os.Open(released(t, "*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[here(t)]+".rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rpm, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	files, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, f := range files {
		if f.UserName() != "root" || f.GroupName() != "root" {
			t.Errorf("%s is %s's", f.Name(), f.UserName())
		}
		has[f.Name()] = true
	}
	for _, name := range packaged {
		if !has[name] {
			t.Errorf("%s is not in the package", name)
		}
	}
}

func TestApk(t *testing.T) {
	dir, names := unpackGz(t, released(t, "*_"+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[here(t)]+".apk"))
	for _, name := range packaged {
		if !slices.Contains(names, name[1:]) {
			t.Errorf("%s is not in the package", name)
		}
	}
	useCommand(t, dir+"/usr/bin/mopslock-host")
}

// TestLibrary: with what pkg-config says of the unpacked archive a C program compiles, and runs
// with either library.
func TestLibrary(t *testing.T) {
	dir, names := unpackGz(t, released(t, library+"-*-linux-"+here(t)+".tar.gz"))
	need(t, "gcc", "pkg-config")
	top := filepath.Join(dir, filepath.Dir(names[0]))
	source := filepath.Join(dir, "try.c")
	if err := os.WriteFile(source, []byte("#include <mopslock.h>\nint main(void) { return mopslock_abi_version() != MOPSLOCK_ABI_VERSION; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, linked := range []string{"shared", "static"} {
		say := exec.Command("pkg-config", "--cflags", "--libs", "mopslock-core")
		say.Env = append(os.Environ(), "PKG_CONFIG_PATH="+top+"/lib/pkgconfig")
		flags := mustRun(t, say)
		if linked == "static" {
			flags = strings.Replace(flags, "-lmopslock-core", "-l:libmopslock-core.a -pthread", 1)
		}
		program := filepath.Join(dir, linked)
		mustRun(t, exec.Command("gcc", append([]string{source, "-o", program}, strings.Fields(flags)...)...))
		use := exec.Command(program)
		use.Env = append(os.Environ(), "LD_LIBRARY_PATH="+top+"/lib")
		mustRun(t, use)
	}
}

// TestBill: the SBOM names what is in the binary, and nothing that another build would name
// otherwise.
func TestBill(t *testing.T) {
	text, err := os.ReadFile(released(t, command+"-*-linux-"+here(t)+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{`"pkg:golang/gocloud.dev@`, `"pkg:golang/std@`, `"bomFormat": "CycloneDX"`} {
		if !bytes.Contains(text, []byte(has)) {
			t.Errorf("it does not have %s", has)
		}
	}
	for _, must := range []string{`"timestamp"`, `"serialNumber"`} {
		if bytes.Contains(text, []byte(must)) {
			t.Errorf("it has a %s", must)
		}
	}
}

// TestFormula: Homebrew's formula has the sums of the archives that it downloads.
func TestFormula(t *testing.T) {
	text, err := os.ReadFile(released(t, "mopslock-host.rb"))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(released(t, command+"-*-linux-"+here(t)+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); !bytes.Contains(text, []byte(sum)) || bytes.Contains(text, []byte("{{")) {
		t.Errorf("it does not have %s:\n%s", sum, text)
	}
}
