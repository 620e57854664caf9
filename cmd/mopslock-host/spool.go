package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// spool is a file for what a command prints, until it is stored. It has no name, so that nothing is left of it when we
// are killed, unless it is to be kept. It is a host.Source once it is sealed.
type spool struct {
	file *os.File
	name string // "" where it has none

	mu     sync.Mutex
	size   int64 // of what was printed
	sealed bool
	err    error // the first that kept us from writing it
}

// newSpool makes an empty one in TMPDIR, for us alone to read.
func newSpool() (*spool, error) {
	if file, err := openNameless(os.TempDir()); err == nil {
		return &spool{file: file}, nil
	}
	file, err := os.CreateTemp("", spoolNames)
	if err != nil {
		return nil, spoolExit(err)
	}
	return &spool{file: file, name: dropName(file, spoolNames)}, nil
}

const (
	spoolNames = "mopslock-*.out"
	echoNames  = "mopslock-*.err"
)

// dropName takes the name from an open file, and returns it where that cannot be done (Windows). An open file cannot be
// removed there, so the others that can be were left by processes that were killed.
func dropName(file *os.File, names string) string {
	name := file.Name()
	if os.Remove(name) == nil {
		return ""
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), names))
	for _, other := range left {
		_ = os.Remove(other)
	}
	return name
}

// spoolExit: a command without a place for its output cannot be executed.
func spoolExit(err error) error {
	return &exit.Error{
		Status: child.StatusCannotExecute, Reason: "not_started",
		Text: fmt.Sprintf("no file for the command's output: %v; set TMPDIR to a directory with room for it", err),
	}
}

// take adds to it. Once something could not be written the rest is dropped, and the
// command goes on: its own status is worth something, too.
func (s *spool) take(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed || s.err != nil {
		return
	}
	n, err := s.file.Write(text)
	s.size += int64(n)
	if err != nil {
		s.err = fmt.Errorf("after %d bytes: %w", s.size, err) // which names the file
		_ = s.file.Truncate(0)                                // others may need the room
	}
}

// seal settles how much of it counts: what has come by now. The error says why it is
// not whole.
func (s *spool) seal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	return s.err
}

// Open implements host.Source.
func (s *spool) Open() (io.ReadCloser, int64, error) {
	return io.NopCloser(io.NewSectionReader(s.file, 0, s.size)), s.size, nil
}

// keep gives what was printed a name for good, and returns it. Where the file itself cannot have one, a copy has.
func (s *spool) keep() (string, error) {
	name, err := filepath.Abs(filepath.Join(os.TempDir(), "mopslock-"+strconv.FormatUint(rand.Uint64(), 36)+".result"))
	if err != nil || nameFile(s.file, name) == nil {
		return name, err
	}
	kept, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(kept, io.NewSectionReader(s.file, 0, s.size))
	if err = errors.Join(err, kept.Close()); err != nil {
		_ = os.Remove(name)
	}
	return name, err
}

// end removes it.
func (s *spool) end() {
	_ = s.file.Close()
	if s.name != "" {
		_ = os.Remove(s.name)
	}
}

// echo stands between a launcher and our stderr where the last lines are to be
// kept. It is a file and no pipe, which would break for a launcher that is to
// outlive us:
//
//	launcher ──► file (nameless) ──► echo ──► our stderr
//	                 └── the last 4 KiB: what is kept of a failure
//
// It is opened to append. What opens it anew to write (`echo … >/dev/stderr`)
// truncates it all the same; then we go on from its new beginning.
type echo struct {
	file *os.File
	name string // "" once it has none
	to   io.Writer
	sent int64
	stop chan struct{}
	done chan struct{}
}

const (
	echoPause    = 50 * time.Millisecond // between two looks at the file
	echoPatience = 10 * time.Second      // for a slow reader of stderr, at the end
)

func newEcho(to io.Writer) (*echo, error) {
	file, err := os.CreateTemp("", echoNames)
	if err != nil {
		return nil, spoolExit(err)
	}
	name := file.Name()
	_ = file.Close()
	if file, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0); err != nil {
		_ = os.Remove(name)
		return nil, spoolExit(err)
	}
	e := &echo{file: file, name: dropName(file, echoNames), to: to, stop: make(chan struct{}), done: make(chan struct{})}
	go e.run()
	return e, nil
}

// run is ended by end.
func (e *echo) run() {
	defer close(e.done)
	ticker := time.NewTicker(echoPause)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			e.pass()
			return
		case <-ticker.C:
			e.pass()
		}
	}
}

// pass passes on what has come since. A reader who has gone ends nothing.
func (e *echo) pass() {
	size := e.size()
	if size < e.sent { // truncated
		e.sent = 0
	}
	if size == e.sent {
		return
	}
	n, err := io.Copy(e.to, io.NewSectionReader(e.file, e.sent, size-e.sent))
	if e.sent += n; err != nil {
		e.sent = size
	}
}

func (e *echo) size() int64 {
	info, err := e.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail is the last of it. It is fine on nil.
func (e *echo) tail(most int64) []byte {
	if e == nil {
		return nil
	}
	size := e.size()
	from := max(0, size-most)
	text := make([]byte, size-from)
	n, _ := e.file.ReadAt(text, from)
	return text[:n]
}

// end passes the rest on.
func (e *echo) end() {
	close(e.stop)
	timer := time.NewTimer(echoPatience)
	defer timer.Stop()
	select {
	case <-e.done:
		_ = e.file.Close()
		if e.name != "" {
			_ = os.Remove(e.name)
		}
	case <-timer.C: // nobody reads; it ends with the process
	}
}
