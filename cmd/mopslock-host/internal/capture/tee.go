package capture

import (
	"io"
	"sync"
)

// Tee passes a command's stderr on, and keeps the end of it.
type Tee struct {
	to   io.Writer
	most int  // bytes of the end that are kept at least
	gone bool // the reader has gone; only Take uses it

	mu   sync.Mutex
	last []byte // at most twice as much
}

// NewTee passes on to a writer, and keeps at least so many bytes of the end.
func NewTee(to io.Writer, most int) *Tee { return &Tee{to: to, most: most} }

// Take passes a text on. An error of the reader ends nothing.
func (t *Tee) Take(text []byte) {
	t.note(text) // first, since our reader may have stopped reading
	if !t.gone {
		_, err := t.to.Write(text)
		t.gone = err != nil
	}
}

func (t *Tee) note(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, text[max(0, len(text)-t.most):]...)
	if extra := len(t.last) - t.most; extra > t.most {
		t.last = append([]byte(nil), t.last[extra:]...)
	}
}

// Tail returns the last bytes, at most so many, as far as they are kept. On nil it returns none.
func (t *Tee) Tail(most int) []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.last[max(0, len(t.last)-most):]...)
}
