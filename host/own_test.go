package host

import (
	"context"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// A caller that waits, under a lease, for the same name on the same Host would wait forever:
// the lease is named instead. Elsewhere, and once the lease is over, nothing changes.
func TestWaitForOneself(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		acquire := func(ctx context.Context, p *actor) error {
			ctx, cancel := context.WithTimeout(ctx, 10*minute)
			defer cancel()
			l, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms})
			if err == nil {
				p.release(l)
			}
			return err
		}
		invoke := func(ctx context.Context, launch Launch) error {
			_, err := p.Invoke(ctx, "n", launch, &InvokeOptions{Terms: terms})
			return err
		}
		refused := func(err error) {
			w.Helper()
			w.says(err, &Error{Kind: NotAcquired, Reason: core.ReasonHeld}, `lease "n" not acquired: held by the lease of this very context`)
		}
		outer := p.hold("n", terms)
		inner, err := p.Acquire(outer.Context(), "another", &AcquireOptions{Terms: terms})
		w.ok(err)
		refused(acquire(outer.Context(), p))
		refused(acquire(inner.Context(), p)) // two deep
		refused(invoke(outer.Context(), w.never))
		w.is(errOf(p.TryAcquire(outer.Context(), "n", &AcquireOptions{Terms: terms})), ErrNotAcquired)
		w.is(acquire(outer.Context(), other), context.DeadlineExceeded)
		c := other.joins(outer.Handle())
		refused(acquire(c.Context(), other)) // under a companion
		w.ok(c.Leave(background))
		p.release(outer)
		w.ok(acquire(inner.Context(), p))
		next := other.hold("n", terms)
		w.is(acquire(inner.Context(), p), context.DeadlineExceeded) // it is somebody else's by now
		other.release(next)
		w.ok(invoke(background, func(ctx context.Context, work *Work) error {
			refused(acquire(ctx, p))
			refused(acquire(work.Context(), p))
			refused(invoke(ctx, w.never))
			work.Return(Bytes([]byte("done")))
			return nil
		}))
	})
}
