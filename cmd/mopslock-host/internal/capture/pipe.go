// Package capture takes what a command prints: through a Pipe, into a File that becomes a result, past
// a Tee that remembers the end, or in a file that a Follower passes on.
//
// It starts no command and knows no lease.
package capture

import (
	"os"
	"sync/atomic"
	"time"
)

// Pipe is a pipe for what a command prints. A file would be truncated if the command opened it
// again (`… >/dev/stdout` in a script); a pipe can be opened any number of times:
//
//	command ──► pipe ──► run: take(…), 64 KiB at a time
//
// take must go on after every error. A pipe that is not read blocks the command, and a pipe that
// is closed ends it.
type Pipe struct {
	read, write *os.File
	take        func([]byte)
	done        chan struct{} // closed when run has ended
	taken       atomic.Int64  // bytes that were read; used where a Read cannot be ended
	busy        atomic.Bool   // take has not returned
}

const (
	pipeBuffer = 64 << 10
	// mostLeft is at least what a pipe holds: a background process that prints forever must
	// not keep us.
	mostLeft = 1 << 20
)

// NewPipe makes the pipe. The caller then calls Started when the command has been started, and
// Finish when it has ended; or Drop if it was not started.
func NewPipe(take func([]byte)) (*Pipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &Pipe{read: read, write: write, take: take, done: make(chan struct{})}, nil
}

// Writer is the command's end of the pipe.
func (p *Pipe) Writer() *os.File { return p.write }

// Started closes our copy of the command's end, without which the pipe would never end, and begins
// to take.
func (p *Pipe) Started() {
	_ = p.write.Close()
	go p.run()
}

// run takes until the last writer has closed the pipe, or until Finish.
func (p *Pipe) run() {
	defer close(p.done)
	buffer := make([]byte, pipeBuffer)
	for {
		n, err := p.read.Read(buffer)
		p.hand(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (p *Pipe) hand(text []byte) {
	if len(text) > 0 {
		p.busy.Store(true)
		p.taken.Add(int64(len(text)))
		p.take(text)
		p.busy.Store(false)
	}
}

// Finish is called when the command has ended. It takes what is in the pipe now and closes it. It
// does not wait for a background process of the command that still has the pipe open, and what
// that prints later is lost. Nor does it wait for a take that is stuck when the patience is over
// (nil: never); take may return later.
func (p *Pipe) Finish(patience <-chan time.Time) {
	if p.stop(patience) {
		p.drain()
	}
	_ = p.read.Close()
}

// Drop closes the pipe if no command was started.
func (p *Pipe) Drop() {
	_ = p.write.Close()
	_ = p.read.Close()
}
