package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	corePath  = "github.com/mopslock/mopslock/core"
	stateFile = "state_gen.go"
)

// loader reads the types of the core's packages. Of all others it knows the name alone: no
// part of a machine has a type of theirs.
type loader struct {
	dir    string // of package core
	fset   *token.FileSet
	loaded map[string]*types.Package
	where  build.Context
	// written are the files of copies that there are.
	written []string
}

func newLoader(dir string) *loader {
	l := &loader{dir: dir, fset: token.NewFileSet(), loaded: map[string]*types.Package{}, where: build.Default}
	// There a Duration is a type of the core's own.
	l.where.GOOS, l.where.GOARCH, l.where.BuildTags = "wasip1", "wasm", nil
	return l
}

// Import implements types.Importer.
func (l *loader) Import(name string) (*types.Package, error) {
	if pkg := l.loaded[name]; pkg != nil {
		return pkg, nil
	}
	below, ours := strings.CutPrefix(name, corePath)
	if !ours {
		pkg := types.NewPackage(name, path.Base(name))
		pkg.MarkComplete()
		l.loaded[name] = pkg
		return pkg, nil
	}
	dir := filepath.Join(l.dir, below)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, entry := range entries {
		built, err := l.where.MatchFile(dir, entry.Name())
		if err != nil {
			return nil, err
		}
		if !built || strings.HasSuffix(entry.Name(), "_test.go") || entry.Name() == stateFile || !strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(l.fset, filepath.Join(dir, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	// The errors are those of methods that are still to be generated, and of other packages' names.
	check := types.Config{Importer: l, IgnoreFuncBodies: true, Error: func(error) {}}
	pkg, _ := check.Check(name, l.fset, files, nil)
	l.loaded[name] = pkg
	return pkg, nil
}

// machines are the structs that have a method Step, of core's packages in order.
func (l *loader) machines() (all []*types.Named, err error) {
	err = filepath.WalkDir(l.dir, func(dir string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			if entry != nil && entry.Name() == stateFile {
				l.written = append(l.written, dir)
			}
			return err
		}
		below, _ := filepath.Rel(l.dir, dir)
		if entry.Name() == "testdata" || entry.Name() == "gen" || below == "machines" {
			return filepath.SkipDir
		}
		pkg, err := l.Import(path.Join(corePath, filepath.ToSlash(below)))
		if err != nil || pkg == nil {
			return err
		}
		for _, name := range pkg.Scope().Names() {
			if named := structOf(pkg.Scope().Lookup(name).Type()); named != nil && l.byHand(named, "Step") && !l.byHand(named, "Clone") {
				all = append(all, named)
			}
		}
		return nil
	})
	return all, err
}

// partsOf are the structs that machines are made of, by package.
func (l *loader) partsOf(machines []*types.Named) (map[*types.Package][]*types.Named, error) {
	parts := map[*types.Package][]*types.Named{}
	var visit func(t types.Type) error
	visit = func(t types.Type) error {
		if named := structOf(t); named != nil {
			pkg := named.Obj().Pkg()
			hasAll := l.byHand(named, "CopyIn") || !l.isShared(named) && (l.byHand(named, "Detach") || !l.hasBuffers(named))
			if l.byHand(named, "WriteState") && hasAll || slices.Contains(parts[pkg], named) {
				return nil
			}
			if !strings.HasPrefix(pkg.Path(), corePath) {
				return fmt.Errorf("a %s has no state", named)
			}
			parts[pkg] = append(parts[pkg], named)
			return l.eachField(named, func(f field) error {
				if f.how == fixed || f.how == scratch {
					return nil
				}
				return visit(f.typ)
			})
		}
		switch u := underlying(t).(type) {
		case *types.Interface:
			for _, name := range l.partsIn(t) {
				if err := visit(name); err != nil {
					return err
				}
			}
		default:
			if element := elementOf(u); element != nil {
				return visit(element)
			}
		}
		return nil
	}
	for _, m := range machines {
		if err := visit(m); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// byHand reports whether a struct has a method that is not generated.
func (l *loader) byHand(named *types.Named, name string) bool {
	for m := range named.Methods() {
		if m.Name() == name {
			return true
		}
	}
	return false
}

// hasState reports whether a type has a WriteState, by hand or generated.
func (l *loader) hasState(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && (structOf(t) != nil || l.byHand(named.Origin(), "WriteState"))
}

// hasBuffers reports whether a value refers to what a copy must not share.
func (l *loader) hasBuffers(t types.Type) bool {
	switch u := underlying(t).(type) {
	case *types.Array:
		return l.hasBuffers(u.Elem())
	case *types.Slice, *types.Pointer, *types.Map, *types.Interface:
		return true
	case *types.Struct:
		found := false
		if named := structOf(t); named != nil {
			_ = l.eachField(named, func(f field) error {
				found = found || f.how != fixed && f.how != constant && l.hasBuffers(f.typ)
				return nil
			})
		}
		return found
	}
	return false
}

// structOf is the struct that a type is, with its name, or nil.
func structOf(t types.Type) *types.Named {
	named, ok := t.(*types.Named)
	if !ok {
		return nil
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return nil
	}
	return named.Origin()
}

// elementOf is what a type is made of, or nil.
func elementOf(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Array:
		return t.Elem()
	case *types.Slice:
		return t.Elem()
	case *types.Pointer:
		return t.Elem()
	case *types.Map:
		return t.Elem()
	}
	return nil
}

// underlying is the underlying type, and of a type parameter that of its constraint.
func underlying(t types.Type) types.Type {
	if p, ok := t.(*types.TypeParam); ok {
		constraint := p.Constraint().Underlying().(*types.Interface)
		for i := range constraint.NumEmbeddeds() {
			if union, ok := constraint.EmbeddedType(i).(*types.Union); ok {
				return union.Term(0).Type().Underlying()
			}
		}
	}
	return t.Underlying()
}

// has reports whether an interface has a method.
func has(t *types.Interface, name string) bool {
	for m := range t.Methods() {
		if m.Name() == name {
			return true
		}
	}
	return false
}

// partsIn are the shared structs of the package that declares an interface of parts: each of
// them may stand in it.
func (l *loader) partsIn(t types.Type) (all []types.Type) {
	named, ok := t.(*types.Named)
	if !ok || !has(named.Underlying().(*types.Interface), "CopyIn") || named.Obj().Pkg().Path() == corePath {
		return nil
	}
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		if part := structOf(scope.Lookup(name).Type()); part != nil && l.isShared(part) {
			all = append(all, part)
		}
	}
	return all
}

// isShared reports whether a struct embeds base.Shared, or a part that does.
func (l *loader) isShared(t types.Type) bool {
	named := structOf(t)
	if named == nil {
		return false
	}
	if named.Obj().Pkg().Path() == corePath+"/internal/base" && named.Obj().Name() == "Shared" {
		return true
	}
	s := named.Underlying().(*types.Struct)
	for f := range s.Fields() {
		if f.Embedded() && l.isShared(f.Type()) {
			return true
		}
	}
	return false
}

// leadsToPart reports whether a type is a pointer to a part, or an interface of parts.
func (l *loader) leadsToPart(t types.Type) bool {
	switch u := underlying(t).(type) {
	case *types.Pointer:
		return l.isShared(u.Elem())
	case *types.Interface:
		return has(u, "CopyIn")
	}
	return false
}

// isEmpty reports whether a type is a struct without anything in it.
func isEmpty(t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if !isEmpty(f.Type()) {
			return false
		}
	}
	return true
}

// isGraph reports whether the copy of a struct needs the copies of parts.
func (l *loader) isGraph(t types.Type) bool { return l.reaches(t, map[types.Type]bool{}) }

func (l *loader) reaches(t types.Type, met map[types.Type]bool) (found bool) {
	if l.isShared(t) {
		return true
	}
	if met[t] {
		return false
	}
	met[t] = true
	if named := structOf(t); named != nil {
		_ = l.eachField(named, func(f field) error {
			found = found || f.how != fixed && f.how != scratch && f.how != constant && l.reaches(f.typ, met)
			return nil
		})
		return found
	}
	u := underlying(t)
	if i, ok := u.(*types.Interface); ok {
		return has(i, "CopyIn")
	}
	element := elementOf(u)
	return element != nil && l.reaches(element, met)
}
