package wasm

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// machine is one machine in a guest, as its host sees it: a core.Stepper.
type machine struct {
	guest   *Guest
	handle  machines.Handle
	message []byte // the latest answer; actions refer to it
	buf     core.AnswerBuffer
	answer  core.Answer
}

// Step implements core.Stepper.
func (m *machine) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	var err error
	if m.message, err = m.guest.stepEvent(m.message[:0], m.handle, now, &ev); err != nil {
		return nil, err
	}
	before := m.answer
	if err := m.read(); err != nil {
		m.answer = before // a step that is refused changes nothing
		return nil, err
	}
	return m.answer.Actions, nil
}

// read decodes the latest answer.
func (m *machine) read() error {
	if err := core.DecodeAnswer(m.message, &m.buf, &m.answer); err != nil {
		return m.guest.fail(err)
	}
	return m.answer.Err
}

// Idle implements core.Stepper.
func (m *machine) Idle() bool { return m.answer.Idle }

// String implements core.Stepper.
func (m *machine) String() string { return m.answer.State }
