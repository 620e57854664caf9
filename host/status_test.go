package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Inspect tells every state of a record by one get, after a list for versions,
// and writes nothing.
func TestInspect(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		w.place("theirs", theirs())
		stale := theirs()
		stale.written, stale.remote = time.Now().Add(-2*minute), true
		w.place("stale", stale)
		released := theirs()
		released.written, released.released = time.Time{}, time.Now()
		w.place("released", released)
		w.backend.put("corrupt/lock.json", []byte(`{"writer_id": 7}`))
		w.backend.put("empty/lock.json", nil)
		w.backend.put("huge/lock.json", make([]byte, core.MaxRecord+1))
		w.sleep(time.Second)
		for name, state := range map[string]core.Observation{
			"n": core.ObservedHeld, "theirs": core.ObservedHeld, "stale": core.ObservedStale,
			"released": core.ObservedReleased, "corrupt": core.ObservedCorrupt, "empty": core.ObservedCorrupt,
			"huge": core.ObservedCorrupt, "none": core.ObservedVacant,
		} {
			p.store.forget()
			s := p.sees(name)
			w.same(name, s.State, state)
			w.same("requests", p.store.verbs(), "list get")
			w.same("name", s.Name, name)
		}
		inspectFields(w, p, l)
	})
}

func inspectFields(w *world, p *actor, l *Lease) {
	w.Helper()
	s := p.sees("n")
	w.same("holder", s.Holder, l.Holder())
	w.same("host", s.Host, p.terms.host)
	w.same("pid", s.PID, p.terms.pid)
	w.same("TTL", s.TTL, minute)
	w.same("age and left", s.Age+s.Left, minute)
	w.same("acquired", s.Acquired, l.Acquired().Truncate(time.Microsecond))
	s = p.sees("stale")
	w.same("a companion's", s.Companion, true)
	if s.Left > -minute || s.Age < 2*minute {
		w.Fatalf("left %v, age %v", s.Left, s.Age)
	}
	s = p.sees("released")
	if s.Left != 0 || s.Released.IsZero() || s.Age < time.Second {
		w.Fatalf("%+v", s)
	}
}

func TestInspectFails(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.is(errOf(p.Inspect(background, "a/../b")), &core.Error{Code: core.ErrorConfig})
		w.same("requests", p.store.verbs(), "")
		p.store.always(fault{class: core.ClassUnauthorized})
		_, err := p.Inspect(background, "n")
		e, ok := errors.AsType[*store.Error](err)
		w.same("a store's error", ok && e.Class == core.ClassUnauthorized, true)
		noSecrets(t, err.Error())
	})
}

func list(w *world, p *actor, ctx context.Context, prefix string) (names string, err error) {
	w.Helper()
	var out []string
	for s, e := range p.List(ctx, prefix) {
		if e != nil {
			err = e
			continue
		}
		out = append(out, s.Name+":"+s.State.String())
	}
	return strings.Join(out, " "), err
}

// List is in byte order over all pages, whatever else is in the store.
func TestList(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, name := range []string{"b", "a/z", "a", "a-b", "c/d/e"} {
			w.place(name, theirs())
		}
		w.backend.put("x/lock.json", []byte("?"))
		for _, odd := range []string{"lock.json", "a/lock.json/lock.json", "a/other", "_mopslock/lock.json", "a/result", "z./lock.json", "readme"} {
			w.backend.put(odd, []byte("odd"))
		}
		all, err := list(w, p, background, "")
		w.ok(err)
		w.same("all", all, "a-b:held a:held a/z:held b:held c/d/e:held x:corrupt")
		some, err := list(w, p, background, "a")
		w.ok(err)
		w.same("some", some, "a-b:held a:held a/z:held")
		none, err := list(w, p, background, "nothing")
		w.ok(err)
		w.same("none", none, "")
		w.same("puts", len(p.store.puts()), 0)
	})
}

// A store that is silent keeps no caller for longer than a request may take, not even one
// that would wait forever.
func TestLooksAreLimited(t *testing.T) {
	each(t, map[string]func(p *actor) error{
		"inspect": func(p *actor) error {
			_, err := p.Inspect(background, "n")
			return err
		},
		"took": func(p *actor) error {
			_, err := p.Took(background, "n")
			return err
		},
		"break": func(p *actor) error {
			_, err := p.Break(background, "n", &BreakOptions{Protocol: core.ProtocolLastWriter})
			return err
		},
	}, func(w *world, name string, look func(p *actor) error) {
		p := w.host()
		w.place("n", theirs())
		p.store.on(func(c call) fault {
			// What a machine asks for has its own limit.
			return fault{hang: !strings.Contains(c.key, core.RegisterDir)}
		})
		begun := time.Now()
		err := look(p)
		if e, ok := errors.AsType[*store.Error](err); !ok || e.Class != core.ClassUnreachable {
			w.Errorf("error %v", err)
		}
		w.same("after", time.Since(begun), core.RequestLimit)
	})
}

// It ends early when asked to, and goes on after one bad record, which it tells.
func TestListEnds(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			w.place(name, theirs())
		}
		for s, err := range p.List(background, "") {
			w.ok(err)
			w.same("first", s.Name, "a")
			break
		}
		p.store.when("", "e/lock.json", fault{class: core.ClassThrottled})
		names, err := list(w, p, background, "")
		w.same("names", names, "a:held b:held c:held d:held f:held")
		if e, ok := errors.AsType[*store.Error](err); !ok || e.Class != core.ClassThrottled {
			w.Fatalf("error %v", err)
		}
		p.store.always(fault{class: core.ClassUnauthorized})
		names, err = list(w, p, background, "")
		w.same("names", names, "")
		w.same("error", err != nil, true)
		p.store.always(fault{hang: true})
		w.is(errOf(list(w, p, w.limited(time.Second), "")), context.DeadlineExceeded)
		begun := time.Now()
		_, err = list(w, p, background, "")
		w.same("limited", err != nil && time.Since(begun) == core.RequestLimit, true)
	})
}

// What vanishes between the list and the get is left out.
func TestListVanishing(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("a", theirs())
		w.place("b", theirs())
		p.store.once("get", fault{before: latency})
		time.AfterFunc(latency, func() { w.backend.remove("a/lock.json") })
		names, err := list(w, p, background, "")
		w.ok(err)
		w.same("names", names, "b:held")
	})
}

// Watch tells changes of state and holder, not renewals, and survives errors.
func TestWatch(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		seen := beside(func() (seen string) {
			for s, err := range b.Watch(w.limited(3*minute), "n") {
				if err != nil {
					seen += "error "
					continue
				}
				seen += s.State.String() + " "
			}
			return seen
		})
		w.sleep(3 * time.Second)
		l := a.acquire("n")
		w.sleep(2 * minute)
		b.store.once("get", fault{class: core.ClassUnreachable})
		w.sleep(2 * time.Second)
		a.release(l)
		w.same("seen", <-seen, "vacant held error released ")
		w.same("puts", len(b.store.puts()), 0)
		for _, err := range b.Watch(background, "a//b") {
			w.is(err, &core.Error{Code: core.ErrorConfig})
		}
	})
}

// Where the store tells of changes Watch looks at once, and not in a second.
func TestWatchIsTold(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		l := w.host().hold("n", terms)
		time.AfterFunc(300*time.Millisecond, func() { w.ok(l.Release(background)) })
		begun := time.Now()
		for s := range w.watching(nil).Watch(w.limited(minute), "n") {
			if s.State == core.ObservedReleased {
				break
			}
		}
		w.within("told after", time.Since(begun), 300*time.Millisecond, 300*time.Millisecond+5*latency)
	})
}

// What is dated in the future is seen to die a TTL after it was seen, not later.
func TestStatusOfTheFuture(t *testing.T) {
	seen := core.Observed{State: core.ObservedHeld, TTL: time.Minute, WrittenAt: int64(time.Hour)}
	if s := newStatus("n", core.ProtocolLastWriter, &seen, core.Instant{}); s.Left != time.Minute || s.Age != -time.Hour {
		t.Errorf("left %v, age %v", s.Left, s.Age)
	}
}

// An object may be dated anyhow. That is the world's doing, no fault of ours,
// and must not end the process with all that it holds.
func TestOddlyDatedObject(t *testing.T) {
	for _, stamp := range []int64{-1 << 63, -1 << 60, 1, 1 << 62, 1<<63 - 1} {
		bubble(t, func(w *world) {
			p := w.host()
			w.backend.put(recordKey("n"), []byte("{"))
			object := w.backend.objects[recordKey("n")]
			object.Stamp = stamp
			w.backend.objects[recordKey("n")] = object
			if l, err := p.try("n"); err != nil {
				w.is(err, ErrNotAcquired)
			} else { // dated long ago: an unreadable record so old is taken
				p.release(l)
			}
		})
	}
}
