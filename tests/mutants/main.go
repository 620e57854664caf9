// Mutants breaks lines of core and host one at a time, and lists those that no test notices.
//
// A line is broken by one small edit: an operator is swapped, a boolean turned round, a statement left out.
// The tests see it through an overlay of the go command; the tree itself is not touched. First the
// tests of the line's own package run, then those of the packages that use it. An edit that does
// not compile is passed over. With a broken line tests may wait or allocate without end: each of their
// processes has four minutes, and 4 GiB of addresses by the shell's ulimit. To exceed them counts as noticing.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	module  = "github.com/mopslock/mopslock/"
	workers = 2 // changes that are tried at once
)

// The stores of the clouds need servers, and are not broken here; nor is the suite for stores, which is a test.
var spared = []string{"host/store/s3", "host/store/gs", "host/store/azblob", "host/store/cloud", "host/store/storetest"}

// above lists the packages whose tests run if a line's own package has noticed nothing.
var above = map[string][]string{
	"core": {"./core/...", "./tests/explore", "./tests/simulate", "./host"},
	"host": {"./host", "./host/limiter", "./host/fence", "./host/trace", "./host/doctor", "./host/store/local", "./host/store/mem"},
}

// swapped says what stands for an operator or a boolean that is broken.
var swapped = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
	"true": "false", "false": "true",
}

// A change is one edit that breaks a line: the bytes from start to end become text.
type change struct {
	file       string
	line       int
	start, end int
	text       string
	was        string // the line as it stands
	order      uint64 // its place in the drawing
}

func main() {
	n := flag.Int("n", 200, "how many lines are broken, as many below each directory")
	in := flag.String("in", "core host", "below which directories")
	seed := flag.String("seed", "1", "which lines")
	flag.Parse()
	roots := strings.Fields(*in)
	for _, root := range roots {
		drawn, err := changes(*seed, root)
		if out, errRed := goTest(append(above[root], "./"+root+"/...")...); errRed != nil {
			err = errors.Join(err, fmt.Errorf("the tests are red with nothing broken: %w\n%s", errRed, out))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		caught, unseen := tryAll(root, drawn, *n/len(roots))
		fmt.Printf("%s: %d of %d caught\n", root, caught, caught+len(unseen))
		for _, c := range unseen {
			fmt.Println("NOT NOTICED", c)
		}
	}
}

// changes lists at most one change for each line below a directory, in an order that
// depends on the seed and on the text of the lines, not on their numbers: an edit elsewhere
// does not change the drawing.
func changes(seed, root string) (all []change, err error) {
	listed, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.ImportPath}}/{{.}} {{end}}`, "./"+root+"/...").Output()
	for path := range strings.FieldsSeq(string(listed)) {
		path = strings.TrimPrefix(path, module)
		if slices.Contains(spared, filepath.Dir(path)) {
			continue
		}
		of, errOf := changesOf(seed, path)
		all, err = append(all, of...), errors.Join(err, errOf)
	}
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.order, b.order))
	})
	all = slices.CompactFunc(all, func(a, b change) bool { return a.file == b.file && a.line == b.line })
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.order, b.order) })
	return all, err
}

func changesOf(seed, path string) (all []change, err error) {
	source, errRead := os.ReadFile(path)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err = errors.Join(errRead, err); err != nil || ast.IsGenerated(parsed) {
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
			if text, ok := swapped[n.Op.String()]; ok {
				replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), text)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				replace(n.OpPos, n.OpPos+1, "")
			}
		case *ast.Ident:
			if text, ok := swapped[n.Name]; ok {
				replace(n.Pos(), n.End(), text)
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

// scatter makes the hashes of similar texts differ; it is the finalizer of MurmurHash3.
func scatter(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// tryAll tries the changes in their order until n of them have compiled.
func tryAll(root string, drawn []change, n int) (caught int, unseen []change) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for n > 0 && len(drawn) > 0 {
				c := drawn[0]
				drawn, n = drawn[1:], n-1
				mu.Unlock()
				verdict := c.try(above[root])
				mu.Lock()
				switch verdict {
				case "caught", "hung":
					caught++
				case "unseen":
					unseen = append(unseen, c)
				default:
					n++
				}
				fmt.Fprintln(os.Stderr, verdict, c)
			}
		})
	}
	group.Wait()
	return caught, unseen
}

// try says whether a change was "caught", "hung" until it was stopped, stayed "unseen", or why it is no program.
func (c change) try(above []string) string {
	source, errRead := os.ReadFile(c.file)
	whole, errWhole := filepath.Abs(c.file)
	dir, err := os.MkdirTemp("", "mutants")
	if err = errors.Join(errRead, errWhole, err); err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	err = errors.Join(
		os.WriteFile(broken, slices.Concat(source[:c.start], []byte(c.text), source[c.end:]), 0o600),
		os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, whole, broken), 0o600))
	if err != nil {
		return err.Error()
	}
	for _, packages := range [][]string{{"./" + filepath.Dir(c.file)}, above} {
		out, err := goTest(append([]string{"-overlay", overlay}, packages...)...)
		switch {
		case err != nil && strings.Contains(string(out), "[build failed]"):
			return "no program"
		case err != nil && strings.Contains(string(out), "panic: test timed out"):
			return "hung"
		case err != nil:
			return "caught"
		}
	}
	return "unseen"
}

func goTest(args ...string) ([]byte, error) {
	const limited = `-exec=sh -c 'ulimit -v 4194304 && exec "$0" "$@"'`
	test := []string{"test", "-failfast", "-count=1", "-vet=off", "-timeout=4m", limited}
	return exec.Command("go", append(test, args...)...).CombinedOutput()
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d: %s  =>  %q", c.file, c.line, strings.TrimSpace(c.was), c.text)
}
