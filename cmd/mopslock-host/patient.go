package main

import (
	"io"
	"sync"
	"time"
)

// patientWriter writes to somebody who may have stopped reading: a full pipe, a
// terminal after Ctrl-S. A write waits a moment, so that lines usually stand
// where they belong; then it goes on without having been written.
//
//	keeper, or supervisor    printf ── waits a moment ──► renews, sends SIGKILL
//	stderr                          ═════ nobody reads ═════════════════►
//
// What a lease depends on must not depend on a reader of our messages.
type patientWriter struct {
	to io.Writer

	mu    sync.Mutex
	text  []byte        // not written yet
	idle  chan struct{} // closed when all is written; nil: nothing is under way
	stuck bool          // the last one who waited did so in vain
}

const (
	writePatience = 100 * time.Millisecond
	flushPatience = time.Second // at the very end
	maxUnwritten  = 64 << 10    // bytes; what comes on top is dropped
)

// Write never fails: there is nobody left to tell.
func (w *patientWriter) Write(text []byte) (int, error) {
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

// flush waits until all is written, or until it has waited enough.
func (w *patientWriter) flush(patience time.Duration) {
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

// drain ends when all is written; one that is stuck ends with the process.
func (w *patientWriter) drain(idle chan struct{}) {
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
