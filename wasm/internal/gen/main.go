// Command gen builds the guest of package wasm: mopslock.wasm and its SHA-256.
// The same sources make the same bytes on every machine, because the toolchain
// is pinned and nothing of the machine is let in.
//
//	gen [-check] [-dir wasm]    write both files, or compare them with a fresh build
//	gen -bare -o FILE           build a reactor that holds nothing but Go's runtime
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolchain makes the committed guest. Another toolchain makes other bytes, so the
// go command fetches this one where another is installed.
const toolchain = "go1.26.8"

const (
	guest = "mopslock.wasm"
	sum   = "mopslock.wasm.sha256"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the files are not what a fresh build makes")
	dir := flag.String("dir", ".", "package wasm")
	bare := flag.Bool("bare", false, "build a bare reactor to -o")
	out := flag.String("o", "", "where -bare writes")
	flag.Parse()
	var err error
	switch {
	case *bare:
		err = buildBare(*out)
	case *check:
		err = compare(*dir)
	default:
		err = write(*dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	module, err := build(dir, "./guest")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, guest), module, 0o644),
		os.WriteFile(filepath.Join(dir, sum), sumLine(module), 0o644))
}

func compare(dir string) error {
	fresh, err := build(dir, "./guest")
	if err != nil {
		return err
	}
	for name, want := range map[string][]byte{guest: fresh, sum: sumLine(fresh)} {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("%s is not what its sources make: run `make generate` and commit it", filepath.Join(dir, name))
		}
	}
	return nil
}

// sumLine is what sha256sum -c reads.
func sumLine(module []byte) []byte {
	return fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(module), guest)
}

const bareSource = `package main

func main() {}

//go:wasmexport nothing
func nothing() {}
`

// buildBare builds a guest that does nothing: it is as large as Go's runtime.
func buildBare(out string) error {
	dir, err := os.MkdirTemp("", "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(bareSource), 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module bare\n\ngo 1.26\n"), 0o644)); err != nil {
		return err
	}
	module, err := build(dir, ".")
	if err != nil {
		return err
	}
	return os.WriteFile(out, module, 0o644)
}

// build runs the pinned toolchain in an environment that does not change what it
// makes.
func build(dir, pkg string) ([]byte, error) {
	out, err := os.CreateTemp("", "guest-*.wasm")
	if err != nil {
		return nil, err
	}
	_ = out.Close()
	defer os.Remove(out.Name())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out.Name(), pkg)
	cmd.Dir = dir
	for _, entry := range os.Environ() {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "GOFLAGS", "GOWASM", "GOEXPERIMENT", "GODEBUG", "GOWORK", "CGO_ENABLED", "GOOS", "GOARCH", "GOTOOLCHAIN", "PWD":
		default:
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOTOOLCHAIN="+toolchain)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return os.ReadFile(out.Name())
}
