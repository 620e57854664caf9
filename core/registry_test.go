package core

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// answered decodes an answer, and must be able to.
func answered(t *testing.T, message []byte) Answer {
	t.Helper()
	var a Answer
	if err := DecodeAnswer(message, new(AnswerBuffer), &a); err != nil {
		t.Fatalf("%v: %x", err, message)
	}
	return a
}

func leaseConfig() []byte {
	return AppendConfig(nil, &Config{
		Machine: MachineLease, Protocol: ProtocolLastWriter, Name: "n", TTL: time.Minute, Seed: [16]byte{1},
	})
}

// TestRegistry: what it says is what the machine says, by message.
func TestRegistry(t *testing.T) {
	var r Registry
	h, message := r.New(nil, leaseConfig())
	if a := answered(t, message); h == 0 || a.State != "idle" || !a.Idle || a.Actions != nil || a.Err != nil {
		t.Fatalf("handle %d, %+v", h, a)
	}
	acquire := AppendInput(nil, Instant{1, 2}, &Event{Kind: EventAcquire})
	message = r.Step([]byte("before"), h, acquire)
	a := answered(t, bytes.TrimPrefix(message, []byte("before")))
	if a.State != "observing" || a.Idle || len(a.Actions) != 2 || a.Actions[0].Kind != ActionGet || a.Actions[1].Kind != ActionWake {
		t.Fatalf("%+v", a)
	}
	if again := r.Again([]byte("before"), h); !bytes.Equal(again, message) {
		t.Errorf("again %x, want %x", again, message)
	}
}

// TestRegistryErrors: each is an answer, and the machine goes on as if nothing
// had been said.
func TestRegistryErrors(t *testing.T) {
	var r Registry
	step := func(h Handle, now Instant, ev Event) Answer {
		return answered(t, r.Step(nil, h, AppendInput(nil, now, &ev)))
	}
	h, _ := r.New(nil, leaseConfig())
	step(h, Instant{10, 0}, Event{Kind: EventAcquire})
	for code, a := range map[ErrorCode]Answer{
		ErrorClock:   step(h, Instant{9, 0}, Event{Kind: EventWoke}),
		ErrorEvent:   step(h, Instant{11, 0}, Event{Kind: EventAccompany}),
		ErrorRequest: step(h, Instant{11, 0}, Event{Kind: EventAnswer, Request: 2, Outcome: OutcomeNo}),
		ErrorMessage: answered(t, r.Step(nil, h, []byte("\xc0"))),
		ErrorHandle:  step(h+1, Instant{11, 0}, Event{Kind: EventWoke}),
	} {
		if !errors.Is(a.Err, &Error{Code: code}) {
			t.Errorf("%s: %+v", code, a)
		}
	}
	if a := step(h, Instant{10, 0}, Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeNo}); a.State != "claiming" {
		t.Errorf("after the errors: %+v", a)
	}
	for _, config := range [][]byte{nil, AppendConfig(nil, &Config{Machine: MachineLease})} {
		if h, message := r.New(nil, config); h != 0 || answered(t, message).Err == nil {
			t.Errorf("config %x: handle %d, %x", config, h, message)
		}
	}
}

// TestRegistryDrop: what was dropped is gone, its handle is never given again,
// and the others stay.
func TestRegistryDrop(t *testing.T) {
	var r Registry
	a, _ := r.New(nil, leaseConfig())
	b, _ := r.New(nil, leaseConfig())
	if !r.Drop(b) || r.Drop(b) || r.Drop(0) {
		t.Error("drop")
	}
	if c, _ := r.New(nil, leaseConfig()); c == a || c == b {
		t.Errorf("handle %d is given twice", c)
	}
	if got := answered(t, r.Again(nil, b)); !errors.Is(got.Err, &Error{Code: ErrorHandle}) {
		t.Errorf("%+v", got)
	}
	if got := answered(t, r.Again(nil, a)); got.State != "idle" {
		t.Errorf("%+v", got)
	}
}

// TestErrorTextIsCut where a character begins.
func TestErrorTextIsCut(t *testing.T) {
	long := &Error{ErrorConfig, "x" + strings.Repeat("ü", MaxErrorText)}
	a := answered(t, AppendError(nil, long))
	if e := new(Error); !errors.As(a.Err, &e) || len(e.Text) != MaxErrorText-1 || !strings.HasPrefix(long.Text, e.Text) {
		t.Errorf("%+v", a)
	}
}

// TestRegistryStepAllocatesNothing, over the steps of renewals.
func TestRegistryStepAllocatesNothing(t *testing.T) {
	c := heldCycle(t, 1)
	r := Registry{kept: map[Handle]*kept{1: {machine: c.m}}}
	input, output := make([]byte, 0, MaxMessage), make([]byte, 0, MaxMessage)
	phases := []func(*cycle) Event{wokeEvent, getAnswered, putAnswered}
	var buf AnswerBuffer
	var a Answer
	n := testing.AllocsPerRun(300, func() {
		for _, phase := range phases {
			ev := phase(c)
			input = AppendInput(input[:0], c.now, &ev)
			output = r.Step(output[:0], 1, input)
			if err := DecodeAnswer(output, &buf, &a); err != nil || a.Err != nil {
				t.Fatal(err, a.Err)
			}
			c.take(a.Actions)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRegistryListAllocatesNothing: the answer to a list, too, crosses the
// border without an allocation. The machine has asked for none, and passes over it.
func TestRegistryListAllocatesNothing(t *testing.T) {
	c := heldCycle(t, 1)
	r := Registry{kept: map[Handle]*kept{1: {machine: c.m}}}
	entries := make([]Entry, 16)
	for i := range entries {
		entries[i] = Entry{Key: []byte(strings.Repeat("k", 69) + string(rune('!'+i))), Stamp: int64(i)}
	}
	input := AppendInput(nil, c.now, &Event{
		Kind: EventAnswer, Request: 1, Outcome: OutcomeYes, Entries: entries, More: true,
		Session: []byte("s"), SessionUntil: 1, StoreStamp: 1, StoreAt: 1,
	})
	output := make([]byte, 0, MaxMessage)
	n := testing.AllocsPerRun(100, func() { output = r.Step(output[:0], 1, input) })
	if a := answered(t, output); n != 0 || a.Err != nil || a.State != "held" {
		t.Errorf("%v allocations, %+v", n, a)
	}
	if len(r.room) != 0 || cap(r.room) < 16 {
		t.Errorf("room for %d entries, of which %d are in use", cap(r.room), len(r.room))
	}
}

// What is kept by messages rests as well, and says again what it said last.
func TestRegistryRests(t *testing.T) {
	cfg := Config{
		Machine: MachineLease, Protocol: ProtocolStrict, Name: "n", OnSession: true, Host: "h", PID: "1", Seed: [16]byte{1},
	}
	var r Registry
	h, _ := r.New(nil, AppendConfig(nil, &cfg))
	var answer []byte
	for i, ev := range []Event{
		{Kind: EventAcquire},
		{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes},
		{Kind: EventAnswer, Request: 2, Outcome: OutcomeYes},
	} {
		ev.Session, ev.SessionUntil = []byte("s"), int64(second)*60
		answer = r.Step(nil, h, AppendInput(nil, Instant{int64(1 + i), worldStart}, &ev))
	}
	if k := r.kept[h]; k.machine.(*sleeper).lease != nil || cap(k.actions) != len(k.actions) {
		t.Errorf("it does not rest: %+v", k)
	}
	if again := r.Again(nil, h); !bytes.Equal(again, answer) {
		t.Errorf("again: %x, not %x", again, answer)
	}
}
