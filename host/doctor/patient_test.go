package doctor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
	"github.com/mopslock/mopslock/host/store/mem"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// latency is how long every request to a patient takes. Half of it passes before the
// request is applied.
const latency = 10 * time.Millisecond

// patient is a store in memory with a fault. It is in a bubble, where sleeping costs
// nothing and time is exact.
type patient struct {
	*storetest.Fake
	// deny returns an error if a request must fail before it is applied.
	deny func(verb, key string) error
	// create replaces the store's create.
	create func(key string, body []byte) error
	// stamp changes the stamp of a key; tell changes any other part of an answer.
	stamp func(key string, stamp int64) int64
	tell  func(*storetest.Call, error)
	// deaf: while it is open, no request is answered, not even when ctx ends.
	deaf chan struct{}
	// silentFrom: from then on no request is answered until ctx ends.
	silentFrom time.Time

	mu     sync.Mutex
	flying int
	most   int
}

func newPatient() *patient {
	p := &patient{Fake: &storetest.Fake{Store: mem.Open()}}
	p.On = p.do
	return p
}

func (p *patient) fly(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying += more
	p.most = max(p.most, p.flying)
}

func (p *patient) do(ctx context.Context, c *storetest.Call, apply func(context.Context) error) error {
	p.fly(1)
	defer p.fly(-1)
	if p.deaf != nil {
		<-p.deaf
		return store.Fail(c.Verb, c.Key, core.ClassOther, errors.New("at last"))
	}
	if !p.silentFrom.IsZero() && time.Now().After(p.silentFrom) {
		<-ctx.Done()
	}
	time.Sleep(latency / 2)
	if p.deny != nil {
		if err := p.deny(c.Verb, c.Key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return store.Fail(c.Verb, c.Key, store.ClassOf(err), err)
	}
	if c.Verb == "create" && p.create != nil {
		apply = func(context.Context) error { return p.create(c.Key, c.Body) }
	}
	err := apply(ctx)
	if p.stamp != nil {
		c.Object.Stamp = p.stamp(c.Key, c.Object.Stamp)
		for i := range c.Page {
			c.Page[i].Stamp = p.stamp(c.Page[i].Key, c.Page[i].Stamp)
		}
	}
	if p.tell != nil {
		p.mu.Lock() // the answers of a race come at once
		p.tell(c, err)
		p.mu.Unlock()
	}
	time.Sleep(latency / 2)
	return err
}

// plant puts a capability record into the store.
func (p *patient) plant(c capability.Record) {
	if err := p.Store.Put(context.Background(), capability.Key, c.Body(), capability.Type); err != nil {
		panic(err) // memory
	}
}

// denies makes a patient deny one verb for keys that contain part.
func denies(verb, part string, class core.Class) func(*patient) {
	return func(p *patient) {
		p.deny = func(asked, key string) error {
			if asked == verb && strings.Contains(key, part) {
				return store.Fail(asked, key, class, errors.New("denied"))
			}
			return nil
		}
	}
}

// examined is what a doctor reports of a patient.
type examined struct {
	*testing.T
	*doctor.Report
	p    *patient
	err  error
	took time.Duration
}

// examine lets the doctor examine a store, in a bubble.
func examine(t *testing.T, opts *doctor.Options, change func(*patient), check func(*examined)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPatient()
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

// says fails the test unless the doctor found this protocol and these kinds, in this order.
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

// keys returns the keys that are left in the store, except the capability record's.
func (e *examined) keys() (keys []string) {
	page, _, err := e.p.Store.List(context.Background(), "", "", 0)
	if err != nil {
		e.Fatal(err)
	}
	for _, info := range page {
		if info.Key != capability.Key {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

func (e *examined) capability() capability.Record {
	object, _ := e.p.Store.Get(context.Background(), capability.Key)
	c, _ := capability.Parse(object.Body)
	return c
}

// A doctor at work disturbs no lease of either protocol, with or without a session. Its
// objects are in no list of leases, and other processes do not collect them.
func TestLiveFleet(t *testing.T) {
	s := mem.Open()
	h, err := host.New(s, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	epochs := map[*host.Lease]uint64{}
	for name, terms := range map[string]host.Terms{
		"strict": {}, "session": {Session: true}, "m/lock": {Protocol: core.ProtocolLastWriter},
	} {
		l, err := h.Acquire(t.Context(), name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			t.Fatal(err)
		}
		epochs[l] = l.Epoch()
	}
	listed := 0
	r, err := doctor.Examine(t.Context(), s, &doctor.Options{Tries: 10, Rounds: 10, Progress: func(string, int, int) {
		for seen, err := range h.List(t.Context(), "") {
			if listed++; err != nil || seen.State != core.ObservedHeld {
				t.Errorf("%+v, %v", seen, err)
			}
		}
	}})
	if err != nil || !r.Strict() || r.Left != 0 || listed < 40*len(epochs) || listed%len(epochs) != 0 {
		t.Errorf("%+v, %v, %d names", r, err, listed)
	}
	for l, epoch := range epochs {
		if err := errors.Join(l.Err(), l.Release(t.Context())); err != nil || l.Epoch() != epoch {
			t.Errorf("%s: %v, epoch %d", l.Name(), err, l.Epoch())
		}
	}
}
