package explore

import (
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// invoking is an invocation of the core with what its host would know of it. The
// work is nothing but its end, which the world tells whenever it likes; what it
// comes to says who did it.
type invoking struct {
	claimant
	machine core.Machine
	canon   canon
	caller  check.Caller
	// verb and key are the latest request of its own: those have odd numbers, and
	// the lease's even ones.
	verb core.ActionKind
	key  string
}

// invoke makes an invocation's program.
func invoke(actor string, cfg core.Config, make func(core.Config) (core.Machine, error)) (*invoking, error) {
	m, err := make(cfg)
	if err != nil {
		return nil, err
	}
	return &invoking{claimant: claimant{actor: actor, name: cfg.Name}, machine: m, canon: newCanon(cfg)}, nil
}

// resultOf is the key of what the work of a name comes to.
func resultOf(name string) string { return name + "/" + core.ResultFile }

// isOwn reports whether a request is the invocation's own.
func isOwn(id core.RequestID) bool { return id%2 == 1 }

// Group implements grouped: a new request of its own abandons the one before, and
// none of the lease.
func (p *invoking) Group(id core.RequestID) uint8 { return uint8(id % 2) }

// Step implements Program.
func (p *invoking) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if ev.Kind == core.EventAnswer && isOwn(ev.Request) && p.key == resultOf(p.name) {
		p.caller.Heard(p.verb, ev.Outcome)
	}
	p.canon.receive(&ev)
	actions, err := p.machine.Step(now, ev)
	if err != nil {
		return nil, err
	}
	p.canon.send(actions)
	p.follow(actions)
	for i := range actions {
		a := &actions[i]
		if !a.Kind.IsRequest() || !isOwn(a.Request) {
			continue
		}
		p.verb, p.key = a.Kind, a.Key
		if a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult {
			a.Body = []byte("by " + p.actor)
		}
	}
	if p.String() == core.InvocationReleasing.String() {
		p.claims = nil // it has stopped relying on it
	}
	if v := p.caller.Watch(p, actions); v != nil {
		return actions, v
	}
	return actions, nil
}

// Idle implements Program.
func (p *invoking) Idle() bool { return p.machine.Idle() }

// String implements Program.
func (p *invoking) String() string { return p.machine.String() }

// AppendState implements Program.
func (p *invoking) AppendState(dst []byte) []byte { return p.appendNormal(dst, nil) }

func (p *invoking) appendNormal(dst []byte, due dueAt) []byte {
	start := len(dst)
	dst = p.machine.AppendState(dst)
	if due != nil {
		dst = append(dst[:start], p.normalise(dst[start:], due)...)
	}
	dst = binary.AppendUvarint(dst, p.canon.count)
	dst = append(dst, byte(p.verb))
	dst = append(append(dst, p.key...), 0)
	return p.caller.AppendState(p.appendState(dst))
}

// Copy implements Program.
func (p *invoking) Copy() Program {
	twin := *p
	twin.machine = p.machine.Clone()
	return &twin
}

// Where things stand in the bytes of an invocation; TestCanonInvocation holds them.
const (
	atSent      = 51
	atTimers    = 59
	atInnerWake = headSize + 1
	atBefore    = headSize + 9
	atPolls     = headSize + 18
	atRetries   = headSize + 26
	backedOff   = 5 // polls after which the pauses grow no more
)

// normalise is as canon.go says, of both halves: when its request was sent nobody
// asks, all timers are compared with instants of ticks, and so is what the lease
// wants to be woken at. The tick of the last Step stays: while work runs whose lease
// is lost there may be no other instant in the state, and a copy that was made
// at a later one would refuse an earlier.
func (p *invoking) normalise(b []byte, due dueAt) []byte {
	last := int64(binary.BigEndian.Uint64(b[atNow:]))
	normaliseHead(b, due)
	binary.BigEndian.PutUint64(b[atNow:], uint64(due(last)))
	clear(b[atSent : atSent+8])
	for at := atTimers; at < atNext; at += 8 {
		due.write(b[at:])
	}
	due.write(b[atInnerWake:])
	clear(b[atBefore : atBefore+8])
	for _, at := range []int{atPolls, atRetries} {
		binary.BigEndian.PutUint64(b[at:], min(backedOff, binary.BigEndian.Uint64(b[at:])))
	}
	inner := innerOf(p.machine)
	if inner == nil {
		return b
	}
	at := len(b) - len(inner.AppendState(nil))
	if !p.canon.on {
		normaliseHead(b[at:], due)
		return b
	}
	return append(b[:at], p.canon.normalise(b[at:], reflect.ValueOf(inner), due)...)
}

// innerOf is the lease or the companion that an invocation is made of, or nil. Its
// bytes are the last of the invocation's.
func innerOf(m core.Machine) core.Machine {
	field := reflect.ValueOf(m).Elem().FieldByName("Inner")
	if field.IsNil() {
		return nil
	}
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(core.Machine)
}

// object is what the store has at a key, or nil.
func (e *engine) object(w *world, key string) []byte {
	if k, ok := e.stores.items[w.store].(Keeper); ok {
		return k.Object(key)
	}
	return nil
}

// worked tells the ledger of what an invocation has said.
func (e *engine) worked(next *world, actor uint8, notices []core.Action) *check.Violation {
	name := e.sc.Actors[actor].Name
	there := e.object(next, e.sc.Result) != nil
	for i := range notices {
		var v *check.Violation
		switch a := &notices[i]; a.Kind {
		case core.ActionHeld:
			v = e.note(next, func(l *check.Ledger) *check.Violation { l.Won(name, there); return nil })
		case core.ActionLaunch:
			believed := slices.Clone(e.believed(next))
			v = e.note(next, func(l *check.Ledger) *check.Violation { return l.Launched(name, believed) })
			if e.needs { // an actor that follows may begin at once
				next.turn, next.sweep = 0, true
			}
		case core.ActionFound:
			v = check.Finds(name, a.Key, e.object(next, a.Key) != nil)
		}
		if v != nil {
			return v
		}
	}
	return nil
}

func (e *engine) note(w *world, how func(*check.Ledger) *check.Violation) *check.Violation {
	ledger := e.ledgers.items[w.ledger].Clone()
	if v := how(ledger); v != nil {
		return v
	}
	w.ledger = e.internLedger(ledger)
	return nil
}
