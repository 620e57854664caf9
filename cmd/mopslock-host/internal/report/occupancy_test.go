package report

import (
	"testing"

	"github.com/mopslock/mopslock/host"
)

// Who is shown on a row: as much as there is, three of them by name, whole where that fits.
func TestOccupancyText(t *testing.T) {
	one := host.PermitHolder{ID: "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "build-07", PID: "7", Weight: 1}
	two := host.PermitHolder{ID: "99dc2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "evil\x1b[2J", PID: "8", Weight: 2}
	many := []host.PermitHolder{one, two, one, one}
	for _, test := range []struct {
		full  Occupancy
		s     host.Status
		width int
		want  string
	}{
		{Occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 200, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 (pid 7)"},
		{Occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 80, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a… on build-07"},
		{Occupancy{host.View{Capacity: 50, Width: 2}, 1, 4}, host.Status{Held: 140, Limit: 60, Holders: many}, 190, `waiting for a permit of n: 140/60 permits (50 x 2, limit 60 in the store, 4 spared) held by 3f0c2b1a… on build-07, 99dc2b1a… on "evil\x1b[2J" with 2, 3f0c2b1a… on build-07 and others`},
		{Occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 40, "waiting for a permit of n: 1/6 permits "},
		{Occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 6}, 80, "waiting for a permit of n: 6/6 permits (3 x 2) held by others"},
	} {
		if got := test.full.Line("n", &test.s, test.width); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}
