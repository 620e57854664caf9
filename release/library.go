package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const library = "libmopslock-core"

// packLibraries writes an archive of the C library for each system that has one: header,
// both libraries, and a pkg-config file that finds them wherever the archive is unpacked.
func (r *release) packLibraries() error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	for _, system := range r.systems {
		dir := filepath.Join(r.libraries, system)
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			continue
		}
		files := append([]file{{name: "lib/" + library + ".so", link: library + ".so.0", mode: 0o777}}, documents...)
		for _, f := range []struct {
			name, from string
			mode       int64
		}{
			{"include/mopslock.h", filepath.Join(r.root, "bindings/c/mopslock.h"), 0o644},
			{"lib/" + library + ".so.0", filepath.Join(dir, library+".so"), 0o755},
			{"lib/" + library + ".a", filepath.Join(dir, library+".a"), 0o644},
			{"lib/pkgconfig/mopslock-core.pc", filepath.Join(dir, "mopslock-core.pc"), 0o644},
		} {
			entry, err := read(f.name, f.from, f.mode)
			if err != nil {
				return err
			}
			files = append(files, entry)
		}
		name := fmt.Sprintf("%s-%s-%s", library, r.version, system)
		if err := writeTarGz(r.path(name+".tar.gz"), under(name, files), r.time); err != nil {
			return err
		}
	}
	return nil
}
