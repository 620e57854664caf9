package host

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Waiters that would judge sooner by the store's clock share one sample of it a
// minute, which is gone when the Host is closed.
func TestCalibration(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		for _, name := range []string{"n", "m", "o"} {
			a.strictly(name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*minute)
		defer cancel()
		var all sync.WaitGroup
		for _, name := range []string{"n", "m", "o"} {
			all.Go(func() {
				_, err := b.Acquire(ctx, name, &AcquireOptions{Terms: strict})
				w.is(err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		if n := b.store.count("put", calibrationPrefix); n < 1 || n > 6 {
			w.Errorf("%d samples in 5 minutes", n)
		}
		b.idle()
		w.ok(b.Close(context.Background()))
		w.same("left behind", strings.Contains(keys(w), calibrationPrefix), false)
	})
}

// Who tries once asks for a sample before he is refused: it may show that the
// holder is dead. Where none is to be had he is told so at once.
func TestCalibrationOfATry(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		a.strictly("n")
		a.store.always(fault{hang: true}) // a is dead
		w.sleep(5 * minute)
		b.store.on(func(c call) fault {
			if strings.HasPrefix(c.key, calibrationPrefix) {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		for _, samples := range []int{1, 1} { // the second is asked for within the minute
			begun := time.Now()
			_, err := b.tryStrictly("n")
			w.is(err, &Error{Kind: Refused, Reason: core.ReasonHeld})
			w.same("samples", b.store.count("put", calibrationPrefix), samples)
			if took := time.Since(begun); took > 20*latency {
				w.Errorf("refused after %v", took)
			}
		}
		begun := time.Now()
		l, err := c.tryStrictly("n")
		w.ok(err)
		if took := time.Since(begun); took > 20*latency {
			w.Errorf("taken after %v", took)
		}
		c.release(l)
	})
}

// A directory's stamps are of a clock that may be set: nobody calibrates by it.
func TestNoCalibration(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		b.calibrates = false
		l := a.strictly("n")
		_, err := b.Acquire(context.Background(), "n", &AcquireOptions{Terms: strict, Wait: 5 * minute})
		w.is(err, ErrRefused)
		w.same("samples", b.store.count("put", calibrationPrefix), 0)
		w.ok(l.Err())
	})
}

// What dead processes left is removed by whoever lists the store, long after they
// died; what lives stays.
func TestSweep(t *testing.T) {
	for _, boot := range []string{"", "ours"} {
		bubble(t, func(w *world) {
			same := func(o *Options) { o.Boot = boot }
			dead, alive, lister := w.hostWith(same), w.hostWith(same), w.hostWith(same)
			lister.calibrates = boot == ""
			l, m := dead.sessional("n"), alive.sessional("m")
			w.shelf.put(sessionPrefix+l.Session()+"/call/0000000000", []byte("{}"))
			w.shelf.put(sessionPrefix+"newer/beat", []byte(`{"v":2}`))
			w.shelf.put(calibrationPrefix+"gone", []byte("{}"))
			dead.store.always(fault{hang: true})
			sweep := func() string {
				for _, err := range lister.List(context.Background(), "") {
					w.ok(err)
				}
				return keys(w)
			}
			w.sleep(9 * minute)
			if all := sweep(); !strings.Contains(all, l.Session()) || !strings.Contains(all, m.Session()) {
				w.Errorf("too early: %s", all)
			}
			w.sleep(3 * minute)
			all := sweep()
			for key, want := range map[string]bool{
				l.Session(): false, m.Session(): true, "newer/beat": true, "c/gone": boot != "",
			} {
				if there := strings.Contains(all, sessionPrefix+key) || strings.Contains(all, storePrefix+key); there != want {
					w.Errorf("%s is there: %v, of %s", key, !want, all)
				}
			}
			w.ok(m.Err())
		})
	}
}

// A directory tells of the next version, so that a waiter elsewhere need not poll.
func TestStrictFileEvents(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.host()
		b := w.host()
		b.Host.store = watchedStore{b.store, nil}
		l := a.strictly("n")
		got := make(chan time.Time)
		go func() {
			next := b.strictly("n")
			got <- time.Now()
			b.release(next)
		}()
		w.sleep(40 * time.Second)
		begun := time.Now()
		a.release(l)
		if took := (<-got).Sub(begun); took > 6*latency {
			w.Errorf("handed over after %v", took)
		}
		w.sleep(time.Second)
		w.shelf.mu.Lock()
		defer w.shelf.mu.Unlock()
		for key, told := range w.shelf.watchers {
			if len(told) > 0 {
				w.Errorf("%s is still watched", key)
			}
		}
	})
}

// A lease whose engine fails is lost at its deadline, and so is one on a session.
func TestStrictEngineFails(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		l := p.strictly("n")
		m := p.sessional("m")
		engine.broken.Store(true)
		begun := time.Now()
		<-l.Done()
		<-m.Done()
		w.is(l.Err(), ErrLost)
		w.is(m.Err(), ErrLost)
		if took := time.Since(begun); took > minute {
			w.Errorf("lost after %v", took)
		}
		_, err := p.Inspect(context.Background(), "n")
		if err == nil {
			w.Error("an observer without an engine")
		}
		_, err = p.Acquire(context.Background(), "k", &AcquireOptions{Terms: onSession})
		if err == nil {
			w.Error("acquired without an engine")
		}
		engine.broken.Store(false)
		w.same("token", p.sessional("k").FencingToken(), uint64(1))
	})
}
