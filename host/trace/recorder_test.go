package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// Any sequence of events, allowed or not, replays the same.
func TestAnythingReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		r := NewRecorder(host.Native{}, &out)
		var machines []core.Stepper
		made, steps := 0, 0
		for range rapid.IntRange(0, 30).Draw(t, "moves") {
			if len(machines) == 0 || rapid.IntRange(0, 9).Draw(t, "new") == 0 {
				cfg := config(rapid.SampledFrom([]string{"a", "b/lock", ""}).Draw(t, "name"), rapid.Byte().Draw(t, "seed"))
				cfg.Machine = core.MachineKind(rapid.IntRange(0, int(core.MachineBuckets)).Draw(t, "machine"))
				cfg.Protocol = core.Protocol(rapid.IntRange(1, 2).Draw(t, "protocol"))
				made++
				if m, err := r.New(cfg); err == nil {
					machines = append(machines, m)
				}
				continue
			}
			at := rapid.IntRange(0, len(machines)-1).Draw(t, "which")
			if rapid.IntRange(0, 19).Draw(t, "drop") == 0 {
				r.Drop(machines[at])
				machines = append(machines[:at], machines[at+1:]...)
				continue
			}
			now := core.Instant{Mono: rapid.Int64Range(0, 1000).Draw(t, "mono"), Wall: rapid.Int64().Draw(t, "wall")}
			_, _ = machines[at].Step(now, anyEvent(t))
			steps++
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := Replay(&out, host.Native{})
		if want := (Report{Machines: made, Steps: steps}); err != nil || got != want {
			t.Fatalf("%+v %v, want %+v", got, err, want)
		}
	})
}

func anyEvent(t *rapid.T) core.Event {
	ev := core.Event{Kind: core.EventKind(rapid.IntRange(1, int(core.EventLimit)).Draw(t, "kind"))}
	if rapid.IntRange(0, 3).Draw(t, "known") == 0 {
		ev.Session, ev.SessionUntil, ev.StoreStamp, ev.StoreAt = []byte("s"), 900, wall, 1
	}
	switch ev.Kind {
	case core.EventAcquire:
		ev.Permit = rapid.Uint64Range(0, 3).Draw(t, "permit")
		ev.Capacity, ev.Width = rapid.Uint32Range(0, 2).Draw(t, "capacity"), rapid.Uint32Range(0, 2).Draw(t, "width")
	case core.EventRelease, core.EventCancel:
		ev.Permit = rapid.Uint64Range(0, 3).Draw(t, "permit")
	case core.EventLimit: // it needs a permit, or no message can express it
		ev.Permit = rapid.Uint64Range(1, 3).Draw(t, "permit")
	case core.EventEnded:
		ev.Outcome = core.Outcome(rapid.IntRange(1, 2).Draw(t, "outcome"))
	case core.EventCalled:
		ev.Epoch = core.Epoch(rapid.IntRange(1, 9).Draw(t, "epoch"))
	case core.EventAnswer:
		ev.Request = core.RequestID(rapid.IntRange(1, 4).Draw(t, "request"))
		ev.Outcome = core.Outcome(rapid.IntRange(1, 3).Draw(t, "outcome"))
		ev.Body = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body")
		for i := range rapid.IntRange(0, 3).Draw(t, "entries") {
			ev.Entries = append(ev.Entries, core.Entry{Key: []byte{'a' + byte(i)}, Stamp: wall})
		}
	}
	return ev
}

// Goroutines that step machines of their own make one recording together.
func TestHammerRecorder(t *testing.T) {
	const machines = 16
	recording := recordingOf(t, func(e host.Engine) {
		var all sync.WaitGroup
		for i := range machines {
			all.Go(func() {
				m, err := e.New(config("n", byte(i)))
				if err != nil {
					t.Error(err)
					return
				}
				live(t, m)
				e.Drop(m)
			})
		}
		all.Wait()
	})
	if got := replayed1(t, recording); got.Machines != machines || got.Difference != nil || got.EndsEarly {
		t.Errorf("%+v", got)
	}
}

// The file has the form that the package comment gives, for any msgpack reader. The
// messages in it are the core's own bytes.
func TestFormat(t *testing.T) {
	cfg := config("n", 1)
	now, ev := core.Instant{Mono: 1, Wall: 2}, core.Event{Kind: core.EventAcquire}
	recording := recordingOf(t, func(e host.Engine) {
		m := newMachine(t, e, cfg)
		if _, err := m.Step(now, ev); err != nil {
			t.Fatal(err)
		}
		e.Drop(m)
	})
	other := newMachine(t, host.Native{}, cfg)
	made := core.AppendAnswer(nil, other, nil)
	actions, err := other.Step(now, ev)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x81\xaemopslock_trace\x01" +
		"\x84\xa5event\xa4made\xa7machine\x01\xa6config" + string(core.AppendConfig(nil, &cfg)) + "\xa6answer" + string(made) +
		"\x84\xa5event\xa7stepped\xa7machine\x01\xa5input" + string(core.AppendInput(nil, now, &ev)) +
		"\xa6answer" + string(core.AppendAnswer(nil, other, actions)) +
		"\x82\xa5event\xa7dropped\xa7machine\x01" +
		closing
	if string(recording) != want {
		t.Errorf("%q\nwant %q", recording, want)
	}
	values := 0
	for d := msgpack.NewDecoder(bytes.NewReader(recording)); d.Skip() == nil; {
		values++
	}
	if values != 5 {
		t.Errorf("%d values", values)
	}
}

// A file that takes nothing delays no machine, and Close waits no longer than its ctx.
func TestStuckFile(t *testing.T) {
	file := stuck{make(chan struct{})}
	r := NewRecorder(host.Native{}, file)
	m := newMachine(t, r, config("n", 1))
	live(t, m)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(over); err == nil || !strings.Contains(err.Error(), "not written in time") {
		t.Errorf("%v", err)
	}
	if _, err := m.Step(core.Instant{Mono: 1 << 60}, core.Event{Kind: core.EventWoke}); err != nil {
		t.Errorf("a step after Close: %v", err)
	}
	r.Drop(m)
	close(file.free)
	if err := r.Close(t.Context()); err != nil {
		t.Errorf("once the file takes bytes: %v", err)
	}
}

// The queue to the file is bounded. Beyond the bound the recording ends, in whole
// values that replay, and the machine goes on.
func TestOverflow(t *testing.T) {
	file := stuck{make(chan struct{})}
	var out bytes.Buffer
	r := NewRecorder(host.Native{}, io.MultiWriter(file, &out))
	m := newMachine(t, r, config("n", 1))
	big := core.Event{Kind: core.EventAnswer, Request: 99, Outcome: core.OutcomeYes, Body: make([]byte, core.MaxRecord)}
	for range 2 * maxQueued / core.MaxRecord {
		if _, err := m.Step(core.Instant{Mono: 1}, big); !errors.Is(err, &core.Error{Code: core.ErrorRequest}) {
			t.Fatal(err)
		}
	}
	r.mu.Lock()
	held := len(r.queue.b)
	r.mu.Unlock()
	if held > maxQueued {
		t.Errorf("%d bytes are held", held)
	}
	close(file.free)
	if err := r.Close(t.Context()); !errors.Is(err, errOverflow) {
		t.Errorf("%v", err)
	}
	got := replayed1(t, out.Bytes())
	if !got.EndsEarly || got.Difference != nil || got.Steps < maxQueued/core.MaxRecord/2 {
		t.Errorf("%+v", got)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A file that fails ends the recording and nothing else.
func TestFailingFile(t *testing.T) {
	full := errors.New("no space left")
	r := NewRecorder(host.Native{}, failing{full})
	m := newMachine(t, r, config("n", 1))
	<-r.done
	live(t, m)
	r.Drop(m)
	if err := r.Close(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

// A failure of the engine is recorded as such, and its own errors reach the caller.
func TestFailingEngine(t *testing.T) {
	trap := errors.New("trap")
	var out bytes.Buffer
	r := NewRecorder(&odd{at: 2, fail: trap}, &out)
	m := newMachine(t, r, config("n", 1))
	_, first := m.Step(core.Instant{}, core.Event{Kind: core.EventAcquire})
	_, second := m.Step(core.Instant{}, core.Event{Kind: core.EventWoke})
	if first != nil || !errors.Is(second, trap) {
		t.Errorf("%v, %v", first, second)
	}
	r.Drop(m)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := replayed1(t, out.Bytes()), (Report{Machines: 1, Steps: 1, Failed: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r = NewRecorder(&odd{fail: trap}, io.Discard)
	_, err := r.New(config("n", 1))
	if closing := r.Close(t.Context()); !errors.Is(err, trap) || closing != nil {
		t.Errorf("%v, %v", err, closing)
	}
}

// A Config or an input that no message can express, and that the engine refuses, changes
// nothing, and is not in the recording. What follows can be read, and replays the same.
func TestUnsayableRefused(t *testing.T) {
	for name, change := range map[string]func(*core.Config){
		"not UTF-8":        func(c *core.Config) { c.Name = "\xff" },
		"an enum unnamed":  func(c *core.Config) { c.Machine = 77 },
		"another":          func(c *core.Config) { c.Expiry = 77 },
		"a message's more": func(c *core.Config) { c.Name = strings.Repeat("n", core.MaxMessage) },
		"a value's more":   func(c *core.Config) { c.Name = strings.Repeat("n", MaxValue) },
	} {
		steps := 0
		recording := recordingOf(t, func(e host.Engine) {
			bad := config("n", 1)
			change(&bad)
			if _, err := e.New(bad); !errors.Is(err, &core.Error{Code: core.ErrorConfig}) {
				t.Errorf("%s: %v", name, err)
			}
			m := newMachine(t, e, config("n", 1))
			if _, err := m.Step(core.Instant{}, core.Event{Kind: 77}); !errors.Is(err, &core.Error{Code: core.ErrorEvent}) {
				t.Fatal(err)
			}
			steps = live(t, m)
		})
		if got, want := replayed1(t, recording), (Report{Machines: 1, Steps: steps}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// If a machine takes such an input, the recording ends before it, and Close says why.
// The machine goes on.
func TestUnsayableTaken(t *testing.T) {
	answer := core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes}
	with := func(change func(*core.Event)) core.Event {
		ev := answer
		change(&ev)
		return ev
	}
	many := slices.Repeat([]core.Entry{{Key: []byte("k")}}, core.MaxEntries+1)
	long := slices.Repeat([]core.Entry{{Key: bytes.Repeat([]byte("k"), 500)}}, core.MaxEntries)
	for rule, ev := range map[string]core.Event{
		"woke: a key is present that this kind must not have":    {Kind: core.EventWoke, Body: []byte("x")},
		"release: a key is present that this kind must not have": {Kind: core.EventRelease, Wait: 1},
		"answer: longer than 98304 bytes":                        with(func(ev *core.Event) { ev.Body = make([]byte, MaxValue) }),
		"answer: longer than 98304":                              with(func(ev *core.Event) { ev.Entries = long }),
		"answer: string is not UTF-8":                            with(func(ev *core.Event) { ev.Entries = []core.Entry{{Key: []byte("\xff")}} }),
		"answer: more entries than a list can have":              with(func(ev *core.Event) { ev.Entries = many }),
	} {
		var out bytes.Buffer
		r := NewRecorder(lax{}, &out)
		m := newMachine(t, r, config("n", 1))
		for at, ev := range []core.Event{{Kind: core.EventAcquire}, ev, {Kind: core.EventWoke}} {
			if _, err := m.Step(core.Instant{Mono: 1 + int64(at)}, ev); err != nil {
				t.Fatal(rule, err)
			}
		}
		r.Drop(m)
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "machine 1 took what no message can say ("+rule) {
			t.Errorf("%s: %v", rule, err)
		}
		if got, err := Replay(&out, lax{}); err != nil || got != (Report{Machines: 1, Steps: 1, EndsEarly: true}) {
			t.Errorf("%s: %+v, %v", rule, got, err)
		}
	}
}

// A Recorder writes nothing that cannot be read, whatever an engine takes and answers.
// The recording stops before it.
func TestNothingUnreadable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Report
	}{
		{"n", "an event of more than", Report{Machines: 1, EndsEarly: true}},
		{"\xff", "machine 1 took what no message can say (its Config: string is not UTF-8)", Report{EndsEarly: true}},
	} {
		var out bytes.Buffer
		r := NewRecorder(lax{wordy: true}, &out)
		if _, err := newMachine(t, r, config(c.name, 1)).Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: %v", c.name, err)
		}
		got, err := Replay(&out, lax{wordy: true})
		if err != nil || got != c.want {
			t.Errorf("%q: %+v %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// lax is an engine that takes everything, and answers nothing, or more than a message holds.
type lax struct {
	host.Native
	wordy bool
}

func (e lax) New(core.Config) (core.Stepper, error) { return laxMachine{wordy: e.wordy}, nil }

type laxMachine struct {
	core.Stepper
	wordy bool
}

func (m laxMachine) Step(core.Instant, core.Event) ([]core.Action, error) {
	if m.wordy {
		return []core.Action{{Kind: core.ActionPut, Body: make([]byte, MaxValue)}}, nil
	}
	return nil, nil
}

func (laxMachine) Idle() bool { return false }

func (laxMachine) String() string { return "held" }
