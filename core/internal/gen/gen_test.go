package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := Generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := Stale(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stale {
		t.Errorf("%s is stale: run go generate ./core", path)
	}
}

func TestGenerateRefuses(t *testing.T) {
	const head = "package core\n\ntype Kind uint8\n\n"
	for _, test := range []struct{ why, source, want string }{
		{"no wire name", "const A Kind = 1\n", "not a wire name"},
		{"not a wire name", "const A Kind = 1 // Not one\n", "not a wire name"},
		{"a name twice", "const (\nA Kind = 1 // a\nB Kind = 2 // a\n)\n", "same name or number as A"},
		{"a number twice", "const (\nA Kind = 1 // a\nB Kind = 1 // b\n)\n", "same name or number as A"},
		{"a number too big", "const A Kind = 256 // a\n", "out of range"},
		{"iota", "const A Kind = iota // a\n", "must be a literal"},
		{"two on a line", "const A, B Kind = 1, 2 // a\n", "one constant a line"},
		{"no constants", "", "Kind has no constants"},
	} {
		t.Run(test.why, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "schema.go"), []byte(head+test.source), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Generate(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestCopiesRefuse(t *testing.T) {
	for _, test := range []struct{ why, source, want string }{
		{"left out without a reason", "type M struct { a int `state:\"scratch\"` }", "M.a: its tag does not say why"},
		{"a tag that is none", "type M struct { a int `state:\"left: out\"` }", "M.a: a tag that is none"},
		{"a tag for another type", "type M struct { a part `state:\"due\"` }; type part struct { b int }", "M.a: its tag is not for a " + corePath + ".part"},
		{"a function", "type M struct { a func() }", "M.a: a func() is not a state"},
		{"a channel within", "type M struct { a part }; type part struct { b [2]chan int }", "part.b: a chan int is not a state"},
		{"an interface", "type M struct { a any }", "M.a: a any is not a machine"},
		{"another's struct", "import \"time\"; type M struct { a time.Time }", "M.a: a invalid type is not a state"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "m.go"), []byte("package core; "+test.source+"; func (m *M) Step() {}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := writeCopies(dir); err == nil || err.Error() != test.want && !strings.HasPrefix(err.Error(), test.want+": ") {
			t.Errorf("%s: %v, not %s", test.why, err, test.want)
		}
	}
}

func TestStaleNamesWhatDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x_gen.go")
	files := map[string][]byte{path: []byte("new")}
	for _, old := range []string{"", "old", "new"} {
		if old != "" {
			if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stale, err := Stale(files)
		if err != nil || (len(stale) == 0) != (old == "new") {
			t.Errorf("after %q: %v, %v", old, stale, err)
		}
	}
}
