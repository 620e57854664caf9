package host

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/local" // and file://
)

// abilities is what this Host has found out about its store.
type abilities struct {
	creates atomic.Int32 // one of the answers below
	told    atomic.Bool  // that auto falls back on lastwriter

	mu     sync.Mutex
	asking *member // finds it out, for all who wait for it
}

const (
	createUnknown int32 = iota
	createHonoured
	createIgnored
)

// Resolve says which protocol a lease on name is kept by. core.ProtocolLastWriter
// is itself, without a request. Auto, which is 0, is lastwriter where the name
// has a lock.json or its last segment is "lock", for an old client would not see
// another's claim; else strict where the store honours create-if-absent; else
// lastwriter, said aloud. core.ProtocolStrict on a store that does not honour it
// is an *Error of Kind Unfit; other errors are Acquire's.
//
// What is found out about the store is remembered by the Host. Each Host tries it
// for itself, by way of the endpoint that it uses: one request where the card of
// all stores is there already, two where it is not.
func (h *Host) Resolve(ctx context.Context, name string, want core.Protocol) (core.Protocol, error) {
	if err := core.CheckName(name); err != nil {
		return 0, err
	}
	found, err := h.resolve(ctx, name, want, core.Forever)
	return found.protocol, err
}

// resolved is how a name is kept.
type resolved struct {
	protocol core.Protocol
	beside   bool // strict, and the name has a lock.json
}

func (h *Host) resolve(ctx context.Context, name string, want core.Protocol, wait time.Duration) (resolved, error) {
	last := name[strings.LastIndexByte(name, '/')+1:]
	switch {
	case core.CheckName(name) != nil: // the machine will say so, with whatever else is wrong
		return resolved{protocol: cmp.Or(want, core.ProtocolStrict)}, nil
	case want == core.ProtocolLastWriter, want == 0 && last == "lock":
		return resolved{protocol: core.ProtocolLastWriter}, nil
	case want != 0 && want != core.ProtocolStrict:
		return resolved{}, badTerms("protocol: must be strict, lastwriter, or 0 for auto")
	}
	if err := h.checkKeys(name, core.ProtocolStrict); err != nil {
		return resolved{}, err
	}
	beside, err := h.hasRecord(ctx, name, wait)
	if err != nil {
		return resolved{}, err
	}
	if beside && want == 0 {
		return resolved{protocol: core.ProtocolLastWriter}, nil
	}
	honoured, err := h.createIsHonoured(ctx, name, wait)
	switch {
	case err != nil:
		return resolved{}, err
	case honoured:
		return resolved{core.ProtocolStrict, beside}, nil
	case want == core.ProtocolStrict:
		return resolved{}, &Error{Kind: Unfit, Name: name}
	}
	if !h.abilities.told.Swap(true) {
		h.log.Warn("the store does not honour create-if-absent, so leases are kept by lastwriter, without a fencing token")
	}
	return resolved{protocol: core.ProtocolLastWriter}, nil
}

// hasRecord asks whether an old client has a record under the name.
func (h *Host) hasRecord(ctx context.Context, name string, wait time.Duration) (bool, error) {
	p := &prober{step: probeRecord, record: recordKey(name), wait: wait, answered: h.Reached()}
	m := h.newTask(ctx, p, name)
	p.failure = func() error { return m.troubles().failed }
	if err := h.keeper.add(m, core.Event{Kind: core.EventBegin}); err != nil {
		return false, err
	}
	if err := m.await(ctx); !errors.Is(err, errTaskDone) {
		return false, err
	}
	return p.beside, nil
}

// isOurOwn reports whether the store is one that honours create-if-absent because
// we made it so: a directory, or memory.
func (h *Host) isOurOwn() bool {
	if _, ok := h.store.(*local.Store); ok {
		return true
	}
	return strings.HasPrefix(h.url, "mem:")
}

// createIsHonoured asks the store, unless the Host knows. Whoever wants to know
// at the same time waits for one answer, and a failure is everybody's.
func (h *Host) createIsHonoured(ctx context.Context, name string, wait time.Duration) (bool, error) {
	a := &h.abilities
	if known := a.creates.Load(); known != createUnknown {
		return known == createHonoured, nil
	}
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		asking, err := h.askStore()
		if err != nil {
			return false, err
		}
		select {
		case <-asking.signal(&asking.ended, &asking.over):
		case <-late:
			reason := core.ReasonLimit
			if !h.Reached() {
				reason = core.ReasonUnreachable // not once
			}
			return false, &Error{Kind: Refused, Name: name, Reason: reason, Class: core.ClassUnreachable}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		err = asking.failure()
		switch {
		case errors.Is(err, errTaskDone):
			return a.creates.Load() == createHonoured, nil
		case wait != 0 && errors.Is(err, &Error{Kind: Refused, Reason: core.ReasonLimit}):
			continue // it has answered before, so a waiter carries on
		}
		return false, refusedOf(name, err)
	}
}

// askStore begins to ask, or joins who asks already.
func (h *Host) askStore() (*member, error) {
	a := &h.abilities
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.asking; m != nil && m.failure() == nil {
		return m, nil
	}
	p := &prober{step: probeFirst, nonce: h.newID, wait: probePatience, answered: h.Reached()}
	m := h.newTask(context.Background(), p, "")
	p.failure = func() error { return m.troubles().failed }
	p.found = func(creates int32) {
		h.log.Info("tried once whether the store honours create-if-absent", "honoured", creates == createHonoured)
		a.creates.Store(creates)
	}
	a.asking = m
	return m, h.keeper.add(m, core.Event{Kind: core.EventBegin})
}

// The keys of the whole store.
const (
	storePrefix = registerDir + "/"
	// cardKey is what create-if-absent is tried on. That it is there proves nothing:
	// a bucket may have been copied, or somebody else have put it.
	cardKey = storePrefix + "store.json"
	// Sessions and samples of the store's clock, each below an id.
	sessionPrefix     = storePrefix + "s/"
	calibrationPrefix = storePrefix + "c/"
)

// probePatience is how long a store may leave a probe without one answer.
const probePatience = 5 * time.Second

// prober is a machine of the host's own: it asks one thing after the other. Of a
// name, whether N/lock.json exists; of the store:
//
//	create card          "it exists" is what only a store that honours it says
//	create card again    after a yes: must be told that it exists
//	delete card          after two: it would say what is not so
//
// Whoever else creates the card between the two only makes the answer come
// sooner, and so does a proxy that sends ours twice.
type prober struct {
	step    probeStep // where it begins
	record  string    // key
	wait    time.Duration
	nonce   func() (string, error)
	failure func() error // of the latest request whose outcome is unknown
	found   func(creates int32)

	beside  bool
	creates int32

	begun    int64
	answered bool
	request  core.RequestID
	sent     bool // a request is in flight
	retries  int
	wakeAt   int64
	done     bool
	out      []core.Action
}

type probeStep uint8

const (
	probeRecord probeStep = iota
	probeFirst
	probeSecond
	probeTidy
	probeEnd
)

// Step implements core.Stepper.
func (p *prober) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.out = p.out[:0]
	switch {
	case p.done:
	case ev.Kind == core.EventCancel:
		p.refuse(core.ReasonCancelled, core.ClassNone)
	case ev.Kind == core.EventBegin:
		p.begun = now.Mono
		p.ask(now)
	case ev.Kind == core.EventAnswer && ev.Request == p.request && p.sent:
		p.sent = false
		p.answer(now, &ev)
	case !p.sent && now.Mono >= p.wakeAt:
		p.ask(now)
	}
	if !p.done && !p.sent {
		p.out = append(p.out, core.Action{Kind: core.ActionWake, At: p.wakeAt})
	}
	return p.out, nil
}

// answer takes an answer and goes on, or tries again.
func (p *prober) answer(now core.Instant, ev *core.Event) {
	if ev.Outcome == core.OutcomeUnknown && p.step != probeTidy {
		p.unknown(now, ev.Class)
		return
	}
	p.answered, p.retries = true, 0
	yes := ev.Outcome == core.OutcomeYes
	switch p.step {
	case probeRecord:
		p.beside = yes
		p.step = probeEnd
	case probeFirst:
		p.step = probeSecond
		if !yes {
			p.creates, p.step = createHonoured, probeEnd
		}
	case probeSecond:
		p.creates, p.step = createHonoured, probeEnd
		if yes {
			p.creates, p.step = createIgnored, probeTidy
		}
	case probeTidy: // whatever became of it
		p.step = probeEnd
	}
	p.ask(now)
}

// unknown: a store that cannot be used is given up at once, one that has never
// answered after a while, and one that did when the caller's wait is over.
func (p *prober) unknown(now core.Instant, class core.Class) {
	if p.step >= probeFirst && errors.Is(p.failure(), errors.ErrUnsupported) {
		p.creates, p.step = createIgnored, probeEnd
		p.ask(now)
		return
	}
	patience := probePatience
	if p.wait > 0 && (p.answered || p.wait < patience) {
		patience = p.wait
	}
	over := time.Duration(now.Mono-p.begun) >= patience && (!p.answered || p.wait != core.Forever)
	switch class {
	case core.ClassUnauthorized, core.ClassNoSuchStore, core.ClassReadOnly, core.ClassFull:
		p.refuse(core.ReasonUnusable, class)
	default:
		if over && p.answered {
			p.refuse(core.ReasonLimit, class)
			return
		} else if over {
			p.refuse(core.ReasonUnreachable, class)
			return
		}
		p.retries = min(p.retries+1, 5)
		p.wakeAt = now.Mono + int64(100*time.Millisecond)<<p.retries
		if end := p.begun + int64(patience); end > now.Mono {
			p.wakeAt = min(p.wakeAt, end)
		}
		p.step = min(p.step, probeFirst) // the card may have been removed meanwhile: two in a row
	}
}

// limit bounds a request: a caller who waits less than probePatience, or has less
// left of his wait, is not to wait for a silent store any longer than that.
func (p *prober) limit(now core.Instant) time.Duration {
	if p.wait <= 0 {
		return probePatience
	}
	return max(time.Millisecond, min(probePatience, p.wait-time.Duration(now.Mono-p.begun)))
}

// ask sends the request of the step.
func (p *prober) ask(now core.Instant) {
	a := core.Action{Limit: p.limit(now)}
	switch p.step {
	case probeRecord:
		a.Kind, a.Key = core.ActionExists, p.record
	case probeFirst, probeSecond:
		nonce, err := p.nonce()
		if err != nil {
			p.refuse(core.ReasonUnusable, core.ClassOther)
			return
		}
		a.Kind, a.Key, a.Body = core.ActionCreate, cardKey, cardBody(nonce)
	case probeTidy:
		a.Kind, a.Key, a.Limit = core.ActionDelete, cardKey, errandLimit
	default:
		p.done = true
		if p.found != nil {
			p.found(p.creates)
		}
		return
	}
	p.request++
	a.Request, p.sent = p.request, true
	a.Type = "application/json"
	p.out = append(p.out, a)
}

func cardBody(nonce string) []byte {
	return []byte("{\n  \"v\": 1,\n  \"nonce\": \"" + nonce + "\",\n  \"create\": \"honoured\"\n}")
}

func (p *prober) refuse(reason core.Reason, class core.Class) {
	p.done = true
	p.out = append(p.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: cmp.Or(class, core.ClassNone)})
}

// Idle implements core.Stepper.
func (p *prober) Idle() bool { return p.done }

// String implements core.Stepper.
func (p *prober) String() string { return "probing" }
