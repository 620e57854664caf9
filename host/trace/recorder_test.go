package trace

import (
	"bytes"
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

// A whole life replays the same, and is counted whole.
func TestStoryReplays(t *testing.T) {
	recording, steps := story(t)
	got := replayed1(t, recording)
	if want := (Report{Machines: 2, Steps: steps}); got != want || steps < 8 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Whatever machines are told, allowed or not, replays the same.
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
			case core.EventLimit: // which needs one, or no message can say it
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
			now := core.Instant{Mono: rapid.Int64Range(0, 1000).Draw(t, "mono"), Wall: rapid.Int64().Draw(t, "wall")}
			_, _ = machines[at].Step(now, ev)
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

// Goroutines that step their own machines make one recording between them.
func TestManyAtOnce(t *testing.T) {
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

// The file is what the package comment says, to any msgpack reader; the messages
// in it are the core's own bytes.
func TestFormat(t *testing.T) {
	cfg := config("n", 1)
	now, ev := core.Instant{Mono: 1, Wall: 2}, core.Event{Kind: core.EventAcquire}
	recording := recordingOf(t, func(e host.Engine) {
		m, err := e.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Step(now, ev); err != nil {
			t.Fatal(err)
		}
		e.Drop(m)
	})
	other, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
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
		"\x81\xa5event\xa6closed"
	if string(recording) != want {
		t.Errorf("%q\nwant %q", recording, want)
	}
	d := msgpack.NewDecoder(bytes.NewReader(recording))
	values := 0
	for ; ; values++ {
		if _, err := d.DecodeMap(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
	if values != 5 {
		t.Errorf("%d values", values)
	}
}

// A file that takes nothing delays nobody, and Close waits no longer than it is told to.
func TestStuckFile(t *testing.T) {
	file := stuck{make(chan struct{})}
	r := NewRecorder(host.Native{}, file)
	m, err := r.New(config("n", 1))
	if err != nil {
		t.Fatal(err)
	}
	live(t, m)
	if err := r.Close(over()); err == nil || !strings.Contains(err.Error(), "not written in time") {
		t.Errorf("%v", err)
	}
	if _, err := m.Step(core.Instant{Mono: 1 << 60}, core.Event{Kind: core.EventWoke}); err != nil {
		t.Errorf("a step after Close: %v", err)
	}
	r.Drop(m)
	close(file.free)
	if err := r.Close(t.Context()); err != nil {
		t.Errorf("once it is read: %v", err)
	}
}

// What waits to be written is bounded: beyond that the recording ends, and the machine goes on.
func TestOverflow(t *testing.T) {
	file := stuck{make(chan struct{})}
	r := NewRecorder(host.Native{}, file)
	m, err := r.New(config("n", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Step(core.Instant{Mono: 1}, core.Event{Kind: core.EventAcquire}); err != nil {
		t.Fatal(err)
	}
	unknown := core.Event{Kind: core.EventAnswer, Request: 99, Outcome: core.OutcomeYes, Body: make([]byte, core.MaxRecord)}
	for range 2 * maxQueued / core.MaxRecord {
		if _, err := m.Step(core.Instant{Mono: 1}, unknown); !errors.Is(err, &core.Error{Code: core.ErrorRequest}) {
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
}

// What was queued before the overflow is whole values: it replays, and ends early.
func TestOverflowLeavesWholeValues(t *testing.T) {
	file := stuck{make(chan struct{})}
	var out bytes.Buffer
	r := NewRecorder(host.Native{}, io.MultiWriter(file, &out))
	m, err := r.New(config("n", 1))
	if err != nil {
		t.Fatal(err)
	}
	big := core.Event{Kind: core.EventAnswer, Request: 9, Outcome: core.OutcomeYes, Body: make([]byte, core.MaxRecord)}
	for range 2 * maxQueued / core.MaxRecord {
		_, _ = m.Step(core.Instant{Mono: 1}, big)
	}
	close(file.free)
	_ = r.Close(t.Context())
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
	m, err := r.New(config("n", 1))
	if err != nil {
		t.Fatal(err)
	}
	<-r.done
	live(t, m)
	r.Drop(m)
	if err := r.Close(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

// An engine that fails is recorded as such; its own errors pass through.
func TestFailingEngine(t *testing.T) {
	trap := errors.New("trap")
	var out bytes.Buffer
	r := NewRecorder(&odd{at: 2, fail: trap}, &out)
	m, err := r.New(config("n", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Step(core.Instant{}, core.Event{Kind: core.EventWoke}); !errors.Is(err, trap) {
		t.Errorf("%v", err)
	}
	r.Drop(m)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := replayed1(t, out.Bytes()), (Report{Machines: 1, Steps: 1, Failed: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r = NewRecorder(&odd{fail: trap}, &out)
	if _, err := r.New(config("n", 1)); !errors.Is(err, trap) {
		t.Errorf("%v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A Config that no message can say makes no machine, and is not in the recording: what follows can be read, and
// replays the same.
func TestUnsayableConfig(t *testing.T) {
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
			m, err := e.New(config("n", 1))
			if err != nil {
				t.Fatal(err)
			}
			steps = live(t, m)
		})
		if got, want := replayed1(t, recording), (Report{Machines: 1, Steps: steps}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// An input that no message can say and that is refused has changed nothing, and is not in the recording either.
func TestUnsayableInputRefused(t *testing.T) {
	steps := 0
	recording := recordingOf(t, func(e host.Engine) {
		m, err := e.New(config("n", 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Step(core.Instant{}, core.Event{Kind: 77}); !errors.Is(err, &core.Error{Code: core.ErrorEvent}) {
			t.Fatal(err)
		}
		steps = live(t, m)
	})
	if got, want := replayed1(t, recording), (Report{Machines: 1, Steps: steps}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// One that the machine takes all the same ends the recording before it, and Close says why; the machine goes on.
func TestUnsayableInputTaken(t *testing.T) {
	for rule, ev := range map[string]core.Event{
		"(woke: a key is present that this kind must not have)":    {Kind: core.EventWoke, Body: []byte("x")},
		"(release: a key is present that this kind must not have)": {Kind: core.EventRelease, Wait: 1},
		"(answer: longer than 98304 bytes)": {
			Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: make([]byte, MaxValue),
		},
	} {
		var out bytes.Buffer
		r := NewRecorder(host.Native{}, &out)
		m, err := r.New(config("n", 1))
		if err != nil {
			t.Fatal(err)
		}
		for at, ev := range []core.Event{{Kind: core.EventAcquire}, ev, {Kind: core.EventWoke}} {
			if _, err := m.Step(core.Instant{Mono: 1 + int64(at)}, ev); err != nil {
				t.Fatal(rule, err)
			}
		}
		r.Drop(m)
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "machine 1 took what no message can say "+rule) {
			t.Errorf("%s: %v", rule, err)
		}
		if got, want := replayed1(t, out.Bytes()), (Report{Machines: 1, Steps: 1, EndsEarly: true}); got != want {
			t.Errorf("%s: %+v, want %+v", rule, got, want)
		}
	}
}

// lax is an engine that takes every Config and says more than a message holds.
type lax struct{ host.Native }

func (lax) New(core.Config) (core.Stepper, error) { return wordy{}, nil }

type wordy struct{ core.Stepper }

func (wordy) Step(core.Instant, core.Event) ([]core.Action, error) {
	return []core.Action{{Kind: core.ActionPut, Body: make([]byte, MaxValue)}}, nil
}

func (wordy) Idle() bool { return false }

func (wordy) String() string { return "held" }

// Nothing is written that nobody could read, whatever an engine does: the recording stops before it.
func TestNothingUnreadable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Report
	}{
		{"n", "an event of more than", Report{Machines: 1, EndsEarly: true}},
		{"\xff", "machine 1 took what no message can say (its Config: string is not UTF-8)", Report{EndsEarly: true}},
	} {
		var out bytes.Buffer
		r := NewRecorder(lax{}, &out)
		m, err := r.New(config(c.name, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: %v", c.name, err)
		}
		got, err := Replay(&out, lax{})
		if err != nil || got != c.want {
			t.Errorf("%q: %+v %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// strict is an engine whose machines say all that strict ones can.
type strict struct{ host.Native }

func (strict) New(core.Config) (core.Stepper, error) { return &strictMachine{}, nil }

type strictMachine struct{}

func (m *strictMachine) Step(_ core.Instant, ev core.Event) ([]core.Action, error) {
	if len(ev.Entries) == 0 {
		return nil, nil
	}
	entry := ev.Entries[len(ev.Entries)-1]
	return []core.Action{
		{Kind: core.ActionList, Request: 1, Key: "n/_mopslock/", After: string(entry.Key), Count: core.MaxEntries, Limit: 1},
		{Kind: core.ActionHeld, At: core.Never, Epoch: 9, Token: 8, Holder: "h", Session: string(ev.Session)},
		{Kind: core.ActionSeen, Sight: &core.Sighting{
			State: core.ObservedHeld, Epoch: 9, Token: 8, Companions: []byte("c"), Label: []byte("l"), Session: ev.Session, Why: []byte("w"),
			By: []byte("1@h"), Left: 1, StoreClock: true, Print: 1<<64 - 1, Since: entry.Stamp,
		}},
	}, nil
}

func (m *strictMachine) Idle() bool { return false }

func (m *strictMachine) String() string { return "in_force" }

// Every field of strict is in the recording, and replays the same.
func TestStrictIsCarried(t *testing.T) {
	cfg := config("n", 1)
	cfg.Protocol, cfg.TTL, cfg.OnSession, cfg.Owner, cfg.Label, cfg.SeenPrint = core.ProtocolStrict, core.None, true, "o", "l", 7
	list := core.Event{
		Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, More: true, Session: []byte("s"), SessionUntil: 5,
		SessionEnd: core.ReasonExpired, StoreStamp: wall, StoreAt: -1,
	}
	for i := range core.MaxEntries {
		list.Entries = append(list.Entries, core.Entry{Key: []byte{'k', byte(i % 128)}, Stamp: wall + int64(i)})
	}
	called := core.Event{Kind: core.EventCalled, Epoch: 7}
	var out bytes.Buffer
	r := NewRecorder(strict{}, &out)
	m, err := r.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wants := [][]byte{core.AppendConfig(nil, &cfg)}
	for _, ev := range []core.Event{list, called, list} {
		actions, err := m.Step(core.Instant{Mono: 1}, ev)
		if err != nil {
			t.Fatal(err)
		}
		wants = append(wants, core.AppendInput(nil, core.Instant{Mono: 1}, &ev), core.AppendAnswer(nil, &strictMachine{}, actions))
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !bytes.Contains(out.Bytes(), want) {
			t.Errorf("not in the recording: %x", want)
		}
	}
	if got, err := Replay(&out, strict{}); err != nil || got != (Report{Machines: 1, Steps: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A key that is not UTF-8, and more keys than fit, no message can say: the recording stops before them.
func TestUnsayableEntries(t *testing.T) {
	for rule, entries := range map[string][]core.Entry{
		"string is not UTF-8":               {{Key: []byte("\xff")}},
		"longer than 98304 bytes":           slices.Repeat([]core.Entry{{Key: bytes.Repeat([]byte("k"), 500)}}, core.MaxEntries),
		"more entries than a list can have": slices.Repeat([]core.Entry{{Key: []byte("k")}}, core.MaxEntries+1),
	} {
		var out bytes.Buffer
		r := NewRecorder(strict{}, &out)
		m, err := r.New(config("n", 1))
		if err != nil {
			t.Fatal(err)
		}
		ev := core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Entries: entries}
		if _, err := m.Step(core.Instant{}, ev); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "(answer: "+rule+")") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
