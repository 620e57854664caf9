package machines

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts plays the stories in testdata/scripts. The first comment of each
// is its theorem; below it stand commands (script_test.go) and what came of
// them: the machine's state, then its actions, one a line. Those in regressions/ tell
// of what once went wrong or could; they go in large steps, and no vectors are
// written of them. To write anew what came of them, and then read the difference:
//
//	go test ./core/machines -run TestScripts -rewrite
func TestScripts(t *testing.T) {
	for _, path := range stories(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if text, err := os.ReadFile(path); err != nil || len(text) < 2 || text[0] != '#' {
				t.Error("the first line must be a comment with the theorem")
			}
			play(t, path)
		})
	}
}

// scripts are those that vectors are written of.
func scripts(t *testing.T) []string {
	const regressions = "../testdata/scripts/regressions"
	return slices.DeleteFunc(glob(t, "../testdata/scripts/*"), func(path string) bool { return filepath.ToSlash(path) == regressions })
}

// stories are all of them.
func stories(t *testing.T) []string {
	return append(scripts(t), glob(t, "../testdata/scripts/regressions/*")...)
}

func glob(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
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
