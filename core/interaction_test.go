package core

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts plays the stories in testdata/scripts. The first comment of each
// is its theorem; below it stand commands (script_test.go) and what came of
// them: the machine's state, then its actions, one a line.
func TestScripts(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			play(t, path)
		})
	}
}

func scripts(t *testing.T) []string {
	paths, err := filepath.Glob("testdata/scripts/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	return paths
}

// play runs one script and answers the world that it made.
func play(t *testing.T, path string) *world {
	s := &script{world: newWorld(t)}
	s.keep = true
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		handler, ok := handlers[d.Cmd]
		if !ok {
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		s.data = d
		return handler(s, t)
	})
	return s.world
}

// TestScriptsHaveTheorems: a script opens with what it shows.
func TestScriptsHaveTheorems(t *testing.T) {
	for _, path := range scripts(t) {
		text, err := os.ReadFile(path)
		if err != nil || len(text) < 2 || text[0] != '#' {
			t.Errorf("%s: the first line must be a comment with the theorem", path)
		}
	}
}
