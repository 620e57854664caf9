package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/mopslock/mopslock/host/store"
)

// CreateOnce makes an object that is never written again: a result. The first one
// wins, whatever its token is. won says whether that was this call, and the slot is
// the winner's. If the newest tenure must win, use an Object.
//
// The object is at key itself, with the head of a slot. CreateOnce costs a create,
// and a get unless it won at once. An *UnknownError says that the object may still
// land. ReadOnce, or another call with the same body, then settles what the result
// is, but not whose it is.
func CreateOnce(ctx context.Context, s store.Store, key string, t Tenure, body []byte) (result Slot, won bool, err error) {
	s = store.Guard(s)
	if err := errors.Join(t.check(), checkBody(body)); err != nil {
		return Slot{}, false, err
	}
	if err := checkKey(s, key); err != nil {
		return Slot{}, false, fmt.Errorf("mopslock: fence: result %q: %w", key, err)
	}
	if err := ctx.Err(); err != nil {
		return Slot{}, false, context.Cause(ctx)
	}
	o := &Object{store: s, key: key}
	mine := Slot{Number: 1, Token: t.Token, Holder: t.Holder, Nonce: freshNonce(), Written: 1, Body: body}
	won, err = o.create(ctx, key, &mine)
	if err != nil || won {
		return mine, won, err
	}
	result, err = o.get(ctx, key, 1)
	return result, false, err
}

// ReadOnce reads what CreateOnce made. If there is nothing, errors.Is finds
// store.ErrAbsent in its error.
func ReadOnce(ctx context.Context, s store.Store, key string) (Slot, error) {
	s = store.Guard(s)
	if err := checkKey(s, key); err != nil {
		return Slot{}, fmt.Errorf("mopslock: fence: result %q: %w", key, err)
	}
	return (&Object{store: s, key: key}).get(ctx, key, 1)
}
