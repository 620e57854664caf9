package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// latency is what each request takes here.
const latency = 10 * time.Millisecond

// objects are what several stores have in common.
type objects struct {
	mu     sync.Mutex
	keys   []string // in byte order
	bodies map[string]store.Object
}

func (o *objects) put(key string, body []byte, unless bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, there := o.bodies[key]
	switch {
	case there && unless:
		return store.ErrExists
	case !there:
		i, _ := slices.BinarySearch(o.keys, key)
		o.keys = slices.Insert(o.keys, i, key)
	}
	o.bodies[key] = store.Object{Body: slices.Clone(body), Stamp: time.Now().UnixNano()}
	return nil
}

func (o *objects) get(key string) (store.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object, there := o.bodies[key]
	if !there {
		return object, store.ErrAbsent
	}
	object.Body = slices.Clone(object.Body)
	return object, nil
}

func (o *objects) list(prefix, after string, limit int) (page []store.Info, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, _ := slices.BinarySearch(o.keys, max(prefix, after))
	for _, key := range o.keys[i:] {
		switch {
		case !strings.HasPrefix(key, prefix):
			return page, false
		case key <= after:
		case len(page) == store.PageSize(limit):
			return page, true
		default:
			page = append(page, store.Info{Key: key, Stamp: o.bodies[key].Stamp})
		}
	}
	return page, false
}

func (o *objects) remove(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i, there := slices.BinarySearch(o.keys, key); there {
		o.keys = slices.Delete(o.keys, i, i+1)
		delete(o.bodies, key)
	}
}

// asked is one request.
type asked struct{ verb, key string }

// counting is a store that writes down what it is asked.
type counting struct {
	*objects

	log  []asked
	dead bool // its process is: nothing arrives any more
}

func (c *counting) do(ctx context.Context, verb, key string, apply func() error) error {
	c.mu.Lock()
	dead := c.dead
	if !dead {
		c.log = append(c.log, asked{verb, key})
	}
	c.mu.Unlock()
	if dead {
		<-ctx.Done()
		return store.Fail(verb, key, core.ClassUnreachable, ctx.Err())
	}
	time.Sleep(latency / 2) // of the bubble's time, as all here
	err := apply()
	time.Sleep(latency / 2)
	if err != nil {
		return store.Fail(verb, key, core.ClassNone, err)
	}
	return nil
}

func (c *counting) Get(ctx context.Context, key string) (object store.Object, err error) {
	err = c.do(ctx, "get", key, func() (err error) {
		object, err = c.get(key)
		return err
	})
	return object, err
}

func (c *counting) Put(ctx context.Context, key string, body []byte, _ string) error {
	return c.do(ctx, "put", key, func() error { return c.put(key, body, false) })
}

func (c *counting) Create(ctx context.Context, key string, body []byte, _ string) error {
	return c.do(ctx, "create", key, func() error { return c.put(key, body, true) })
}

func (c *counting) Exists(ctx context.Context, key string) (there bool, err error) {
	err = c.do(ctx, "exists", key, func() error {
		_, err := c.get(key)
		there = err == nil
		return nil
	})
	return there, err
}

func (c *counting) List(ctx context.Context, prefix, after string, limit int) (page []store.Info, more bool, err error) {
	err = c.do(ctx, "list", prefix, func() error {
		page, more = c.list(prefix, after, limit)
		return nil
	})
	return page, more, err
}

func (c *counting) Delete(ctx context.Context, key string) error {
	return c.do(ctx, "delete", key, func() error {
		c.remove(key)
		return nil
	})
}

func (c *counting) StampUnit() time.Duration { return time.Nanosecond }
func (c *counting) Close() error             { return nil }

// forget begins a new page of the log.
func (c *counting) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
}

// counted are the requests without what budgets leave out: probes of the store,
// samples of its clock, and the look for an old client's record.
func (c *counting) counted() (all []asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.log {
		service := strings.HasPrefix(a.key, "_mopslock/") && !strings.HasPrefix(a.key, core.SessionPrefix)
		if !service && (a.verb != "exists" || !strings.HasSuffix(a.key, "/"+core.LockFile)) {
			all = append(all, a)
		}
	}
	return all
}

// number is how many of them have that verb and have that in their key.
func (c *counting) number(verb, part string) (n int) {
	for _, a := range c.counted() {
		if (verb == "" || a.verb == verb) && strings.Contains(a.key, part) {
			n++
		}
	}
	return n
}

func (c *counting) verbs() string {
	var all []string
	for _, a := range c.counted() {
		all = append(all, a.verb)
	}
	return strings.Join(all, " ")
}

// town is a store that several hosts use, in the time of a bubble.
type town struct {
	*testing.T

	objects *objects
	hosts   byte
}

// party is a host and the requests that it sends.
type party struct {
	*host.Host

	store *counting
}

// bubbleClock is the bubble's.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() core.Instant {
	now := time.Now()
	return core.Instant{Mono: int64(now.Sub(c.start)), Wall: now.UnixNano()}
}

// sameRand is the same in every run.
type sameRand struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func (r *sameRand) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(b)
}

func inTown(t *testing.T, tell func(*town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tell(&town{T: t, objects: &objects{bodies: map[string]store.Object{}}})
	})
}

func (w *town) ok(err error) {
	if err != nil {
		w.Helper()
		w.Fatal(err)
	}
}

func (w *town) host() *party {
	w.hosts++
	p := &party{store: &counting{objects: w.objects}}
	var err error
	p.Host, err = host.New(p.store, &host.Options{
		Memory: "-", Clock: bubbleClock{time.Now().Add(-time.Hour)}, Rand: &sameRand{source: rand.NewChaCha8([32]byte{w.hosts})},
	})
	w.ok(err)
	w.Cleanup(func() {
		p.store.mu.Lock()
		p.store.dead = false
		p.store.mu.Unlock()
		w.ok(p.Close(context.Background()))
	})
	return p
}

func (w *town) acquire(p *party, name string, terms host.Terms) *host.Lease {
	w.Helper()
	l, err := p.Acquire(context.Background(), name, &host.AcquireOptions{Terms: terms})
	w.ok(err)
	return l
}

// passes lets so much time pass, and everything happen that is then due.
func (w *town) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// cost says how many requests something took, and holds it to the very ones.
func (w *town) cost(what string, p *party, want string) {
	w.Helper()
	got := p.store.verbs()
	w.Attr(strings.ReplaceAll(what, " ", "-"), strconv.Itoa(len(strings.Fields(got))))
	if got != want {
		w.Errorf("%s: %s, want %s", what, got, want)
	}
	p.store.forget()
}

var (
	strictMinute = host.Terms{Protocol: core.ProtocolStrict, TTL: time.Minute}
	onSession    = host.Terms{Protocol: core.ProtocolStrict, TTL: time.Minute, Session: true}
	lastMinute   = host.Terms{Protocol: core.ProtocolLastWriter, TTL: time.Minute, FleetExpire: core.None}
)

// TestRequests: what each form of an acquire and of a renewal costs.
func TestRequests(t *testing.T) {
	for name, tell := range map[string]func(*town){
		"acquires": acquiresCost, "takeover": takeOverCosts, "session": sessionCosts, "renewals": renewalsCost,
		"adoption": adoptionCosts, "beside": besideCosts, "lastwriter": lastWriterCosts,
	} {
		t.Run(name, func(t *testing.T) { inTown(t, tell) })
	}
}

func acquiresCost(w *town) {
	a, b := w.host(), w.host()
	l := w.acquire(a, "n", strictMinute)
	w.cost("strict, never used", a, "list create")
	w.ok(l.Release(w.Context()))
	w.cost("strict, release", a, "create")
	l = w.acquire(a, "n", strictMinute)
	w.cost("strict, again", a, "create")
	w.ok(l.Release(w.Context()))
	l = w.acquire(b, "n", strictMinute)
	w.cost("strict, after another", b, "list get create")
	a.store.forget()
	_, err := a.Accompany(w.Context(), l.Handle(), nil)
	w.ok(err)
	w.cost("strict, join", a, "list get create")
}

// dies has a host hold a name and die, and another that has looked before, and so
// knows the store's clock, come when the lease is dead.
func (w *town) dies(terms host.Terms) (knows *party) {
	p := w.host()
	knows = w.host()
	w.acquire(p, "n", terms)
	w.passes(time.Second)
	_, err := knows.TryAcquire(w.Context(), "n", &host.AcquireOptions{Terms: strictMinute})
	if err == nil {
		w.Fatal("it is held")
	}
	p.store.mu.Lock()
	p.store.dead = true
	p.store.mu.Unlock()
	w.passes(2 * time.Minute)
	knows.store.forget()
	return knows
}

func takeOverCosts(w *town) {
	knows := w.dies(strictMinute)
	w.acquire(knows, "n", strictMinute)
	w.cost("strict, take-over", knows, "list get create")
}

func sessionCosts(w *town) {
	const many = 1000
	knows := w.dies(onSession)
	w.acquire(knows, "n", strictMinute)
	w.cost("strict, take-over from a session", knows, "list get get create")

	p := w.host()
	w.acquire(p, "first", onSession)
	p.store.forget()
	w.acquire(p, "second", onSession)
	w.cost("strict, never used, on a session", p, "list create")
	for i := range many {
		w.acquire(p, fmt.Sprint("n/", i), onSession)
	}
	w.renewal("session of 1,000, renewal", p, "put exists")
}

// renewal is what is asked from one beat to the next.
func (w *town) renewal(what string, p *party, want string) {
	w.Helper()
	p.store.forget()
	for p.store.number("put", "") == 0 {
		w.passes(latency)
	}
	log := p.store.log
	p.store.mu.Lock()
	p.store.log = log[slices.IndexFunc(log, func(a asked) bool { return a.verb == "put" }):] // what came before is of the last one
	p.store.mu.Unlock()
	w.passes(10 * time.Second)
	w.cost(what, p, want)
}

func renewalsCost(w *town) {
	p := w.host()
	w.acquire(p, "n", strictMinute)
	w.renewal("strict, renewal", p, "put exists")
}

func adoptionCosts(w *town) {
	p, companion := w.host(), w.host()
	l := w.acquire(p, "n", strictMinute)
	_, err := companion.Accompany(w.Context(), l.Handle(), nil)
	w.ok(err)
	w.renewal("strict, renewal with an adoption", p, "put exists get put exists")
}

func besideCosts(w *town) {
	p := w.host()
	old := w.acquire(p, "n", lastMinute)
	w.ok(old.Release(w.Context()))
	w.acquire(p, "n", strictMinute)
	w.renewal("strict, renewal beside a lock.json", p, "put exists get")
}

func lastWriterCosts(w *town) {
	p := w.host()
	l := w.acquire(p, "n", lastMinute)
	w.passes(2 * time.Second)
	w.cost("lastwriter, acquire", p, "get put get put get") // the later look with them
	for range 3 {
		for p.store.number("put", "") == 0 {
			w.passes(latency)
		}
		w.passes(latency)
		w.cost("lastwriter, renewal", p, "get put")
	}
	w.ok(l.Release(w.Context()))
	w.cost("lastwriter, release", p, "get put")
}

// TestRequestsPerHour: what a held lease costs an hour, at a TTL of a minute, by
// itself and on a session of so many.
func TestRequestsPerHour(t *testing.T) {
	t.Run("alone", func(t *testing.T) { inTown(t, aloneForAnHour) })
	t.Run("100 alone", func(t *testing.T) { inTown(t, hundredForAnHour) })
	for _, leases := range []int{1, 10, 100, 1000, 10_000} {
		t.Run(strconv.Itoa(leases), func(t *testing.T) {
			inTown(t, func(w *town) { sessionForAnHour(w, leases) })
		})
	}
}

// An interval is TTL/3 times 5/6 at least; the first renewal of each G/4 asks besides
// whether its own version is still there.
const (
	mostRenewals = 216
	mostLooks    = int(time.Hour / (core.LeastKeep / 4))
	leastLooks   = int(time.Hour / (core.LeastKeep/4 + time.Minute/3))
)

func (w *town) hour(what string, p *party, leases int) {
	p.store.forget()
	w.passes(time.Hour)
	w.Attr(what, strconv.FormatFloat(float64(len(p.store.counted()))/float64(leases), 'g', 4, 64))
}

func (w *town) atMost(what string, got, most int) {
	w.Helper()
	if got > most {
		w.Errorf("%s: %d, at most %d", what, got, most)
	}
}

func aloneForAnHour(w *town) {
	p := w.host()
	l := w.acquire(p, "n", strictMinute)
	w.hour("alone", p, 1)
	own, puts := p.store.number("exists", versionKey("n", 1)), p.store.number("put", "")
	above := p.store.number("exists", versionKey("n", 2))
	w.Attr("alone-puts", strconv.Itoa(puts))
	w.Attr("alone-exists", strconv.Itoa(above))
	w.Attr("alone-looks", strconv.Itoa(own))
	w.atMost("puts", puts, mostRenewals)
	w.atMost("exists above", above, mostRenewals)
	w.atMost("looks for our own version", own, mostLooks)
	w.atMost("looks for our own version, at least", leastLooks, own)
	w.atMost("all", len(p.store.counted()), puts+above+own)
	w.ok(l.Err())
}

func hundredForAnHour(w *town) {
	const many = 100
	p := w.host()
	for i := range many {
		w.acquire(p, fmt.Sprint("n/", i), strictMinute)
	}
	w.hour("alone-100", p, many)
	w.atMost("all", len(p.store.counted()), many*(2*mostRenewals+mostLooks))
}

// versionKey is where strict keeps a version of a name.
func versionKey(name string, n uint64) string {
	return fmt.Sprintf("%s/_mopslock/%016x/v", name, ^uint64(0)-n)
}

// Nothing is asked for a lease on a session: it costs what the session does.
func sessionForAnHour(w *town, leases int) {
	p := w.host()
	var last *host.Lease
	for i := range leases {
		last = w.acquire(p, fmt.Sprint("n/", i), onSession)
	}
	w.hour(fmt.Sprint("session-", leases), p, leases)
	w.atMost("beats", p.store.number("put", core.SessionPrefix), mostRenewals)
	w.atMost("exists of the next call", p.store.number("exists", core.SessionPrefix), mostRenewals)
	w.atMost("of the leases", p.store.number("", "n/"), 0)
	w.ok(last.Err())
}
