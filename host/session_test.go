package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

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
		if n := p.store.count("put", sessionPrefix); n < 30 || n > 36 || n != p.store.count("exists", "/call/") {
			w.Errorf("%d beats", n)
		}
		n, looks := p.store.count("put", sessionPrefix), p.store.count("exists", l.Session()+"/v")
		w.same("nothing else", len(p.store.log()), 2*n+looks)
		w.same("looks for what it has made", looks >= n/2-1 && looks <= n/2+1, true)
		s := other.sees("n")
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
		w.ok(p.Close(background))
		w.same("left behind", strings.Contains(keys(w), sessionPrefix), false)
	})
}

// The breaker of a lease on a session calls the session, whose other leases go on.
func TestSessionCalled(t *testing.T) {
	each(t, map[string]bool{"lease": false, "invocation": true}, func(w *world, _ string, invoked bool) {
		p, other := w.host(), w.host()
		m := p.sessional("m")
		var l *Lease
		if invoked {
			l = w.next(p.begins("n", onSession)).Lease()
		} else {
			l = p.sessional("n")
		}
		other.breaks("n", &BreakOptions{Why: "stuck"})
		begun := time.Now()
		<-l.Done()
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonBroken})
		w.within("noticed after", time.Since(begun), 0, 21*time.Second)
		next := other.strictly("n")
		w.within("taken after", time.Since(begun), 50*time.Second, 2*minute)
		w.is(l.Err(), ErrLost)
		w.ok(m.Err())
		other.release(next)
	})
}

// A call that somebody made up before the session was in force ends nothing, and the calls
// after it are heard.
func TestSessionCalledTooSoon(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.watching(nil)
		p.store.on(func(c call) fault {
			if sid, ok := strings.CutSuffix(c.key, "/beat"); ok && c.verb == "put" {
				w.backend.put(sid+"/call/0000000000", []byte(`{"v": 1, "nonce": "x", "name": "m", "epoch": 2, "boottime_ns": 0}`))
			}
			return fine
		})
		l := p.sessional("n")
		p.store.heal()
		w.host().breaks("n", &BreakOptions{Why: "stuck"})
		begun := time.Now()
		<-l.Done()
		w.within("heard after", time.Since(begun), 0, 21*time.Second) // the made-up call is the one that is watched
	})
}

// After a call a lease is believed no longer than before it, though its session is renewed, until it has found out:
// what is above may be its companion's, and all is well. If it hears nothing, that is its end.
func TestSessionCalledUnanswered(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l, m := p.sessional("n"), p.sessional("m")
		w.host().joins(l.Handle())
		for n, above := range []fault{fine, {hang: true}} {
			p.store.forget()
			p.store.when("", "n/", above)
			w.backend.put(fmt.Sprintf("%s%s/call/%010d", sessionPrefix, l.Session(), n),
				fmt.Appendf(nil, `{"v":1,"nonce":"00","name":"n","epoch":%d,"boottime_ns":0}`, n+2))
			w.until(time.Second, func() bool { return p.store.count("", "n/") > 0 })
			believed := l.Deadline()
			w.sleep(30 * time.Second)
			w.same("is believed for longer", l.Deadline().After(believed), n == 0)
			if n == 1 {
				<-l.Done()
				w.same("lost at", time.Now(), believed)
			}
		}
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.ok(m.Err())
	})
}

// Leases of one TTL share a session, and those of another have their own.
func TestSessionsOfTwoTTLs(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		a, b := p.sessional("a"), p.sessional("b")
		longer := onSession
		longer.TTL = core.TTL(2 * minute)
		c := p.hold("c", longer)
		w.same("one session", a.Session() == b.Session() && a.Session() != "", true)
		w.same("another", c.Session() != a.Session() && c.Session() != "", true)
	})
}

// oddIDs are what somebody may have written for an id into a record: some are no
// ids by the core's rule, some only make keys that a store does not keep.
var oddIDs = []string{
	"..", ".", "../../x", "/etc/passwd", "a/b", `a\\b`, `a\u0000b`, `a\nb`, "..%2f", "x__0x2ey", "%2e%2e", "．．", "?prefix=..", "a#b",
	strings.Repeat("x", 201), strings.Repeat("x", 200),
}

// narrow is a host on a store that refuses as many keys as any of ours.
func (w *world) narrow(prefix string) (*actor, store.Store) {
	w.Helper()
	s := cloud.New(memblob.OpenBucket(nil), &cloud.Options{Prefix: prefix, Refused: `"#%?`})
	h, err := New(s, &Options{Clock: &fakeClock{start: time.Now()}, Rand: newRand(1), Memory: "-"})
	w.ok(err)
	w.Cleanup(func() { w.ok(h.Close(background)) })
	return &actor{Host: h, world: w}, s
}

func forgedLease(state, id string) string {
	return `{"v": 1, "kind": "lease", "n": 1, "state": "` + state + `", "tenure": "t", "origin": 1, "owner": "t", "owners": ["t"], "nonce": "x", ` +
		`"ttl_s": 60, "margin_s": 6, "session": "` + id + `", "alone": false, "boottime_ns": 0, "at": "2000-01-01T00:00:00.000000+00:00"}`
}

func forgedSemaphore(id string) string {
	return `{"v": 1, "kind": "semaphore", "n": 1, "state": "value", "tenure": "t", "origin": 1, "owner": "t", "owners": [], "nonce": "x", ` +
		`"ttl_s": 60, "margin_s": 6, "alone": false, "boottime_ns": 0, "at": "2000-01-01T00:00:00.000000+00:00", ` +
		`"capacity": 1, "width": 1, "permits": [{"id": "p", "session": "` + id + `"}]}`
}

// A record of others that names a session which no store can keep strands nobody: the
// lease, or the permit, is free a TTL later, or two.
func TestForgedSession(t *testing.T) {
	for i, id := range oddIDs {
		for state, record := range map[string]string{
			"held": forgedLease("held", id), "broken": forgedLease("broken", id), "released": forgedLease("released", id),
			"permit": forgedSemaphore(id),
		} {
			t.Run(fmt.Sprintf("%s/%d", state, i), func(t *testing.T) {
				bubble(t, func(w *world) {
					p, s := w.narrow("")
					w.ok(s.Put(background, versionKey("n", 1), []byte(record), ""))
					if state == "permit" {
						permit, err := p.AcquirePermit(w.limited(10*minute), "n", View{Capacity: 1, Width: 1}, nil)
						w.ok(err)
						w.ok(permit.Release(background))
						return
					}
					w.is(errOf(p.tryStrictly("n")), ErrNotAcquired)
					w.sleep(4 * minute)
					p.free("n", strict)
				})
			})
		}
	}
}
