package console

import (
	"io"
	"sync"
	"time"
)

// nonBlockingWriter writes to a reader that may have stopped reading: a full pipe, a terminal
// after Ctrl-S. A write waits a moment, so that lines usually appear in their order. Then it
// returns, and the text is written later, or never.
//
//	host, or supervisor    printf ── waits a moment ──► renews, sends SIGKILL
//	stderr                        ═════ nobody reads ═════════════════►
//
// A lease must not depend on the reader of our messages.
type nonBlockingWriter struct {
	to io.Writer

	mu    sync.Mutex
	text  []byte        // not written yet
	idle  chan struct{} // closed when all is written; nil: nothing is under way
	stuck bool          // the last wait ended before all was written
}

const (
	writePatience = 100 * time.Millisecond
	flushPatience = time.Second // at the very end
	maxUnwritten  = 64 << 10    // bytes; more is dropped
)

// Write never fails: the error could only be written to the same reader.
func (w *nonBlockingWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	if len(w.text)+len(text) <= maxUnwritten {
		w.text = append(w.text, text...)
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
		go w.drain(w.idle)
	}
	stuck := w.stuck
	w.mu.Unlock()
	if !stuck {
		w.flush(writePatience)
	}
	return len(text), nil
}

// flush waits until all is written, or until the patience is over.
func (w *nonBlockingWriter) flush(patience time.Duration) {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		w.mu.Lock()
		w.stuck = w.idle != nil
		w.mu.Unlock()
	}
}

// drain ends when all is written. If the reader never reads, it ends with the process.
func (w *nonBlockingWriter) drain(idle chan struct{}) {
	for {
		w.mu.Lock()
		text := w.text
		w.text = nil
		if len(text) == 0 {
			w.idle, w.stuck = nil, false
			w.mu.Unlock()
			close(idle)
			return
		}
		w.mu.Unlock()
		_, _ = w.to.Write(text)
	}
}
