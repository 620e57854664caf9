package clock

import (
	"testing"
	"time"
)

// The clock of this machine is sane: it moves, and both of its times do.
func TestSystem(t *testing.T) {
	a := System{}.Now()
	b := System{}.Now()
	if b.Mono < a.Mono || a.Mono <= 0 || time.Since(time.Unix(0, a.Wall)).Abs() > time.Minute {
		t.Fatal(a, b)
	}
}
