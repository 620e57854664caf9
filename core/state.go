package core

import "github.com/mopslock/mopslock/core/internal/octets"

// StateWriter takes the state of a machine, field by field, in one order and one form.
// Its zero value takes all of it.
type StateWriter struct {
	Out []byte
	// Normal, if set, makes states alike whose difference no caller can ever see.
	Normal Normal
	within any             // whose machine is at hand; nil is the outermost
	parts  map[Part]uint64 // that were met, by their order
}

// Normal replaces what two states may differ in without a consequence.
type Normal interface {
	// Due replaces a Mono that is only compared with later instants.
	Due(mono int64) int64
	// Request replaces the id of a request, which the machine in a part has given; nil is the
	// outermost machine.
	Request(of any, id RequestID) uint64
	// ID tells of an id that was drawn. Text is asked for it next.
	ID(id string)
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

// Uint appends a number, in 8 bytes.
func (w *StateWriter) Uint(v uint64) { w.Out = octets.AppendBE64(w.Out, v) }

// Int appends a number that may be negative, in 8 bytes.
func (w *StateWriter) Int(v int64) { w.Uint(uint64(v)) }

// Bool appends a byte.
func (w *StateWriter) Bool(v bool) {
	var octet uint8
	if v {
		octet = 1
	}
	w.Out = append(w.Out, octet)
}

// Bytes appends what Text does.
func (w *StateWriter) Bytes(v []byte) { w.Text(string(v)) }

// Text appends a text, behind its length.
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
func (w *StateWriter) Request(id RequestID) { w.RequestOf(w.within, id) }

// RequestOf takes the id of a request that the machine in a part has given.
func (w *StateWriter) RequestOf(of any, id RequestID) {
	n := uint64(id)
	if w.Normal != nil {
		n = w.Normal.Request(of, id)
	}
	w.Uint(n)
}

// ID takes an id that was drawn.
func (w *StateWriter) ID(id string) {
	if w.Normal != nil {
		w.Normal.ID(id)
	}
	w.Text(id)
}

// Nonce takes a nonce.
func (w *StateWriter) Nonce(a, b uint64) {
	if w.Normal != nil {
		a, b = w.Normal.Nonce(a, b)
	}
	w.Uint(a)
	w.Uint(b)
}

// Machine takes the state of the machine in a part.
func (w *StateWriter) Machine(of any, m interface{ WriteState(w *StateWriter) }) {
	outer := w.within
	w.within = of
	m.WriteState(w)
	w.within = outer
}

// Part takes the state of a part, if it was not met yet.
func (w *StateWriter) Part(p Part) {
	n, met := w.parts[p]
	if !met {
		if w.parts == nil {
			w.parts = map[Part]uint64{}
		}
		n = uint64(len(w.parts))
		w.parts[p] = n
	}
	if w.Uint(n); !met {
		w.Text(p.PartName())
		p.WriteState(w)
	}
}

// Part is a part of a machine to which many pointers may lead.
type Part interface {
	WriteState(w *StateWriter)
	// PartName tells its type from others.
	PartName() string
	// CopyIn returns its copy in a clone of the machine.
	CopyIn(t Copies) any
}

// Copies are the copies of the parts of a machine that is cloned, by the pointers to the parts.
type Copies map[any]any
