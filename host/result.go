package host

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Result is the result of a piece of work, in the store. It stays there, so a caller can
// read it as often and as late as it likes while the Host is open.
type Result struct {
	Name string
	// Key is where it is in the store.
	Key string
	// Failed says that it is what a failure was kept as (MemoFailures).
	Failed bool
	// Own says that it is what our own work returned: the store took it. If the store's
	// answer was lost, it may be ours and Own false.
	Own bool

	host *Host
}

// Open reads the result from its beginning; size is -1 if the store does not
// tell it. ctx must live until the body is closed. Errors are the store's:
// errors.Is(err, store.ErrAbsent) if it was removed since.
func (r *Result) Open(ctx context.Context) (body io.ReadCloser, size int64, err error) {
	if r.host.loop.IsClosing() {
		return nil, 0, ErrClosed
	}
	if streamer, ok := r.host.store.(store.Streamer); ok {
		sent := r.host.telemetry.Sent()
		body, info, err := streamer.Open(ctx, r.Key)
		r.host.telemetry.Ended(ctx, core.ActionGet, sent, false, err)
		return body, info.Size, err
	}
	object, err := r.host.verbs.Get(ctx, r.Key)
	if err == nil && len(object.Body) > core.MaxRecord { // more may follow, which Get does not return
		err = store.Fail("get", r.Key, core.ClassOther, fmt.Errorf("%w: this store reads up to %d bytes", store.ErrTooLarge, core.MaxRecord))
	}
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(bytes.NewReader(object.Body)), int64(len(object.Body)), nil
}

// Bytes reads the whole result. One of more than most bytes is an error, and
// nothing is returned of it.
func (r *Result) Bytes(ctx context.Context, most int64) ([]byte, error) {
	body, size, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var read bytes.Buffer
	if size > most {
		return nil, r.tooLong(most)
	}
	if size > 0 {
		read.Grow(int(size) + bytes.MinRead) // which spares it to grow at the end
	}
	n, err := io.Copy(&read, io.LimitReader(body, most))
	if err == nil && n == most {
		var one [1]byte
		if n, _ := io.ReadFull(body, one[:]); n > 0 {
			return nil, r.tooLong(most)
		}
	}
	if err != nil {
		return nil, err
	}
	return read.Bytes(), nil
}

func (r *Result) tooLong(most int64) error {
	return fmt.Errorf("mopslock: result %s has more than the %d bytes that are wanted; read it piece by piece", Printable(r.Key), most)
}
