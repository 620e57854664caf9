// Command release packs what make release has built into the files that users download. The
// same inputs give the same bytes: the time of every entry is the commit's, its owner is
// root, and entries are sorted.
//
// It compiles nothing and asks no network. The Makefile builds what it packs.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	command  = "mopslock-host"
	summary  = "Leases and semaphores kept in a blob store, for commands and scripts"
	homepage = "https://github.com/mopslock/mopslock"
	license  = "Apache-2.0"
)

func main() {
	var r release
	var systems string
	flag.StringVar(&r.version, "version", "", "the release's version, as 0.1.0")
	flag.StringVar(&systems, "systems", "", "the systems that there are binaries of, as linux-amd64 darwin-arm64")
	flag.StringVar(&r.root, "root", "..", "the repository, for its license and documents")
	flag.StringVar(&r.binaries, "binaries", "", "where the binaries lie, in a directory for each system")
	flag.StringVar(&r.libraries, "libraries", "", "where the C libraries lie, in a directory for each system that has one")
	flag.StringVar(&r.pages, "pages", "", "where man pages and completions lie")
	flag.StringVar(&r.wheels, "wheels", "", "where wheels and the source distribution lie")
	flag.StringVar(&r.out, "o", "", "the directory to fill, which is emptied first")
	flag.Parse()
	r.systems = strings.Fields(systems)
	if err := r.build(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is packed, and from what.
type release struct {
	version   string
	systems   []string // as linux-amd64
	root      string
	binaries  string
	libraries string
	pages     string
	wheels    string
	out       string

	commit string    // that the binaries were built from
	time   time.Time // of that commit
}

// build fills r.out.
func (r *release) build() error {
	if r.version == "" || r.out == "" || len(r.systems) == 0 {
		return fmt.Errorf("-version, -systems and -o are needed")
	}
	for _, system := range r.systems {
		if err := r.checkBinary(system); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	// Packing is compressing, which takes one processor.
	packs := []func() error{r.packCommand, r.packLibraries, r.packPackages, r.packImage, r.packBills, r.packWheels}
	failed := make([]error, len(packs))
	var all sync.WaitGroup
	for i, pack := range packs {
		all.Go(func() { failed[i] = pack() })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	return r.writeFormula()
}

// checkBinary takes commit and time from a binary, which must be of the same clean commit as
// those before it.
func (r *release) checkBinary(system string) error {
	info, err := buildinfo.ReadFile(r.binary(system))
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	switch {
	case commit == "":
		return fmt.Errorf("%s does not know its commit", r.binary(system))
	case settings["vcs.modified"] != "false":
		return fmt.Errorf("%s was built from a tree that is not clean", r.binary(system))
	case settings["GOOS"]+"-"+settings["GOARCH"] != system:
		return fmt.Errorf("%s is for %s-%s", r.binary(system), settings["GOOS"], settings["GOARCH"])
	case cmp.Or(r.commit, commit) != commit:
		return fmt.Errorf("%s is of commit %s, and another binary of %s", r.binary(system), commit, r.commit)
	}
	r.commit = commit
	r.time, err = time.Parse(time.RFC3339, settings["vcs.time"])
	return err
}

// binary returns the path of a system's binary.
func (r *release) binary(system string) string {
	return filepath.Join(r.binaries, system, command+suffix(system))
}

func suffix(system string) string {
	if strings.HasPrefix(system, "windows-") {
		return ".exe"
	}
	return ""
}

// on returns those of r.systems that have this GOOS, as their GOARCH.
func (r *release) on(goos string) (arches []string) {
	for _, system := range r.systems {
		if arch, ok := strings.CutPrefix(system, goos+"-"); ok {
			arches = append(arches, arch)
		}
	}
	return arches
}

// path returns where an artefact goes.
func (r *release) path(name string) string { return filepath.Join(r.out, name) }
