package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/store"
)

// Of the transfers of results, which are not bounded like other requests.
const (
	// transfers is how many are under way at once. They have slots of their own:
	// some hours of upload must not delay a renewal.
	transfers = 4
	// stallLimit ends a transfer of which nothing was read for so long.
	stallLimit = 60 * time.Second
	// slowest is the rate, in bytes a second, at which what a store has read
	// ahead may still be on its way, up to store.MaxBuffer.
	slowest = 64 << 10
)

// errStalled is why a transfer was ended.
var errStalled = errors.New("nothing has moved for too long")

// sourceError is an error of what a result comes from, and not of the store.
type sourceError struct{ err error }

func (e sourceError) Error() string { return "mopslock: the result cannot be read: " + e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

// isBroken reports whether a transfer failed for what the result comes from, or
// for its size: that no other attempt mends.
func isBroken(err error) bool {
	_, source := errors.AsType[sourceError](err)
	return source || errors.Is(err, store.ErrBody) || errors.Is(err, store.ErrTooLarge)
}

// errWithdrawn is why a result is not stored: the work was given up meanwhile.
var errWithdrawn = errors.New("the work was given up")

// transfer stores a result, from its source.
func (d driver) transfer(r *loop.Request) error {
	of, _ := r.Claim.(interface{ source() Source })
	source := of.source()
	if source == nil {
		return sourceError{errWithdrawn}
	}
	body, size, err := source.Open()
	if err != nil {
		return sourceError{err}
	}
	defer body.Close()
	ctx, cancel := context.WithCancelCause(r.Ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // else a Read that blocks would never end
	defer stop()
	flow := &flow{body: body}
	flow.stall = loop.AfterFunc(stallLimit, func() {
		cancel(errStalled)
		d.loop.GiveUp(r, errStalled) // whether or not the store obeys ctx, as at the limit
	})
	defer flow.stall.Stop()
	streamer, ok := d.store.(store.Streamer)
	if !ok {
		return d.transferSmall(ctx, r, flow, size)
	}
	if most := streamer.MaxSize(); size > most {
		return tooLarge(r, size, most)
	}
	sent := d.telemetry.Sent()
	if r.Kind == core.ActionPutResult {
		err = streamer.PutFrom(ctx, r.Key, flow, size, r.Type)
	} else {
		err = streamer.CreateFrom(ctx, r.Key, flow, size, r.Type)
	}
	d.telemetry.Ended(r.Ctx, r.Kind, sent, false, err)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return store.Fail(r.Kind.String(), r.Key, core.ClassUnreachable, errStalled)
	}
	return err
}

// transferSmall is transfer to a store that takes small bodies only.
func (d driver) transferSmall(ctx context.Context, r *loop.Request, body io.Reader, size int64) error {
	read, err := io.ReadAll(io.LimitReader(body, core.MaxRecord+1))
	switch {
	case size > core.MaxRecord || len(read) > core.MaxRecord:
		return tooLarge(r, max(size, int64(len(read))), core.MaxRecord)
	case err == nil && size >= 0 && int64(len(read)) != size:
		err = fmt.Errorf("it has %d bytes, %d were announced", len(read), size)
	}
	if err != nil {
		return sourceError{err}
	}
	if r.Kind == core.ActionPutResult {
		return d.verbs.Put(ctx, r.Key, read, r.Type)
	}
	return d.verbs.Create(ctx, r.Key, read, r.Type)
}

func tooLarge(r *loop.Request, size, most int64) error {
	return store.Fail(r.Kind.String(), r.Key, core.ClassOther,
		fmt.Errorf("%w: it has at least %d bytes, %d are allowed", store.ErrTooLarge, size, most))
}

// flow is a body on its way. Each Read shows that the store still takes some.
type flow struct {
	body  io.Reader
	stall *time.Timer
	read  int64
}

// Read implements io.Reader.
func (f *flow) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	f.read += int64(max(n, 0))
	buffered := min(f.read, store.MaxBuffer)
	f.stall.Reset(stallLimit + time.Duration(buffered)*time.Second/slowest)
	return n, err
}
