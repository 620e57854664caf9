package main

import (
	"fmt"
	"path/filepath"
)

// archive returns the name of the command's archive for a system, without its ending.
func (r *release) archive(system string) string {
	return fmt.Sprintf("%s-%s-%s", command, r.version, system)
}

// packCommand writes an archive of the command for each system: a zip for Windows, a tar.gz
// for others. All lies in one directory, which bears the archive's name.
func (r *release) packCommand() error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	pages, err := r.pagesOf("man", "completions")
	if err != nil {
		return err
	}
	for _, system := range r.systems {
		binary, err := read(command+suffix(system), r.binary(system), 0o755)
		if err != nil {
			return err
		}
		name, ending, write := r.archive(system), ".tar.gz", writeTarGz
		if suffix(system) != "" {
			ending, write = ".zip", writeZip
		}
		files := append(append([]file{binary}, documents...), pages...)
		if err := write(r.path(name+ending), under(name, files), r.time); err != nil {
			return err
		}
	}
	return nil
}

// documents returns what each archive says of itself.
func (r *release) documents() (files []file, _ error) {
	for _, name := range []string{"LICENSE", "README.md"} {
		f, err := read(name, filepath.Join(r.root, name), 0o644)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// pagesOf returns the files of directories of r.pages, below the same names.
func (r *release) pagesOf(dirs ...string) (all []file, _ error) {
	for _, dir := range dirs {
		files, err := readDir(filepath.Join(r.pages, dir), 0o644)
		if err != nil {
			return nil, err
		}
		all = append(all, under(dir, files)...)
	}
	return all, nil
}
