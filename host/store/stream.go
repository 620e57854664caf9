package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// What errors.Is finds in the *Error of a CreateFrom or PutFrom besides.
var (
	// ErrBody: the body could not be read to its end, or was not as long as it
	// was said to be. A definite no: nothing was written.
	ErrBody = errors.New("the body could not be read")
	// ErrTooLarge: the object has more bytes than MaxSize. A definite no:
	// nothing was written.
	ErrTooLarge = errors.New("the object is too large for this store")
)

// MaxBuffer is how many bytes of a body a Streamer holds in memory at most,
// for each transfer under way.
const MaxBuffer = 16 << 20

// Streamer is implemented by stores that move bodies of any size without
// holding them in memory: ask with a type assertion. A key is as good for it as
// for the other verbs, and what it wrote is read, listed and deleted by them.
//
// Outcomes and errors are those of Store. A body is read once, in order and by
// one goroutine at a time, and not after the verb has returned; so a write that
// failed cannot be tried again with the same reader. ctx is looked at before
// each Read of the body and before what applies the write, but it does not
// interrupt a Read that blocks: end that one where the body comes from.
type Streamer interface {
	// Open reads the object from its beginning. ErrAbsent: there is none.
	// info.Size is -1 if the store does not tell it. The errors of the body's
	// Read are *Error, but for io.EOF, which only a whole object ends in. ctx
	// must live until the body is closed, and the store too. What is read is
	// one object, also when another has taken its place since.
	Open(ctx context.Context, key string) (body io.ReadCloser, info Info, err error)

	// CreateFrom is Create with a body of exactly size bytes, which may be -1:
	// not known. There is one winner. The body of one that is late is not read
	// as a rule; a cloud tells those who write at once after the transfer.
	// After ErrBody and ErrTooLarge nothing was written.
	CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error

	// PutFrom is Put with a body as CreateFrom takes it. Readers see the object
	// that was there until the last byte of the new one is in the store.
	PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error

	// MaxSize is the largest object in bytes that the store takes this way. One
	// of unknown size may have to be smaller (S3).
	MaxSize() int64
}

// Source is what the implementation of a Streamer reads a body through. It
// ends in io.EOF only if the body is complete, as long as was said, and still
// in time (Overdue): whatever sees io.EOF may apply the write.
//
// Methods may be called by many goroutines at once.
type Source struct {
	ctx  context.Context
	now  func() time.Time
	fail func() // called once, before the failing Read returns
	size int64  // -1: not known
	max  int64

	mu   sync.Mutex // held while body is read
	body io.Reader
	read int64
	done bool  // io.EOF was told
	err  error // why it failed; like done it stays
}

// NewSource checks size against max (both in bytes), which is ErrTooLarge, or
// ErrBody for what is no size. The clock is now, time.Now if nil. fail, if not
// nil, is called once before a Read returns an error other than io.EOF: there a
// write can be aborted that would take any end for a good one.
func NewSource(ctx context.Context, body io.Reader, size, limit int64, now func() time.Time, fail func()) (*Source, error) {
	switch {
	case size < -1 || body == nil:
		return nil, fmt.Errorf("%w: there is none, or its size is negative (-1 stands for not known): %d", ErrBody, size)
	case size > limit:
		return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrTooLarge, size, limit)
	}
	if now == nil {
		now = time.Now
	}
	if fail == nil {
		fail = func() {}
	}
	return &Source{ctx: ctx, now: now, fail: fail, size: size, max: limit, body: body}, nil
}

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.done:
		return 0, io.EOF
	case s.err != nil:
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.ctx.Err(); err != nil {
		return 0, s.end(err)
	}
	n, err := s.body.Read(p)
	if n < 0 || n > len(p) {
		return 0, s.end(bodyError{fmt.Errorf("its Read returned %d for %d bytes", n, len(p))})
	}
	s.read += int64(n)
	switch {
	case s.size >= 0 && s.read > s.size:
		return 0, s.end(bodyError{fmt.Errorf("it has more than the %d bytes that were announced", s.size)})
	case s.read > s.max:
		return 0, s.end(fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, s.max))
	case err == nil:
		return n, nil
	case s.ctx.Err() != nil && err != io.EOF:
		return 0, s.end(s.ctx.Err()) // the body's own error is most likely of the same ctx
	case err != io.EOF:
		return 0, s.end(bodyError{err})
	case s.size >= 0 && s.read < s.size:
		return 0, s.end(bodyError{fmt.Errorf("it has %d bytes, %d were announced", s.read, s.size)})
	}
	if late := Overdue(s.ctx, s.now()); late != nil {
		return 0, s.end(late)
	}
	s.done = true
	return n, io.EOF
}

func (s *Source) end(err error) error {
	s.err = err
	s.fail()
	return err
}

// Complete reports whether io.EOF was reached, and nil or why not: the error
// that reading ended with, ErrBody if something stopped before the end.
func (s *Source) Complete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.err == nil {
		return errUnread
	}
	return s.err
}

var errUnread error = bodyError{errors.New("it was not read to its end")}

// Err returns the error that reading ended with, or nil if it went well so far.
// A write that failed while Err is not nil failed for it.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Detach waits for a Read under way and lets no other touch the body: after a
// cancel an HTTP client may read on for a moment, and the body is the caller's.
func (s *Source) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.err == nil {
		s.err = errUnread
	}
}

// bodyError is ErrBody for a reason. The reason may be another store's
// ErrAbsent or ErrExists, which say nothing of this one, or hold an io.EOF, which
// an SDK would take for a good end: errors.Is must not find them.
type bodyError struct{ reason error }

func (e bodyError) Error() string { return ErrBody.Error() + ": " + e.reason.Error() }

func (e bodyError) Is(target error) bool {
	switch target {
	case ErrBody:
		return true
	case ErrAbsent, ErrExists, io.EOF:
		return false
	}
	return errors.Is(e.reason, target)
}

func (e bodyError) As(target any) bool { return errors.As(e.reason, target) }
