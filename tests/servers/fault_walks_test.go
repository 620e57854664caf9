package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

const (
	// shortest is the least TTL on servers, whose stamps have whole seconds.
	shortest = 5 * time.Second
	// walkTTL is longer, so that a machine with too much to do loses no lease by itself:
	// a walk's renewal comes by a third of it.
	walkTTL = 3 * shortest
	// atOnce bounds the walks that are under way.
	atOnce = 48
	// walkLimit is by when a walk must have come to its end, however slow the machine is.
	walkLimit = 3 * time.Minute
	// late is how long Delay keeps a request of a walk.
	late = 300 * time.Millisecond
)

// walk is one tale from its beginning to its end, told by a host behind a proxy of
// its own, with another host that goes straight to the server.
type walk struct {
	*testing.T

	title  string
	ctx    context.Context
	server *Server
	proxy  *proxy.Proxy
	host   *host.Host
	other  *host.Host
	name   string
}

// tale is what a walk does: how many requests it costs when nothing befalls it, and
// how many more a fault may make of them: a read-back and what follows from it.
type tale struct {
	name     string
	live     func(*walk) error
	requests int
	more     int
}

var (
	strictly = host.Terms{Protocol: core.ProtocolStrict, TTL: walkTTL}
	byLast   = host.Terms{Protocol: core.ProtocolLastWriter, TTL: walkTTL}

	tales = []tale{
		{"strict", onLease(strictly), 8, 4},
		{"lastwriter", onLease(byLast), 9, 4},
		{"companion", onCompanion, 6, 4},
		{"permit", onPermit, 11, 4},
		{"invocation", onInvocation, 11, 4},
	}
)

// TestWalks tells each tale on each server without a fault, and then once for each
// fault and each of its requests, which the fault befalls, on one of the servers: that a
// fault is the same on all of them is shown by TestFaultsOnVerbs. It always comes to its
// good end.
func TestWalks(t *testing.T) {
	slots := make(chan bool, atOnce)
	var all []*walks
	for _, kind := range Kinds {
		server := Need(t, kind)
		w := &walks{T: t, server: server, slots: slots}
		all = append(all, w)
		w.other = openHost(t, server.Under(server.Address, "walks"))
		if lease, err := w.other.Acquire(t.Context(), "first", nil); err != nil { // so that the store is known
			t.Fatal(err)
		} else if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range tales {
			w.alone(s)
			for i, fault := range proxy.Faults {
				for hit := range s.requests {
					if Kinds[(i+hit)%len(Kinds)] == kind {
						w.begin(s, fault, hit)
					}
				}
			}
		}
	}
	for _, w := range all {
		w.done.Wait()
		t.Logf("%s: %d walks", w.server.Kind, w.number)
	}
}

// walks are all of one server.
type walks struct {
	*testing.T

	server *Server
	other  *host.Host
	number int
	slots  chan bool // shared
	done   sync.WaitGroup
}

// alone is the tale to which nothing happens.
func (w *walks) alone(s tale) {
	w.Helper()
	one := w.open(s, "alone")
	defer one.proxy.Close()
	var asked []string
	var mu sync.Mutex
	one.proxy.Choose(func(r *proxy.Request) proxy.Fault {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, string(r.Op)+" "+strings.TrimPrefix(r.Key, "walks/"))
		return proxy.None
	})
	begun := time.Now()
	if err := one.end(s.live(one)); err != nil {
		w.Fatalf("%s: %v", one.title, err)
	}
	slow := 2 * max(0, renewalsIn(time.Since(begun))-1) // a tale waits for one renewal
	want := s.requests
	if w.server.Kind == S3 && s.name == "permit" {
		want++ // S3's delete of the session's beat
	}
	least := want
	if s.name == "lastwriter" {
		least-- // the later look may come after the release
	}
	if len(asked) < least || len(asked) > want+slow {
		w.Errorf("%s: %d requests, want %d: %s", one.title, len(asked), want, strings.Join(asked, ", "))
	}
}

// begin starts a walk whose one request, of so many before it, a fault befalls.
func (w *walks) begin(s tale, fault proxy.Fault, hit int) {
	w.slots <- true
	one := w.open(s, fmt.Sprintf("%v at %d", fault, hit))
	one.proxy.SetDelay(late)
	one.proxy.Choose(func(r *proxy.Request) proxy.Fault {
		if r.N == hit {
			return fault
		}
		return proxy.None
	})
	begun := time.Now()
	w.done.Go(func() {
		defer func() { <-w.slots }()
		defer one.proxy.Close()
		if err := one.end(s.live(one)); err != nil {
			w.Errorf("%s: %v", one.title, err)
		}
		// Each renewal is two, and a walk that takes long has more than the one it waits
		// for. On a machine that makes it last for three, requests are given up by their
		// limits besides, and asked again by the next.
		renewals := renewalsIn(time.Since(begun))
		slow := 2*renewals + 2*max(0, renewals-2)
		if n, most := one.proxy.Counts().Total(), s.requests+s.more+slow; n > most {
			w.Errorf("%s: %d requests, want %d at most", one.title, n, most)
		}
	})
}

// renewalsIn is how many renewals a tale of that length may have.
func renewalsIn(d time.Duration) int { return int(d / (walkTTL / 3 * 5 / 6)) }

// open is not called at the same time as itself: GCS' address is in the environment.
func (w *walks) open(s tale, title string) *walk {
	w.Helper()
	p, err := proxy.New(w.server.Kind, w.server.Address)
	if err != nil {
		w.Fatal(err)
	}
	for _, line := range w.server.Env(p.Address()) {
		name, value, _ := strings.Cut(line, "=")
		w.Setenv(name, value)
	}
	h, err := host.Open(w.Context(), w.server.Under(p.Address(), "walks"), &host.Options{Memory: "-"})
	if err != nil {
		w.Fatal(err)
	}
	w.number++
	ctx, cancel := context.WithTimeout(w.Context(), walkLimit)
	w.Cleanup(cancel)
	return &walk{
		T: w.T, title: w.server.Kind + ", " + s.name + ", " + title, ctx: ctx, server: w.server, proxy: p, host: h, other: w.other,
		name: fmt.Sprintf("%s/%d", s.name, w.number),
	}
}

// end closes the walk's host.
func (w *walk) end(err error) error {
	if closing := w.host.Close(w.ctx); err == nil && closing != nil {
		return fmt.Errorf("close: %w", closing)
	}
	return err
}

func openHost(t *testing.T, url string) *host.Host {
	t.Helper()
	h, err := host.Open(t.Context(), url, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), walkLimit)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return h
}

// renewedBy waits until a deadline has moved, as it does by a renewal that was good.
func (w *walk) renewedBy(deadline func() time.Time, lost func() error) error {
	const step = 20 * time.Millisecond
	first := deadline()
	for range walkLimit / step {
		if err := lost(); err != nil {
			return err
		}
		if deadline().After(first.Add(time.Second / 2)) {
			return nil
		}
		time.Sleep(step)
	}
	return fmt.Errorf("it is not renewed")
}

// onLease acquires a lease, renews it and releases it; then the other does.
func onLease(terms host.Terms) func(*walk) error {
	return func(w *walk) error {
		lease, err := w.host.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if err := w.renewedBy(lease.Deadline, lease.Err); err != nil {
			return err
		}
		if err := w.seesHeldBy(lease.Holder(), lease.FencingToken()); err != nil {
			return err
		}
		if err := lease.Release(w.ctx); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		next, err := w.other.TryAcquire(w.ctx, w.name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fmt.Errorf("the next one: %w", err)
		}
		defer next.Release(w.ctx)
		if terms.Protocol == core.ProtocolStrict && next.FencingToken() <= lease.FencingToken() {
			return fmt.Errorf("token %d after %d", next.FencingToken(), lease.FencingToken())
		}
		return nil
	}
}

// seesHeldBy looks at the name from outside.
func (w *walk) seesHeldBy(holder string, token uint64) error {
	seen, err := w.other.Inspect(w.ctx, w.name)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if seen.State != core.ObservedHeld || seen.Holder != holder || seen.Token != token {
		return fmt.Errorf("seen from outside: %+v, want held by %s with token %d", seen, holder, token)
	}
	return nil
}

// onCompanion accompanies a lease of the other's, which is released in the end.
func onCompanion(w *walk) error {
	lease, err := w.other.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: strictly})
	if err != nil {
		return err
	}
	companion, err := w.host.Accompany(w.ctx, lease.Handle(), nil)
	if err != nil {
		return fmt.Errorf("accompany: %w", err)
	}
	until := func() time.Time { return time.Now().Add(companion.Left()) }
	if err := w.renewedBy(until, companion.Err); err != nil {
		return err
	}
	if companion.FencingToken() != lease.FencingToken() {
		return fmt.Errorf("token %d, the holder's is %d", companion.FencingToken(), lease.FencingToken())
	}
	if err := w.seesHeldBy(lease.Holder(), lease.FencingToken()); err != nil {
		return err
	}
	if err := companion.Leave(w.ctx); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return lease.Release(w.ctx)
}

// onPermit holds all permits of a semaphore, and gives them back.
func onPermit(w *walk) error {
	view := host.View{Capacity: 2, Width: 1}
	opts := &host.PermitOptions{Terms: strictly, Weight: 2}
	permit, err := w.host.AcquirePermit(w.ctx, w.name, view, opts)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if err := w.renewedBy(permit.Deadline, permit.Err); err != nil {
		return err
	}
	if _, err := w.other.TryAcquirePermit(w.ctx, w.name, view, &host.PermitOptions{Terms: strictly}); !errors.Is(err, host.ErrFull) {
		return fmt.Errorf("while all are held: %v", err)
	}
	if err := permit.Release(w.ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	next, err := w.other.TryAcquirePermit(w.ctx, w.name, view, opts)
	if err != nil {
		return fmt.Errorf("the next one: %w", err)
	}
	defer next.Release(w.ctx)
	if next.FencingToken() <= permit.FencingToken() {
		return fmt.Errorf("token %d after %d", next.FencingToken(), permit.FencingToken())
	}
	return nil
}

// onInvocation has a work done once, and everybody has its result.
func onInvocation(w *walk) error {
	launched := 0
	result, err := w.host.Invoke(w.ctx, w.name, func(_ context.Context, work *host.Work) error {
		launched++
		work.Return(host.Bytes([]byte("done")))
		return nil
	}, &host.InvokeOptions{Terms: strictly})
	if err == nil {
		err = comesTo(w.ctx, result, "done")
	}
	if err != nil || launched != 1 {
		return fmt.Errorf("invoke, launched %d times: %w", launched, err)
	}
	again := func(context.Context, *host.Work) error { return errors.New("launched again") }
	if result, err = w.other.Invoke(w.ctx, w.name, again, &host.InvokeOptions{Terms: strictly}); err != nil {
		return fmt.Errorf("the other: %w", err)
	}
	return comesTo(w.ctx, result, "done")
}

// comesTo reads a result. Who reads hears of a failing request, and reads again.
func comesTo(ctx context.Context, result *host.Result, want string) error {
	got, err := result.Bytes(ctx, 1<<10)
	if err != nil {
		got, err = result.Bytes(ctx, 1<<10)
	}
	if err == nil && string(got) != want {
		err = fmt.Errorf("%q, want %q", got, want)
	}
	return err
}
