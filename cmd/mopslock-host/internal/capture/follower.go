package capture

import (
	"io"
	"os"
	"time"
)

// Follower is a file for the output of a command that may outlive us, and passes it on, as `tail -f`
// does. A pipe would break when we end:
//
//	command ──► file (no name) ──► Follower ──► our stderr
//	                └── its last bytes: Tail
//
// The file is opened to append. A command that opens it again to write (`echo … >/dev/stderr`)
// truncates it; Follower then goes on at its new beginning.
type Follower struct {
	file *os.File
	name string // "" if it has none
	to   io.Writer
	sent int64
	stop chan struct{}
	done chan struct{}
}

const (
	followerNames = "mopslock-*.err"
	followPause   = 50 * time.Millisecond // between two looks at the file
	closePatience = 10 * time.Second      // for a slow reader, at the end
)

// NewFollower makes the file in TMPDIR, and begins to pass on to a writer.
func NewFollower(to io.Writer) (*Follower, error) {
	file, err := os.CreateTemp("", followerNames)
	if err != nil {
		return nil, err
	}
	name := file.Name()
	_ = file.Close()
	if file, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0); err != nil {
		_ = os.Remove(name)
		return nil, err
	}
	f := &Follower{file: file, name: dropName(file, followerNames), to: to, stop: make(chan struct{}), done: make(chan struct{})}
	go f.run()
	return f, nil
}

// File is the command's stdout and stderr.
func (f *Follower) File() *os.File { return f.file }

// run passes text on until Close.
func (f *Follower) run() {
	defer close(f.done)
	ticker := time.NewTicker(followPause)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			f.pass()
			return
		case <-ticker.C:
			f.pass()
		}
	}
}

// pass passes on what is new. An error of the reader ends nothing.
func (f *Follower) pass() {
	size := f.size()
	if size < f.sent { // truncated
		f.sent = 0
	}
	if size == f.sent {
		return
	}
	n, err := io.Copy(f.to, io.NewSectionReader(f.file, f.sent, size-f.sent))
	if f.sent += n; err != nil {
		f.sent = size
	}
}

func (f *Follower) size() int64 {
	info, err := f.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// Tail returns the last bytes, at most so many. On nil it returns none.
func (f *Follower) Tail(most int) []byte {
	if f == nil {
		return nil
	}
	size := f.size()
	from := max(0, size-int64(most))
	text := make([]byte, size-from)
	n, _ := f.file.ReadAt(text, from)
	return text[:n]
}

// Close passes on the rest and closes the file.
func (f *Follower) Close() {
	close(f.stop)
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case <-f.done:
		_ = f.file.Close()
		if f.name != "" {
			_ = os.Remove(f.name)
		}
	case <-timer.C: // the reader has stopped; run ends with the process
	}
}
