package storetest

import (
	"context"
	"strings"
	"sync"

	"github.com/mopslock/mopslock/host/store"
)

// Call is one request of a Fake, and its answer, which On may change.
type Call struct {
	Verb, Key string
	Body      []byte       // of a put or a create
	Object    store.Object // of a get
	There     bool         // of an exists
	Page      []store.Info // of a list
}

// Fake is a store through which a test fails, delays, repeats or changes requests. It also
// records them.
type Fake struct {
	store.Store
	// On makes a request by calling apply, as often and as late as it likes. The request
	// returns On's error. Many goroutines call On at once.
	On func(ctx context.Context, c *Call, apply func(context.Context) error) error

	mu    sync.Mutex
	asked []string
}

// Requests returns the verbs of all requests since its last call: "list get create".
func (f *Fake) Requests() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.asked, " ")
	f.asked = nil
	return text
}

func (f *Fake) do(ctx context.Context, c *Call, apply func(context.Context) error) error {
	f.mu.Lock()
	f.asked = append(f.asked, c.Verb)
	f.mu.Unlock()
	return f.On(ctx, c, apply)
}

// Get is counted as get.
func (f *Fake) Get(ctx context.Context, key string) (store.Object, error) {
	c := &Call{Verb: "get", Key: key}
	err := f.do(ctx, c, func(ctx context.Context) (err error) {
		c.Object, err = f.Store.Get(ctx, key)
		return err
	})
	return c.Object, err
}

// Exists is counted as exists.
func (f *Fake) Exists(ctx context.Context, key string) (bool, error) {
	c := &Call{Verb: "exists", Key: key}
	err := f.do(ctx, c, func(ctx context.Context) (err error) {
		c.There, err = f.Store.Exists(ctx, key)
		return err
	})
	return c.There, err
}

// List is counted as list.
func (f *Fake) List(ctx context.Context, prefix, after string, limit int) (page []store.Info, more bool, err error) {
	c := &Call{Verb: "list", Key: prefix}
	err = f.do(ctx, c, func(ctx context.Context) (err error) {
		c.Page, more, err = f.Store.List(ctx, prefix, after, limit)
		return err
	})
	return c.Page, more, err
}

// Put is counted as put.
func (f *Fake) Put(ctx context.Context, key string, body []byte, contentType string) error {
	return f.do(ctx, &Call{Verb: "put", Key: key, Body: body}, func(ctx context.Context) error {
		return f.Store.Put(ctx, key, body, contentType)
	})
}

// Create is counted as create.
func (f *Fake) Create(ctx context.Context, key string, body []byte, contentType string) error {
	return f.do(ctx, &Call{Verb: "create", Key: key, Body: body}, func(ctx context.Context) error {
		return f.Store.Create(ctx, key, body, contentType)
	})
}

// Delete is counted as delete.
func (f *Fake) Delete(ctx context.Context, key string) error {
	return f.do(ctx, &Call{Verb: "delete", Key: key}, func(ctx context.Context) error {
		return f.Store.Delete(ctx, key)
	})
}
