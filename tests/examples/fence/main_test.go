package main

import (
	"strings"
	"testing"
)

func TestStaleWriterIsRefused(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{
		"A has written slot 1: by A: 100 rows\n", "and finds: by A: 100 rows\n", "B has written slot 3: by A: 100 rows; by B: 200 more\n",
		"A is refused: ", "is stale", "(written just now: true)", "(written just now: false)",
	} {
		if !strings.Contains(out.String(), must) {
			t.Errorf("no %q in:\n%s", must, out.String())
		}
	}
}
