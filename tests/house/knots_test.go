package house

import (
	"go/ast"
	"go/build"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// knotGoals say how many files of one package may reach each other, for one package or for all
// of a directory.
var knotGoals = map[string]int{"core": 10, "core/client": 8, "host": 10, "cmd": 15}

// mostMethods is how many methods a type of the client may have, without those that are generated.
const mostMethods = 40

// knotsToday are the packages that have not reached their goal yet. A figure may only fall, and
// its line goes when the goal is reached.
var knotsToday = map[string]int{}

// TestKnots keeps walls in each package. Two files reach each other if each of them uses names
// that the other declares, directly or through other files. Such files can only be read as a
// whole. The test counts the files that Linux builds, without tests.
func TestKnots(t *testing.T) {
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	packages := map[string][]*source{}
	for _, s := range sources(t) {
		built, err := linux.MatchFile(filepath.Join(root, s.dir()), path.Base(s.path))
		if err != nil {
			t.Fatal(err)
		}
		if top, _, _ := strings.Cut(s.path, "/"); built && !s.test && knotGoals[top] > 0 {
			packages[s.dir()] = append(packages[s.dir()], s)
		}
	}
	for dir, files := range packages {
		top, _, _ := strings.Cut(dir, "/")
		goal := knotGoals[top]
		if own := knotGoals[dir]; own != 0 {
			goal = own
		}
		knot, most := largestKnot(files), max(goal, knotsToday[dir])
		t.Logf("%s: %d of %d files", dir, len(knot), len(files))
		if len(knot) > most {
			t.Errorf("%s: %d files reach each other, at most %d: %s", dir, len(knot), most, strings.Join(knot, ", "))
		}
	}
}

// TestMethods: a type with many methods is a package without walls.
func TestMethods(t *testing.T) {
	methods := map[string]map[string]bool{}
	for _, s := range coreSources(t) {
		if s.dir() != "core/client" || strings.HasSuffix(s.path, "_gen.go") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of := s.dir() + "." + strings.TrimLeft(types.ExprString(f.Recv.List[0].Type), "*")
			if methods[of] == nil {
				methods[of] = map[string]bool{}
			}
			methods[of][f.Name.Name] = true
		}
	}
	for of, names := range methods {
		if len(names) > mostMethods {
			t.Errorf("%s has %d methods, at most %d", of, len(names), mostMethods)
		}
	}
}

// largestKnot names the files of the largest knot of a package.
func largestKnot(files []*source) (largest []string) {
	reaches := usesOf(files)
	for via := range reaches {
		for from := range reaches {
			if reaches[from][via] {
				maps.Copy(reaches[from], reaches[via])
			}
		}
	}
	for one := range reaches {
		knot := []string{one}
		for other := range reaches[one] {
			if other != one && reaches[other][one] {
				knot = append(knot, other)
			}
		}
		if len(knot) > len(largest) {
			largest = slices.Sorted(slices.Values(knot))
		}
	}
	return largest
}

// usesOf lists for each file of a package the files whose names it uses.
func usesOf(files []*source) map[string]map[string]bool {
	uses, parsed := map[string]map[string]bool{}, []*ast.File{}
	for _, s := range files {
		uses[path.Base(s.path)], parsed = map[string]bool{}, append(parsed, s.file)
	}
	// Without an importer, names of other packages are unknown. Those errors do not matter here.
	check := types.Config{Error: func(error) {}, FakeImportC: true}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	fset := files[0].fset
	pkg, _ := check.Check(files[0].dir(), fset, parsed, info)
	for name, object := range info.Uses {
		if object.Pkg() == pkg && object.Pos().IsValid() {
			from, to := fset.Position(name.Pos()).Filename, fset.Position(object.Pos()).Filename
			uses[path.Base(from)][path.Base(to)] = true
		}
	}
	return uses
}
