// Command gen writes what follows from core/schema.go, core/schema_states.go, the rooms'
// edges.go and the machines' structs, so that the names on the wire, the edges of the
// machines and what they are made of stand in one place only.
// It decides nothing: what is not in those files is not generated.
//
//	go run ./core/internal/gen          # from the module's root: write
//	go run ./core/internal/gen -check   # exit 1 if a generated file is stale
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

func main() {
	dir := flag.String("dir", "core", "the directory of package core")
	check := flag.Bool("check", false, "write nothing; fail if a generated file is stale")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	files, err := Generate(dir)
	if err != nil {
		return err
	}
	if check {
		stale, err := Stale(files)
		if err == nil && len(stale) > 0 {
			err = fmt.Errorf("stale, run go generate ./core: %v", stale)
		}
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Generate returns the content of every generated file by its path. dir is the
// directory of package core. It writes nothing.
func Generate(dir string) (map[string][]byte, error) {
	schema, err := readSchema(filepath.Join(dir, "schema.go"), filepath.Join(dir, "schema_states.go"))
	if err != nil {
		return nil, err
	}
	names, err := writeNames(schema)
	if err != nil {
		return nil, err
	}
	doc, err := writeEdges(dir, schema)
	if err != nil {
		return nil, err
	}
	files, err := writeCopies(dir)
	if err != nil {
		return nil, err
	}
	files[filepath.Join(dir, "schema_gen.go")] = names
	files[filepath.Join(dir, "doc_edges.go")] = doc
	return files, nil
}

// Stale returns the paths, sorted, whose file is absent or differs.
func Stale(files map[string][]byte) ([]string, error) {
	var stale []string
	for path, want := range files {
		got, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if !bytes.Equal(got, want) {
			stale = append(stale, path)
		}
	}
	sort.Strings(stale)
	return stale, nil
}
