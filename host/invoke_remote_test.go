package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func (p *actor) remote(handle Handle, launch Launch) (*Result, error) {
	return p.Remote(background, handle, launch, nil)
}

// starts is a launcher: it hands its work's handle over and ends well at once.
func starts(handles chan<- Handle) Launch {
	return func(_ context.Context, work *Work) error {
		handles <- work.Handle()
		return nil
	}
}

// launched is an Invoke whose launcher has started something and ended.
func (p *actor) launched(name string, terms Terms) (*invocation, Handle) {
	handles := make(chan Handle, 1)
	v := p.world.begin(func() (*Result, error) { return p.invoke(name, starts(handles), terms) })
	return v, <-handles
}

// The launcher ends and the remote goes on: its result is the caller's, who waits
// for it as long as it keeps the lease.
func TestRemote(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		v, handle := p.launched("n", terms)
		remote := w.begin(func() (*Result, error) {
			return far.remote(handle, func(ctx context.Context, work *Work) error {
				w.same("holder", work.Holder(), handle.Holder)
				w.same("lease", work.Lease(), (*Lease)(nil))
				w.same("companion", work.Companion().Holder(), handle.Holder)
				w.same("token", work.FencingToken(), handle.Token)
				w.same("handle", work.Handle().Holder, handle.Holder)
				return returns("from afar", 10*minute)(ctx, work)
			})
		})
		v.comesTo("from afar")
		remote.comesTo("from afar")
		w.same("own", remote.result.Own, true)
		w.same("own", v.result.Own, false)
		w.sleep(5 * time.Second)
		p.idle()
		far.idle()
		w.same("asked first", strings.Fields(far.asked())[0], "exists:result")
	})
}

// Without a lease that it could keep a remote runs nothing, unless it was told to.
func TestRemoteWithoutLease(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		far := w.host()
		handle := Handle{Name: "n", Protocol: terms.Protocol, Holder: "nobody", Epoch: 1, TTL: core.TTL(minute)}
		if terms.Protocol == core.ProtocolLastWriter {
			handle.Epoch = 0
		}
		without := &RemoteOptions{WithoutLease: true}
		w.is(errOf(far.remote(handle, w.never)), ErrNothingToJoin)
		work := func(ctx context.Context, work *Work) error {
			w.same("handle", work.Handle(), Handle{})
			w.same("no lease", work.Companion() == nil && work.Lease() == nil && work.Holder() == "" && work.Left() == 0, true)
			w.ok(work.Err())
			return returns("alone", minute)(ctx, work)
		}
		r, err := far.Remote(background, handle, work, without)
		w.ok(err)
		w.holds(r, "alone")
		w.backend.remove("n/result")
		far.store.forget()
		r, err = far.Remote(background, Handle{Name: "n"}, work, without)
		w.ok(err)
		w.holds(r, "alone")
		w.same("asked", far.asked(), "exists:result create:result get:result")
		r, err = far.Remote(background, Handle{Name: "n"}, w.never, without)
		w.ok(err)
		w.same("own", r.Own, false)
		far.idle()
	})
}

// What is wrong with a handle, or with what goes with it, is said before any I/O.
func TestRemoteRefuses(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		good := Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: core.TTL(minute)}
		for _, test := range []struct {
			name   string
			handle Handle
			opts   *RemoteOptions
		}{
			{"m", good, nil},
			{"", good, nil},
			{"a/lock", Handle{Name: "a/lock", Holder: "h", TTL: core.TTL(minute)}, nil},
			{"n", Handle{}, nil},
			{"n", Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", TTL: core.TTL(minute)}, nil},
			{"n", Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: core.TTLEndless}, nil},
			{"n", good, &RemoteOptions{Terms: Terms{Margin: time.Hour}}},
		} {
			if _, err := p.BeginRemote(background, test.name, test.handle, test.opts); err == nil {
				w.Errorf("%q %+v: accepted", test.name, test.handle)
			}
		}
		w.same("requests", p.store.verbs(), "")
	})
}

// A store that does not answer is tried for a TTL.
func TestRemoteUnreachable(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		_, handle := p.launched("n", terms)
		far.store.always(fault{class: core.ClassUnreachable})
		begun := time.Now()
		_, err := far.remote(handle, w.never)
		w.is(err, &Error{Kind: NothingToJoin, Reason: core.ReasonUnreadable})
		w.within("after", time.Since(begun), minute, 75*time.Second)
		r, err := far.Remote(background, handle, func(ctx context.Context, work *Work) error {
			far.store.heal()
			return returns("all the same", 0)(ctx, work)
		}, &RemoteOptions{WithoutLease: true})
		w.ok(err)
		w.holds(r, "all the same")
		far.resolves("m", core.ProtocolStrict)
		far.store.always(fault{class: core.ClassUnreachable}) // where it is known what the store can
		handle.Name = "k"
		_, err = far.remote(handle, w.never)
		w.is(err, &Error{Kind: NothingToJoin, Reason: core.ReasonUnreadable})
	})
}

// Close ends a remote, whose work is told, and never releases the lease; a lease that
// becomes another's ends the work too, and nothing of it is stored.
func TestRemoteEnds(t *testing.T) {
	broken := &Error{Kind: Lost, Reason: core.ReasonBroken}
	each(t, map[string]bool{"closed": false, "broken": true}, func(w *world, _ string, breaks bool) {
		p, far := w.host(), w.host()
		v, handle := p.launched("n", strict)
		var cause, lost error
		remote := w.begin(func() (*Result, error) {
			return far.remote(handle, func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				cause, lost = context.Cause(ctx), work.Err()
				work.Return(Bytes([]byte("late")))
				return nil
			})
		})
		w.sleep(30 * time.Second)
		if breaks {
			w.host().breaks("n", &BreakOptions{Why: "test", Now: true})
			<-remote.ended
			w.is(cause, broken)
			w.is(lost, broken)
			w.is(remote.err, &Error{Kind: NoResult, Reason: core.ReasonBroken})
		} else {
			w.ok(far.Close(background))
			<-remote.ended
			w.is(cause, ErrReleased)
			w.is(remote.err, ErrClosed)
			w.same("state", p.sees("n").State, core.ObservedHeld)
		}
		<-v.ended
		w.is(v.err, ErrNoResult)
		w.same("stored", w.backend.exists("n/result"), false)
	})
}
