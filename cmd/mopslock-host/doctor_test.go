//go:build unix

package main

import (
	"errors"
	"testing"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host/doctor"
)

// What is denied is 69, whether to these credentials or to everybody; what the store
// cannot do is 78. What only disturbs is neither.
func TestVerdict(t *testing.T) {
	for kind, want := range map[string]exit.Error{
		"no_list_right": {Status: exit.StatusUnavailable, Reason: "unauthorized"},
		"read_only":     {Status: exit.StatusUnavailable, Reason: "read_only"},
		"two_winners":   {Status: exit.StatusUnfit, Reason: "unusable"},
	} {
		r := &doctor.Report{Protocol: "lastwriter", Findings: []doctor.Finding{{Kind: kind, Bad: true}}}
		got, ok := errors.AsType[*exit.Error](verdict(r))
		if !ok || got.Status != want.Status || got.Reason != want.Reason {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	good := &doctor.Report{Protocol: "strict", Findings: []doctor.Finding{{Kind: "read_only"}}}
	if err := verdict(good); err != nil {
		t.Error(err)
	}
}
