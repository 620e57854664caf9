package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// invokesARemote: a launcher hands its work over and ends, the remote's result of
// 5 MiB is streamed to the store, and is everybody's.
func invokesARemote(s *scene) {
	const size = 5 << 20
	caller, remote, late := s.host(), s.host(), s.host()
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(body) // never fails
	opts := &host.InvokeOptions{Terms: s.terms}

	ended := make(chan error, 1)
	result, err := caller.Invoke(s.ctx(), "n", func(_ context.Context, work *host.Work) error {
		handle := work.Handle()
		go func() {
			_, err := remote.Remote(s.ctx(), handle, func(_ context.Context, work *host.Work) error {
				work.Return(source{body})
				return nil
			}, nil)
			ended <- err
		}()
		return nil
	}, opts)
	s.ok(err)
	s.ok(<-ended)
	s.same("own", result.Own, false)
	again, err := late.Invoke(s.ctx(), "n", s.never, opts)
	s.ok(err)
	for _, r := range []*host.Result{result, again} {
		stream, n, err := r.Open(s.ctx())
		s.ok(err)
		s.same("size", n, int64(size))
		sum := sha256.New()
		_, err = io.Copy(sum, stream)
		s.ok(errors.Join(err, stream.Close()))
		s.same("bytes", [32]byte(sum.Sum(nil)), sha256.Sum256(body))
	}
}

// source streams without saying how long it is.
type source struct{ body []byte }

func (b source) Open() (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(b.body)), -1, nil
}

func (s *scene) never(context.Context, *host.Work) error {
	s.Error("work was launched")
	return nil
}

// failsToLaunch: what the launcher says is the caller's error, and the next caller
// may try at once.
func failsToLaunch(s *scene) {
	a, b := s.host(), s.host()
	mistake := errors.New("no such queue")
	_, err := a.Invoke(s.ctx(), "n", func(context.Context, *host.Work) error { return mistake }, &host.InvokeOptions{Terms: s.terms})
	s.is(err, &host.Error{Kind: host.NoResult, Reason: core.ReasonFailed})
	s.is(err, mistake)
	r, err := b.Invoke(s.ctx(), "n", func(_ context.Context, work *host.Work) error {
		work.Return(host.Bytes([]byte("it")))
		return nil
	}, &host.InvokeOptions{Terms: s.terms, Try: true})
	s.ok(err)
	s.same("own", r.Own, true)
	body, err := r.Bytes(s.ctx(), 10)
	s.ok(err)
	s.same("result", string(body), "it")
}

// sharesPermits: two hosts share a semaphore whose size changes, by their views and
// by the limit that is kept in the store.
func sharesPermits(s *scene) {
	a, b := s.host(), s.host()
	opts := &host.PermitOptions{Terms: s.terms}
	one, two := host.View{Capacity: 1, Width: 1}, host.View{Capacity: 1, Width: 2}
	first, err := a.AcquirePermit(s.ctx(), "n", one, opts)
	s.ok(err)
	_, err = b.TryAcquirePermit(s.ctx(), "n", one, opts)
	s.is(err, host.ErrFull)
	second, err := b.TryAcquirePermit(s.ctx(), "n", two, opts) // by a view that is wider
	s.ok(err)
	s.same("total", second.Total(), uint64(2))
	s.same("tokens grow", second.FencingToken() > first.FencingToken(), true)

	s.ok(a.SetLimit(s.ctx(), "n", 1))
	seen, err := b.Inspect(s.ctx(), "n")
	s.ok(err)
	s.same("held", seen.Held, uint64(2)) // nobody is evicted
	s.same("limit", seen.Limit, uint64(1))
	s.ok(first.Release(s.ctx()))
	_, err = a.TryAcquirePermit(s.ctx(), "n", two, opts)
	s.is(err, host.ErrFull)

	got := make(chan error, 1)
	go func() {
		permit, err := a.AcquirePermit(s.ctx(), "n", two, opts)
		if err == nil {
			err = errors.Join(permit.Err(), permit.Release(s.ctx()))
		}
		got <- err
	}()
	s.ok(second.Err())
	s.ok(second.Release(s.ctx()))
	s.ok(<-got)
	seen, err = b.Inspect(s.ctx(), "n")
	s.ok(err)
	s.same("held", seen.Held, uint64(0))
}

// closes: Close gives back whatever the host holds, and ends what waits.
func closes(s *scene) {
	a, b := s.host(), s.host()
	held := s.acquire(a, "held")
	onSession := s.terms
	onSession.Session = true
	l, err := a.Acquire(s.ctx(), "on a session", &host.AcquireOptions{Terms: onSession})
	s.ok(err)
	other, err := a.Acquire(s.ctx(), "old", &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolLastWriter, TTL: s.terms.TTL}})
	s.ok(err)
	view := host.View{Capacity: 1, Width: 1}
	permit, err := a.AcquirePermit(s.ctx(), "permit", view, &host.PermitOptions{Terms: s.terms})
	s.ok(err)
	theirs := s.acquire(b, "theirs")
	waits, waiting := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		_, err := a.Acquire(s.ctx(), "theirs", &host.AcquireOptions{Terms: s.terms, OnWaiting: func(host.Status) { waiting <- struct{}{} }})
		waits <- err
	}()
	select {
	case <-waiting:
	case err := <-waits:
		s.Fatal("it has waited for nobody: ", err)
	}

	s.ok(a.Close(s.ctx()))
	s.is(<-waits, host.ErrClosed)
	for _, l := range []*host.Lease{held, l, other} {
		s.is(l.Err(), host.ErrReleased)
		next, err := b.TryAcquire(s.ctx(), l.Name(), &host.AcquireOptions{Terms: host.Terms{Protocol: l.Protocol(), TTL: s.terms.TTL}})
		s.ok(err)
		s.ok(next.Release(s.ctx()))
	}
	s.is(permit.Err(), host.ErrReleased)
	next, err := b.TryAcquirePermit(s.ctx(), "permit", view, &host.PermitOptions{Terms: s.terms})
	s.ok(err)
	s.ok(next.Release(s.ctx()))
	s.ok(theirs.Err())
	_, err = a.TryAcquire(s.ctx(), "held", nil)
	s.is(err, host.ErrClosed)
}
