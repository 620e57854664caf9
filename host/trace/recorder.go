package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// Why a recording ends early, apart from its file's own errors.
var (
	errOverflow = errors.New("mopslock: trace: the file takes its bytes too slowly; the recording stops here")
	errTooLong  = fmt.Errorf("mopslock: trace: an event of more than %d bytes; the recording stops here", MaxValue)
)

// errUnsayable is why a recording ends if an engine takes what no message can
// express: that cannot be replayed, and all that follows would differ.
func errUnsayable(machine uint64, what string, err error) error {
	if bad, ok := errors.AsType[*core.MessageError](err); ok {
		what += ": " + bad.Rule
	}
	return fmt.Errorf("mopslock: trace: machine %d took what no message can say (%s); the recording stops here", machine, what)
}

// Recorder is an Engine that records the events and the answers of another
// Engine's machines. Its writer is a goroutine of its own, so a host that steps a
// machine never waits for the file:
//
//	caller     Step ── appends to the queue ──► goes on at once
//	writer             ═══ writes ═══ (a FIFO without a reader, a dead mount) ═══►
//
// A file that fails, or lags by more than 8 MiB, ends the recording; Close says so.
//
// A Config or an event that no message can express, and that the engine refuses,
// made or changed no machine. There is nothing to replay, so it is not recorded.
type Recorder struct {
	engine host.Engine

	mu       sync.Mutex
	queue    queue // not written yet
	encoder  *msgpack.Encoder
	scratch  []byte
	read     core.Event // a message that was read again; kept for the room of its entries
	machines uint64     // numbers given
	closed   bool
	err      error // why nothing is recorded any more

	notified chan struct{} // gets a value when the writer has something to do
	done     chan struct{} // closed when the writer has ended
}

// queue holds what the encoder writes.
type queue struct{ b []byte }

// Write implements io.Writer.
func (q *queue) Write(b []byte) (int, error) {
	q.b = append(q.b, b...)
	return len(b), nil
}

// WriteByte implements io.ByteWriter.
func (q *queue) WriteByte(c byte) error {
	q.b = append(q.b, c)
	return nil
}

// NewRecorder begins a recording of engine's machines. Close ends it, and ends the
// goroutine that writes to w. It does not close w.
func NewRecorder(engine host.Engine, w io.Writer) *Recorder {
	r := &Recorder{engine: engine, notified: make(chan struct{}, 1), done: make(chan struct{})}
	r.encoder = msgpack.NewEncoder(&r.queue)
	r.encoder.UseCompactInts(true)
	r.write(func() error {
		r.open(1)
		r.text(keyHeader)
		r.number(Version)
		return nil
	})
	go r.drain(w)
	return r
}

// New implements host.Engine.
func (r *Recorder) New(cfg core.Config) (core.Stepper, error) {
	machine, err := r.engine.New(cfg)
	if _, refused := errors.AsType[*core.Error](err); err != nil && !refused {
		return nil, err // the engine's own failure: no machine, and nothing to compare
	}
	number := uint64(0)
	r.write(func() error { // numbers the machine and writes it in one go, so that the numbers are in order
		message := core.AppendConfig(r.scratch[:0], &cfg)
		unsayable := core.DecodeConfig(message, new(core.Config))
		if unsayable != nil && err != nil {
			return nil
		}
		r.machines++
		number = r.machines
		if unsayable != nil {
			return errUnsayable(number, "its Config", unsayable)
		}
		r.begin(4, eventMade, number)
		r.message(keyConfig, message)
		r.answer(machine, nil, err)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &recorded{machine, r, number}, nil
}

// Drop implements host.Engine.
func (r *Recorder) Drop(machine core.Stepper) {
	m, ok := machine.(*recorded)
	if !ok {
		panic("mopslock: trace: Drop of a machine that this Recorder did not make")
	}
	r.write(func() error {
		r.begin(2, eventDropped, m.number)
		return nil
	})
	r.engine.Drop(m.Stepper)
}

// Close ends the recording and waits until it is written, or until ctx has ended.
// It returns why the recording is not complete, or nil. Machines that live on can
// still be stepped, but are not recorded.
func (r *Recorder) Close(ctx context.Context) error {
	r.write(func() error {
		r.open(1)
		r.text(keyEvent)
		r.text(eventClosed)
		return nil
	})
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.notify()
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done: // perhaps both have ended
		default:
			return fmt.Errorf("mopslock: trace: the end of the recording was not written in time: %w", context.Cause(ctx))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// recorded is a machine whose steps a Recorder records.
type recorded struct {
	core.Stepper
	recorder *Recorder
	number   uint64
}

// Step implements core.Stepper.
func (m *recorded) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	actions, err := m.Stepper.Step(now, ev)
	r := m.recorder
	_, refused := errors.AsType[*core.Error](err)
	r.write(func() error {
		message := core.AppendInput(r.scratch[:0], now, &ev)
		unsayable := core.DecodeInput(message, new(core.Instant), &r.read)
		switch {
		case unsayable != nil && refused:
		case unsayable != nil:
			return errUnsayable(m.number, ev.Kind.String(), unsayable)
		case err != nil && !refused:
			r.begin(3, eventFailed, m.number)
			r.message(keyInput, message)
		default:
			r.begin(4, eventStepped, m.number)
			r.message(keyInput, message)
			r.answer(m.Stepper, actions, err)
		}
		return nil
	})
	return actions, err
}

// write queues one whole value, or ends the recording: with the value's error,
// because the value is too long to be read, or because the queue is full.
func (r *Recorder) write(value func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.err != nil {
		return
	}
	before := len(r.queue.b)
	r.err = value()
	switch after := len(r.queue.b); {
	case r.err != nil:
	case after-before > MaxValue:
		r.err = errTooLong
	case after > maxQueued:
		r.err = errOverflow
	}
	if r.err != nil {
		r.queue.b = r.queue.b[:before]
	}
	r.notify()
}

// The encoder writes to memory, so its errors are nil.

func (r *Recorder) open(entries int) { _ = r.encoder.EncodeMapLen(entries) }

func (r *Recorder) text(s string) { _ = r.encoder.EncodeString(s) }

func (r *Recorder) number(n uint64) { _ = r.encoder.EncodeUint(n) }

func (r *Recorder) begin(entries int, event string, machine uint64) {
	r.open(entries)
	r.text(keyEvent)
	r.text(event)
	r.text(keyMachine)
	r.number(machine)
}

// message embeds a message as it is: it is a msgpack value itself.
func (r *Recorder) message(key string, message []byte) {
	r.text(key)
	_ = r.encoder.Encode(msgpack.RawMessage(message))
	r.scratch = message[:0]
}

func (r *Recorder) answer(machine core.Stepper, actions []core.Action, err error) {
	r.message(keyAnswer, appendAnswer(r.scratch[:0], machine, actions, err))
}

// appendAnswer appends the message of the answer of a New or a Step.
func appendAnswer(dst []byte, machine core.Stepper, actions []core.Action, err error) []byte {
	if err != nil {
		return core.AppendError(dst, asError(err))
	}
	return core.AppendAnswer(dst, machine, actions)
}

// asError returns the core's error in err, so that its code is kept.
func asError(err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	return err
}

func (r *Recorder) notify() {
	select {
	case r.notified <- struct{}{}:
	default:
	}
}

// drain writes the queue to w until Close, or until w fails. If a write is stuck,
// drain ends when that write does.
func (r *Recorder) drain(w io.Writer) {
	defer close(r.done)
	var batch []byte
	for {
		r.mu.Lock()
		batch, r.queue.b = r.queue.b, batch[:0]
		over := r.closed || r.err != nil // nothing comes after this batch
		r.mu.Unlock()
		if len(batch) > 0 {
			if _, err := w.Write(batch); err != nil {
				r.fail(err)
				return
			}
			continue
		}
		if over {
			return
		}
		<-r.notified
	}
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("mopslock: trace: the recording stops here: %w", err)
	}
	r.queue.b = nil
}
