package core

import "github.com/mopslock/mopslock/core/internal/octets"

// Answer is an engine's answer to a config or an input: the machine's state and
// what the host must do, or which part of the contract the host broke.
type Answer struct {
	// State is the machine's state, by its wire name.
	State string
	// Idle: the machine waits for nothing; see Machine.
	Idle bool
	// Actions are what Step returned. They are valid until the buffer is used again.
	Actions []Action
	// Err is nil, or an *Error. With an error nothing else is set.
	Err error
}

// AppendAnswer appends the message of a machine's answer to its latest Step.
func AppendAnswer(dst []byte, s Stepper, actions []Action) []byte {
	m := openMap(dst)
	m.str(keyState, s.String())
	m.bool(keyIdle, s.Idle())
	if len(actions) > 0 {
		m.key(keyActions)
		m.dst = appendActions(m.dst, actions)
	}
	return m.close()
}

// AppendError appends the answer of a New or a Step that returned an error of
// this package. It cuts the text at MaxErrorText.
func AppendError(dst []byte, err error) []byte {
	const prefix = "mopslock: " // package strings would bring unicode's tables and sync
	code, text := ErrorMessage, err.Error()
	if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
		text = text[len(prefix):]
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // ours are not wrapped, and errors.As brings reflect
		code = e.Code
	}
	m := openMap(dst)
	m.str(keyError, code.String())
	m.str(keyText, text[:octets.Cut(text, MaxErrorText)])
	return m.close()
}

// The places of an answer's keys.
const (
	ansState = iota
	ansIdle
	ansActions
	ansError
	ansText
)

// answerKeys is never written.
var answerKeys = [...]string{keyState, keyIdle, keyActions, keyError, keyText}

// DecodeAnswer reads an answer. Its actions are in buf until buf is used again, and
// their bytes are those of b. DecodeAnswer returns a *MessageError if b is no
// answer. The error that an answer reports is in to.Err.
func DecodeAnswer(b []byte, buf *AnswerBuffer, to *Answer) error {
	d := newReader(b)
	*to = Answer{}
	d.openMap(answerKeys[:])
	if d.key(ansState, keyState) {
		to.State = d.state()
	}
	if d.key(ansIdle, keyIdle) {
		to.Idle = d.isTrue()
	}
	if d.key(ansActions, keyActions) {
		outer, at := d.openedMap, d.i
		to.Actions = d.actions(buf)
		if len(to.Actions) == 0 {
			d.fail(ruleZero, at)
		}
		d.openedMap = outer
	}
	rules := fieldRules{1 << ansState, 1<<ansState | 1<<ansIdle | 1<<ansActions}
	if d.key(ansError, keyError) {
		const both = 1<<ansError | 1<<ansText
		rules = fieldRules{both, both}
		e := &Error{Code: ErrorCode(d.named(errorCodeNames[:]))}
		if d.key(ansText, keyText) {
			e.Text = string(d.text())
		}
		to.Err = e
	}
	d.closeMap(rules)
	if err := d.end(); err != nil {
		*to = Answer{}
		return err
	}
	return nil
}

// state reads the name of a state of any machine.
func (d *reader) state() string {
	at := d.i
	text := d.text()
	for _, names := range [...][]string{
		leaseStateNames[:], companionStateNames[:], invocationStateNames[:], sessionStateNames[:], taskStateNames[:],
		semaphoreStateNames[:], bucketsStateNames[:], clientStateNames[:],
	} {
		if n, ok := numberOf(names, text); ok {
			return names[n]
		}
	}
	d.fail(ruleName, at)
	return ""
}
