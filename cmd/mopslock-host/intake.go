package main

import (
	"os"
	"sync/atomic"
	"time"
)

// intake takes what a command prints through a pipe. A file in its place would be
// truncated by whatever opens it anew (`… >/dev/stdout` in a script); a pipe may be
// opened as often as one likes:
//
//	command ──► pipe ──► run: take(…), 64 KiB at a time
//
// take must go on whatever fails: who does not read blocks the command, and who
// closes the pipe ends it.
type intake struct {
	read, write *os.File
	take        func([]byte)
	done        chan struct{} // closed when run has ended
	taken       atomic.Int64  // bytes that were read, for where a Read cannot be ended
	busy        atomic.Bool   // take has not returned
}

// tap takes what a command prints: an intake.
type tap interface {
	end() *os.File // the command's
	started()
	finish(patience <-chan time.Time)
	drop()
}

const (
	intakeBuffer = 64 << 10
	// mostLeft is as much as a pipe may hold: a background process that prints for
	// ever must not keep us.
	mostLeft = 1 << 20
)

// newIntake makes the pipe. The caller calls started when the command has been
// started, and finish when it has ended; or drop.
func newIntake(take func([]byte)) (tap, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, spoolExit(err)
	}
	return &intake{read: read, write: write, take: take, done: make(chan struct{})}, nil
}

func (i *intake) end() *os.File { return i.write }

// started closes our copy of the command's end, else the pipe would never end, and
// begins to take.
func (i *intake) started() {
	_ = i.write.Close()
	go i.run()
}

// run is ended by the last writer, or by finish.
func (i *intake) run() {
	defer close(i.done)
	buffer := make([]byte, intakeBuffer)
	for {
		n, err := i.read.Read(buffer)
		i.hand(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (i *intake) hand(text []byte) {
	if len(text) > 0 {
		i.busy.Store(true)
		i.taken.Add(int64(len(text)))
		i.take(text)
		i.busy.Store(false)
	}
}

// finish is called when the command has ended: it takes what stands in the pipe by
// now, and closes it. A background process of the command that has the pipe open is
// not waited for, and what it prints from now on is lost. Nor is a take that is
// stuck when the patience comes (nil: never); it may return later.
func (i *intake) finish(patience <-chan time.Time) {
	if i.stop(patience) {
		i.drain()
	}
	_ = i.read.Close()
}

// drop is finish where no command was started.
func (i *intake) drop() {
	_ = i.write.Close()
	_ = i.read.Close()
}
