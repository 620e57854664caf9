package doctor

import (
	"testing"
	"time"
)

// All stamps are multiples of the unit, and not by chance: stamps given within a
// millisecond do not tell whether the unit is a second.
func TestUnitOf(t *testing.T) {
	for _, test := range []struct {
		stamps []int64
		within time.Duration
		want   time.Duration
	}{
		{nil, time.Hour, 0},
		{[]int64{3e9, 4e9, 5e9}, 2 * time.Second, time.Second},
		{[]int64{3e9, 3e9, 3e9}, time.Millisecond, time.Millisecond},
		{[]int64{3e9, 3e9, 3_500_000_000}, time.Second, 100 * time.Millisecond},
		{[]int64{3e9, 3_000_001_000}, time.Second, time.Microsecond},
		{[]int64{3e9, 3_000_000_001}, time.Second, time.Nanosecond},
	} {
		if got := unitOf(test.stamps, test.within); got != test.want {
			t.Errorf("%v within %v: %v, want %v", test.stamps, test.within, got, test.want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 50 * time.Millisecond: "50ms", 8800 * time.Millisecond: "8.8s", time.Minute: "60s", 10 * time.Minute: "600s",
		90 * time.Second: "90s", 1500*time.Millisecond + 1: "1.500000001s", 2 * time.Hour: "2h0m0s",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What is stale adds up, whatever shows it.
func TestStale(t *testing.T) {
	one := Checked{Stale: 1}
	if n := (&Fresh{one, one, one, one}).stale(); n != 4 {
		t.Error(n)
	}
}
