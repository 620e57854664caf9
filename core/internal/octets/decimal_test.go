package octets

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDurationText: DurationText, which needs no package time, returns the same text.
func TestDurationText(t *testing.T) {
	for _, d := range []time.Duration{
		0, 1, -1, 999, 1000, 1100, -999_999, 1e6, 1.5e6, 999_999_999, time.Second, -time.Second, 90 * time.Second,
		time.Hour, 720*time.Hour + 1, 1<<63 - 1, -1 << 63,
	} {
		if got := DurationText(int64(d)); got != d.String() {
			t.Errorf("%s, want %s", got, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d") >> rapid.IntRange(0, 60).Draw(t, "shift"))
		if got := DurationText(int64(d)); got != d.String() {
			t.Fatalf("%s, want %s", got, d)
		}
	})
}
