package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// TestNothingBeforeMain: what is used by some commands only is made when they use it.
// Of ours no package makes more at every start than a few maps and errors.
func TestNothingBeforeMain(t *testing.T) {
	t.Parallel()
	const few = 16 // allocations
	cmd := exec.Command("mopslock-host", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := regexp.MustCompile(`(?m)^init github\.com/mopslock/mopslock/((?:core|host|wasm)\S*) .* ([0-9]+) allocs$`).FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		t.Fatalf("nothing of ours is in %s", out)
	}
	for _, line := range lines {
		if n, err := strconv.Atoi(string(line[2])); err != nil || n > few {
			t.Errorf("%s allocates %s times before main", line[1], line[2])
		}
	}
}
