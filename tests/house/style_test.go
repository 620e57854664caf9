package house

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The aim is about 500 lines a file and 70 a function; the rule leaves a little room.
const (
	maxFileLines     = 520
	maxFunctionLines = 80
)

func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		if s.lines > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", s.path, s.lines, maxFileLines)
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; lines > maxFunctionLines {
				t.Errorf("%s: %s: %d lines, at most %d", s.at(f), f.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

// registry is the one package variable outside the core that changes: schemes, which
// are written by drivers' init functions only. Everything else at package level is an
// error value, a table, or a mark for the compiler.
const registry = "host/store/open.go registry"

// TestNoMutableState: no package variable is set by other code. Tables and error
// values may be variables because Go has no other way.
func TestNoMutableState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !within(s.dir(), "host") && !within(s.dir(), "cmd") {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for _, name := range value.Names {
					if name.Name != "_" && s.path+" "+name.Name != registry && len(value.Values) == 0 {
						t.Errorf("%s: package variable %s has no value of its own, so other code sets it", s.at(name), name.Name)
					}
					if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
						t.Errorf("%s: exported package variable %s", s.at(name), name.Name)
					}
				}
			}
		}
	}
}

// TestPackagesSayWhatTheyAre: every package has a comment.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		documented[s.dir()] = documented[s.dir()] || s.file.Doc.Text() != ""
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// topLevel is all that lies at the root.
var topLevel = []string{
	"go.mod", "go.sum", "core", "host", "wasm", "bindings", "cmd", "release", "tests",
	"Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE",
}

func TestTopLevel(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range tracked(t) {
		top, _, _ := strings.Cut(name, "/")
		seen[top] = true
	}
	for _, must := range topLevel {
		if !seen[must] {
			t.Errorf("%s is missing at the root", must)
		}
		delete(seen, must)
	}
	for top := range seen {
		if !strings.HasPrefix(top, ".") {
			t.Errorf("%s does not belong at the root", top)
		}
	}
}

// TestNothingLeftBehind: no open ends, and no path of somebody's machine.
func TestNothingLeftBehind(t *testing.T) {
	unfinished := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	machine := regexp.MustCompile(`(^|[\s"'(=:]|file://)/(work` + `|root` + `|Users` + `|home/[a-z0-9_]+)/`)
	for _, name := range tracked(t) {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 || path.Base(name) == "go.sum" {
			continue
		}
		number := 0
		for line := range strings.Lines(read(t, name)) {
			number++
			if found := unfinished.FindString(line); found != "" {
				t.Errorf("%s:%d: %s", name, number, found)
			}
			if found := machine.FindString(line); found != "" {
				t.Errorf("%s:%d: a path of one machine: %s", name, number, strings.TrimSpace(found))
			}
		}
	}
}
