//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binary is the built mopslock-host; TestMain sets it once.
var binary string

// TestMain plays a part if it is told one, since the test binary is the program
// that the driver starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(execute(os.Stdout, os.Args[1:]))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-invoke-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mopslock-host")
	build := exec.Command("go", "build", "-o", binary, "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// TestKilledOrchestratorLosesNothing: fifty jobs, an orchestrator killed half-way
// and started again: fifty results, and every job has run exactly once.
func TestKilledOrchestratorLosesNothing(t *testing.T) {
	for _, protocol := range []string{"strict", "lastwriter"} {
		t.Run(protocol, func(t *testing.T) {
			var out strings.Builder
			r, err := play(&out, settings{binary: binary, protocol: protocol, ttl: 6 * time.Second, jobs: 50})
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			r.print(&out)
			t.Log("\n" + out.String())
			if err := r.judge(); err != nil {
				t.Error(err)
			}
			if want := [fates]int{wasDone: 25, wasRunning: 12, wasLaunched: 1, wasNotBegun: 12}; r.members != want {
				t.Errorf("at the kill there were %v, not %v: the show was another", r.members, want)
			}
		})
	}
}
