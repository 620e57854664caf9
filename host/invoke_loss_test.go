package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// A lease that is lost ends the launch; whoever took it makes the result, and it
// is everybody's.
func TestInvokeLost(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		var cause, lost error
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				cause, lost = context.Cause(ctx), work.Err()
				work.Return(Bytes([]byte("late")))
				return nil
			}, terms)
		})
		w.sleep(5 * time.Second)
		_, err := other.Break(background, "n", &BreakOptions{Why: "test", Now: true})
		w.ok(err)
		winner := w.begin(func() (*Result, error) { return other.invoke("n", returns("winner's", 10*minute), terms) })
		v.comesTo("winner's")
		winner.comesTo("winner's")
		w.is(cause, ErrLost)
		w.is(lost, ErrLost)
		w.same("own", v.result.Own, false)
		w.same("own", winner.result.Own, true)
	})
}

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
		_, err := other.Break(background, "n", &BreakOptions{Why: "test", Now: true})
		w.ok(err)
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

// Where two have worked all the same, the first result is everybody's.
func TestInvokeFirstWins(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		r, err := p.invoke("n", func(_ context.Context, work *Work) error {
			w.shelf.put("n/result", []byte("first"))
			work.Return(Bytes([]byte("second")))
			return nil
		}, terms)
		w.ok(err)
		w.same("own", r.Own, false)
		w.holds(r, "first")
	})
}

// A store that is silent at first refuses, and one that falls silent is waited for.
func TestInvokeOutage(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		p.store.always(fault{class: core.ClassUnreachable})
		begun := time.Now()
		_, err := p.invoke("n", w.never, terms)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable})
		if took := time.Since(begun); took > 6*time.Second {
			w.Errorf("after %v", took)
		}
		p.store.always(fault{class: core.ClassUnauthorized})
		_, err = p.invoke("n", w.never, terms)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		p.store.heal()
		r, err := p.invoke("n", func(_ context.Context, work *Work) error {
			p.store.always(fault{class: core.ClassUnreachable}) // for the result
			time.AfterFunc(20*time.Second, p.store.heal)
			work.Return(Bytes([]byte("kept")))
			return nil
		}, terms)
		w.ok(err)
		w.holds(r, "kept")
		r, err = p.invoke("m", func(_ context.Context, work *Work) error {
			p.store.always(fault{class: core.ClassFull})
			work.Return(Bytes([]byte("kept")))
			return nil
		}, terms)
		w.is(err, &Error{Kind: NoResult, Reason: core.ReasonUnusable})
		w.same("result", r, (*Result)(nil))
		if !strings.Contains(err.Error(), "did not take") || strings.Contains(err.Error(), "hunter2") {
			w.Error(err)
		}
		p.store.heal()
	})
}
