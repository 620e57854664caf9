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

// asked is one request.
type asked struct{ verb, key string }

// counting is a store that writes down what it is asked.
type counting struct {
	*objects

	log  []asked
	dead bool // its process is dead: no request arrives any more
}

// do makes a request, which takes effect in the middle of its time. That is the bubble's time.
func (c *counting) do(ctx context.Context, verb, key string, apply func(at int, there bool) error) error {
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
	time.Sleep(latency / 2)
	c.mu.Lock()
	err := apply(slices.BinarySearch(c.keys, key))
	c.mu.Unlock()
	time.Sleep(latency / 2)
	if err != nil {
		return store.Fail(verb, key, core.ClassNone, err)
	}
	return nil
}

func (c *counting) Get(ctx context.Context, key string) (object store.Object, err error) {
	err = c.do(ctx, "get", key, func(_ int, there bool) error {
		if !there {
			return store.ErrAbsent
		}
		object = c.bodies[key]
		object.Body = slices.Clone(object.Body)
		return nil
	})
	return object, err
}

func (c *counting) write(ctx context.Context, verb, key string, body []byte) error {
	return c.do(ctx, verb, key, func(at int, there bool) error {
		if there && verb == "create" {
			return store.ErrExists
		}
		if !there {
			c.keys = slices.Insert(c.keys, at, key)
		}
		c.bodies[key] = store.Object{Body: slices.Clone(body), Stamp: time.Now().UnixNano()}
		return nil
	})
}

func (c *counting) Put(ctx context.Context, key string, body []byte, _ string) error {
	return c.write(ctx, "put", key, body)
}

func (c *counting) Create(ctx context.Context, key string, body []byte, _ string) error {
	return c.write(ctx, "create", key, body)
}

func (c *counting) Exists(ctx context.Context, key string) (there bool, err error) {
	err = c.do(ctx, "exists", key, func(_ int, is bool) error {
		there = is
		return nil
	})
	return there, err
}

func (c *counting) List(ctx context.Context, prefix, after string, limit int) (page []store.Info, more bool, err error) {
	err = c.do(ctx, "list", prefix, func(at int, _ bool) error {
		for _, key := range c.keys[at:] {
			if more = strings.HasPrefix(key, prefix) && len(page) == store.PageSize(limit); more || !strings.HasPrefix(key, prefix) {
				break
			}
			if key > after {
				page = append(page, store.Info{Key: key, Stamp: c.bodies[key].Stamp})
			}
		}
		return nil
	})
	return page, more, err
}

func (c *counting) Delete(ctx context.Context, key string) error {
	return c.do(ctx, "delete", key, func(at int, there bool) error {
		if there {
			c.keys = slices.Delete(c.keys, at, at+1)
			delete(c.bodies, key)
		}
		return nil
	})
}

func (c *counting) StampUnit() time.Duration { return time.Nanosecond }
func (c *counting) Close() error             { return nil }

// set changes what a store remembers, or whether it is dead.
func (c *counting) set(log []asked, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.dead = log, dead
}

// counted lists the verbs of requests that have part in their key, without what budgets
// leave out: probes of the store, samples of its clock, and the check for an old client's record.
func (c *counting) counted(part string) (verbs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.log {
		service := strings.HasPrefix(a.key, "_mopslock/") && !strings.HasPrefix(a.key, core.SessionPrefix)
		if !service && (a.verb != "exists" || !strings.HasSuffix(a.key, "/"+core.LockFile)) && strings.Contains(a.key, part) {
			verbs = append(verbs, a.verb)
		}
	}
	return verbs
}

// number is how many of the counted requests have that verb.
func (c *counting) number(verb, part string) int {
	return len(slices.DeleteFunc(c.counted(part), func(v string) bool { return v != verb }))
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

// sameRand gives the same bytes in every run.
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
		Memory: "-", Clock: ownClock{time.Now().Add(-time.Hour)}, Rand: &sameRand{source: rand.NewChaCha8([32]byte{w.hosts})},
	})
	w.ok(err)
	w.Cleanup(func() {
		p.store.set(nil, false)
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

// passes lets that much time pass, and everything happen that is then due.
func (w *town) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told is a figure for `make bench`.
func (w *town) told(what string, n int) { w.Attr(strings.ReplaceAll(what, " ", "-"), strconv.Itoa(n)) }

// cost reports how many requests something took, and checks that they are the wanted ones.
func (w *town) cost(what string, p *party, want string) {
	w.Helper()
	verbs := p.store.counted("")
	w.told(what, len(verbs))
	if got := strings.Join(verbs, " "); got != want {
		w.Errorf("%s: %s, want %s", what, got, want)
	}
	p.store.set(nil, false)
}

var (
	strictMinute = host.Terms{Protocol: core.ProtocolStrict, TTL: time.Minute}
	onSession    = host.Terms{Protocol: core.ProtocolStrict, TTL: time.Minute, Session: true}
	lastMinute   = host.Terms{Protocol: core.ProtocolLastWriter, TTL: time.Minute, FleetExpire: core.None}
)

// TestRequests: what each form of an acquire and of a renewal costs.
func TestRequests(t *testing.T) {
	for name, tell := range map[string]func(*town){
		"acquires": acquiresCost, "session": sessionCosts, "renewals": renewalsCost, "lastwriter": lastWriterCosts, "permits": permitsCost,
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
	a.store.set(nil, false)
	_, err := a.Accompany(w.Context(), l.Handle(), nil)
	w.ok(err)
	w.cost("strict, join", a, "list get create")
	w.takeOver("strict, take-over", strictMinute, "list get create")
}

// permitsCost: a hundred callers take a permit each at the same time, and give it back. With
// commits of their own they would take two hundred.
func permitsCost(w *town) {
	const callers = 100
	p := w.host()
	var held [callers]*host.Permit
	for _, do := range []func(i int) error{
		func(i int) (err error) {
			held[i], err = p.AcquirePermit(w.Context(), "n", host.View{Capacity: callers, Width: 1}, nil)
			return err
		},
		func(i int) error { return held[i].Release(w.Context()) },
	} {
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				if err := do(i); err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
	}
	commits := p.store.number("create", "n/_mopslock/")
	if w.told("commits of a hundred", commits); commits != 3 {
		w.Errorf("%d commits, want one for all acquires, one for the first release and one for the others", commits)
	}
}

// takeOver has a host hold a name and die. Another host, which has looked before and so
// knows the store's clock, comes when the lease is dead.
func (w *town) takeOver(what string, terms host.Terms, want string) {
	p, knows := w.host(), w.host()
	w.acquire(p, "dead", terms)
	w.passes(time.Second)
	if _, err := knows.TryAcquire(w.Context(), "dead", &host.AcquireOptions{Terms: strictMinute}); err == nil {
		w.Fatal("it is held")
	}
	p.store.set(nil, true)
	w.passes(2 * time.Minute)
	knows.store.set(nil, false)
	w.acquire(knows, "dead", strictMinute)
	w.cost(what, knows, want)
}

func sessionCosts(w *town) {
	p := w.host()
	w.acquire(p, "first", onSession)
	p.store.set(nil, false)
	w.acquire(p, "second", onSession)
	w.cost("strict, never used, on a session", p, "list create")
	for i := range 1000 {
		w.acquire(p, fmt.Sprint("n/", i), onSession)
	}
	w.renewal("session of 1,000, renewal", p, "put exists")
	w.takeOver("strict, take-over from a session", onSession, "list get get create")
}

// renewal checks the requests from one beat to the next: earlier ones are of the last renewal.
func (w *town) renewal(what string, p *party, want string) {
	w.Helper()
	p.store.set(nil, false)
	for p.store.number("put", "") == 0 {
		w.passes(latency)
	}
	isPut := func(a asked) bool { return a.verb == "put" }
	p.store.set(p.store.log[slices.IndexFunc(p.store.log, isPut):], false) // no request comes between two steps of latency
	w.passes(10 * time.Second)
	w.cost(what, p, want)
}

func renewalsCost(w *town) {
	alone, beside, holder, companion := w.host(), w.host(), w.host(), w.host()
	w.acquire(alone, "alone", strictMinute)
	w.renewal("strict, renewal", alone, "put exists")

	old := w.acquire(beside, "beside", lastMinute)
	w.ok(old.Release(w.Context()))
	w.acquire(beside, "beside", strictMinute)
	w.renewal("strict, renewal beside a lock.json", beside, "put exists get")

	l := w.acquire(holder, "accompanied", strictMinute)
	_, err := companion.Accompany(w.Context(), l.Handle(), nil)
	w.ok(err)
	w.renewal("strict, renewal with an adoption", holder, "put exists get put exists")
}

func lastWriterCosts(w *town) {
	p := w.host()
	l := w.acquire(p, "n", lastMinute)
	w.passes(2 * time.Second)
	w.cost("lastwriter, acquire", p, "get put get put get") // with the later look
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

// An interval is TTL/3 times 5/6 at least; the first renewal of each G/4 also asks
// whether its own version is still there.
const (
	mostRenewals = 216
	mostLooks    = int(time.Hour / (core.LeastKeep / 4))
	leastLooks   = int(time.Hour / (core.LeastKeep/4 + time.Minute/3))
)

// TestRequestsPerHour: what a held lease costs an hour, at a TTL of a minute, by
// itself and on a session of many. A lease on a session makes no requests of its own: it costs
// what the session does.
func TestRequestsPerHour(t *testing.T) {
	for _, many := range []int{1, 100} {
		t.Run(fmt.Sprint(many, " alone"), func(t *testing.T) {
			inTown(t, func(w *town) {
				p := w.hour("alone", many, strictMinute)
				w.atMost("all", len(p.store.counted("")), many*(2*mostRenewals+mostLooks))
				puts, own, above := p.store.number("put", "n/0/"), p.store.number("exists", versionKey("n/0", 1)), p.store.number("exists", versionKey("n/0", 2))
				w.atMost("puts", puts, mostRenewals)
				w.atMost("exists above", above, mostRenewals)
				w.atMost("looks for our own version", own, mostLooks)
				w.atMost("looks for our own version, at least", leastLooks, own)
				if many == 1 {
					w.told("alone-puts", puts)
					w.told("alone-exists", above)
					w.told("alone-looks", own)
					w.atMost("all", len(p.store.counted("")), puts+above+own)
				}
			})
		})
	}
	for _, many := range []int{1, 10, 100, 1000, 10_000} {
		t.Run(strconv.Itoa(many), func(t *testing.T) {
			inTown(t, func(w *town) {
				p := w.hour("session", many, onSession)
				w.atMost("beats", p.store.number("put", core.SessionPrefix), mostRenewals)
				w.atMost("exists of the next call", p.store.number("exists", core.SessionPrefix), mostRenewals)
				w.atMost("of the leases", len(p.store.counted("n/")), 0)
			})
		})
	}
}

// hour holds that many leases for an hour, and reports what each has cost.
func (w *town) hour(how string, many int, terms host.Terms) *party {
	p, last := w.host(), (*host.Lease)(nil)
	for i := range many {
		last = w.acquire(p, fmt.Sprint("n/", i), terms)
	}
	p.store.set(nil, false)
	w.passes(time.Hour)
	if how != "alone" || many > 1 {
		how = fmt.Sprint(how, "-", many)
	}
	w.Attr(how, strconv.FormatFloat(float64(len(p.store.counted("")))/float64(many), 'g', 4, 64))
	w.ok(last.Err())
	return p
}

func (w *town) atMost(what string, got, most int) {
	w.Helper()
	if got > most {
		w.Errorf("%s: %d, at most %d", what, got, most)
	}
}

// versionKey is where strict keeps a version of a name.
func versionKey(name string, n uint64) string {
	return fmt.Sprintf("%s/_mopslock/%016x/v", name, ^uint64(0)-n)
}
