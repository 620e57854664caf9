package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A change is one edit that breaks a line: the bytes from start to end become text.
type change struct {
	file       string
	line       int
	start, end int
	text       string
	was        string // the line as it stands
	order      uint64 // its place in the drawing
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d: %s  =>  %q", c.file, c.line, strings.TrimSpace(c.was), c.text)
}

// apply returns the source with the change in it.
func (c change) apply(source []byte) []byte {
	return slices.Concat(source[:c.start], []byte(c.text), source[c.end:])
}

// swapped says what stands for an operator that is broken.
var swapped = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+",
}

// changes lists at most one change for each line below the directories, in an order that
// depends on the seed and on the text of the lines, not on their numbers: what is edited
// elsewhere leaves the drawing as it is.
func changes(seed string, directories []string) ([]change, error) {
	var all []change
	for _, root := range directories {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || clouds[path]):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			if here, err := build.Default.MatchFile(filepath.Split(path)); err != nil || !here {
				return err
			}
			of, err := changesOf(seed, path)
			all = append(all, of...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.order, b.order) })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c change) bool {
		line := fmt.Sprint(c.file, ":", c.line)
		again := seen[line]
		seen[line] = true
		return again
	}), nil
}

func changesOf(seed, path string) (all []change, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	lines := strings.Split(string(source), "\n")
	nth := map[string]int{} // equal lines of a file are told apart by their number among themselves
	replace := func(start, end token.Pos, text string) {
		at := files.Position(start)
		c := change{file: path, line: at.Line, start: at.Offset, end: files.Position(end).Offset, text: text, was: lines[at.Line-1]}
		key := c.was + text
		nth[key]++
		hash := fnv.New64a()
		fmt.Fprint(hash, seed, path, key, nth[key])
		c.order = scatter(hash.Sum64())
		all = append(all, c)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.BinaryExpr:
			if text, ok := swapped[n.Op]; ok {
				replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), text)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				replace(n.OpPos, n.OpPos+1, "")
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				replace(n.Pos(), n.End(), map[string]string{"true": "false", "false": "true"}[n.Name])
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
			replace(n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				replace(n.Pos(), n.End(), "")
			}
		}
		return true
	})
	return all, nil
}

// scatter makes hashes of like texts unlike; it is the finalizer of MurmurHash3.
func scatter(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
