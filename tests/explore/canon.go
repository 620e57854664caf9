package explore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// Two histories whose difference no machine can ever see should be one state. The
// bytes of a machine of strict say more than that, so they are normalised before
// they are hashed:
//
//   - now: every Step begins by overwriting it, and time never goes back here.
//   - ids of requests: an answer carries the id that this very copy of the machine
//     gave its latest request (actorState.asked), so that nothing tells apart
//     copies that count differently.
//   - the timer of what comes next, with its jitter: it is compared with instants of
//     ticks alone, so only the tick counts from which it is due.
//   - nonces: they are only compared for being equal. The host numbers
//     those of its machine, the store sees the number, and an answer brings the
//     machine's own nonce back. A number is given once in a history.
//   - the generator: nonces have numbers, and of the jitter only the tick is left.
//     Copies of one state may draw differently; each draw is one that can happen, and a
//     violation that is found is one of an execution of the real machines.
//   - the buffer of the record written last: it is written anew before it is sent.
//   - counters of back-off that have reached its ceiling, and all of a waiter that
//     holds: a holder never waits again.

// Where things stand in the bytes of a machine of strict; TestCanon checks them.
const (
	atState  = 1
	atRNG    = 2
	atNow    = 18
	atIssued = 34
	atNext   = 91 // the last of the timers
	headSize = 99

	// In a lease, from the end, where there is no claim and nothing is collected.
	fromEndWaitedAt = 49
	fromEndPolls    = 41
	fromEndRaces    = 33
	fromEndTold     = 17
)

// numbered is a nonce that a machine has made.
type numbered struct {
	real   [16]byte
	number [16]byte // the host's
}

// dueAt returns the tick at which a timer for a Mono is due. If it is nil, a state
// is not normalised.
type dueAt func(mono int64) int64

// normal is a Program that can be normalised.
type normal interface {
	appendNormal(dst []byte, due dueAt) []byte
}

// canon is what a host needs to normalise a machine.
type canon struct {
	on     bool
	origin uint64 // of the machine, the first half of its numbers
	count  uint64 // nonces, and ids of permits, so far
	nonces []numbered
	ids    []identified
}

// identified is the id of a permit that a machine has made, and the one that the host
// gives it: an id is compared for being equal and shown, as a nonce is.
type identified struct{ real, number string }

const (
	nonceField  = `"nonce": "`
	nonceDigits = 32
	recordStart = "{\n  \"v\": 1"
)

// nonceIn finds the nonce in a record.
func nonceIn(body []byte) []byte {
	i := bytes.Index(body, []byte(nonceField))
	if i < 0 || len(body) < i+len(nonceField)+nonceDigits {
		return nil
	}
	return body[i+len(nonceField):][:nonceDigits]
}

// newCanon normalises machines of strict alone: the bytes of others are laid out differently.
func newCanon(cfg core.Config) canon {
	return canon{on: cfg.Protocol == core.ProtocolStrict, origin: hash(cfg.Seed[:])[0]}
}

// send numbers the nonces of the records that are sent, and the ids of permits.
func (c *canon) send(actions []core.Action) {
	for i := range actions {
		a := &actions[i]
		if c.on && a.Kind.IsRequest() && len(a.Body) > 0 {
			a.Body = bytes.Clone(a.Body)
			c.number(nonceIn(a.Body))
			c.identify(a.Body, false)
		}
		for j := range c.ids {
			if string(a.Holder) == c.ids[j].real {
				a.Holder = core.HolderID(c.ids[j].number)
			}
		}
	}
}

// learn gives numbers to the ids that a semaphore has made since.
func (c *canon) learn(m core.Machine) {
	s := reflect.ValueOf(m)
	if !c.on || s.Type().String() != "*semaphore.Semaphore" {
		return
	}
	asks := s.Elem().FieldByName("Asks")
	for i := range asks.Len() {
		id := asks.Index(i).FieldByName("ID").String()
		if id == "" || slices.ContainsFunc(c.ids, func(o identified) bool { return o.real == id }) {
			continue
		}
		c.count++
		number := fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(c.origin), uint16(c.origin>>32), c.count)
		c.ids = append(slices.Clip(c.ids), identified{id, number})
	}
}

// identify writes the numbers of ids over them, or the ids over their numbers.
func (c *canon) identify(b []byte, back bool) {
	for i := range c.ids {
		from, to := c.ids[i].real, c.ids[i].number
		if back {
			from, to = to, from
		}
		for at := 0; ; at += len(from) {
			found := bytes.Index(b[at:], []byte(from))
			if found < 0 {
				break
			}
			at += found
			copy(b[at:], to)
		}
	}
}

// number writes the number of a nonce over it.
func (c *canon) number(text []byte) {
	var n numbered
	if _, err := hex.Decode(n.real[:], text); text == nil || err != nil {
		return
	}
	i := slices.IndexFunc(c.nonces, func(o numbered) bool { return o.real == n.real })
	if i < 0 {
		c.count++
		binary.BigEndian.PutUint64(n.number[:], c.origin)
		binary.BigEndian.PutUint64(n.number[8:], c.count)
		i = len(c.nonces)
		c.nonces = append(slices.Clip(c.nonces), n)
	}
	hex.Encode(text, c.nonces[i].number[:])
}

// receive brings the machine's own nonce back into a record that is read.
func (c *canon) receive(ev *core.Event) {
	if c.on && len(c.ids) > 0 && len(ev.Body) > 0 {
		ev.Body = bytes.Clone(ev.Body)
		c.identify(ev.Body, true)
	}
	var number [16]byte
	text := nonceIn(ev.Body)
	if _, err := hex.Decode(number[:], text); !c.on || text == nil || err != nil {
		return
	}
	i := slices.IndexFunc(c.nonces, func(o numbered) bool { return o.number == number })
	if i < 0 {
		return
	}
	ev.Body = bytes.Clone(ev.Body)
	hex.Encode(nonceIn(ev.Body), c.nonces[i].real[:])
}

// appendState appends the normalised state of a machine.
func (c *canon) appendState(dst []byte, m core.Machine, due dueAt) []byte {
	start := len(dst)
	dst = m.AppendState(dst)
	if !c.on || due == nil {
		return dst
	}
	b := c.normalise(dst[start:], reflect.ValueOf(m), due)
	dst = append(dst[:start], b...)
	return binary.AppendUvarint(dst, c.count)
}

// normalise normalises the bytes of the machine that m points to, in place.
func (c *canon) normalise(b []byte, m reflect.Value, due dueAt) []byte {
	normaliseHead(b, due)
	if m.Type().String() == "*strict.Lease" {
		settleCounters(b, m.Elem())
	}
	for i := range c.nonces {
		n := &c.nonces[i]
		for half := 0; half < 16; half += 8 {
			for at := headSize; ; {
				found := bytes.Index(b[at:], n.real[half:half+8])
				if found < 0 {
					break
				}
				copy(b[at+found:], n.number[half:half+8])
				at += found + 8
			}
		}
	}
	c.identify(b[headSize:], false)
	if i := bytes.Index(b, []byte(recordStart)); i >= 8 {
		n := int(binary.BigEndian.Uint64(b[i-8:]))
		clear(b[i-8 : i])
		b = append(b[:i], b[i+n:]...)
	}
	return b
}

// normaliseHead normalises what all machines have.
func normaliseHead(b []byte, due dueAt) {
	clear(b[atRNG : atRNG+16])
	clear(b[atNow : atNow+16])
	if clear(b[atIssued : atIssued+8]); binary.BigEndian.Uint64(b[atIssued+8:]) != 0 {
		binary.BigEndian.PutUint64(b[atIssued+8:], 1)
	}
	due.write(b[atNext:])
}

// settleCounters normalises what a lease counts while it waits.
func settleCounters(b []byte, lease reflect.Value) {
	const ceiling = 12 // steps of a back-off, after which it grows no more
	if !lease.FieldByName("Attempt").IsNil() || !lease.FieldByName("Garbage").IsNil() {
		return
	}
	most := uint64(ceiling)
	if b[atState] == byte(core.LeaseHeld) {
		most = 0
	}
	for _, at := range []int{fromEndWaitedAt, fromEndPolls, fromEndRaces, fromEndTold} {
		field := b[len(b)-at:][:8]
		switch {
		case at == fromEndPolls || at == fromEndRaces:
			binary.BigEndian.PutUint64(field, min(most, binary.BigEndian.Uint64(field)))
		case most == 0:
			clear(field)
		}
	}
}

// write writes the tick over the Mono that stands at the beginning of b.
func (d dueAt) write(b []byte) {
	binary.BigEndian.PutUint64(b, uint64(d(int64(binary.BigEndian.Uint64(b)))))
}

// append appends a Mono, or the tick from which it is due.
func (d dueAt) append(dst []byte, mono int64) []byte {
	if d != nil {
		mono = d(mono)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(mono))
}
