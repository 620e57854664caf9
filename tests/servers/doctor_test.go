package servers

import (
	"errors"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/card"
)

// TestDoctor examines each real server: strict can be relied on, nothing speaks
// against it, and nothing but the card is left.
func TestDoctor(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			s := Need(t, kind)
			opened, err := store.Open(t.Context(), s.Under(s.Address, "a/prefix"))
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			r, err := doctor.Examine(t.Context(), opened, &doctor.Options{Rounds: 30})
			if err != nil || !r.Strict() || r.Create.Rounds != 30 || r.Create.MostWinners != 1 {
				t.Fatalf("%v: %+v", err, r)
			}
			for _, found := range r.Findings {
				if found.Bad {
					t.Errorf("%+v", found)
				}
			}
			if r.Stamps.Samples == 0 || !r.Clock.Known || r.Stamps.Spread > doctor.Seconds(core.DefaultSpread) || r.Advice.TTLFloor < doctor.Seconds(core.MinTTLCoarse) {
				t.Errorf("%+v %+v %+v", r.Stamps, r.Clock, r.Advice)
			}
			page, _, err := opened.List(t.Context(), "", "", 0)
			if err != nil || len(page) != 1 || page[0].Key != card.Key {
				t.Errorf("%v, left %v", err, page)
			}
		})
	}
}

// TestDoctorOfMissingBucket: each server's word for it is understood.
func TestDoctorOfMissingBucket(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			s := Need(t, kind)
			opened, err := store.Open(t.Context(), strings.Replace(s.URL(s.Address), "://"+bucket, "://nowhere", 1))
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			_, err = doctor.Examine(t.Context(), opened, nil)
			if e, ok := errors.AsType[*store.Error](err); !ok || e.Class != core.ClassNoSuchStore {
				t.Error(err)
			}
		})
	}
}
