//go:build cgo && !mopslock_core

package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mopslock/mopslock/host"
)

// reader reads a result from its beginning to its end. Requests to the store use ctx,
// so the end of ctx ends the reader.
type reader struct {
	body io.ReadCloser
	ctx  context.Context
	stop context.CancelCauseFunc
	turn chan struct{} // has a value while a call reads
	err  error         // what ended it; for the call that reads
	once sync.Once     // of close
}

func openResult(result *host.Result, timeout C.int64_t) (*reader, int64, error) {
	r := &reader{turn: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	defer r.within(timeout, timeoutResult)()
	body, size, err := result.Open(r.ctx)
	if err == nil && r.ctx.Err() != nil {
		err = errors.Join(r.ctx.Err(), body.Close())
	}
	if err != nil {
		err = r.why(err)
		r.stop(err)
		return nil, 0, err
	}
	r.body = body
	return r, size, nil
}

// read reads at least one byte; 0 is the end.
func (r *reader) read(to []byte, timeout C.int64_t) (int, error) {
	defer r.within(timeout, timeoutRead)()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
	for r.err == nil {
		var n int
		if n, r.err = r.body.Read(to); n > 0 {
			return n, nil
		}
	}
	if errors.Is(r.err, io.EOF) {
		return 0, nil
	}
	return 0, r.why(r.err)
}

// within ends the reader after timeout, unless the function that it returns is called
// before.
func (r *reader) within(timeout C.int64_t, kind timeoutKind) func() {
	if timeout == C.MOPSLOCK_FOREVER {
		return func() {}
	}
	timer := time.AfterFunc(time.Duration(timeout), func() { r.stop(kind) })
	return func() { timer.Stop() }
}

// why is the cause of the reader's end, if err is only how the store noticed it.
func (r *reader) why(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return err
}

// close ends the reader and a read under way. Then it closes the body.
func (r *reader) close(why error) {
	r.stop(why)
	r.once.Do(func() {
		go func() {
			r.turn <- struct{}{} // and never gives it back
			_ = r.body.Close()
		}()
	})
}

// endReaders ends all readers of a host.
func endReaders(hostHandle uint64) {
	for _, r := range madeOn[*reader](hostHandle) {
		r.close(host.ErrClosed)
	}
}
