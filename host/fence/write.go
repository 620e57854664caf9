package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// write creates the slot that next makes of the newest one. If another process was
// faster, it begins again. If next returns the newest slot itself, there is nothing
// to write.
func (o *Object) write(ctx context.Context, t Tenure, next func(newest Slot) (Slot, error)) (Slot, error) {
	for range maxRaces {
		if err := ctx.Err(); err != nil {
			return Slot{}, context.Cause(ctx)
		}
		basis := o.now() // before the list is sent
		newest, err := o.newest(ctx)
		if err != nil {
			return Slot{}, err
		}
		if newest.Token > t.Token {
			newest.Body = nil
			return Slot{}, &StaleError{Key: o.key, Token: t.Token, Newest: newest}
		}
		if newest.Token == t.Token && newest.Holder != t.Holder {
			return Slot{}, foreign(o.key, t, &newest)
		}
		mine, err := next(newest)
		if err != nil {
			return Slot{}, err
		}
		if mine.Number == newest.Number {
			return newest, nil
		}
		mine.Token, mine.Holder, mine.Nonce, mine.After = t.Token, t.Holder, freshNonce(), newest.Nonce
		sent := o.now()
		won, err := o.create(ctx, o.slotKey(mine.Number), &mine)
		if err == nil && (won && o.since(basis) > patience || !won && o.since(sent) > patience) {
			won, err = o.confirm(ctx, &mine, won)
		}
		if err != nil {
			return Slot{}, err
		}
		if won {
			o.collect(ctx, &newest)
			return mine, nil
		}
	}
	return Slot{}, fmt.Errorf("mopslock: fence: %q not written: %d others were %w, one after the other; try again later", o.key, maxRaces, ErrRaced)
}

// newest finds the newest slot.
//
// The slot can be collected between list and get, but only if there are many newer
// ones by then. In that case newest lists again.
func (o *Object) newest(ctx context.Context) (Slot, error) {
	for range maxRaces {
		number, err := o.newestNumber(ctx)
		if err != nil || number == 0 {
			return Slot{}, err
		}
		slot, err := o.get(ctx, o.slotKey(number), number)
		if !errors.Is(err, store.ErrAbsent) {
			return slot, err
		}
	}
	return Slot{}, fmt.Errorf("mopslock: fence: %q: its list names slots that are not there; is it one store, and linearizable?", o.key)
}

func (o *Object) newestNumber(ctx context.Context) (uint64, error) {
	for after := ""; ; {
		page, more, err := o.list(ctx, after, slotsAPage)
		if err != nil {
			return 0, err
		}
		for i := range page {
			if number, ok := o.slotNumber(page[i].Key); ok {
				return number, nil
			}
		}
		if !more || len(page) == 0 {
			return 0, nil
		}
		after = page[len(page)-1].Key
	}
}

func (o *Object) list(ctx context.Context, after string, limit int) ([]store.Info, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return o.store.List(ctx, o.prefix, after, limit)
}

func (o *Object) get(ctx context.Context, key string, number uint64) (Slot, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	object, err := o.store.Get(ctx, key)
	if err != nil {
		return Slot{}, err
	}
	return decode(key, number, object.Body, object.Stamp)
}

// create makes the object of a slot, and reports whether it is ours.
//
// Whatever the store answers, the object's nonce decides: "exists" may be our own
// create whose answer was lost, and a create without an answer may be there, or land
// later. Each further create has the same bytes and the same key. So the slot is
// written once, however many of them are applied:
//
//	us:     create 8 ── no answer ── get 8: absent ── create 8: exists ── get 8: our nonce
//	store:                                      └ the first one lands
func (o *Object) create(ctx context.Context, key string, mine *Slot) (bool, error) {
	object := mine.encode()
	unknown := func(err error) error {
		return &UnknownError{Key: o.key, Number: mine.Number, Nonce: mine.Nonce, Err: err}
	}
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		err := o.createOnce(ctx, key, object)
		if err == nil {
			return true, nil
		}
		if try == 1 && certain(err) {
			return false, err
		}
		there, readErr := o.get(ctx, key, mine.Number)
		switch {
		case readErr == nil && there.Nonce == mine.Nonce:
			return true, nil
		case readErr == nil, errors.Is(readErr, ErrCorrupt), errors.Is(readErr, ErrNewer):
			return false, nil // another's: ours can land no more, or only once this slot is collected
		case errors.Is(readErr, store.ErrAbsent):
		default:
			err = readErr
		}
		if try == settleTries || hopeless(err) {
			return false, unknown(err)
		}
		select {
		case <-ctx.Done():
			return false, unknown(context.Cause(ctx))
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

func (o *Object) createOnce(ctx context.Context, key string, object []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return o.store.Create(ctx, key, object, contentType)
}

// certain reports whether an error of a create says for certain that nothing was sent.
func certain(err error) bool {
	return errors.Is(err, store.ErrKey) || errors.Is(err, store.ErrClosed) || errors.Is(err, errors.ErrUnsupported)
}

// hopeless reports whether the store will give the same answer again.
func hopeless(err error) bool {
	if failed, ok := errors.AsType[*store.Error](err); ok {
		switch failed.Class {
		case core.ClassUnauthorized, core.ClassNoSuchStore, core.ClassReadOnly, core.ClassFull:
			return true
		}
	}
	return certain(err)
}
