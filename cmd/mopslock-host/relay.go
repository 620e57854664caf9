package main

import (
	"io"
	"sync"
)

// relay passes a command's stderr on to ours, and remembers the last of it.
type relay struct {
	to   io.Writer
	gone bool // whose reader has gone; only take uses it

	mu   sync.Mutex
	last []byte // at most twice relayed
}

// relayed is how much of the end is remembered at the least.
const relayed = 2 * maxStderr

// take is an intake's. A reader of ours who has gone ends nothing.
func (r *relay) take(text []byte) {
	r.note(text) // before: our reader may have stopped reading
	if !r.gone {
		_, err := r.to.Write(text)
		r.gone = err != nil
	}
}

func (r *relay) note(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, text[max(0, len(text)-relayed):]...)
	if extra := len(r.last) - relayed; extra > relayed {
		r.last = append([]byte(nil), r.last[extra:]...)
	}
}

// tail is the last of it: at most as much as asked for, and as is remembered. It is
// fine on nil.
func (r *relay) tail(most int) []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]byte(nil), r.last[max(0, len(r.last)-most):]...)
}
