package host

import (
	"context"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Work that was launched again, by the next tenure, has a lease of its own.
func TestInvokeLaunchesAgain(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		var works []*Work
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				works = append(works, work)
				if len(works) == 1 {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				work.Return(Bytes([]byte("second")))
				return nil
			}, terms)
		})
		w.sleep(5 * time.Second)
		other.breaks("n", &BreakOptions{Why: "test", Now: true})
		v.comesTo("second")
		w.same("launches", len(works), 2)
		w.same("holders", works[0].Holder() != works[1].Holder(), true)
		w.is(works[0].Err(), ErrLost)
		w.is(works[1].Err(), ErrReleased)
		works[0].End(nil) // too late for anything
		works[1].End(nil)
		w.sleep(5 * time.Second)
		p.idle()
	})
}

// A store that refuses refuses, one that falls silent is waited for, and one that does not
// take the result is told of.
func TestInvokeOutage(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		p.store.always(fault{class: core.ClassUnauthorized})
		w.is(errOf(p.invoke("n", w.never, terms)), &Error{Kind: Refused, Reason: core.ReasonUnusable})
		p.store.heal()
		p.comes("n", func(_ context.Context, work *Work) error {
			p.store.always(fault{class: core.ClassUnreachable}) // for the result
			time.AfterFunc(20*time.Second, p.store.heal)
			work.Return(Bytes([]byte("kept")))
			return nil
		}, terms, "kept")
		r, err := p.invoke("m", func(_ context.Context, work *Work) error {
			p.store.always(fault{class: core.ClassFull})
			work.Return(Bytes([]byte("kept")))
			return nil
		}, terms)
		w.is(err, &Error{Kind: NoResult, Reason: core.ReasonUnusable})
		w.same("result", r, (*Result)(nil))
		w.has(err.Error(), "did not take")
		noSecrets(w.T, err.Error())
	})
}
