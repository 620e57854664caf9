//go:build unix

package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// A trace of renewals: what 64 leases in rotation are told while they are
// acquired and then renewed, as messages that every engine gets.
const (
	handles = 64          // none stays in the processor's nearest cache by itself
	prelude = 8 * handles // steps until all are held and have looked again; not timed
	turns   = 8 + 96      // steps of each; 96 renew it 32 times
)

type trace struct {
	configs [][]byte
	made    [][]byte // the answers to them
	inputs  [][]byte // round by round, handle by handle
	answers [][]byte
}

func (t *trace) handle(i int) int { return i % handles }

// record plays a perfect store.
func record() *trace {
	t := &trace{}
	var registry machines.Registry
	leases := make([]*renewing, handles)
	for i := range leases {
		leases[i] = newRenewing(byte(i))
		t.configs = append(t.configs, leases[i].config)
		handle, answer := registry.New(nil, leases[i].config)
		leases[i].handle, t.made = handle, append(t.made, answer)
	}
	for range turns {
		for _, lease := range leases {
			input := core.AppendInput(nil, lease.now, &lease.event)
			answer := registry.Step(nil, lease.handle, input)
			t.inputs, t.answers = append(t.inputs, input), append(t.answers, answer)
			lease.answered(answer)
		}
	}
	return t
}

// renewing is a lease and a host that does only what the lease asks:
// woke → get → its answer → put → its answer.
type renewing struct {
	config []byte
	handle machines.Handle
	now    core.Instant
	wake   int64
	event  core.Event
	body   []byte
}

func newRenewing(seed byte) *renewing {
	return &renewing{
		config: core.AppendConfig(nil, &core.Config{
			Machine: core.MachineLease,
			Terms:   core.Terms{Protocol: core.ProtocolLastWriter, Name: "bench/renewal", TTL: core.TTL(time.Minute)}, Seed: [16]byte{seed, 1},
			Host: "bench.example.org", PID: "4711", TID: 4711,
		}),
		now:   core.Instant{Mono: 1, Wall: 1_760_000_000_000_000_000},
		event: core.Event{Kind: core.EventAcquire, Wait: core.Forever},
	}
}

func (r *renewing) answered(message []byte) {
	var answer core.Answer
	if err := core.DecodeAnswer(message, new(core.AnswerBuffer), &answer); err != nil || answer.Err != nil {
		panic(fmt.Sprint("bench: ", err, answer.Err))
	}
	r.event = core.Event{Kind: core.EventWoke}
	for i := range answer.Actions {
		switch a := &answer.Actions[i]; a.Kind {
		case core.ActionGet:
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes, Body: r.body}
			if len(r.body) == 0 {
				r.event.Outcome = core.OutcomeNo
			}
		case core.ActionPut:
			r.body = bytes.Clone(a.Body)
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
		case core.ActionWake:
			r.wake = a.At
		}
	}
	passed := int64(time.Millisecond)
	if r.event.Kind == core.EventWoke {
		passed = max(passed, r.wake-r.now.Mono)
	}
	r.now.Mono += passed
	r.now.Wall += passed
}

// vector is the trace as core/testdata/README.md describes files.
func (t *trace) vector() []byte {
	var out bytes.Buffer
	for i, config := range t.configs {
		fmt.Fprintf(&out, "new %d %x\nanswer %x\n", i+1, config, t.made[i])
	}
	for i, input := range t.inputs {
		if i == prelude {
			out.WriteString("# time\n") // replay --bench times the steps from here on
		}
		fmt.Fprintf(&out, "step %d %x\nanswer %x\n", t.handle(i)+1, input, t.answers[i])
	}
	for i := range t.configs {
		fmt.Fprintf(&out, "drop %d\n", i+1)
	}
	return out.Bytes()
}
