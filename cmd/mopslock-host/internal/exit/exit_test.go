package exit

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// A record that has no room for another holder is 78.
func TestCrowded(t *testing.T) {
	out := Of(&host.Error{Kind: host.NotAcquired, Name: "n", Reason: core.ReasonCrowded})
	if out.Status != StatusUnfit || out.Reason != "crowded" {
		t.Error(out)
	}
}
