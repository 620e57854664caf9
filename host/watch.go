package host

import (
	"context"
	"iter"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// Watch yields the state of a name, and again at each change of state, holder or version,
// until ctx ends. A failed read is yielded as an error, once until a read is good again,
// and does not end it. What does is a name that cannot be one, ErrClosed, and a store that refuses the first
// read for good. It takes no part: nothing is written.
func (h *Host) Watch(ctx context.Context, name string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		w := &observer{host: h, name: name, news: make(chan struct{}, 1)}
		if ctx.Err() != nil {
			return
		}
		if err := h.begin(w, core.Event{Kind: core.EventWatch, Terms: &core.Terms{Name: name}}, nil); err != nil {
			yield(Status{}, err)
			return
		}
		defer h.loop.Command(w, core.Event{Kind: core.EventCancel}, nil)
		for {
			select {
			case <-w.news:
			case <-ctx.Done():
				return
			}
			for _, s := range w.take() {
				if ctx.Err() != nil || !yield(s.status, s.err) || s.last {
					return
				}
			}
		}
	}
}

// observer is a claim that watches a name.
type observer struct {
	notHeld
	host *Host
	name string
	seen []reading
	news chan struct{} // has a value when there is something to be taken
}

// reading is what a observer has seen, or why it has not.
type reading struct {
	status Status
	err    error
	last   bool
}

// take takes what was seen since the last time.
func (w *observer) take() (seen []reading) {
	w.host.loop.Do(func() { seen, w.seen = w.seen, nil })
	return seen
}

// show keeps one reading for a caller that is slow, and one error.
func (w *observer) show(s reading) {
	old := slices.DeleteFunc(w.seen, func(old reading) bool { return (old.err == nil) == (s.err == nil) })
	old = append(old, s)
	w.seen = old
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Hear implements loop.Claim.
func (w *observer) Hear(a *core.Action) (last bool) {
	switch a.Kind {
	case core.ActionSeen:
		w.show(reading{status: newStatus(w.name, a.Protocol, a.Observed, w.host.clock.Now())})
	case core.ActionWarned:
		w.fail(a, false)
	case core.ActionRefused:
		w.fail(a, true)
		return true
	}
	return false
}

func (w *observer) fail(a *core.Action, last bool) {
	err := w.host.failure(&Error{Kind: NotAcquired, Name: w.name, Err: w.Cause(), of: ofRead}, a, 0)
	if a.Reason == core.ReasonCancelled {
		err = ErrClosed
	}
	w.show(reading{err: ofReading(err), last: last})
}

// Left implements loop.Claim.
func (w *observer) Left() { w.show(reading{err: ErrClosed, last: true}) }

// Stranded implements loop.Claim.
func (w *observer) Stranded(_ int64, command core.EventKind, cause error) (until int64) {
	err := error(&Error{Kind: NotAcquired, Name: w.name, Reason: core.ReasonUnusable, Err: &EngineError{cause}, of: ofRead})
	if command != 0 {
		err = ErrClosed
	}
	w.show(reading{err: err, last: true})
	return 0
}

// about is its name, for people.
func (w *observer) about() string { return w.name }
