// Package keep runs Hosts for another process, the parent, which sends the commands of the core's
// client and is told its notices. The parent's leases are then renewed by a process of their own: no
// global lock of an interpreter, no blocked thread and no stop of the parent delays a renewal.
//
// Messages are msgpack values, back to back, in both directions. Each is an array: the number of the store,
// the message, and sometimes a map of what belongs to it. bindings/README.md documents them.
//
//	parent ──  [1, {kind: open, url: …}]                                  ──► keeper
//	parent ◄── [1, {kind: opened}]                                        ──  keeper
//	parent ──  [1, {mono: 0, wall: 0, kind: acquire, claim: 1, …}, {slot: 1}] ──► keeper
//	parent ◄── [1, {kind: held, claim: 1, …}]                             ──  keeper
//
// Until when a claim may be relied on stands in memory that both share (Belief), which is right also
// while the parent reads no messages.
//
// What it does not do: it decides nothing, and it does not outlive the parent. When the parent is gone the
// keeper ends, releases nothing, and what it held expires.
package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/internal/clock"
)

// Messages is the version of the messages. A parent and a keeper of different ones do not
// understand each other.
const Messages = 1

// Options are for Serve.
type Options struct {
	// Belief is the memory that the parent reads; nil is none, and then renewals are told.
	Belief *Belief
	// Host has the options of each store; its Logger is replaced by one that tells the parent.
	Host host.Options
	// Counted is what Host's Meter has counted of all stores; nil is nothing.
	Counted func(context.Context) ([]Counted, error)
}

var errTaken = errors.New("mopslock: keep: a store of this number is open; close it first, or choose another number")

// keeper serves one parent.
type keeper struct {
	options Options
	out     *out
	clock   host.Clock

	mu     sync.Mutex
	stores map[uint64]*kept
}

// Serve reads commands from in, and writes notices to out, until in ends. It returns nil then, and
// the stores are as they were: nothing was released. Other errors are those of in, or say that it
// had no message.
func Serve(in io.Reader, to io.Writer, o Options) error {
	k := &keeper{options: o, out: newOut(to), clock: o.Host.Clock, stores: map[uint64]*kept{}}
	if k.clock == nil {
		k.clock = clock.System{}
	}
	k.out.say(0, &said{Kind: "ready", Version: core.Version, Messages: Messages, PID: os.Getpid()})
	d := msgpack.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	for {
		number, message, with, err := readMessage(d)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("mopslock: keep: the parent's message cannot be read: %w", err)
		}
		k.take(number, message, with)
	}
}

// extra is what belongs to a command, beside what the client knows.
type extra struct {
	Slot int    `json:"slot"` // of the Belief: where the claim's deadline is written
	Path string `json:"path"` // the file that has the output of work

	Answers bool `json:"answers"` // what requests for the claim come to is told, too
}

// readMessage reads one message of the parent.
func readMessage(d *msgpack.Decoder) (store uint64, message msgpack.RawMessage, with extra, err error) {
	d.SetCustomStructTag("json")
	n, err := d.DecodeArrayLen()
	if err != nil {
		return 0, nil, with, err
	}
	if n != 2 && n != 3 {
		return 0, nil, with, fmt.Errorf("an array of %d, and not of 2 or 3", n)
	}
	if store, err = d.DecodeUint64(); err == nil {
		message, err = d.DecodeRaw()
	}
	if err == nil && n == 3 {
		err = d.Decode(&with)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return store, message, with, err
}

// take does what a message says. One that says nothing is answered with a fault, and changes nothing.
func (k *keeper) take(number uint64, message msgpack.RawMessage, with extra) {
	var now core.Instant
	var ev core.Event
	refused := core.DecodeInput(message, &now, &ev)
	if refused == nil {
		if !k.hand(number, func(s *kept) { s.command(ev, with) }) && ev.Terms != nil {
			k.out.say(number, notBegun(ev.Claim, host.ErrClosed))
		}
		return
	}
	a, err := readAsked(message)
	if err != nil {
		k.out.say(number, fault(0, fmt.Errorf("mopslock: keep: no command (%w), and no message to the keeper (%w)", refused, err)))
		return
	}
	k.serve(number, a)
}

// hand has a store do something, after all that it was given before. It returns false if there is none.
func (k *keeper) hand(number uint64, do func(*kept)) bool {
	k.mu.Lock()
	s := k.stores[number]
	k.mu.Unlock()
	return s != nil && s.inbox.put(func() { do(s) })
}

// serve begins what the keeper itself is asked, and answers when it is done: a store may
// take its time.
func (k *keeper) serve(number uint64, a *asked) {
	switch {
	case a.Kind == "ping":
		k.out.say(number, &said{Kind: "done", Call: a.Call, Mono: k.clock.Now().Mono})
		return
	case a.Kind == "counts":
		k.out.say(number, k.counts(a))
		return
	case a.Kind == "open":
	case k.hand(number, func(s *kept) { go s.serve(a) }):
		return
	default:
		k.out.say(number, fault(a.Call, host.ErrClosed))
		return
	}
	s := newKept(k, number)
	k.mu.Lock()
	taken := k.stores[number] != nil
	if !taken {
		k.stores[number] = s
	}
	k.mu.Unlock()
	if taken {
		k.out.say(number, fault(a.Call, errTaken))
		return
	}
	go s.run(a)
}

// counts is what the metrics of all stores have come to.
func (k *keeper) counts(a *asked) *said {
	m := &said{Kind: "done", Call: a.Call}
	if k.options.Counted != nil {
		var err error
		if m.Counted, err = k.options.Counted(context.Background()); err != nil {
			return fault(a.Call, err)
		}
	}
	return m
}

// forget takes that a store was closed. Nothing more comes for it.
func (k *keeper) forget(number uint64) {
	k.mu.Lock()
	s := k.stores[number]
	delete(k.stores, number)
	k.mu.Unlock()
	if s != nil {
		s.inbox.end()
	}
}
