package cloud

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/mopslock/mopslock/host/store"
)

// Upload is a streamed write for a driver that uploads in its own way.
type Upload struct {
	// Key is the whole key, with the store's prefix.
	Key, ContentType string
	// IfNotExist is true for a create.
	IfNotExist bool
	// Size is in bytes, or -1 if it is not known. It is not above Options.MaxSize.
	Size int64
	// Body must be read to io.EOF before any request makes the object visible.
	Body *store.Source
	// Commit must be called right before the request that makes the object visible.
	// After an error of Commit the driver must not send that request.
	Commit func() error
}

// MaxSize implements store.Streamer.
func (s *Store) MaxSize() int64 { return s.opts.MaxSize }

// Open implements store.Streamer with one request, or two (open). It is under way until the body is
// closed.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	if err := s.enter(ctx, key); err != nil {
		return nil, store.Info{}, s.fail("get", key, err)
	}
	r, err := s.open(ctx, key)
	if err != nil {
		return nil, store.Info{}, err
	}
	info := store.Info{Key: key, Size: max(r.Size(), -1), Stamp: s.stamp(r.ModTime())}
	return &reader{store: s, ctx: ctx, key: key, body: r, left: info.Size}, info, nil
}

// reader turns the errors of a body, and an early end, into errors of a verb.
type reader struct {
	store *Store
	ctx   context.Context
	key   string
	body  io.ReadCloser
	left  int64 // bytes; negative if the size is not known, or more bytes came
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil { // mem does not check it
		return 0, r.store.fail("get", r.key, err)
	}
	n, err := r.body.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil, errors.Is(err, io.EOF) && r.left <= 0:
		return n, err
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, r.store.unreadable(r.key, err)
}

func (r *reader) Close() error {
	if err := r.body.Close(); err != nil {
		return r.store.unreadable(r.key, err)
	}
	return nil
}

// unreadable makes the error of an object that was there when it was opened, so that the
// error can no longer say that it is absent.
func (s *Store) unreadable(key string, err error) error {
	if failed := s.fail("get", key, err); !errors.Is(failed, store.ErrAbsent) {
		return failed
	}
	return s.fail("get", key, errGone)
}

var errGone = errors.New("the store lost the object while it was read; open it again")

// PutFrom implements store.Streamer.
func (s *Store) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.fail("put", key, s.stream(ctx, "put", key, body, size, contentType))
}

// lookAbove is the size in bytes from which a create first asks whether there is an
// object. That costs one more request, and saves a late create its transfer.
const lookAbove = 1 << 20

// CreateFrom implements store.Streamer. If several callers write at once, the server
// tells who has won at the end of the transfer.
func (s *Store) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.fail("create", key, s.stream(ctx, "create", key, body, size, contentType))
}

func (s *Store) stream(ctx context.Context, op, key string, body io.Reader, size int64, contentType string) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	if op == "create" && (size < 0 || size > lookAbove) {
		// We believe only a yes. After any other answer the write decides.
		if _, err := s.bucket.Attributes(s.opts.Context(ctx), s.opts.Prefix+key); err == nil {
			return store.ErrExists
		}
	}
	// If a driver reads an error and then closes its writer, the request's context must
	// be cancelled by then. Otherwise the half that it has becomes the object.
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	source, err := store.NewSource(ctx, body, size, s.opts.MaxSize, s.now, cancel)
	if err != nil {
		return err
	}
	defer source.Detach()
	if s.opts.Upload != nil {
		err = s.opts.Upload(s.opts.Context(writing), &Upload{
			Key: s.opts.Prefix + key, ContentType: cmp.Or(contentType, octets), IfNotExist: op == "create",
			Size: size, Body: source, Commit: func() error { return store.Overdue(ctx, s.now()) },
		})
	} else {
		opts := s.writerOptions(ctx, op, contentType)
		if s.opts.Parts != nil {
			opts.BufferSize, opts.MaxConcurrency = s.opts.Parts(size)
		}
		err = s.bucket.Upload(s.opts.Context(writing), s.opts.Prefix+key, source, opts)
	}
	switch bad := source.Err(); {
	case err == nil && source.Complete() != nil:
		return errEarly
	case err != nil && bad != nil:
		return bad // the cause; the driver only says that it was cancelled
	}
	return err
}

var errEarly = errors.New("the driver said yes before it had read the whole body")
