package trace

import (
	"errors"
	"fmt"
	"io"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// Report is what Replay found.
type Report struct {
	Machines int // made, including those refused
	Steps    int
	// Failed counts machines that the recording's own engine had lost. Their last
	// step cannot be compared.
	Failed int
	// EndsEarly: the recording stops before its end was written, because the process
	// was killed or its file failed. The part that is there was compared.
	EndsEarly bool
	// Difference is the first difference, or nil. Nothing after it was compared.
	Difference *Difference
}

// Difference is where an engine's answer differs from the recording.
type Difference struct {
	Machine uint64 // its number
	Name    string // of its lease, if its Config could be read
	// Step is the number of the machine's step, from 1. 0 is its making.
	Step int
	// Offset is the place of the first byte of the answer that differs. Recorded and
	// Replayed are that byte, or -1 if that answer has ended there.
	Offset             int
	Recorded, Replayed int
	// Message is the config or the input, RecordedAnswer and ReplayedAnswer are the
	// answers to it. All are messages of package core.
	Message, RecordedAnswer, ReplayedAnswer []byte
}

// Replay runs a recording again on an engine and compares the answers, up to the
// first that differs. A *FormatError means that r is no recording, and a
// *host.EngineError that the engine failed. Other errors are r's own.
func Replay(r io.Reader, engine host.Engine) (Report, error) {
	p := replay{reader: newReader(r), engine: engine, live: map[uint64]*replayed{}}
	defer p.dropAll()
	if err := p.reader.header(); err != nil {
		return p.report, err
	}
	for {
		e, err := p.reader.event()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			p.report.EndsEarly = true
			return p.report, nil
		case err != nil:
			return p.report, err
		case e.kind == eventClosed:
			return p.report, p.atEnd()
		}
		if err := p.do(&e); err != nil || p.report.Difference != nil {
			return p.report, err
		}
	}
}

type replay struct {
	reader *reader
	engine host.Engine
	live   map[uint64]*replayed
	last   uint64 // number
	report Report
}

// replayed is one machine of the recording.
type replayed struct {
	machine core.Stepper // nil: its Config was refused, or its engine lost it
	name    string
	steps   int
}

// atEnd checks that nothing follows the recording's end.
func (p *replay) atEnd() error {
	if _, err := p.reader.value(MaxValue); !errors.Is(err, io.EOF) {
		return p.reader.bad("it goes on after its end")
	}
	return nil
}

func (p *replay) do(e *event) error {
	if e.kind == eventMade {
		return p.make(e)
	}
	m := p.live[e.machine]
	if m == nil {
		return p.reader.bad("machine %d was never made, or is dropped", e.machine)
	}
	if m.machine == nil && e.kind != eventDropped {
		return p.reader.bad("machine %d was refused or lost, and is stepped", e.machine)
	}
	switch e.kind {
	case eventStepped:
		return p.step(m, e)
	case eventFailed:
		p.report.Failed++
		p.engine.Drop(m.machine)
		m.machine = nil
	case eventDropped:
		if m.machine != nil {
			p.engine.Drop(m.machine)
		}
		delete(p.live, e.machine)
	}
	return nil
}

func (p *replay) make(e *event) error {
	switch {
	case e.machine <= p.last:
		return p.reader.bad("machine %d comes after machine %d", e.machine, p.last)
	case len(p.live) == MaxMachines:
		return p.reader.bad("more than %d machines at once", MaxMachines)
	}
	p.last = e.machine
	m := &replayed{}
	var cfg core.Config
	err := core.DecodeConfig(e.message, &cfg)
	if err == nil {
		m.name = cfg.Name
		m.machine, err = p.engine.New(cfg)
	}
	if err := p.engineFailure(e, m, err); err != nil {
		return err
	}
	p.report.Machines++
	if m.machine != nil {
		p.live[e.machine] = m
	}
	p.compare(e, m, nil, err)
	return nil
}

// step gives a machine its input. An input that cannot be read gets the answer of
// the core's Registry, and so shows as a difference.
func (p *replay) step(m *replayed, e *event) error {
	m.steps++
	var now core.Instant
	var ev core.Event
	var actions []core.Action
	err := core.DecodeInput(e.message, &now, &ev)
	if err == nil {
		actions, err = m.machine.Step(now, ev)
	}
	if err := p.engineFailure(e, m, err); err != nil {
		return err
	}
	p.report.Steps++
	p.compare(e, m, actions, err)
	return nil
}

// engineFailure returns an error of the engine itself, with its place, or nil.
func (p *replay) engineFailure(e *event, m *replayed, err error) error {
	_, refused := errors.AsType[*core.Error](err)
	_, unread := errors.AsType[*core.MessageError](err)
	if err == nil || refused || unread {
		return nil
	}
	return &host.EngineError{Err: fmt.Errorf("machine %d, step %d: %w", e.machine, m.steps, err)}
}

func (p *replay) compare(e *event, m *replayed, actions []core.Action, err error) {
	said := appendAnswer(nil, m.machine, actions, err)
	at := firstDifference(e.answer, said)
	if at < 0 {
		return
	}
	p.report.Difference = &Difference{
		Machine: e.machine, Name: m.name, Step: m.steps,
		Offset: at, Recorded: byteAt(e.answer, at), Replayed: byteAt(said, at),
		Message: e.message, RecordedAnswer: e.answer, ReplayedAnswer: said,
	}
}

// firstDifference returns where two texts first differ, or -1.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

func byteAt(b []byte, i int) int {
	if i < len(b) {
		return int(b[i])
	}
	return -1
}

func (p *replay) dropAll() {
	for _, m := range p.live {
		if m.machine != nil {
			p.engine.Drop(m.machine)
		}
	}
}
