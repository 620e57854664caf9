package report

import (
	"encoding/json"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// A process id is a number in JSON, or null: what others wrote need not be one.
func TestPIDNumber(t *testing.T) {
	for text, want := range map[string]string{
		"4711": "4711", "0": "0", "9007199254740991": "9007199254740991",
		"9007199254740992": "null", "": "null", "007": "null", "-1": "null", "+1": "null", "1e3": "null", "\a": "null",
	} {
		if got, err := json.Marshal(pidNumber(text)); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// Of a semaphore ls --stale looks at each holder, of a lease at its state.
func TestHasExpired(t *testing.T) {
	for _, test := range []struct {
		s    host.Status
		want bool
	}{
		{host.Status{State: core.ObservedStale}, true},
		{host.Status{State: core.ObservedHeld}, false},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}, {Stale: true}}}, true},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}}}, false},
		{host.Status{State: core.ObservedVacant, Capacity: 1}, false},
	} {
		if got := HasExpired(&test.s); got != test.want {
			t.Errorf("%+v: %v", test.s, got)
		}
	}
}
