package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// painted is a drawing, and how many bars of each class it has.
func painted(t *testing.T, write func(io.Writer) error) (text string, bars map[string]int) {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	text, bars = out.String(), map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return text, bars
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "rect" {
			for _, a := range element.Attr {
				if a.Name.Local == "class" {
					bars[a.Value]++
				}
			}
		}
	}
}

// TestDrawing: a bar for each hold, and red where two tenures were relied on at
// once, which is only where the checker has counted one.
func TestDrawing(t *testing.T) {
	red := 0
	for seed := range uint64(30) {
		for _, opts := range []Options{
			{Protocol: core.ProtocolStrict, Seed: seed, Holds: true},
			{Protocol: core.ProtocolLastWriter, Weather: Stormy, Seed: seed, Holds: true},
			{Protocol: core.ProtocolLastWriter, Weather: Stormy, Actors: 20, Seed: seed, Holds: true},
		} {
			r := Run(opts)
			_, bars := painted(t, r.WriteSVG)
			if bars["held"] != len(r.Timeline) || len(r.Timeline) < r.Holds/2 {
				t.Errorf("seed %d: %d bars, %d holds, %d times held", seed, bars["held"], len(r.Timeline), r.Holds)
			}
			if (bars["two"] > 0) != (r.Overlaps > 0) {
				t.Errorf("seed %d of %s: %d red bars, %d overlaps", seed, r.Protocol, bars["two"], r.Overlaps)
			}
			red += bars["two"]
		}
	}
	if red == 0 {
		t.Error("no overlap in any storm")
	}
}

// TestDrawingOfViolation: a violation is named, drawn and in red, also at the very
// end of the run.
func TestDrawingOfViolation(t *testing.T) {
	s := Swarm(1, 3000, workers, Options{Protocol: core.ProtocolStrict, TTL: 10 * time.Second, Faults: &Faults{
		Latency: Uniform, Mean: 50 * time.Millisecond, LostRequests: 250, LateWrites: 1000, LateBy: 30 * time.Second,
		CrashEvery: time.Minute, RestartAfter: 5 * time.Second, Stale: 30 * time.Second,
	}})
	if s.Failed == nil {
		t.Fatal("nothing was violated")
	}
	text, bars := painted(t, s.WriteSVG)
	if bars["two"] < 2 || !strings.Contains(text, check.NoOverlap) || !strings.Contains(text, `class="wrong"`) {
		t.Errorf("%v\n%s", bars, text)
	}
}

// TestDrawingOfNothing: seeds without a violation are a line of text.
func TestDrawingOfNothing(t *testing.T) {
	s := Swarm(1, 3, workers, Options{})
	if text, bars := painted(t, s.WriteSVG); len(bars) > 0 || !strings.Contains(text, "no invariant was violated") {
		t.Error(text)
	}
	r := Result{Protocol: `<"&>`}
	if text, _ := painted(t, r.WriteSVG); !strings.Contains(text, "&lt;") {
		t.Error(text)
	}
}
