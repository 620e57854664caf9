package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// readsClock are the functions of package time that are not pure.
var readsClock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "LoadLocation", "Local",
}

// constants are package variables of the core that no code writes: tables and
// error values. A new one is added here by hand, and TestCoreStateIsConstant
// checks that it is never written.
var constants = []string{
	"LeaseEdges", "CompanionEdges", "SemaphoreEdges", "SessionEdges", "InvocationEdges", "TaskEdges", "claimEdges", "sessionEdges",
	"inputKeys", "actionKeys", "sightKeys", "configKeys", "answerKeys",
}

func coreSources(t *testing.T) []*source {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(sources(t)), func(s *source) bool {
		return s.test || !within(s.dir(), "core") || s.dir() == "core/internal/gen"
	})
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
		case s.test || within(s.dir(), "tests") || s.dir() == "core/internal/gen":
			continue
		case within(s.dir(), "core"):
			prefix = "mopslock: core: "
		case within(s.dir(), "cmd"):
			prefix = s.file.Name.Name + ": "
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "panic" {
				first := call.Args[0]
				for sum, ok := first.(*ast.BinaryExpr); ok; sum, ok = first.(*ast.BinaryExpr) {
					first = sum.X
				}
				if text, ok := first.(*ast.BasicLit); !ok || !strings.HasPrefix(text.Value, `"`+prefix) {
					t.Errorf("%s: a panic whose text does not begin with %q", s.at(call), prefix)
				}
			}
			return true
		})
	}
}

// TestCoreStateIsConstant: the core's package variables are tables that are
// never written, and every one of them is known.
func TestCoreStateIsConstant(t *testing.T) {
	found := map[string]bool{}
	for _, s := range coreSources(t) {
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR || strings.HasSuffix(s.path, "_wasip1.go") {
				continue // the guest's
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					found[name.Name] = name.Name != "_"
					if found[name.Name] && !s.generated && !slices.Contains(constants, name.Name) {
						t.Errorf("%s: package variable %s is not among the known constants", s.at(name), name.Name)
					}
				}
			}
		}
	}
	for _, name := range constants {
		if !found[name] {
			t.Errorf("%s is listed as a constant of the core and is none: remove it", name)
		}
	}
	for _, s := range coreSources(t) {
		ast.Inspect(s.file, func(node ast.Node) bool {
			for _, target := range targets(node) {
				if name := base(target); name != nil && found[name.Name] {
					t.Errorf("%s: package variable %s is written, or its address is taken", s.at(node), name.Name)
				}
			}
			return true
		})
	}
}

// targets are the expressions that a node may write through. A name that the node defines
// has a scope of its own.
func targets(node ast.Node) []ast.Expr {
	switch n := node.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	}
	return nil
}

// base is the identifier that an expression such as x.a[1].b begins with.
func base(e ast.Expr) *ast.Ident {
	switch x := e.(type) {
	case *ast.Ident:
		return x
	case *ast.SelectorExpr:
		return base(x.X)
	case *ast.IndexExpr:
		return base(x.X)
	case *ast.ParenExpr:
		return base(x.X)
	case *ast.StarExpr:
		return base(x.X)
	}
	return nil
}
