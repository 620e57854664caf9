//go:build linux

package defaults

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestMain: started with the word child, the test binary plays the process of a test.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "child" {
		os.Exit(m.Run())
	}
	Signals()
	grep := exec.Command("grep", "SigIgn", "/proc/self/status")
	grep.Stdout, grep.Stderr = os.Stdout, os.Stderr
	if grep.Run() != nil {
		os.Exit(1)
	}
}

// TestChildrenIgnoreNothing: the children of a test ignore no signal, even if the test was started to ignore some.
func TestChildrenIgnoreNothing(t *testing.T) {
	for _, ignored := range []string{"", "HUP", "INT QUIT", "HUP INT QUIT PIPE ALRM TERM USR1 USR2 CHLD CONT TSTP TTIN TTOU WINCH"} {
		out, err := exec.Command("sh", "-c", `test -z "$1" || trap "" $1; exec "$0" child`, os.Args[0], ignored).CombinedOutput()
		const real = 1<<31 - 1 // the C library keeps the first signal after these for itself, and it may be ignored
		var mask uint64
		if n, _ := fmt.Sscanf(string(out), "SigIgn:%x", &mask); err != nil || n != 1 || mask&real != 0 {
			t.Errorf("%q: %v, %q", ignored, err, out)
		}
	}
}
