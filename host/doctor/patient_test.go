package doctor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/card"
	"github.com/mopslock/mopslock/host/store/mem"
)

// latency is what every request of a patient takes, half of it before it is applied.
const latency = 10 * time.Millisecond

// patient is a store in memory with something wrong. It lives in a bubble, where
// sleeping costs nothing and time is exact.
type patient struct {
	store.Store
	// deny says why a verb of a key is not done, before it is.
	deny func(verb, key string) error
	// create takes the place of the store's.
	create func(key string, body []byte) error
	// stamp changes what is told of a key.
	stamp func(key string, stamp int64) int64
	// exists, get and list change what is told.
	exists func(there bool) bool
	get    func(key string, object store.Object) store.Object
	list   func(page []store.Info) []store.Info
	// deaf: nothing is ever answered, whatever ctx says.
	deaf chan struct{}
	// silentFrom: nothing is answered any more.
	silentFrom time.Time

	mu     sync.Mutex
	asked  map[string]int
	flying int
	most   int
}

func (p *patient) do(ctx context.Context, verb, key string, apply func() error) error {
	p.mu.Lock()
	p.asked[verb]++
	p.flying++
	p.most = max(p.most, p.flying)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.flying--
	}()
	if p.deaf != nil {
		<-p.deaf
		return store.Fail(verb, key, core.ClassOther, errors.New("at last"))
	}
	if !p.silentFrom.IsZero() && time.Now().After(p.silentFrom) {
		<-ctx.Done()
	}
	time.Sleep(latency / 2)
	if p.deny != nil {
		if err := p.deny(verb, key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return store.Fail(verb, key, store.ClassOf(err), err)
	}
	err := apply()
	time.Sleep(latency / 2)
	return err
}

func (p *patient) Put(ctx context.Context, key string, body []byte, contentType string) error {
	return p.do(ctx, "put", key, func() error { return p.Store.Put(ctx, key, body, contentType) })
}

func (p *patient) Create(ctx context.Context, key string, body []byte, contentType string) error {
	return p.do(ctx, "create", key, func() error {
		if p.create != nil {
			return p.create(key, body)
		}
		return p.Store.Create(ctx, key, body, contentType)
	})
}

func (p *patient) Get(ctx context.Context, key string) (object store.Object, err error) {
	err = p.do(ctx, "get", key, func() error {
		object, err = p.Store.Get(ctx, key)
		object.Stamp = p.stamped(key, object.Stamp)
		if p.get != nil {
			object = p.get(key, object)
		}
		return err
	})
	return object, err
}

func (p *patient) stamped(key string, stamp int64) int64 {
	if p.stamp == nil {
		return stamp
	}
	return p.stamp(key, stamp)
}

func (p *patient) Exists(ctx context.Context, key string) (there bool, err error) {
	err = p.do(ctx, "exists", key, func() error {
		if there, err = p.Store.Exists(ctx, key); p.exists != nil {
			there = p.exists(there)
		}
		return err
	})
	return there, err
}

func (p *patient) List(ctx context.Context, prefix, after string, limit int) (page []store.Info, more bool, err error) {
	err = p.do(ctx, "list", prefix, func() error {
		page, more, err = p.Store.List(ctx, prefix, after, limit)
		for i := range page {
			page[i].Stamp = p.stamped(page[i].Key, page[i].Stamp)
		}
		if p.list != nil {
			page = p.list(page)
		}
		return err
	})
	return page, more, err
}

func (p *patient) Delete(ctx context.Context, key string) error {
	return p.do(ctx, "delete", key, func() error { return p.Store.Delete(ctx, key) })
}

// examined is what a doctor says of a patient.
type examined struct {
	*testing.T
	*doctor.Report
	p    *patient
	err  error
	took time.Duration
}

// examine has a store examined, in a bubble.
func examine(t *testing.T, opts *doctor.Options, change func(*patient), check func(*examined)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{Store: mem.Open(), asked: map[string]int{}}
		defer p.Store.Close()
		if change != nil {
			change(p)
		}
		begun := time.Now()
		report, err := doctor.Examine(t.Context(), p, opts)
		e := &examined{t, report, p, err, time.Since(begun)}
		if p.deaf != nil {
			close(p.deaf)
		}
		synctest.Wait()
		p.mu.Lock()
		if p.most > doctor.Writers {
			t.Errorf("%d requests at once", p.most)
		}
		p.mu.Unlock()
		check(e)
	})
}

// says fails the test unless the findings are of these kinds, in this order.
func (e *examined) says(protocol string, kinds ...string) {
	e.Helper()
	var got []string
	for _, f := range e.Findings {
		got = append(got, f.Kind)
	}
	if !slices.Equal(got, kinds) || e.Protocol != protocol {
		e.Errorf("%s, %q (%v): %+v", e.Protocol, got, e.err, e.Findings)
	}
}

// keys is what is left in the store, but for the card.
func (e *examined) keys() (keys []string) {
	page, _, err := e.p.Store.List(context.Background(), "", "", 0)
	if err != nil {
		e.Fatal(err)
	}
	for _, info := range page {
		if info.Key != card.Key {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

func (e *examined) card() card.Card {
	object, _ := e.p.Store.Get(context.Background(), card.Key)
	c, _ := card.Parse(object.Body)
	return c
}
