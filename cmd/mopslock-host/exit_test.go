//go:build unix

package main

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// A record that has no room for another holder is 78.
func TestCrowdedIsUnfit(t *testing.T) {
	out := exitOf(&host.Error{Kind: host.Refused, Name: "n", Reason: core.ReasonCrowded})
	if out.Status != statusUnfit || out.Reason != "crowded" {
		t.Error(out)
	}
}
