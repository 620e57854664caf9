package host

import (
	"context"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Where the store tells of changes a break is heard at once, by the holder of the lease,
// however it is kept, and not at the next renewal. What else happens asks for nothing.
func TestBreakIsHeardAtOnce(t *testing.T) {
	type kept struct {
		err  func() error
		done <-chan struct{}
		end  <-chan error // or nil
	}
	acquired := func(by Terms) func(*world, *actor) kept {
		return func(_ *world, p *actor) kept {
			l := p.hold("n", by)
			return kept{l.Err, l.Done(), nil}
		}
	}
	each(t, map[string]func(*world, *actor) kept{
		"lease":   acquired(strict),
		"session": acquired(onSession),
		"endless": acquired(Terms{Protocol: core.ProtocolStrict, TTL: core.TTLEndless}),
		"companion": func(w *world, p *actor) kept {
			c := p.joins(w.host().strictly("n").Handle())
			return kept{c.Err, c.Done(), nil}
		},
		"invocation": func(_ *world, p *actor) kept {
			begun := make(chan *Lease)
			end := beside(func() error {
				_, err := p.invoke("n", func(ctx context.Context, work *Work) error {
					begun <- work.Lease()
					<-ctx.Done()
					return context.Cause(ctx)
				}, strict)
				return err
			})
			l := <-begun
			return kept{l.Err, l.Done(), end}
		},
	}, func(w *world, _ string, take func(*world, *actor) kept) {
		p := w.watching(nil)
		held := take(w, p)
		w.sleep(10 * time.Second)
		p.store.forget()
		w.sleep(5 * time.Second)
		w.same("asked while nothing happens", p.store.verbs(), "")
		w.ok(held.err())
		w.host().breaks("n", &BreakOptions{Why: "stuck"})
		begun := time.Now()
		<-held.done
		w.within("heard after", time.Since(begun), 0, 10*latency)
		w.is(held.err(), &Error{Kind: Lost, Reason: core.ReasonBroken})
		w.ok(p.Close(background))
		if held.end != nil {
			w.is(<-held.end, ErrClosed)
		}
	})
}
