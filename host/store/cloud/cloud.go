// Package cloud makes a store of a gocloud.dev bucket. It knows no cloud: the driver
// packages s3, gs and azblob, and mem, bring a bucket and Options.
//
// It corrects what gocloud does and a lease cannot bear:
//
//   - gocloud also says "not found" of a name that does not resolve (Azure), of
//     permission denied (GCS) and of a bucket in another region (S3). If we believed
//     that, a lease would look free. For us an object is absent only if the server
//     called it absent (see verdict).
//   - Bucket.Exists builds on that, so we do not use it.
//   - WriteAll and NewWriter panic on Azure when an upload fails. Upload does not.
//   - gocloud escapes characters that a service does not take, so that an object is
//     not at its key and lists are out of order. We refuse such keys.
//   - If reading a body fails, some drivers keep what they have as the whole object
//     (mem, GCS). We cancel the request's context before they get the error.
//
// The driver packages give the SDKs a transport that passes on only answers with a mark of
// the service (Marked): what a portal or a gateway says is unknown.
//
// It does not retry, and the driver packages stop the SDKs from retrying: one verb is
// one request (or two where its comment says so; a streamed body is one for each part).
// An SDK that retries hides until the deadline that the store throttles, sends a write
// that its caller has given up, and is told "exists" of its own success. The core
// retries, and knows when it may.
package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Options is what a driver package knows about its service. The zero value is right for
// a store that takes any key literally and stamps in nanoseconds.
type Options struct {
	// Prefix comes before every key: "" or a path that ends in "/".
	Prefix string
	// StampUnit is the coarsest resolution of any verb's stamps. All stamps are cut to
	// it, so that Get and List agree. 0 means a nanosecond.
	StampUnit time.Duration
	// ClockSteps says whether the clock behind the stamps may be set, and why. Nil:
	// nobody sets it.
	ClockSteps func() (steps bool, why string)
	// Refused are the characters that the driver escapes.
	Refused string
	// Answer finds the server's answer in an error, if there is one. If it is nil or
	// returns false, errors with HTTPStatusCode and ErrorCode methods tell.
	Answer func(error) (Answer, bool)
	// Class classes errors that only the driver knows, such as credentials that were
	// not found. For all other errors it returns core.ClassNone.
	Class func(error) core.Class
	// Context prepares the context of each request. Nil leaves the context as it is.
	Context func(context.Context) context.Context
	// StartAfter sets on the driver's list request, which as finds, that the service
	// need not send keys up to after. If it is nil, each page reads the list from its
	// start.
	StartAfter func(as func(any) bool, after string)
	// MaxSize is the largest object in bytes that a streamed write may make. 0 means
	// math.MaxInt64.
	MaxSize int64
	// Parts returns the size of the parts (bytes) in which to send a body of size bytes
	// (-1: unknown), and how many to send at once. The product must not be above
	// store.MaxBuffer. Nil leaves it to gocloud's driver.
	Parts func(size int64) (part, workers int)
	// Upload replaces gocloud's upload. Nil uses gocloud's.
	Upload func(ctx context.Context, up *Upload) error
	// Delete replaces gocloud's delete. Nil uses gocloud's.
	Delete func(ctx context.Context, key string) error
}

// Store is a store.Store and a store.Streamer on a bucket.
type Store struct {
	bucket *blob.Bucket
	opts   Options
	closed atomic.Bool
	now    func() time.Time // for tests
}

// New returns the store on bucket. The store's Close closes the bucket. Nil options
// mean the zero value.
func New(bucket *blob.Bucket, opts *Options) *Store {
	s := &Store{bucket: bucket, now: time.Now}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.StampUnit <= 0 {
		s.opts.StampUnit = time.Nanosecond
	}
	if s.opts.MaxSize <= 0 {
		s.opts.MaxSize = math.MaxInt64
	}
	if s.opts.Context == nil {
		s.opts.Context = func(ctx context.Context) context.Context { return ctx }
	}
	return s
}

// Get implements store.Store with one request, or two (open).
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	if err := s.enter(ctx, key); err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	r, err := s.open(ctx, key)
	if err != nil {
		return store.Object{}, err
	}
	defer r.Close()
	body, err := io.ReadAll(io.LimitReader(r, store.MaxBody))
	if err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	return store.Object{Body: body, Stamp: s.stamp(r.ModTime()), Type: r.ContentType()}, nil
}

// open begins to read an object. Some servers' 404 to this request has no mark (fake-gcs):
// then it asks in the other way whether the object is absent.
func (s *Store) open(ctx context.Context, key string) (*blob.Reader, error) {
	// Not a ranged read, which S3 refuses for an empty object.
	r, err := s.bucket.NewReader(s.opts.Context(ctx), s.opts.Prefix+key, nil)
	if isUnmarkedNo(err) {
		if _, no := s.bucket.Attributes(s.opts.Context(ctx), s.opts.Prefix+key); errors.Is(s.fail("get", key, no), store.ErrAbsent) {
			err = no
		}
	}
	if err != nil {
		return nil, s.fail("get", key, err)
	}
	return r, nil
}

// Put implements store.Store with one request.
func (s *Store) Put(ctx context.Context, key string, body []byte, contentType string) error {
	return s.fail("put", key, s.upload(ctx, "put", key, body, contentType))
}

// Create implements store.Store with one request, conditional on the server.
func (s *Store) Create(ctx context.Context, key string, body []byte, contentType string) error {
	return s.fail("create", key, s.upload(ctx, "create", key, body, contentType))
}

func (s *Store) upload(ctx context.Context, op, key string, body []byte, contentType string) error {
	if s.opts.Upload != nil { // so that all of a driver's writes are alike
		return s.stream(ctx, op, key, bytes.NewReader(body), int64(len(body)), contentType)
	}
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	opts := s.writerOptions(ctx, op, contentType)
	if s.opts.Parts != nil { // otherwise a driver makes buffers of 16 MiB for a record of a few hundred bytes
		opts.BufferSize, opts.MaxConcurrency = s.opts.Parts(int64(len(body)))
	}
	// A copy: after a cancel an HTTP client may read on for a moment, and by
	// then the caller has its buffer back.
	return s.bucket.Upload(s.opts.Context(ctx), s.opts.Prefix+key, bytes.NewReader(bytes.Clone(body)), opts)
}

// octets is the content type of an object that was given none.
const octets = "application/octet-stream"

func (s *Store) writerOptions(ctx context.Context, op, contentType string) *blob.WriterOptions {
	return &blob.WriterOptions{
		ContentType: cmp.Or(contentType, octets),
		IfNotExist:  op == "create",
		// The last moment at which we can stop the write.
		BeforeWrite: func(func(any) bool) error { return store.Overdue(ctx, s.now()) },
	}
}

// Exists implements store.Store with one request. Some servers' 404 to a HEAD, which has no
// body, has no mark (R2): then it reads a byte, since an answer to that has a body.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	if err := s.enter(ctx, key); err != nil {
		return false, s.fail("exists", key, err)
	}
	_, err := s.bucket.Attributes(s.opts.Context(ctx), s.opts.Prefix+key)
	if isUnmarkedNo(err) {
		var r *blob.Reader
		if r, err = s.bucket.NewRangeReader(s.opts.Context(ctx), s.opts.Prefix+key, 0, 1, nil); err == nil {
			_ = r.Close()
		}
	}
	err = s.fail("exists", key, err)
	if errors.Is(err, store.ErrAbsent) {
		return false, nil
	}
	return err == nil, err
}

// Delete implements store.Store with one request.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.enter(ctx, key)
	if err == nil {
		err = store.Overdue(ctx, s.now())
	}
	switch {
	case err != nil:
	case s.opts.Delete != nil:
		err = s.opts.Delete(s.opts.Context(ctx), s.opts.Prefix+key)
	default:
		err = s.bucket.Delete(s.opts.Context(ctx), s.opts.Prefix+key)
	}
	if err = s.fail("delete", key, err); errors.Is(err, store.ErrAbsent) {
		return nil
	}
	return err
}

// StampUnit implements store.Store.
func (s *Store) StampUnit() time.Duration { return s.opts.StampUnit }

// ClockSteps implements store.SteppingClock.
func (s *Store) ClockSteps() (steps bool, why string) {
	if s.opts.ClockSteps == nil {
		return false, "it is this process's own"
	}
	return s.opts.ClockSteps()
}

// Close implements store.Store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.fail("close", "", s.bucket.Close())
}

func (s *Store) enter(ctx context.Context, key string) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := s.checkKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// escaped begins the text that gocloud's drivers put in place of a character that they
// escape. In a list they take it for an escape.
const escaped = "__0x"

// CheckKey implements store.KeyChecker.
func (s *Store) CheckKey(key string) error { return s.fail("check", key, s.checkKey(key)) }

func (s *Store) checkKey(key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	return s.checkEscapes(key)
}

func (s *Store) checkEscapes(key string) error {
	switch {
	case len(s.opts.Prefix)+len(key) > store.MaxKey:
		return fmt.Errorf("%w: with the store's prefix it has more than %d bytes", store.ErrKey, store.MaxKey)
	case strings.Contains(key, escaped):
		return fmt.Errorf("%w: %q in a key is taken for an escape", store.ErrKey, escaped)
	case strings.Contains(key, "../"):
		return fmt.Errorf("%w: a segment that ends in .. cannot be kept in this store", store.ErrKey)
	case strings.ContainsAny(key, s.opts.Refused):
		return fmt.Errorf("%w: none of %s can be kept in this store", store.ErrKey, s.opts.Refused)
	}
	return nil
}

// stamp cuts t to the store's unit. S3 gives milliseconds in a list and seconds in a
// get; GCS gives microseconds and seconds.
func (s *Store) stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	ns := t.UnixNano()
	return ns - ns%int64(s.opts.StampUnit)
}
