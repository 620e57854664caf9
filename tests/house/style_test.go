package house

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The aim is about 500 lines a file and 70 a function; the rule leaves a little
// room, and the longer ones stand in longer with their reason.
const (
	maxFileLines     = 520
	maxFunctionLines = 80
)

// Each is "path" or "path function" and why; there is none.
var longer = map[string]string{}

func TestLengths(t *testing.T) {
	excused := map[string]bool{}
	check := func(what, where string, lines, limit int) {
		if lines <= limit {
			return
		}
		if _, ok := longer[what]; ok {
			excused[what] = true
			return
		}
		t.Errorf("%s: %d lines, at most %d", where, lines, limit)
	}
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		check(s.path, s.path, s.lines, maxFileLines)
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
				check(s.path+" "+f.Name.Name, s.at(f)+": "+f.Name.Name, lines, maxFunctionLines)
			}
		}
	}
	for what := range longer {
		if !excused[what] {
			t.Errorf("%s is excused from its length and need not be: remove it", what)
		}
	}
}

// variables are the package variables outside the core that hold what changes,
// or could: everything else at package level is an error value, a table, or a
// mark for the compiler.
var variables = map[string]string{
	"host/store/open.go registry": "schemes, written by drivers' init functions only",
}

// TestNoMutableState: nothing that lives as long as the process is set from
// afar. Tables and error values may be variables because Go has no other way.
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
					if _, known := variables[s.path+" "+name.Name]; name.Name != "_" && !known && len(value.Values) == 0 {
						t.Errorf("%s: package variable %s has no value of its own, so somebody sets it", s.at(name), name.Name)
					}
					if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
						t.Errorf("%s: exported package variable %s", s.at(name), name.Name)
					}
				}
			}
		}
	}
}

// TestPackagesSayWhatTheyAre: every package has a comment, and a generated file
// says by what.
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

// TestNoSleep: only stress and the examples wait by the clock. Elsewhere a test
// that sleeps is slow or flaky or both, unless its time is simulated
// (testing/synctest) or the sleep paces a bounded loop that polls real processes.
func TestNoSleep(t *testing.T) {
	allowed := map[string]string{
		"cmd/mopslock-host/internal/child/helper_test.go": "a process that waits to be killed",
		"host/fake_test.go": "inside testing/synctest",
	}
	for _, s := range sources(t) {
		_, simulated := s.imports()["testing/synctest"]
		_, known := allowed[s.path]
		if simulated || known || within(s.dir(), "tests/stress") || within(s.dir(), "tests/examples") {
			continue
		}
		var around []ast.Node
		ast.Inspect(s.file, func(node ast.Node) bool {
			if node == nil {
				around = around[:len(around)-1]
				return true
			}
			if isSleep(node) && !slices.ContainsFunc(around, isBoundedLoop) {
				t.Errorf("%s: time.Sleep outside a bounded loop", s.at(node))
			}
			around = append(around, node)
			return true
		})
	}
}

func isSleep(node ast.Node) bool {
	n, ok := node.(*ast.SelectorExpr)
	if !ok || n.Sel.Name != "Sleep" {
		return false
	}
	x, ok := n.X.(*ast.Ident)
	return ok && x.Name == "time"
}

func isBoundedLoop(node ast.Node) bool {
	if loop, ok := node.(*ast.ForStmt); ok {
		return loop.Cond != nil
	}
	_, ok := node.(*ast.RangeStmt)
	return ok
}

// topLevel is all that may lie at the root.
var topLevel = []string{
	"go.mod", "go.sum", "core", "host", "wasm", "bindings", "cmd", "tests",
	"Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SCALE.md", "LICENSE",
}

func TestTopLevel(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range tracked(t) {
		top, _, _ := strings.Cut(name, "/")
		if !seen[top] && !strings.HasPrefix(top, ".") && !slices.Contains(topLevel, top) {
			t.Errorf("%s does not belong at the root", top)
		}
		seen[top] = true
	}
	for _, must := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "go.mod", ".ci", ".gitignore"} {
		if !seen[must] {
			t.Errorf("%s is missing at the root", must)
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
