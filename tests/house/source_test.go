package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/mopslock/mopslock"
	root   = "../.." // of the repository, from this package's directory
)

// source is one parsed Go file. Parsing by hand, instead of asking the go
// command, sees the files of every operating system.
type source struct {
	path      string // from the root, with slashes
	fset      *token.FileSet
	file      *ast.File
	lines     int
	test      bool
	generated bool
}

func (s *source) dir() string { return path.Dir(s.path) }

// at is where a node stands.
func (s *source) at(node ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(node.Pos()).Line)
}

// imports returns the import paths, with the node of each.
func (s *source) imports() map[string]*ast.ImportSpec {
	paths := make(map[string]*ast.ImportSpec, len(s.file.Imports))
	for _, spec := range s.file.Imports {
		if text, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths[text] = spec
		}
	}
	return paths
}

// sources parses every Go file of the repository, once.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files found; is the root right?", len(all))
	}
	return all
}

var parseAll = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		all = append(all, &source{
			path: filepath.ToSlash(name), fset: fset, file: parsed, lines: bytes.Count(text, []byte("\n")),
			test: strings.HasSuffix(file, "_test.go"), generated: ast.IsGenerated(parsed),
		})
		return nil
	})
	return all, err
})

// skipped are directories without sources of ours.
func skipped(name string) bool {
	return name == "bin" || name == "testdata" || strings.HasPrefix(name, ".") && len(name) > 2
}

// within reports whether a directory is top or below it.
func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// tracked lists the files that git knows or would add, from the root with
// slashes. Outside a checkout it skips the test.
func tracked(t *testing.T) (files []string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("no git, or no checkout: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil { // not just deleted
			files = append(files, name)
		}
	}
	return slices.Compact(files)
}

// read is the content of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
