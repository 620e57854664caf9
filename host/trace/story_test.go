package trace

import (
	"bytes"
	"errors"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// config returns a good Config; seed makes machines differ.
func config(name string, seed byte) core.Config {
	return core.Config{Machine: core.MachineLease, Terms: core.Terms{
		Protocol: core.ProtocolLastWriter, Name: name,
	}, Host: "h", PID: "1", Seed: [16]byte{seed, 1}}
}

const wall = 1_700_000_000_000_000_000

// live drives a machine from acquire to release against a store of one object.
func live(t testing.TB, m core.Stepper) (steps int) {
	t.Helper()
	now := core.Instant{Mono: 1, Wall: wall}
	var body []byte
	released := false
	for event := (core.Event{Kind: core.EventAcquire}); ; steps++ {
		actions, err := m.Step(now, event)
		if err != nil {
			t.Fatal(err)
		}
		event = core.Event{Kind: core.EventWoke}
		for _, a := range actions {
			switch a.Kind {
			case core.ActionGet:
				event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes, Body: body}
				if body == nil {
					event.Outcome = core.OutcomeNo
				}
			case core.ActionPut:
				body = bytes.Clone(a.Body)
				event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
			case core.ActionWake:
				if event.Kind == core.EventWoke {
					now.Wall += a.At - now.Mono
					now.Mono = a.At
				}
			}
		}
		if m.String() == "held" && event.Kind == core.EventWoke && !released {
			released, event = true, core.Event{Kind: core.EventRelease}
		}
		if m.Idle() {
			return steps + 1
		}
		now.Mono++
		now.Wall++
	}
}

func newMachine(t testing.TB, e host.Engine, cfg core.Config) core.Stepper {
	t.Helper()
	m, err := e.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// recordingOf returns what a Recorder writes while work runs.
func recordingOf(t testing.TB, work func(host.Engine)) []byte {
	t.Helper()
	var out bytes.Buffer
	r := NewRecorder(host.Native{}, &out)
	work(r)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// story is one lease from acquire to release, and a refused Config.
func story(t testing.TB) (recording []byte, steps int) {
	recording = recordingOf(t, func(e host.Engine) {
		m := newMachine(t, e, config("a/lock", 1))
		steps = live(t, m)
		e.Drop(m)
		if _, err := e.New(config("//", 2)); !errors.Is(err, &core.Error{Code: core.ErrorConfig}) {
			t.Fatal(err)
		}
	})
	return recording, steps
}

func replayed1(t testing.TB, recording []byte) Report {
	t.Helper()
	report, err := Replay(bytes.NewReader(recording), host.Native{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// odd is an engine that gives another answer at its nth step, or fails there.
type odd struct {
	host.Native
	at   int
	fail error
}

func (o *odd) New(cfg core.Config) (core.Stepper, error) {
	if o.at == 0 && o.fail != nil {
		return nil, o.fail
	}
	m, err := o.Native.New(cfg)
	if err != nil {
		return nil, err
	}
	return &oddMachine{m, o}, nil
}

type oddMachine struct {
	core.Stepper
	engine *odd
}

func (m *oddMachine) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	actions, err := m.Stepper.Step(now, ev)
	m.engine.at--
	switch {
	case m.engine.at != 0:
	case m.engine.fail != nil:
		return nil, m.engine.fail
	case len(actions) > 0:
		actions[len(actions)-1].At++
	}
	return actions, err
}

// stuck is a writer whose reader has stopped reading.
type stuck struct{ free chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.free
	return len(b), nil
}
