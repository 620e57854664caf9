package house

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// readsClock are the functions of package time that are not pure.
var readsClock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "LoadLocation", "Local",
}

// constants are package variables of the core that nobody writes: tables and
// error values. A new one is added here by hand, and TestCoreStateIsConstant
// looks that it is never written.
var constants = []string{
	"leaseEdges", "companionEdges", "strictLeaseEdges", "strictCompanionEdges", "semaphoreEdges", "sessionEdges", "invocationEdges", "taskEdges",
	"inputKeys", "actionKeys", "sightKeys", "configKeys", "answerKeys",
}

func coreSources(t *testing.T) []*source {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(sources(t)), func(s *source) bool { return s.dir() != "core" || s.test })
}

// TestCoreIsPure: no clock, no goroutine, no channel, no waiting.
func TestCoreIsPure(t *testing.T) {
	for _, s := range coreSources(t) {
		ast.Inspect(s.file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: starts a goroutine", s.at(n))
			case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				t.Errorf("%s: uses a channel", s.at(n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(readsClock, n.Sel.Name) {
					t.Errorf("%s: time.%s", s.at(n), n.Sel.Name)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println" || f.Name == "recover") {
					t.Errorf("%s: %s", s.at(n), f.Name)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: an init function", s.at(n))
				}
			}
			return true
		})
	}
}

// TestPanicsSayWho: a panic is a programmer's error, and its text begins with
// the package that found it.
func TestPanicsSayWho(t *testing.T) {
	for _, s := range sources(t) {
		prefix := "mopslock: " + strings.ReplaceAll(strings.TrimPrefix(s.dir(), "host/"), "/", ": ") + ": "
		switch {
		case s.test || within(s.dir(), "tests") || within(s.dir(), "core/internal"):
			continue
		case within(s.dir(), "cmd"):
			prefix = s.file.Name.Name + ": "
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "panic" || len(call.Args) != 1 {
				return true
			}
			first := call.Args[0]
			for sum, ok := first.(*ast.BinaryExpr); ok && sum.Op == token.ADD; sum, ok = first.(*ast.BinaryExpr) {
				first = sum.X
			}
			if text, ok := first.(*ast.BasicLit); !ok || !strings.HasPrefix(text.Value, `"`+prefix) {
				t.Errorf("%s: a panic whose text does not begin with %q", s.at(call), prefix)
			}
			return true
		})
	}
}

// TestCoreStateIsConstant: the core's package variables are tables that are
// never written, and every one of them is known.
func TestCoreStateIsConstant(t *testing.T) {
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, s := range coreSources(t) {
		// The guest's, and that of builds with a mistake in them; their twins are here.
		if !strings.HasSuffix(s.path, "_wasip1.go") && !strings.HasSuffix(s.path, "bugs_on.go") {
			fset, files = s.fset, append(files, s.file)
		}
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := config.Check(module+"/core", fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range pkg.Scope().Names() {
		if v, ok := pkg.Scope().Lookup(name).(*types.Var); ok {
			found = append(found, name)
			generated := strings.HasSuffix(fset.Position(v.Pos()).Filename, "schema_gen.go") // tables of names
			if !generated && !slices.Contains(constants, name) {
				t.Errorf("%s: package variable %s is not among the known constants", fset.Position(v.Pos()), name)
			}
		}
	}
	for _, name := range constants {
		if !slices.Contains(found, name) {
			t.Errorf("%s is listed as a constant of the core and is none: remove it", name)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			for _, target := range targets(node) {
				if v, ok := info.Uses[base(target)].(*types.Var); ok && v.Parent() == pkg.Scope() {
					t.Errorf("%s: package variable %s is written, or its address is taken", fset.Position(node.Pos()), v.Name())
				}
			}
			return true
		})
	}
}

// targets are the expressions that a node may write through.
func targets(node ast.Node) []ast.Expr {
	switch n := node.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.RangeStmt:
		return []ast.Expr{n.Key, n.Value}
	}
	return nil
}

// base is the identifier that an expression such as x.a[1].b begins with.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// TestCoreStaysLight: these are over a megabyte each in a WASM guest, so the
// core has none of them by way of anything else either.
func TestCoreStaysLight(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./core")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		switch pkg {
		case "fmt", "reflect", "os", "net", "context", "log", "encoding/json", "encoding/binary", "math/rand":
			t.Errorf("core depends on %s", pkg)
		}
	}
}
