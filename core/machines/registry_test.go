package machines

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// answered decodes an answer, and must be able to.
func answered(t *testing.T, message []byte) core.Answer {
	t.Helper()
	var a core.Answer
	if err := core.DecodeAnswer(message, new(core.AnswerBuffer), &a); err != nil {
		t.Fatalf("%v: %x", err, message)
	}
	return a
}

func leaseConfig() []byte {
	return core.AppendConfig(nil, &core.Config{
		Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n", TTL: core.TTL(time.Minute)},
		Seed: [16]byte{1},
	})
}

// TestRegistry: what it says is what the machine says, by message.
func TestRegistry(t *testing.T) {
	var r Registry
	h, message := r.New(nil, leaseConfig())
	if a := answered(t, message); h == 0 || a.State != "idle" || !a.Idle || a.Actions != nil || a.Err != nil {
		t.Fatalf("handle %d, %+v", h, a)
	}
	acquire := core.AppendInput(nil, core.Instant{Mono: 1, Wall: 2}, &core.Event{Kind: core.EventAcquire})
	message = r.Step([]byte("before"), h, acquire)
	a := answered(t, bytes.TrimPrefix(message, []byte("before")))
	if a.State != "observing" || a.Idle || len(a.Actions) != 2 || a.Actions[0].Kind != core.ActionGet || a.Actions[1].Kind != core.ActionWake {
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
	step := func(h Handle, now core.Instant, ev core.Event) core.Answer {
		return answered(t, r.Step(nil, h, core.AppendInput(nil, now, &ev)))
	}
	h, _ := r.New(nil, leaseConfig())
	step(h, core.Instant{Mono: 10, Wall: 0}, core.Event{Kind: core.EventAcquire})
	for code, a := range map[core.ErrorCode]core.Answer{
		core.ErrorClock:   step(h, core.Instant{Mono: 9, Wall: 0}, core.Event{Kind: core.EventWoke}),
		core.ErrorEvent:   step(h, core.Instant{Mono: 11, Wall: 0}, core.Event{Kind: core.EventAccompany}),
		core.ErrorRequest: step(h, core.Instant{Mono: 11, Wall: 0}, core.Event{Kind: core.EventAnswer, Request: 2, Outcome: core.OutcomeNo}),
		core.ErrorMessage: answered(t, r.Step(nil, h, []byte("\xc0"))),
		core.ErrorHandle:  step(h+1, core.Instant{Mono: 11, Wall: 0}, core.Event{Kind: core.EventWoke}),
	} {
		if !errors.Is(a.Err, &core.Error{Code: code}) {
			t.Errorf("%s: %+v", code, a)
		}
	}
	if a := step(h, core.Instant{Mono: 10, Wall: 0}, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo}); a.State != "claiming" {
		t.Errorf("after the errors: %+v", a)
	}
	for _, config := range [][]byte{nil, core.AppendConfig(nil, &core.Config{Machine: core.MachineLease})} {
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
	if got := answered(t, r.Again(nil, b)); !errors.Is(got.Err, &core.Error{Code: core.ErrorHandle}) {
		t.Errorf("%+v", got)
	}
	if got := answered(t, r.Again(nil, a)); got.State != "idle" {
		t.Errorf("%+v", got)
	}
}

// TestErrorTextIsCut where a character begins.
func TestErrorTextIsCut(t *testing.T) {
	long := &core.Error{Code: core.ErrorConfig, Text: "x" + strings.Repeat("ü", core.MaxErrorText)}
	a := answered(t, core.AppendError(nil, long))
	if e := new(core.Error); !errors.As(a.Err, &e) || len(e.Text) != core.MaxErrorText-1 || !strings.HasPrefix(long.Text, e.Text) {
		t.Errorf("%+v", a)
	}
}

// spoken is a machine that is told and answers by messages.
type spoken struct {
	core.Machine
	registry      Registry
	input, output []byte
	buf           core.AnswerBuffer
	answer        core.Answer
}

func (s *spoken) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	s.input = core.AppendInput(s.input[:0], now, &ev)
	s.output = s.registry.Step(s.output[:0], 1, s.input)
	err := core.DecodeAnswer(s.output, &s.buf, &s.answer)
	return s.answer.Actions, errors.Join(err, s.answer.Err)
}

// TestRegistryStepAllocatesNothing, over the steps of renewals.
func TestRegistryStepAllocatesNothing(t *testing.T) {
	c := heldCycle(t, 1)
	c.m = &spoken{registry: Registry{kept: map[Handle]*kept{1: {machine: c.m}}}}
	if n := testing.AllocsPerRun(300, c.renew); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRegistryListAllocatesNothing: the answer to a list, too, crosses the
// border without an allocation. The machine has asked for none, and passes over it.
func TestRegistryListAllocatesNothing(t *testing.T) {
	c := heldCycle(t, 1)
	r := Registry{kept: map[Handle]*kept{1: {machine: c.m}}}
	entries := make([]core.Entry, 16)
	for i := range entries {
		entries[i] = core.Entry{Key: []byte(strings.Repeat("k", 69) + string(rune('!'+i))), Stamp: int64(i)}
	}
	input := core.AppendInput(nil, c.now, &core.Event{
		Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Entries: entries, More: true,
		Session: []byte("s"), SessionUntil: 1, StoreStamp: 1, StoreAt: 1,
	})
	output := make([]byte, 0, core.MaxMessage)
	n := testing.AllocsPerRun(100, func() { output = r.Step(output[:0], 1, input) })
	if a := answered(t, output); n != 0 || a.Err != nil || a.State != "held" {
		t.Errorf("%v allocations, %+v", n, a)
	}
	if len(r.room) != 0 || cap(r.room) < 16 {
		t.Errorf("room for %d entries, of which %d are in use", cap(r.room), len(r.room))
	}
}
