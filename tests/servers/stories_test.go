//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// storyTTL is so long that a busy machine neither loses a lease nor gives up a request. A
// story's renewal comes after a third of it.
const storyTTL = 20 * time.Second

// story is one claim from its beginning to its end, made by a host behind a proxy of its
// own. The other host goes straight to the server.
type story struct {
	claim claim
	title string
	ctx   context.Context
	proxy *proxy.Proxy
	host  *host.Host
	other *host.Host
	name  string

	mu    sync.Mutex
	asked []proxy.Request
}

// claim is what a story is about, and what it asks of a store without faults: it needs no
// other verb. A renewal may come more often than once.
type claim struct {
	name string
	live func(*story) error
	asks string
}

var (
	strictly = host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(storyTTL)}
	byLast   = host.Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(storyTTL)}

	claims = []claim{
		{"strict", onLease(strictly), "name: list create list put exists create"},
		{"lastwriter", onLease(byLast), "name: get put get put get put get put"},
		{"session", onSession, "name: list create list create; session: put create put exists list delete delete"},
		{"companion", onCompanion, "name: list get create put exists create"},
		{"permit", onPermit, "name: list create list create; session: put create put exists list delete delete"},
		{"invocation", onInvocation, "name: list create list create; result: exists exists create get"},
	}
)

// TestStories plays the story of each claim on each server, all at once, and compares
// their requests with the budgets, one by one.
func TestStories(t *testing.T) {
	on(t, func(t *testing.T, server *Server, _ *proxy.Proxy) {
		prefix := fresh("stories")
		other := openHost(t, server, server.Address, prefix)
		var all sync.WaitGroup
		for _, c := range claims {
			s := begin(t, server, prefix, c, other, func(*proxy.Request) proxy.Fault { return proxy.None })
			all.Go(func() {
				if err := s.tell(); err != nil {
					t.Errorf("%s: %v", s.title, err)
				} else if got := s.budgeted(); got != c.asks {
					t.Errorf("%s: asked %q, want %q", s.title, got, c.asks)
				}
			})
		}
		all.Wait()
	})
}

var (
	renewals = regexp.MustCompile(`(put exists)( put exists)+`)
	rewrites = regexp.MustCompile(`((?:get put ?){4})(get put ?)*`)
)

// budgeted lists the requests, in order, for the name, for its result and for the session.
// It leaves out what budgets leave out: probes of the store, samples of its clock, the check
// for an old client's record, the number of renewals, lastwriter's later read, which comes
// between any two requests, and the first name of a session, whose claim depends on how far
// the session is.
func (s *story) budgeted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := map[string]string{}
	for _, r := range s.asked {
		_, key, _ := strings.Cut(r.Key, "/")
		part := "name"
		switch {
		case strings.HasPrefix(key, core.SessionPrefix):
			if part = "session"; r.Op == proxy.Exists && strings.HasSuffix(key, "/v") {
				continue // each second renewal asks for what the session has made
			}
		case strings.HasPrefix(key, "_mopslock/"), strings.HasPrefix(key, s.name+"/0/"), r.Op == proxy.Exists && strings.HasSuffix(key, "/"+core.LockFile):
			continue
		case strings.HasSuffix(key, "/result"):
			part = "result"
		}
		asked[part] += " " + string(r.Op)
	}
	asked["name"] = strings.TrimSpace(rewrites.ReplaceAllString(strings.ReplaceAll(asked["name"]+" ", "get get", "get"), "$1"))
	var out []string
	for _, part := range slices.Sorted(maps.Keys(asked)) {
		out = append(out, part+": "+renewals.ReplaceAllString(strings.TrimSpace(asked[part]), "$1"))
	}
	return strings.Join(out, "; ")
}

// TestWalks plays each story on one server twice for each of its requests: once that
// request's answer is lost, and once the request has the fault whose turn it is. Every
// story ends well. TestFaultsOnVerbs shows what a fault is on the other servers.
func TestWalks(t *testing.T) {
	server := use(t, S3)
	prefix := fresh("walks")
	other := openHost(t, server, server.Address, prefix)
	var all sync.WaitGroup
	walk := func(c claim, fault proxy.Fault, hit int) *story {
		s := begin(t, server, prefix, c, other, func(r *proxy.Request) proxy.Fault {
			if r.N == hit {
				return fault
			}
			return proxy.None
		})
		all.Go(func() {
			if err := s.tell(); err != nil {
				t.Errorf("%s, %v at %d: %v", s.title, fault, hit, err)
			}
		})
		return s
	}
	var alone []*story
	for _, c := range claims {
		alone = append(alone, walk(c, proxy.None, 0))
	}
	all.Wait()
	for i, c := range claims {
		for hit := range alone[i].asked {
			walk(c, proxy.CutAfter, hit)
			walk(c, proxy.Faults[(5*i+hit)%len(proxy.Faults)], hit)
		}
	}
	all.Wait()
}

func openHost(t *testing.T, server *Server, address, prefix string) *host.Host {
	t.Helper()
	for _, line := range server.Env(address) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	h, err := host.Open(t.Context(), server.Under(address, prefix), &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	return h
}

// begin makes a story; choose chooses the fault of each of its requests. Only one call may
// run at a time: GCS' address is in the environment.
func begin(t *testing.T, server *Server, prefix string, c claim, other *host.Host, choose func(*proxy.Request) proxy.Fault) *story {
	t.Helper()
	p := behind(t, server)
	s := &story{claim: c, title: server.Kind + ", " + c.name, proxy: p, other: other, name: fresh(c.name)}
	s.host = openHost(t, server, p.Address(), prefix)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	p.SetDelay(300 * time.Millisecond)
	p.Choose(func(r *proxy.Request) proxy.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, *r)
		return choose(r)
	})
	return s
}

func (s *story) tell() error {
	err := s.claim.live(s)
	if closing := s.host.Close(s.ctx); err == nil && closing != nil {
		return fmt.Errorf("close: %w", closing)
	}
	return err
}

// renewed waits until a deadline has moved, as a good renewal moves it.
func (s *story) renewed(deadline func() time.Time, lost func() error) error {
	const step = 20 * time.Millisecond
	for first := deadline(); s.ctx.Err() == nil; time.Sleep(step) {
		if err := lost(); err != nil {
			return err
		}
		if deadline().After(first.Add(time.Second / 2)) {
			return nil
		}
	}
	return errors.New("it is not renewed")
}

// onLease acquires a lease, renews it and releases it; then the other host acquires it.
func onLease(terms host.Terms) func(*story) error {
	return func(s *story) error {
		lease, err := s.host.Acquire(s.ctx, s.name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if err := errors.Join(s.renewed(lease.Deadline, lease.Err), s.isHeld(lease)); err != nil {
			return err
		}
		if err := lease.Release(s.ctx); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		next, err := s.other.TryAcquire(s.ctx, s.name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fmt.Errorf("the next one: %w", err)
		}
		if terms.Protocol == core.ProtocolStrict && next.FencingToken() <= lease.FencingToken() {
			return fmt.Errorf("token %d after %d", next.FencingToken(), lease.FencingToken())
		}
		return next.Release(s.ctx)
	}
}

// isHeld looks at a lease from outside.
func (s *story) isHeld(lease *host.Lease) error {
	seen, err := s.other.Inspect(s.ctx, lease.Name())
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if seen.State != core.ObservedHeld || seen.Holder != lease.Holder() || seen.Token != lease.FencingToken() || seen.TTL != storyTTL {
		return fmt.Errorf("seen from outside: %+v, want held by %s with token %d", seen, lease.Holder(), lease.FencingToken())
	}
	if _, err = s.other.TryAcquire(s.ctx, lease.Name(), &host.AcquireOptions{Terms: host.Terms{Protocol: lease.Protocol(), TTL: core.TTL(storyTTL)}}); !errors.Is(err, host.ErrNotAcquired) {
		return fmt.Errorf("the other tries: %w", err)
	}
	return nil
}

// onSession keeps two leases by one heartbeat; Close releases them.
func onSession(s *story) error {
	terms := strictly
	terms.Session = true
	var leases []*host.Lease
	for i := range 2 {
		lease, err := s.host.Acquire(s.ctx, fmt.Sprintf("%s/%d", s.name, i), &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		leases = append(leases, lease)
	}
	for _, lease := range leases {
		if err := errors.Join(s.renewed(lease.Deadline, lease.Err), s.isHeld(lease)); err != nil {
			return err
		}
	}
	if leases[0].Session() == "" || leases[0].Session() != leases[1].Session() {
		return fmt.Errorf("sessions %q and %q", leases[0].Session(), leases[1].Session())
	}
	if err := s.host.Close(s.ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	names := 0
	for seen, err := range s.other.List(s.ctx, s.name+"/") {
		if names++; err != nil || seen.State != core.ObservedReleased {
			return fmt.Errorf("after close: %s is %v, %w", seen.Name, seen.State, err)
		}
	}
	if names != len(leases) {
		return fmt.Errorf("%d names are listed", names)
	}
	return nil
}

// onCompanion accompanies a lease of the other host, which releases it in the end.
func onCompanion(s *story) error {
	lease, err := s.other.Acquire(s.ctx, s.name, &host.AcquireOptions{Terms: strictly})
	if err != nil {
		return err
	}
	companion, err := s.host.Accompany(s.ctx, lease.Handle(), nil)
	if err != nil {
		return fmt.Errorf("accompany: %w", err)
	}
	until := func() time.Time { return time.Now().Add(companion.Left()) }
	if err := errors.Join(s.renewed(until, companion.Err), s.isHeld(lease)); err != nil {
		return err
	}
	if companion.FencingToken() != lease.FencingToken() {
		return fmt.Errorf("token %d, the holder's is %d", companion.FencingToken(), lease.FencingToken())
	}
	if err := companion.Leave(s.ctx); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return lease.Release(s.ctx)
}

// onPermit holds all permits of a semaphore, and gives them back.
func onPermit(s *story) error {
	view := host.View{Capacity: 2, Width: 1}
	opts := &host.PermitOptions{Terms: strictly, Weight: 2}
	permit, err := s.host.AcquirePermit(s.ctx, s.name, view, opts)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if err := s.renewed(permit.Deadline, permit.Err); err != nil {
		return err
	}
	if _, err := s.other.TryAcquirePermit(s.ctx, s.name, view, &host.PermitOptions{Terms: strictly}); !errors.Is(err, host.ErrFull) {
		return fmt.Errorf("while all are held: %w", err)
	}
	if err := permit.Release(s.ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	next, err := s.other.TryAcquirePermit(s.ctx, s.name, view, opts)
	if err != nil {
		return fmt.Errorf("the next one: %w", err)
	}
	if next.FencingToken() <= permit.FencingToken() {
		return fmt.Errorf("token %d after %d", next.FencingToken(), permit.FencingToken())
	}
	return next.Release(s.ctx)
}

// onInvocation has work done once, and both hosts get its result.
func onInvocation(s *story) error {
	launched := 0
	result, err := s.host.Invoke(s.ctx, s.name, func(_ context.Context, work *host.Work) error {
		launched++
		work.Return(host.Bytes([]byte("done")))
		return nil
	}, &host.InvokeOptions{Terms: strictly})
	if err == nil {
		err = s.comesTo(result, "done")
	}
	if err != nil || launched != 1 {
		return fmt.Errorf("invoke, launched %d times: %w", launched, err)
	}
	again := func(context.Context, *host.Work) error { return errors.New("launched again") }
	if result, err = s.other.Invoke(s.ctx, s.name, again, &host.InvokeOptions{Terms: strictly}); err != nil {
		return fmt.Errorf("the other: %w", err)
	}
	return s.comesTo(result, "done")
}

// comesTo checks a result. A reader is told of a failing request, and reads again.
func (s *story) comesTo(result *host.Result, want string) error {
	got, err := result.Bytes(s.ctx, 1<<10)
	if err != nil {
		got, err = result.Bytes(s.ctx, 1<<10)
	}
	if err == nil && string(got) != want {
		err = fmt.Errorf("%q, want %q", got, want)
	}
	return err
}

// TestTakeOver: a holder without a network is dead by the server's own stamps, and the
// waiter gets the lease without help; the holder knows that it has lost it.
func TestTakeOver(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		prefix := fresh("takeover")
		holder, waiter := openHost(t, server, p.Address(), prefix), openHost(t, server, server.Address, prefix)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var held []*host.Lease
		for _, terms := range []host.Terms{strictly, byLast} {
			terms.TTL = core.TTL(core.MinTTLCoarse)
			lease, err := holder.Acquire(ctx, terms.Protocol.String(), &host.AcquireOptions{Terms: terms})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, lease)
		}
		p.Down()
		for _, lease := range held {
			next, err := waiter.Acquire(ctx, lease.Name(), &host.AcquireOptions{Terms: host.Terms{Protocol: lease.Protocol(), TTL: core.TTL(storyTTL)}})
			if err != nil {
				t.Fatal(err)
			}
			if !errors.Is(lease.Err(), host.ErrLost) || next.Holder() == lease.Holder() {
				t.Errorf("%s: its holder says %v", lease.Name(), lease.Err())
			}
			if lease.Protocol() == core.ProtocolStrict && next.FencingToken() <= lease.FencingToken() {
				t.Errorf("token %d after %d", next.FencingToken(), lease.FencingToken())
			}
		}
	})
}
