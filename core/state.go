package core

import "github.com/mopslock/mopslock/core/internal/octets"

// StateWriter takes the state of a machine, field by field, in one order and one form.
// Its zero value takes all of it.
type StateWriter struct {
	Out []byte
	// Normal, if set, makes states alike whose difference no caller can ever see.
	Normal  Normal
	machine Machine // whose state is written; nil is the outermost
}

// Normal replaces what two states may differ in without a consequence.
type Normal interface {
	// Due replaces a Mono that is only compared with later instants.
	Due(mono int64) int64
	// Request replaces the id of a request, which a machine has given; nil is the outermost.
	Request(of Machine, id RequestID) uint64
	// Nonce replaces a nonce.
	Nonce(a, b uint64) (uint64, uint64)
	// Text writes over ids in a text, each with one of its length.
	Text(text []byte)
}

// AppendState appends all of a machine's state.
func AppendState(dst []byte, m Machine) []byte {
	w := StateWriter{Out: dst}
	m.WriteState(&w)
	return w.Out
}

// IsExact reports whether what no caller can ever see is written too.
func (w *StateWriter) IsExact() bool { return w.Normal == nil }

func (w *StateWriter) Uint(v uint64) { w.Out = octets.AppendBE64(w.Out, v) }
func (w *StateWriter) Int(v int64)   { w.Uint(uint64(v)) }
func (w *StateWriter) Octet(v uint8) { w.Out = append(w.Out, v) }

func (w *StateWriter) Bools(v ...bool) {
	for _, v := range v {
		w.Bool(v)
	}
}

func (w *StateWriter) Bool(v bool) {
	var octet uint8
	if v {
		octet = 1
	}
	w.Out = append(w.Out, octet)
}

func (w *StateWriter) Bytes(v []byte) { w.Text(string(v)) }

func (w *StateWriter) Text(v string) {
	w.Uint(uint64(len(v)))
	w.Out = append(w.Out, v...)
	if w.Normal != nil {
		w.Normal.Text(w.Out[len(w.Out)-len(v):])
	}
}

// Due takes a Mono that is only compared with later instants.
func (w *StateWriter) Due(mono int64) {
	if w.Normal != nil {
		mono = w.Normal.Due(mono)
	}
	w.Int(mono)
}

// Request takes the id of a request that the machine at hand has given.
func (w *StateWriter) Request(id RequestID) {
	n := uint64(id)
	if w.Normal != nil {
		n = w.Normal.Request(w.machine, id)
	}
	w.Uint(n)
}

// Nonce takes a nonce.
func (w *StateWriter) Nonce(a, b uint64) {
	if w.Normal != nil {
		a, b = w.Normal.Nonce(a, b)
	}
	w.Uint(a)
	w.Uint(b)
}

// Machine takes the state of a machine within the one at hand.
func (w *StateWriter) Machine(m Machine) {
	outer := w.machine
	w.machine = m
	m.WriteState(w)
	w.machine = outer
}
