package bench

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// countedStore counts the requests to a store, and times renewals. A renewal is two requests of one name,
// which only the store sees. A Host may close it; the store stays open.
type countedStore struct {
	store.Store

	mu      sync.Mutex
	asked   map[string]int
	begun   map[string]time.Time // of a renewal, by name
	renewed []time.Duration
	failed  int
}

// countedDirectory is a countedStore that tells of changes, as only a directory does.
type countedDirectory struct {
	*countedStore
	store.Watcher
}

// counted wraps a store. The second result is for hosts: it can do all that the store can.
func counted(s store.Store) (*countedStore, store.Store) {
	c := &countedStore{Store: s}
	c.forget()
	if watcher, ok := s.(store.Watcher); ok {
		return c, countedDirectory{c, watcher}
	}
	return c, c
}

// forget sets all counts to 0.
func (c *countedStore) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.begun, c.renewed, c.failed = map[string]int{}, map[string]time.Time{}, nil, 0
}

// leaseOf returns the name that a key belongs to, and whether the request begins or ends a renewal. A
// renewal begins with the beat under strict, and with the read of the record under lastwriter.
func leaseOf(verb, key string) (name string, begins, ends bool) {
	if name, rest, ok := strings.Cut(key, "/_mopslock/"); ok {
		return name, verb == "put" && strings.Contains(rest, "/b."), verb == "exists"
	}
	if name, ok := strings.CutSuffix(key, "/"+core.LockFile); ok {
		return name, verb == "get", verb == "put"
	}
	return "", false, false
}

// count counts a request that begins. It returns the function to call with its outcome.
func (c *countedStore) count(verb, key string) func(error) {
	name, begins, ends := leaseOf(verb, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[verb]++
	if begins {
		c.begun[name] = time.Now()
	}
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if e, ok := err.(*store.Error); ok && e != nil && e.Class != core.ClassNone { //nolint:errorlint // a store's errors are of this type
			c.failed++
			delete(c.begun, name)
			return
		}
		if begun, ok := c.begun[name]; ok && ends {
			c.renewed = append(c.renewed, time.Since(begun))
			delete(c.begun, name)
		}
	}
}

// Get implements store.Store.
func (c *countedStore) Get(ctx context.Context, key string) (store.Object, error) {
	done := c.count("get", key)
	object, err := c.Store.Get(ctx, key)
	done(err)
	return object, err
}

// Put implements store.Store.
func (c *countedStore) Put(ctx context.Context, key string, body []byte, contentType string) error {
	done := c.count("put", key)
	err := c.Store.Put(ctx, key, body, contentType)
	done(err)
	return err
}

// Create implements store.Store.
func (c *countedStore) Create(ctx context.Context, key string, body []byte, contentType string) error {
	done := c.count("create", key)
	err := c.Store.Create(ctx, key, body, contentType)
	done(err)
	return err
}

// Exists implements store.Store.
func (c *countedStore) Exists(ctx context.Context, key string) (bool, error) {
	done := c.count("exists", key)
	there, err := c.Store.Exists(ctx, key)
	done(err)
	return there, err
}

// List implements store.Store.
func (c *countedStore) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	done := c.count("list", prefix)
	page, more, err := c.Store.List(ctx, prefix, after, limit)
	done(err)
	return page, more, err
}

// Delete implements store.Store.
func (c *countedStore) Delete(ctx context.Context, key string) error {
	done := c.count("delete", key)
	err := c.Store.Delete(ctx, key)
	done(err)
	return err
}

// CheckKey implements store.KeyChecker.
func (c *countedStore) CheckKey(key string) error {
	if checker, ok := c.Store.(store.KeyChecker); ok {
		return checker.CheckKey(key)
	}
	return nil
}

// ClockSteps implements store.SteppingClock.
func (c *countedStore) ClockSteps() (steps bool, why string) { return store.ClockSteps(c.Store) }

// Orderly implements store.Orderly.
func (c *countedStore) Orderly() bool {
	place, ok := c.Store.(store.Orderly)
	return ok && place.Orderly()
}

// Close leaves the store open for others.
func (c *countedStore) Close() error { return nil }
