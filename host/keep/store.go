package keep

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// kept is one store of the parent's. Its messages before it is open wait for that.
type kept struct {
	keeper *keeper
	number uint64
	ready  chan struct{} // closed when it is open, or cannot be
	inbox  *inbox        // commands, in order: a store that hangs holds up no other
	client atomic.Pointer[host.Client]
	belief beliefs
}

func newKept(k *keeper, number uint64) *kept {
	return &kept{keeper: k, number: number, ready: make(chan struct{}), inbox: newInbox(), belief: newBeliefs(k.options.Belief)}
}

// run opens the store, and then does what comes, until it is closed.
func (s *kept) run(a *asked) {
	s.open(a)
	for do := s.inbox.take(); do != nil; do = s.inbox.take() {
		do()
	}
}

// open opens the store. What the parent has in its environment by now goes along: credentials may be new.
func (s *kept) open(a *asked) {
	defer close(s.ready)
	for name, value := range a.Environment {
		if err := os.Setenv(name, value); err != nil {
			s.say(fault(a.Call, err))
			return
		}
	}
	options := s.keeper.options.Host
	options.Logger = slog.New(&teller{store: s})
	c, err := host.OpenClient(context.Background(), a.URL, &options, s.hear)
	if err != nil {
		s.keeper.forget(s.number)
		s.say(fault(a.Call, err))
		return
	}
	s.client.Store(c)
	s.say(&said{Kind: "opened", Call: a.Call})
}

// opened waits until the store is open. It is nil if it could not be opened.
func (s *kept) opened() *host.Client {
	<-s.ready
	return s.client.Load()
}

// command gives the client a command.
func (s *kept) command(ev core.Event, with extra) {
	c := s.opened()
	switch {
	case c == nil:
		return
	case ev.Kind == core.EventClose:
		go s.close()
		return
	case ev.Terms != nil:
		s.belief.begin(ev.Claim, with.Slot, with.Answers)
	}
	more := host.With{Answers: with.Answers}
	if with.Path != "" {
		more.Output = host.File(with.Path)
	}
	if err := c.Do(ev, more); err != nil {
		s.belief.end(ev.Claim)
		s.say(notBegun(ev.Claim, err))
	}
}

// hear takes a notice, under the client's lock. The deadline is in the shared memory before the parent is told.
func (s *kept) hear(n host.Notice) {
	if n.Action == nil {
		m := fault(0, n.Cause)
		m.Kind = "failed"
		s.say(m)
		go s.close() // the parent opens it anew
		return
	}
	if n.Answer != nil {
		s.say(answered(&n))
		return
	}
	if told := s.belief.take(n.Action, n.Last); told {
		s.keeper.out.notice(s.number, &n)
	}
}

// close releases everything, and says so.
func (s *kept) close() {
	_ = s.client.Load().Close(context.Background())
	s.keeper.forget(s.number)
	s.say(&said{Kind: "closed"})
}

func (s *kept) say(m *said) { s.keeper.out.say(s.number, m) }

// serve does what the keeper is asked, and answers.
func (s *kept) serve(a *asked) {
	c := s.opened()
	if c == nil {
		s.say(fault(a.Call, host.ErrClosed))
		return
	}
	ctx, cancel := within(a.Until, s.keeper.clock.Now().Mono)
	defer cancel()
	answer := &said{Kind: "done", Call: a.Call}
	var err error
	switch a.Kind {
	case "fetch":
		err = fetch(ctx, c, a.Key, a.Path)
	case "list":
		err = list(ctx, c, a, answer)
	case "guard":
		err = guard(ctx, c.Store(), a, answer)
	default:
		c.CatchUp()
	}
	if err != nil {
		answer = fault(a.Call, err)
	}
	s.say(answer)
}

// within is a context until a Mono; 0 is without an end. The parent has set it: who was stopped meanwhile comes too late.
func within(until, now int64) (context.Context, context.CancelFunc) {
	if until == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeoutCause(context.Background(), time.Duration(until-now), errTimeout)
}

var errTimeout = errors.New("mopslock: the time was over before the store had answered")

// isOver reports whether an error says that the time was over.
func isOver(err error) bool {
	return errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// fetch copies an object into a file, which is the parent's.
func fetch(ctx context.Context, c *host.Client, key, path string) error {
	body, _, err := c.Result(key).Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, file.Close())
}

// list answers with a page of the keys behind a prefix.
func list(ctx context.Context, c *host.Client, a *asked, answer *said) error {
	page, more, err := c.Store().List(ctx, a.Key, a.After, min(max(a.Count, 1), core.MaxEntries))
	answer.More = more
	for i := range page {
		answer.Entries = append(answer.Entries, [2]any{page[i].Key, page[i].Stamp})
	}
	return err
}
