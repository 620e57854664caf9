package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func (p *party) remote(handle Handle, launch Launch) (*Result, error) {
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
func (p *party) launched(name string, terms Terms) (*invocation, Handle) {
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

// A remote that dies, or fails, leaves the caller without a result, and the lease free.
func TestRemoteFails(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		mistake := errors.New("exit status 3")
		v, handle := p.launched("n", terms)
		_, err := far.remote(handle, func(context.Context, *Work) error {
			w.sleep(2 * minute)
			return mistake
		})
		w.is(err, &Error{Kind: NoResult, Reason: core.ReasonFailed}, mistake)
		<-v.ended
		w.is(v.err, &Error{Kind: NoResult, Reason: core.ReasonNone})
		w.sleep(5 * time.Second)
		p.idle()
		far.idle()
		r, err := far.Invoke(background, "n", returns("again", 0), &InvokeOptions{Terms: terms, Try: true})
		w.ok(err)
		w.holds(r, "again")
	})
}

// Who comes late runs nothing and is told which way it was late.
func TestRemoteLate(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other, far := w.host(), w.host(), w.host()
		_, handle := p.launched("n", terms)
		w.sleep(10 * time.Second) // the launcher's end was not followed by anybody
		_, err := far.remote(handle, w.never)
		w.is(err, &Error{Kind: Lost, Reason: core.ReasonReleased})
		next := w.begin(func() (*Result, error) { return other.invoke("n", returns("other's", minute), terms) })
		w.sleep(time.Second)
		_, err = far.remote(handle, w.never)
		w.is(err, &Error{Kind: Lost, Reason: core.ReasonTaken})
		next.comesTo("other's")
		r, err := far.remote(handle, w.never)
		w.ok(err)
		w.holds(r, "other's")
		w.sleep(5 * time.Second)
		far.idle()
	})
}

// A remote works on through an outage longer than its lease, and revives it. Its
// launcher, who was cut off just so, finds the result.
func TestRemoteRevives(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		v, handle := p.launched("n", terms)
		var contact []bool
		remote := w.begin(func() (*Result, error) {
			return far.Remote(background, handle, returns("after all", 20*minute),
				&RemoteOptions{OnContact: func(on bool) { contact = append(contact, on) }})
		})
		w.sleep(minute)
		p.store.always(fault{class: core.ClassUnreachable})
		far.store.always(fault{class: core.ClassUnreachable})
		w.sleep(5 * minute)
		far.store.heal()
		w.sleep(minute)
		w.same("contact", len(contact) == 2 && !contact[0] && contact[1], true)
		p.store.heal()
		remote.comesTo("after all")
		v.comesTo("after all")
	})
}

// A lease that becomes another's ends the work, and nothing of it is stored.
func TestRemoteTaken(t *testing.T) {
	bubble(t, func(w *world) {
		terms := ways["strict"]
		p, other, far := w.host(), w.host(), w.host()
		_, handle := p.launched("n", terms)
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
		_, err := other.Break(background, "n", &BreakOptions{Why: "test", Now: true})
		w.ok(err)
		<-remote.ended
		w.is(cause, &Error{Kind: Lost, Reason: core.ReasonBroken})
		w.is(lost, &Error{Kind: Lost, Reason: core.ReasonBroken})
		w.is(remote.err, &Error{Kind: NoResult, Reason: core.ReasonBroken})
		if _, there := w.shelf.get("n/result"); there {
			w.Error("the loser's result was stored")
		}
	})
}

// A release does not end a remote's work, and its result is stored.
func TestRemoteReleased(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		handles := make(chan Handle, 1)
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				handles <- work.Handle()
				w.sleep(minute)
				return errors.New("the launcher fell") // which releases
			}, terms)
		})
		handle := <-handles
		remote := w.begin(func() (*Result, error) { return far.remote(handle, returns("all the same", 5*minute)) })
		<-v.ended
		w.is(v.err, &Error{Kind: NoResult, Reason: core.ReasonFailed})
		remote.comesTo("all the same")
		w.same("own", remote.result.Own, true)
	})
}

// Without a lease that it could keep a remote runs nothing, unless it was told to.
func TestRemoteWithoutLease(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		far := w.host()
		handle := Handle{Name: "n", Protocol: terms.Protocol, Holder: "nobody", Epoch: 1, TTL: minute}
		if terms.Protocol == core.ProtocolLastWriter {
			handle.Epoch = 0
		}
		without := &RemoteOptions{WithoutLease: true}
		_, err := far.remote(handle, w.never)
		w.is(err, ErrCannotMaintain)
		work := func(ctx context.Context, work *Work) error {
			w.same("handle", work.Handle(), Handle{})
			w.same("no lease", work.Companion() == nil && work.Lease() == nil && work.Holder() == "" && work.Left() == 0, true)
			w.ok(work.Err())
			return returns("alone", minute)(ctx, work)
		}
		r, err := far.Remote(background, handle, work, without)
		w.ok(err)
		w.holds(r, "alone")
		w.shelf.remove("n/result")
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
		good := Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: minute}
		for _, test := range []struct {
			name   string
			handle Handle
			opts   *RemoteOptions
		}{
			{"m", good, nil},
			{"", good, nil},
			{"a/lock", Handle{Name: "a/lock", Holder: "h", TTL: minute}, nil},
			{"n", Handle{}, nil},
			{"n", Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", TTL: minute}, nil},
			{"n", Handle{Name: "n", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: core.None}, nil},
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
		w.is(err, &Error{Kind: CannotMaintain, Reason: core.ReasonUnreadable})
		if took := time.Since(begun); took < minute || took > 75*time.Second {
			w.Errorf("after %v", took)
		}
		r, err := far.Remote(background, handle, func(ctx context.Context, work *Work) error {
			far.store.heal()
			return returns("all the same", 0)(ctx, work)
		}, &RemoteOptions{WithoutLease: true})
		w.ok(err)
		w.holds(r, "all the same")
		_, err = far.Resolve(background, "m", 0)
		w.ok(err)
		far.store.always(fault{class: core.ClassUnreachable}) // where it is known what the store can
		handle.Name = "k"
		_, err = far.remote(handle, w.never)
		w.is(err, &Error{Kind: CannotMaintain, Reason: core.ReasonUnreadable})
	})
}

// Close ends a remote, whose work is told, and never releases the lease.
func TestRemoteClose(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, far := w.host(), w.host()
		v, handle := p.launched("n", terms)
		var cause error
		remote := w.begin(func() (*Result, error) {
			return far.remote(handle, func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return cause
			})
		})
		w.sleep(30 * time.Second)
		w.ok(far.Close(background))
		<-remote.ended
		w.is(remote.err, ErrClosed)
		w.is(cause, ErrReleased)
		s, err := p.Inspect(background, "n")
		w.ok(err)
		w.same("state", s.State, core.ObservedHeld)
		<-v.ended
		w.is(v.err, ErrNoResult)
	})
}
