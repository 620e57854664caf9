package report

import (
	"testing"

	"github.com/mopslock/mopslock/host/doctor"
)

// A round without a winner is not told as one with one.
func TestCreateText(t *testing.T) {
	for want, c := range map[string]doctor.Create{
		"one winner in each of 5 rounds of 16 writers":                                      {},
		"never two winners in 5 rounds of 16 writers; in 2 nobody was told that he had won": {Lost: 2},
		"3 of 16 writers were told they won; more than one in 1 of 5 rounds":                {Lost: 2, Doubled: 1, MostWinners: 3},
	} {
		c.Rounds, c.Writers = 5, 16
		if got := createText(&c); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
