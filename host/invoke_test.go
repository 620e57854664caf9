package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// ways are the protocols that works are leased by.
var ways = map[string]Terms{
	"strict":     {Protocol: core.ProtocolStrict, TTL: core.TTL(minute)},
	"lastwriter": {Protocol: core.ProtocolLastWriter, TTL: core.TTL(minute)},
}

// eachWay runs a test under both protocols.
func eachWay(t *testing.T, test func(w *world, terms Terms)) {
	for name, terms := range ways {
		t.Run(name, func(t *testing.T) { bubble(t, func(w *world) { test(w, terms) }) })
	}
}

// returns is work that takes so long and comes to a text.
func returns(text string, took time.Duration) Launch {
	return func(ctx context.Context, work *Work) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(took):
		}
		work.Return(Bytes([]byte(text)))
		return nil
	}
}

// never is work that must not be launched.
func (w *world) never(context.Context, *Work) error {
	w.Error("launched")
	return nil
}

func (p *actor) invoke(name string, launch Launch, terms Terms) (*Result, error) {
	return p.Invoke(background, name, launch, &InvokeOptions{Terms: terms})
}

// comes invokes work that comes to a text.
func (p *actor) comes(name string, launch Launch, terms Terms, text string) {
	p.world.Helper()
	r, err := p.invoke(name, launch, terms)
	p.world.ok(err)
	p.world.holds(r, text)
}

func (p *actor) begins(name string, terms Terms) *Invocation {
	p.world.Helper()
	i, err := p.BeginInvoke(background, name, &InvokeOptions{Terms: terms})
	p.world.ok(err)
	return i
}

// next is the work that is to be done.
func (w *world) next(i *Invocation) *Work {
	w.Helper()
	work, err := i.Next(background)
	w.ok(err)
	return work
}

// invocation is an Invoke that runs beside the test.
type invocation struct {
	world  *world
	result *Result
	err    error
	ended  chan struct{}
	at     time.Time
}

func (w *world) begin(call func() (*Result, error)) *invocation {
	v := &invocation{world: w, ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		v.result, v.err = call()
		v.at = time.Now()
	}()
	return v
}

// begun is work that is invoked beside the test.
func (p *actor) begun(name string, launch Launch, terms Terms) *invocation {
	return p.world.begin(func() (*Result, error) { return p.invoke(name, launch, terms) })
}

func (v *invocation) comesTo(text string) {
	v.world.Helper()
	<-v.ended
	v.world.ok(v.err)
	v.world.holds(v.result, text)
}

func (w *world) holds(r *Result, text string) {
	w.Helper()
	if r == nil {
		w.Fatal("no result")
	}
	b, err := r.Bytes(background, 1<<20)
	w.ok(err)
	w.same("result", string(b), text)
}

// asked is the log in short: of each request the verb and what it is about.
func (p *actor) asked() string {
	var out []string
	for _, c := range p.store.log() {
		what := c.verb
		switch {
		case c.key == capabilityKey || c.verb == "exists" && strings.HasSuffix(c.key, core.LockFile):
			continue
		case strings.HasPrefix(c.key, core.FailurePrefix):
			what += ":failure"
		case strings.HasSuffix(c.key, "/"+core.ResultFile):
			what += ":result"
		}
		out = append(out, what)
	}
	return strings.Join(out, " ")
}

// What one call of fresh work asks of the store: the result is looked for before
// the lease and once it is held, stored if absent, and the lease is given back.
func TestInvokeRequests(t *testing.T) {
	lease := map[string]string{"strict": "list create list", "lastwriter": "get put get put"}
	release := map[string]string{"strict": "create", "lastwriter": "get put"}
	for name, terms := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, other := w.host(), w.host()
				var during string
				r, err := p.invoke("n", func(_ context.Context, work *Work) error {
					during = p.asked()
					w.ok(work.Err())
					w.same("handle", work.Handle(), work.Lease().Handle())
					w.same("companion", work.Companion(), (*Companion)(nil))
					if work.Left() <= 0 || work.Holder() == "" || (work.FencingToken() == 1) != (name == "strict") {
						w.Errorf("left %v, holder %q, token %d", work.Left(), work.Holder(), work.FencingToken())
					}
					work.Return(Bytes([]byte("done")))
					return nil
				}, terms)
				w.ok(err)
				w.same("before the work", during, "exists:result "+lease[name]+" exists:result")
				w.same("own", r.Own, true)
				w.same("key", r.Key, "n/result")
				w.sleep(2 * time.Second)
				want := during + " create:result " + release[name]
				w.same("all", p.asked(), want)
				p.idle()
				w.holds(r, "done")

				r, err = other.invoke("n", w.never, terms)
				w.ok(err)
				w.same("own", r.Own || r.Failed, false)
				w.holds(r, "done")
				w.same("there already", other.asked(), "exists:result get:result")
				other.idle()
			})
		})
	}
}

// Who waits is served by the other's result, at once in the same process and by
// a look of its own in another, and launches nothing.
func TestInvokeWaits(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		first := p.begun("n", returns("first", 10*minute), terms)
		w.sleep(time.Second)
		var seen []Status
		same := w.begin(func() (*Result, error) {
			return p.Invoke(background, "n", w.never, &InvokeOptions{Terms: terms, OnWaiting: func(s Status) { seen = append(seen, s) }})
		})
		apart := other.begun("n", w.never, terms)
		w.sleep(5 * minute)
		most, patience := 100, 30*time.Second
		if terms.Protocol == core.ProtocolStrict { // a look each 5 s at the latest, of four requests at most
			most, patience = 300, core.PollCap+10*latency
		}
		if n := len(other.store.log()); n < 20 || n > most {
			w.Errorf("%d requests of a waiter in five minutes", n)
		}
		first.comesTo("first")
		same.comesTo("first")
		apart.comesTo("first")
		w.within("woken after", same.at.Sub(first.at), 0, 2*latency)
		w.within("found after", apart.at.Sub(first.at), 0, patience)
		w.same("told of its holder", len(seen) == 1 && seen[0].Holder != "", true)
		w.sleep(5 * time.Second)
		p.idle()
		other.idle()
	})
}

// Try looks and tries once.
func TestInvokeTry(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		first := p.begun("n", returns("x", minute), terms)
		w.sleep(time.Second)
		_, err := other.Invoke(background, "n", w.never, &InvokeOptions{Terms: terms, Try: true})
		w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
		e, _ := errors.AsType[*Error](err)
		w.same("seen", e.Seen != nil && e.Seen.Holder != "", true)
		begun := time.Now()
		_, err = other.Invoke(background, "n", w.never, &InvokeOptions{Terms: terms, Wait: 10 * time.Second})
		w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
		w.same("after", time.Since(begun), 10*time.Second)
		first.comesTo("x")
	})
}

// However work ends without a result, its lease is released before Invoke
// returns: who tries once at once has it.
func TestInvokeFails(t *testing.T) {
	mistake := errors.New("no such file")
	for name, test := range map[string]struct {
		launch Launch
		reason core.Reason
		text   string
	}{
		"fails":   {func(context.Context, *Work) error { return mistake }, core.ReasonFailed, "it failed: no such file"},
		"nothing": {func(context.Context, *Work) error { return nil }, core.ReasonNone, "nobody has stored"},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(w *world, terms Terms) {
				p, other := w.host(), w.host()
				_, err := p.invoke("n", test.launch, terms)
				w.is(err, ErrNoResult, &Error{Kind: NoResult, Reason: test.reason})
				w.same("its own error", errors.Is(err, mistake), test.reason == core.ReasonFailed)
				w.has(err.Error(), test.text)
				r, err := other.Invoke(background, "n", returns("better", 0), &InvokeOptions{Terms: terms, Try: true})
				w.ok(err)
				w.holds(r, "better")
			})
		})
	}
}

// A launch that panics is like one that fails, but for the panic, which goes on.
func TestInvokePanics(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		func() {
			defer func() { w.same("panic", recover(), any("oh")) }()
			_, _ = p.invoke("n", func(context.Context, *Work) error { panic("oh") }, terms)
		}()
		p.idle()
		r, err := p.Invoke(background, "n", returns("better", 0), &InvokeOptions{Terms: terms, Try: true})
		w.ok(err)
		w.holds(r, "better")
	})
}

// ctx ends the call wherever it is: waiting or at work, which is released when it has
// ended, and not before.
func TestInvokeCancelled(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		why := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(background)
		var cause error
		works := beside(func() error {
			_, err := p.Invoke(ctx, "n", func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				w.ok(work.Err())
				cause = context.Cause(ctx)
				return cause
			}, &InvokeOptions{Terms: terms})
			return err
		})
		w.sleep(time.Second)
		begun := time.Now()
		w.is(errOf(other.Invoke(w.limited(minute), "n", w.never, &InvokeOptions{Terms: terms})), context.DeadlineExceeded)
		w.same("after", time.Since(begun), minute)
		other.idle()
		cancel(why)
		w.is(<-works, why)
		w.is(cause, why)
		p.idle()
		other.free("n", terms)
	})
}

// What a failure comes to is kept for those who ask for it, and for nobody else.
func TestInvokeMemoFailures(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		memo := &InvokeOptions{Terms: terms, MemoFailures: true}
		mistake := errors.New("no")
		r, err := p.Invoke(background, "n", func(_ context.Context, work *Work) error {
			work.Return(Bytes([]byte("half")))
			work.Fail(Bytes([]byte("why")))
			return mistake
		}, memo)
		w.ok(err)
		w.same("failed", r.Failed && r.Own, true)
		w.same("key", r.Key, core.FailurePrefix+"n/result")
		w.holds(r, "why")
		r, err = other.Invoke(background, "n", w.never, memo)
		w.ok(err)
		w.same("failed", r.Failed && !r.Own, true)
		w.holds(r, "why")
		w.same("asked", other.asked(), "exists:result exists:failure get:failure")
		w.sleep(5 * time.Second)
		r, err = other.invoke("n", returns("well", 0), terms)
		w.ok(err)
		w.same("failed", r.Failed, false)
		w.holds(r, "well")
	})
}

// Names and options that cannot be are refused before any request.
func TestInvokeRefuses(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for name, opts := range map[string]*InvokeOptions{
			"":                              nil,
			"memo/lock":                     nil,
			"lock":                          {Terms: ways["strict"]},
			"a/result":                      nil,
			"negative":                      {Wait: -1},
			"both":                          {Wait: 1, Try: true},
			"endless":                       {Terms: Terms{Protocol: core.ProtocolStrict, TTL: core.TTLEndless}},
			"margin":                        {Terms: Terms{Margin: time.Hour}},
			strings.Repeat("n/", 300) + "n": nil,
		} {
			_, invoked := p.Invoke(background, name, w.never, opts)
			_, begun := p.BeginInvoke(background, name, opts)
			w.same("refused "+name, invoked != nil && begun != nil, true)
		}
		w.says(errOf(p.Invoke(background, "memo/lock", w.never, nil)), &core.Error{Code: core.ErrorConfig}, "memo")
		w.is(errOf(p.Invoke(w.limited(0), "n", w.never, nil)), context.DeadlineExceeded)
		w.same("requests", p.store.verbs(), "")
		w.ok(p.Close(background))
		w.is(errOf(p.Invoke(background, "n", w.never, nil)), ErrClosed)
	})
}

// Close ends waiters and work: what is held is released, and the work's ctx
// ends before that.
func TestInvokeClose(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		var cause error
		works := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				work.Return(Bytes([]byte("too late")))
				return nil
			}, terms)
		})
		w.sleep(time.Second)
		waits := p.begun("n", w.never, terms)
		w.sleep(time.Second)
		w.ok(p.Close(background))
		<-works.ended
		<-waits.ended
		w.is(works.err, ErrClosed)
		w.is(waits.err, ErrClosed)
		w.is(cause, ErrReleased)
		other.free("n", terms)
		if _, there := w.backend.get("n/result"); there {
			w.Error("a result that nobody waited for")
		}
	})
}

// A crowd that waits for one piece of work costs no goroutine, a result wakes each of it
// once, and all have it at once.
func TestInvokeCrowd(t *testing.T) {
	const crowd = 100
	bubble(t, func(w *world) {
		p := w.host()
		first := p.begun("n", returns("all", 10*minute), strict)
		w.sleep(time.Second)
		before := goroutines()
		begun := make([]*Invocation, crowd)
		for at := range begun {
			begun[at] = p.begins("n", strict)
			_, err := begun[at].Next(w.limited(100 * time.Millisecond)) // it goes on all the same
			w.is(err, context.DeadlineExceeded)
		}
		w.sleep(minute)
		quiet(w, p)
		w.same("goroutines", goroutines(), before)
		<-first.ended
		p.store.forget()
		for _, i := range begun {
			work, err := i.Next(background)
			w.same("over", work == nil && err == nil, true)
			w.holds(i.Result(), "all")
		}
		w.within("the last had it after", time.Since(first.at), 0, (25+crowd)*latency)
		w.sleep(time.Second)
		p.idle()
		if looks := p.store.count("exists", "n/result"); looks > crowd {
			w.Errorf("%d looks for %d", looks, crowd)
		}
	})
}

// Who may only read gets the result that is there; who would have to work is told
// that the store cannot be written.
func TestInvokeReadOnly(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		w.is(errOf(a.invoke("n", returns("it", time.Second), Terms{TTL: core.TTL(minute)})), nil)
		b.store.on(func(c call) fault {
			if c.verb == "put" || c.verb == "create" {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		result, err := b.invoke("n", w.never, Terms{TTL: core.TTL(minute)})
		w.is(err, nil)
		body, err := result.Bytes(background, 10)
		w.is(err, nil)
		w.same("result", string(body), "it")
		w.is(errOf(b.invoke("m", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
	})
}

// Where a caller may write, but not find out whether the store honours create-if-absent,
// it is told so: lastwriter, chosen without a word, would not exclude who found out.
func TestInvokeProtocolUnseen(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.when("create", capabilityKey, fault{class: core.ClassUnauthorized})
		w.is(errOf(p.invoke("m", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
		w.same("records", p.store.count("put", recordKey("m")), 0)
	})
}

// The name of a mops memo itself is refused: its result would be taken for mops' own.
func TestInvokeMemo(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.is(errOf(p.Acquire(background, "memo/lock", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter}})), nil)
		w.is(errOf(p.invoke("memo", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: Incompatible, Reason: core.ReasonKind})
	})
}
