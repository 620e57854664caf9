package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// More causes of the *Error of a CreateFrom or PutFrom, for errors.Is.
var (
	// ErrBody: the body could not be read to its end, or did not have the announced
	// size. A definite no: nothing was written.
	ErrBody = errors.New("the body could not be read")
	// ErrTooLarge: the object has more bytes than MaxSize. A definite no:
	// nothing was written.
	ErrTooLarge = errors.New("the object is too large for this store")
)

// MaxBuffer is how many bytes of a body a Streamer holds in memory at most, for each
// transfer under way.
const MaxBuffer = 16 << 20

// Streamer is implemented by stores that move bodies of any size without holding them
// in memory: ask with a type assertion. It takes the same keys as the other verbs, and
// those read, list and delete what it wrote.
//
// Outcomes and errors are those of Store. A Streamer reads a body once, in order, by one
// goroutine at a time, and not after the verb has returned. So a write that failed
// cannot be tried again with the same reader. The Streamer checks ctx before each Read
// of the body and before the request that applies the write. ctx does not interrupt a
// Read that blocks: end that Read at the source of the body.
type Streamer interface {
	// Open reads the object from its beginning. ErrAbsent: there is none.
	// info.Size is -1 if the store does not tell it. The errors of the body's Read
	// are *Error, except io.EOF, which comes only at the end of a whole object. ctx
	// and the store must live until the body is closed. The bytes are those of one
	// object, even if another has replaced it since.
	Open(ctx context.Context, key string) (body io.ReadCloser, info Info, err error)

	// CreateFrom is Create with a body of exactly size bytes; -1 means that the size
	// is not known. There is one winner. If the object is already there, CreateFrom
	// usually does not read the body. If several callers write at once, a cloud tells
	// them only after the transfer. After ErrBody and ErrTooLarge nothing was written.
	CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error

	// PutFrom is Put with a body and a size as for CreateFrom. Readers see the old
	// object until the last byte of the new one is in the store.
	PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error

	// MaxSize is the largest object in bytes that the store takes this way. An object
	// of unknown size may have to be smaller (S3).
	MaxSize() int64
}

// Source is the reader through which an implementation of Streamer reads a body. It ends
// in io.EOF only if the body is complete, has the announced size, and is still in time
// (Overdue): after io.EOF a driver may apply the write.
//
// Many goroutines may call its methods at once.
type Source struct {
	ctx  context.Context
	now  func() time.Time
	fail func() // called once, before the failing Read returns
	size int64  // -1: not known
	max  int64

	mu   sync.Mutex // held while body is read
	body io.Reader
	read int64
	done bool  // Read has returned io.EOF
	err  error // why reading failed; like done it does not change again
}

// NewSource makes a Source. It returns ErrTooLarge if size is above limit (both in
// bytes), and ErrBody if size is not valid. now is the clock; nil means time.Now. A Read
// calls fail, if not nil, once before it returns an error other than io.EOF: fail can
// abort a write that would take any end of the body for its good end.
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
		return 0, s.end(s.ctx.Err()) // most likely the same ctx ended the body
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

// Complete returns nil if reading reached io.EOF. Otherwise it returns the error with
// which reading ended, or ErrBody if the reader stopped before the end.
func (s *Source) Complete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.err == nil {
		return errUnread
	}
	return s.err
}

var errUnread error = bodyError{errors.New("it was not read to its end")}

// Err returns the error with which reading ended, or nil if there was none so far. If a
// write failed and Err is not nil, Err is the reason.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Detach waits for a Read under way, and stops all later ones from touching the body.
// After a cancel an HTTP client may read on for a moment, but the body is the caller's.
func (s *Source) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.err == nil {
		s.err = errUnread
	}
}

// bodyError is ErrBody with a reason. errors.Is must not find some reasons: another
// store's ErrAbsent or ErrExists, which say nothing of this store, and io.EOF, which an
// SDK would take for a good end.
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
