package bench

import (
	"testing"
	"time"
)

// The rate is that of the time in which there were leases, however long ago the latest one was.
func TestRate(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	r := &Result{Leases: 1210, latest: begun.Add(3 * time.Second)}
	if got := r.rate(begun); got != 403.3 {
		t.Errorf("%v a second", got)
	}
}
