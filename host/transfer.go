package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mopslock/mopslock/core"
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

// isTransfer reports whether a request carries a result.
func isTransfer(verb core.ActionKind) bool {
	return verb == core.ActionCreateResult || verb == core.ActionPutResult
}

// isBroken reports whether a transfer failed for what the result comes from, or
// for its size: that no other attempt mends.
func isBroken(err error) bool {
	_, source := errors.AsType[sourceError](err)
	return source || errors.Is(err, store.ErrBody) || errors.Is(err, store.ErrTooLarge)
}

// transfer stores a result, from its source.
func (l *loop) transfer(r *request) error {
	a := &r.action
	body, size, err := r.source.Open()
	if err != nil {
		return sourceError{err}
	}
	defer body.Close()
	streamer, ok := l.host.store.(store.Streamer)
	if !ok {
		return l.transferSmall(r, body, size)
	}
	if most := streamer.MaxSize(); size > most {
		return l.tooLarge(a, size, most)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // else a Read that blocks would never end
	defer stop()
	flow := &flow{body: body}
	flow.stall = time.AfterFunc(stallLimit, func() {
		cancel(errStalled)
		// Whether or not the store obeys ctx, as at the limit.
		l.post(message{do: func() { l.answer(r, unanswered(a.Request)) }})
	})
	defer flow.stall.Stop()
	sent := l.host.telemetry.Sent()
	if a.Kind == core.ActionPutResult {
		err = streamer.PutFrom(ctx, a.Key, flow, size, a.Type)
	} else {
		err = streamer.CreateFrom(ctx, a.Key, flow, size, a.Type)
	}
	l.host.telemetry.Ended(r.ctx, a.Kind, sent, false, err)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return store.Fail(a.Kind.String(), a.Key, core.ClassUnreachable, errStalled)
	}
	return err
}

// transferSmall is transfer to a store that takes small bodies only.
func (l *loop) transferSmall(r *request, body io.Reader, size int64) error {
	a := &r.action
	read, err := io.ReadAll(io.LimitReader(body, core.MaxRecord+1))
	switch {
	case size > core.MaxRecord || len(read) > core.MaxRecord:
		return l.tooLarge(a, max(size, int64(len(read))), core.MaxRecord)
	case err == nil && size >= 0 && int64(len(read)) != size:
		err = fmt.Errorf("it has %d bytes, %d were announced", len(read), size)
	}
	if err != nil {
		return sourceError{err}
	}
	if a.Kind == core.ActionPutResult {
		return l.host.verbs.Put(r.ctx, a.Key, read, a.Type)
	}
	return l.host.verbs.Create(r.ctx, a.Key, read, a.Type)
}

func (l *loop) tooLarge(a *core.Action, size, most int64) error {
	return store.Fail(a.Kind.String(), a.Key, core.ClassOther,
		fmt.Errorf("%w: it has at least %d bytes, %d are allowed", store.ErrTooLarge, size, most))
}

// stopTransfer ends a transfer that was given up. The machine may wait for its
// end, before others are let in: so it is answered when the store has let go of
// it, or a little later if the store obeys no cancel.
func (l *loop) stopTransfer(r *request) {
	if r.ctx.Err() != nil {
		return
	}
	r.cancel()
	time.AfterFunc(stopGrace, func() {
		l.post(message{do: func() { l.answer(r, unanswered(r.action.Request)) }})
	})
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
