package trace

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// A lease's whole life replays the same, and each step is counted. If an engine answers
// something else, Replay finds the byte. If one answer is the start of the other, that is
// the byte at which the shorter ends.
func TestDifference(t *testing.T) {
	recording, steps := story(t)
	if got, want := replayed1(t, recording), (Report{Machines: 2, Steps: steps}); got != want || steps < 8 {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, c := range []struct {
		a, b string
		at   int
	}{{"", "", -1}, {"a", "a", -1}, {"a", "ab", 1}, {"ab", "a", 1}, {"", "a", 0}, {"xb", "yb", 0}} {
		if got := firstDifference([]byte(c.a), []byte(c.b)); got != c.at {
			t.Errorf("%q %q: %d", c.a, c.b, got)
		}
	}
	if byteAt([]byte("a"), 1) != -1 || byteAt([]byte("a"), 0) != 'a' {
		t.Error("byteAt")
	}
	for at := 1; at <= 5; at++ {
		got, err := Replay(bytes.NewReader(recording), &odd{at: at})
		d := got.Difference
		if err != nil || d == nil {
			t.Fatalf("step %d: %+v %v", at, got, err)
		}
		if d.Machine != 1 || d.Name != "a/lock" || d.Step != at || got.Steps != at {
			t.Errorf("step %d: %+v", at, d)
		}
		if !bytes.Equal(d.RecordedAnswer[:d.Offset], d.ReplayedAnswer[:d.Offset]) ||
			d.Recorded != int(d.RecordedAnswer[d.Offset]) || d.Replayed != int(d.ReplayedAnswer[d.Offset]) || d.Recorded == d.Replayed {
			t.Errorf("step %d: %+v", at, d)
		}
		var now core.Instant
		var ev core.Event
		if err := core.DecodeInput(d.Message, &now, &ev); err != nil {
			t.Errorf("step %d: the input: %v", at, err)
		}
	}
}

// If the engine now takes a Config that was refused, Replay reports a difference at step 0.
func TestDifferentMaking(t *testing.T) {
	recording, _ := story(t)
	changed := bytes.Replace(recording, []byte("\xa4name\xa2//"), []byte("\xa4name\xa2ab"), 1)
	got, err := Replay(bytes.NewReader(changed), host.Native{})
	if d := got.Difference; err != nil || d == nil || d.Machine != 2 || d.Step != 0 || d.Name != "ab" {
		t.Errorf("%+v %v", got.Difference, err)
	}
}

// Replay notices a change of any byte of any answer. No changed byte anywhere crashes it.
func TestEveryByteCounts(t *testing.T) {
	recording, _ := story(t)
	answers := map[int]bool{}
	r := newReader(bytes.NewReader(recording))
	if err := r.header(); err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.event()
		if err != nil {
			break
		}
		begin := int(r.next) - len(e.answer) // an answer ends its event
		for i := range e.answer {
			answers[begin+i] = true
		}
	}
	if len(answers) < 500 {
		t.Fatalf("%d bytes of answers", len(answers))
	}
	for i := range recording {
		changed := bytes.Clone(recording)
		changed[i] ^= 1
		got, err := Replay(bytes.NewReader(changed), host.Native{})
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if answers[i] && err == nil && got.Difference == nil && !got.EndsEarly {
			t.Errorf("byte %d of an answer changed, and Replay did not notice", i)
		}
	}
}

// A recording that is cut off anywhere replays as far as it goes, and the report says so.
func TestEndsEarly(t *testing.T) {
	recording, _ := story(t)
	header := len("\x81\xaemopslock_trace\x01")
	for n := range recording {
		got, err := Replay(bytes.NewReader(recording[:n]), host.Native{})
		var format *FormatError
		switch {
		case n < header:
			if !errors.As(err, &format) {
				t.Errorf("%d bytes: %v", n, err)
			}
		case err != nil || !got.EndsEarly || got.Difference != nil:
			t.Errorf("%d bytes: %+v %v", n, got, err)
		}
	}
}

// A failure of the engine is not a difference; the error says where it failed.
func TestReplayEngineFails(t *testing.T) {
	recording, _ := story(t)
	trap := errors.New("trap")
	for at, place := range map[int]string{0: "machine 1, step 0", 3: "machine 1, step 3"} {
		_, err := Replay(bytes.NewReader(recording), &odd{at: at, fail: trap})
		var engine *host.EngineError
		if !errors.As(err, &engine) || !errors.Is(err, trap) || !strings.Contains(err.Error(), place) {
			t.Errorf("%v", err)
		}
	}
}

// Replay drops each machine once, also those that a recording leaves alive.
func TestReplayDropsAll(t *testing.T) {
	recording := recordingOf(t, func(e host.Engine) {
		for i := range byte(3) {
			if m := newMachine(t, e, config("n", i)); i == 0 {
				e.Drop(m)
			}
		}
	})
	engine := &counting{}
	if _, err := Replay(bytes.NewReader(recording), engine); err != nil || engine.dropped != 3 {
		t.Errorf("%d dropped, %v", engine.dropped, err)
	}
}

type counting struct {
	host.Native
	dropped int
}

func (c *counting) Drop(core.Stepper) { c.dropped++ }

// A file that is no recording gives an error with the place, and not a difference.
func TestNoRecording(t *testing.T) {
	recording, _ := story(t)
	const header = "\x81\xaemopslock_trace\x01"
	const made = "\x84\xa5event\xa4made\xa7machine\x01\xa6config\x80\xa6answer\x80"
	whole := string(recording)
	refusedOne := strings.TrimSuffix(string(recordingOf(t, func(e host.Engine) { _, _ = e.New(core.Config{}) })), closing)
	input := string(core.AppendInput(nil, core.Instant{}, &core.Event{Kind: core.EventWoke}))
	failed := "\x83\xa5event\xa6failed\xa7machine\x01\xa5input" + input
	goodOne := strings.TrimSuffix(string(recordingOf(t, func(e host.Engine) { _, _ = e.New(config("n", 1)) })), closing)
	for text, recording := range map[string]string{
		"it is empty":                         "",
		"does not begin with a whole header":  header[:5],
		"does not begin with the header of":   "\x81\xa1x\x01",
		"the header of one (at byte 0)":       `{"json":1}`,
		"by a newer mopslock, as version 2":   "\x81\xaemopslock_trace\x02",
		"not msgpack (at byte 17)":            header + "\xc1",
		"nested more than 8 deep":             header + strings.Repeat("\x91", 9),
		"a value of more than":                header + "\xc6\xff\xff\xff\xff",
		"not a map":                           header + "\x91\x01",
		"a key is not a string":               header + "\x81\x01\x01",
		"a value that is no event":            header + "\x81\xa1x\x01",
		`there is no event "x"`:               header + "\x81\xa5event\xa1x",
		`key "event" stands twice`:            header + "\x82\xa5event\xa6closed\xa5event\xa6closed",
		`event dropped without its key "mac`:  header + "\x81\xa5event\xa7dropped",
		"machine is not a number":             header + "\x82\xa5event\xa7dropped\xa7machine\x00",
		"event dropped with a key that it ca": header + "\x83\xa5event\xa7dropped\xa7machine\x01\xa6answer\x80",
		"machine 1 was never made":            header + "\x82\xa5event\xa7dropped\xa7machine\x01",
		// Keys may come in any order, and integers in any width.
		"machine 2 was never made":            "\x81\xaemopslock_trace\xcd\x00\x01" + "\x82\xa7machine\xd3\x00\x00\x00\x00\x00\x00\x00\x02\xa5event\xa7dropped",
		"machine 1 comes after machine 1":     refusedOne + made,
		"was refused or lost, and is stepped": goodOne + failed + failed,
		"it goes on after its end":            whole + "\x81\xa5event\xa6closed",
	} {
		_, err := Replay(strings.NewReader(recording), host.Native{})
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSwallowedEnd: if a damaged length makes a value reach over the rest, Replay
// reports the damage, and not a recording that ends early.
func TestSwallowedEnd(t *testing.T) {
	recording := recordingOf(t, func(e host.Engine) { _, _ = e.New(core.Config{}) })
	if !bytes.HasSuffix(recording, []byte(closing)) {
		t.Fatalf("the end is %q", recording)
	}
	at := bytes.Index(recording, []byte("\x84\xa5event\xa4made"))
	spoilt := bytes.Clone(recording)
	spoilt[at] = 0x8f // a map of 15
	_, err := Replay(bytes.NewReader(spoilt), host.Native{})
	if format := new(FormatError); !errors.As(err, &format) || format.Offset != int64(at) {
		t.Errorf("%v", err)
	}
	if cut := replayed1(t, recording[:len(recording)-1]); !cut.EndsEarly {
		t.Errorf("%+v", cut)
	}
}
