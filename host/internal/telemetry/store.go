package telemetry

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// meteredStore counts every request to the store, from any part of the Host. It has only
// the methods of store.Store: for others, such as store.Watcher's, ask the store itself.
type meteredStore struct {
	store.Store
	to *Recorder
}

// Store returns the store, whose requests are counted if there is a meter.
func (r *Recorder) Store(s store.Store) store.Store {
	if r.meter == nil {
		return s
	}
	return meteredStore{s, r}
}

// Sent counts a request as in flight, and returns the Mono at which it was sent.
func (r *Recorder) Sent() int64 {
	m := r.meter
	if m == nil {
		return 0
	}
	m.change(m.inFlight, 1, labels{})
	return r.now()
}

// Ended counts a request that was sent. no says that the store answered no without an error.
func (r *Recorder) Ended(ctx context.Context, verb core.ActionKind, sent int64, no bool, err error) {
	m := r.meter
	if m == nil {
		return
	}
	m.change(m.inFlight, -1, labels{})
	m.count(m.requests, labels{verb: verb.String(), outcome: answerOf(ctx, no, err)})
	m.seconds(m.took, r.now()-sent, labels{verb: verb.String()})
}

// answerOf returns the store's answer as one word.
func answerOf(ctx context.Context, no bool, err error) string {
	switch {
	case no, errors.Is(err, store.ErrAbsent), errors.Is(err, store.ErrExists):
		return core.OutcomeNo.String()
	case err == nil:
		return core.OutcomeYes.String()
	case errors.Is(ctx.Err(), context.Canceled): // no caller wanted it any more
		return "cancelled"
	}
	return store.ClassIn(err).String()
}

// Get implements store.Store.
func (s meteredStore) Get(ctx context.Context, key string) (store.Object, error) {
	sent := s.to.Sent()
	object, err := s.Store.Get(ctx, key)
	s.to.Ended(ctx, core.ActionGet, sent, false, err)
	return object, err
}

// Put implements store.Store.
func (s meteredStore) Put(ctx context.Context, key string, body []byte, contentType string) error {
	sent := s.to.Sent()
	err := s.Store.Put(ctx, key, body, contentType)
	s.to.Ended(ctx, core.ActionPut, sent, false, err)
	return err
}

// Create implements store.Store.
func (s meteredStore) Create(ctx context.Context, key string, body []byte, contentType string) error {
	sent := s.to.Sent()
	err := s.Store.Create(ctx, key, body, contentType)
	s.to.Ended(ctx, core.ActionCreate, sent, false, err)
	return err
}

// Exists implements store.Store.
func (s meteredStore) Exists(ctx context.Context, key string) (bool, error) {
	sent := s.to.Sent()
	there, err := s.Store.Exists(ctx, key)
	s.to.Ended(ctx, core.ActionExists, sent, err == nil && !there, err)
	return there, err
}

// List implements store.Store.
func (s meteredStore) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	sent := s.to.Sent()
	page, more, err := s.Store.List(ctx, prefix, after, limit)
	s.to.Ended(ctx, core.ActionList, sent, false, err)
	return page, more, err
}

// Delete implements store.Store.
func (s meteredStore) Delete(ctx context.Context, key string) error {
	sent := s.to.Sent()
	err := s.Store.Delete(ctx, key)
	s.to.Ended(ctx, core.ActionDelete, sent, false, err)
	return err
}
