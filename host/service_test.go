package host

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Waiters that would judge sooner by the store's clock share one sample of it a
// minute, which is gone when the Host is closed.
func TestStoreClockSample(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		for _, name := range []string{"n", "m", "o"} {
			a.strictly(name)
		}
		ctx := w.limited(5 * minute)
		var all sync.WaitGroup
		for _, name := range []string{"n", "m", "o"} {
			all.Go(func() {
				w.is(errOf(b.Acquire(ctx, name, &AcquireOptions{Terms: strict})), context.DeadlineExceeded)
			})
		}
		all.Wait()
		if n := b.store.count("put", storeClockPrefix); n < 1 || n > 6 {
			w.Errorf("%d samples in 5 minutes", n)
		}
		b.idle()
		w.ok(b.Close(background))
		w.same("left behind", strings.Contains(keys(w), storeClockPrefix), false)
	})
}

// A caller that tries once asks for a sample before it is refused: the sample may show
// that the holder is dead. If there can be none, the caller is told so at once.
func TestStoreClockSampleOfATry(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.host(), w.host(), w.host()
		a.strictly("n")
		a.store.always(fault{hang: true}) // a is dead
		w.sleep(5 * minute)
		b.store.when("", storeClockPrefix, fault{class: core.ClassUnauthorized})
		for _, samples := range []int{1, 1} { // the second is asked for within the minute
			begun := time.Now()
			w.is(errOf(b.tryStrictly("n")), &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
			w.same("samples", b.store.count("put", storeClockPrefix), samples)
			w.within("refused after", time.Since(begun), 0, 20*latency)
		}
		begun := time.Now()
		l, err := c.tryStrictly("n")
		w.ok(err)
		w.within("taken after", time.Since(begun), 0, 20*latency)
		c.release(l)
	})
}

// A process that lists the store removes what dead processes left, long after they
// died; what lives stays.
func TestSweep(t *testing.T) {
	for _, boot := range []string{"", "ours"} {
		bubble(t, func(w *world) {
			same := func(o *Options) { o.Boot = boot }
			dead, alive, lister := w.hostWith(same), w.hostWith(same), w.hostWith(same)
			lister.terms.samples = boot == ""
			l, m := dead.sessional("n"), alive.sessional("m")
			w.backend.put(sessionPrefix+l.Session()+"/call/0000000000", []byte("{}"))
			w.backend.put(sessionPrefix+"newer/beat", []byte(`{"v":2}`))
			w.backend.put(storeClockPrefix+"gone", []byte("{}"))
			dead.store.always(fault{hang: true})
			beat, _ := w.backend.get(sessionPrefix + l.Session() + "/beat") // as a later mopslock may have written it
			w.backend.put(sessionPrefix+l.Session()+"/beat", bytes.Replace(beat.Body, []byte("\n}"), []byte(", \"ext\": {\"v\": 2}}"), 1))
			sweep := func() string {
				for _, err := range lister.List(background, "") {
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

// What lives also stays if the process that lists the store runs on a clone of the machine,
// whose boot has the same name and whose clock is ahead.
func TestSweepOnClone(t *testing.T) {
	bubble(t, func(w *world) {
		same := func(o *Options) { o.Boot = "ours" }
		alive, lister := w.hostWith(same), w.hostWith(same)
		lister.terms.samples, lister.clock.start = false, lister.clock.start.Add(-time.Hour)
		l := alive.sessional("n")
		for _, err := range lister.List(background, "") {
			w.ok(err)
		}
		w.same("beat", strings.Contains(keys(w), l.Session()), true)
	})
}
