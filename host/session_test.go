package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

var onSession = Terms{Protocol: core.ProtocolStrict, TTL: minute, Session: true}

func (p *party) sessional(name string) *Lease {
	p.world.Helper()
	l, err := p.Acquire(context.Background(), name, &AcquireOptions{Terms: onSession})
	p.world.ok(err)
	return l
}

// A session is opened by the first lease on it, shared by the next, and closed,
// without a trace, when the Host is.
func TestSession(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		l := p.sessional("n")
		w.same("opened", p.store.count("put", sessionPrefix), 1)
		m := p.sessional("m")
		w.same("shared", l.Session() == m.Session() && l.Session() != "", true)
		w.same("beats of the session", p.store.count("put", sessionPrefix), 1)
		p.store.forget()
		w.sleep(10 * minute)
		w.ok(l.Err())
		w.ok(m.Err())
		w.same("beats of leases", p.store.count("put", "/b."), 0)
		if n := p.store.count("put", sessionPrefix); n < 30 || n > 36 || n != p.store.count("exists", sessionPrefix) {
			w.Errorf("%d beats", n)
		}
		w.same("nothing else", len(p.store.log()), 2*p.store.count("put", sessionPrefix))
		s, err := other.Inspect(context.Background(), "n")
		w.ok(err)
		w.same("session", s.Session, l.Session())
		w.same("state", s.State, core.ObservedHeld)
		p.store.forget()
		p.release(l)
		// So long after the acquire it is looked first whether ours is still the newest.
		w.same("a release", p.store.work(), "list create")
		l = p.sessional("n")
		w.same("and again", p.store.work(), "list create create")
		p.release(l)
		p.release(m)
		w.ok(p.Close(context.Background()))
		w.shelf.mu.Lock()
		defer w.shelf.mu.Unlock()
		for key := range w.shelf.objects {
			if len(key) > len(sessionPrefix) && key[:len(sessionPrefix)] == sessionPrefix {
				w.Errorf("left behind: %s", key)
			}
		}
	})
}

// Ten thousand leases on one session cost one put and one exists an interval, no
// goroutine, and little memory.
func TestSessionOfTenThousand(t *testing.T) {
	leases := fewer(10_000)
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight, o.Logger = 1000, nil }) // what a log keeps is not the leases'
		p.store.on(func(call) fault { return fault{} })
		held := make([]*Lease, leases)
		names := make([]string, leases)
		for i := range names {
			names[i] = fmt.Sprintf("jobs/%05d", i)
		}
		p.sessional("first")
		before, goroutinesBefore := liveHeap(w), goroutines()
		const callers = 100 // the runtime keeps what a goroutine was
		var all sync.WaitGroup
		for first := range callers {
			all.Go(func() {
				for i := first; i < leases; i += callers {
					held[i] = p.sessional(names[i])
				}
			})
		}
		all.Wait()
		w.sleep(time.Second)
		w.shelf.mu.Lock()
		objects := 0
		for key, object := range w.shelf.objects {
			objects += len(key) + cap(object.Body) + 64 + 48
		}
		w.shelf.mu.Unlock()
		p.store.forget()
		w.same("goroutines", goroutines(), goroutinesBefore)
		perLease := (liveHeap(w) - before - int64(objects)) / int64(leases)
		t.Logf("%d bytes a lease, beside what the fake store keeps", perLease)
		// On another engine the machines' memory is the guest's; a server's client has its own.
		if perLease > 1024 && engine == nil && far == nil {
			w.Errorf("%d bytes a lease", perLease)
		}
		w.sleep(20 * minute)
		if n := len(p.store.log()); n > 2*73 || n != 2*p.store.count("put", sessionPrefix) {
			w.Errorf("%d requests in 20 minutes", n)
		}
		for _, l := range held {
			w.ok(l.Err())
		}
		runtime.KeepAlive(names)
	})
}

func liveHeap(w *world) int64 {
	w.Helper()
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A session past its deadline takes every lease on it along, at once and with
// its reason; the next claim gets another.
func TestSessionDies(t *testing.T) {
	for reason, kill := range map[core.Reason]func(*party){
		core.ReasonUnreachable: func(p *party) {
			p.store.always(fault{class: core.ClassUnreachable})
			p.world.sleep(minute)
			p.store.heal()
		},
		core.ReasonExpired: func(p *party) { p.clock.jump(10 * minute) },
	} {
		t.Run(reason.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.host()
				l, m := p.sessional("n"), p.sessional("m")
				was := l.Session()
				w.sleep(time.Second)
				kill(p)
				w.is(l.Err(), &Error{Kind: Lost, Reason: reason})
				w.is(m.Err(), &Error{Kind: Lost, Reason: reason})
				<-l.Done()
				next := p.sessional("k")
				w.same("another", next.Session() != was && next.Session() != "", true)
				w.sleep(5 * minute)
				again := p.sessional("n")
				w.same("token", again.FencingToken() > l.FencingToken(), true)
			})
		})
	}
}

// Whoever breaks a lease on a session calls the session, whose other leases go on.
func TestSessionCalled(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		l, m := p.sessional("n"), p.sessional("m")
		_, err := other.Break(context.Background(), "n", &BreakOptions{Why: "stuck"})
		w.ok(err)
		begun := time.Now()
		<-l.Done()
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonBroken})
		if took := time.Since(begun); took > 21*time.Second {
			w.Errorf("noticed after %v", took)
		}
		next := other.strictly("n")
		if took := time.Since(begun); took < 50*time.Second || took > 2*minute {
			w.Errorf("taken after %v", took)
		}
		w.ok(m.Err())
		w.same("stands on", m.Session() != "", true)
		other.release(next)
	})
}

// A store that takes no beat strands nobody who waits for the session.
func TestSessionCannotBeat(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.on(func(c call) fault {
			if c.verb == "put" {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		_, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: onSession})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		p.store.heal()
		p.release(p.sessional("n"))
	})
}

// A Host that is closed releases what stands on its session before the session ends.
func TestSessionClosed(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		l := p.sessional("n")
		p.sessional("m")
		w.ok(p.Close(context.Background()))
		w.is(l.Err(), ErrReleased)
		for _, name := range []string{"n", "m"} {
			next, err := other.tryStrictly(name)
			w.ok(err)
			other.release(next)
		}
	})
}

// scarceRand has no randomness any more once it is told so.
type scarceRand struct {
	io.Reader
	left atomic.Int32
}

func (r *scarceRand) Read(b []byte) (int, error) {
	if r.left.Add(-1) < 0 {
		return 0, errors.New("no entropy")
	}
	return r.Reader.Read(b)
}

// A session that cannot even be made refuses the claim, or the work, that needs it.
func TestSessionCannotBeMade(t *testing.T) {
	bubble(t, func(w *world) {
		random := &scarceRand{Reader: newRand(5)}
		random.left.Store(1 << 30)
		p := w.hostWith(func(o *Options) { o.Rand = random })
		p.release(p.strictly("n"))
		for left := range int32(3) { // one for the terms, one for the claim, one for the session
			random.left.Store(left)
			if l, err := p.Acquire(context.Background(), "m", &AcquireOptions{Terms: onSession}); err == nil {
				w.Errorf("%d: %v", left, l)
			}
			random.left.Store(left)
			if r, err := p.invoke("k", w.never, onSession); err == nil {
				w.Errorf("%d: %v", left, r)
			}
			random.left.Store(1 << 30)
			w.sleep(time.Second)
		}
		p.release(p.sessional("m"))
		r, err := p.invoke("k", returns("x", 0), onSession)
		w.ok(err)
		w.holds(r, "x")
	})
}
