package clock

import (
	"testing"
	"time"
)

// Mono does not go back, and Wall is near the time of package time.
func TestSystem(t *testing.T) {
	a := System{}.Now()
	b := System{}.Now()
	if b.Mono < a.Mono || a.Mono <= 0 || time.Since(time.Unix(0, a.Wall)).Abs() > time.Minute {
		t.Fatal(a, b)
	}
}
