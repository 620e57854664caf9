package keep

import (
	"bytes"
	"context"
	"errors"

	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

// errRaced is why a swap was not made.
var errRaced = errors.New("mopslock: another writer of the same tenure was faster; read it again")

func slotOf(s *fence.Slot) *slot {
	body := s.Body
	if s.Written == 0 {
		body = nil
	}
	return &slot{Number: s.Number, Body: body, Written: s.Written, Token: s.Token, Holder: s.Holder, Nonce: s.Nonce}
}

// guard does what is asked of a guarded object.
func guard(ctx context.Context, s store.Store, a *asked, answer *said) error {
	tenure := fence.Tenure{Token: a.Token, Holder: a.Holder}
	var found fence.Slot
	var err error
	switch a.Verb {
	case "create_once":
		found, answer.Own, err = fence.CreateOnce(ctx, s, a.Key, tenure, a.Body)
	case "read_once":
		found, err = fence.ReadOnce(ctx, s, a.Key)
	default:
		found, err = guardObject(ctx, s, a, tenure)
	}
	if err == nil {
		answer.Slot = slotOf(&found)
	}
	return err
}

func guardObject(ctx context.Context, s store.Store, a *asked, tenure fence.Tenure) (fence.Slot, error) {
	object, err := fence.Open(s, a.Key)
	if err != nil {
		return fence.Slot{}, err
	}
	switch a.Verb {
	case "raise":
		return object.Raise(ctx, tenure)
	case "write":
		return object.Write(ctx, tenure, a.Body)
	case "swap":
		return object.Update(ctx, tenure, func(old []byte) ([]byte, error) {
			if (old == nil) != (a.Old == nil) || !bytes.Equal(old, a.Old) {
				return nil, errRaced
			}
			return a.Body, nil
		})
	}
	return object.Read(ctx)
}
