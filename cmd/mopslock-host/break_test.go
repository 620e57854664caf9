//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// The report names whom the command broke, also where another has taken the name before it looks again.
func TestBreakReportNamesWhomItBroke(t *testing.T) {
	whom := &host.Status{Name: "n", Protocol: core.ProtocolStrict, State: core.ObservedHeld, Holder: "first", Epoch: 4, Token: 4}
	after := &host.Status{Name: "n", Protocol: core.ProtocolStrict, State: core.ObservedHeld, Holder: "second", Epoch: 6, Token: 6}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{stdout: &out, json: asJSON}
		if err := a.reportBreak(whom, after, &breakFlags{why: "it hangs", now: true}); err != nil {
			t.Fatal(err)
		}
		want := "n was held by first; broken, and taken again by second\n"
		if asJSON {
			want = `"state":"broken","epoch":0,"token":4,"holder":"first"`
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q, not %q", &out, want)
		}
	}
}
