package explore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// Two histories whose difference no client can ever see should be one state. The bytes of
// AppendState say more than that, so the explorer asks a client for a normal form:
//
//   - now: every Step begins by overwriting it, and time never goes back here.
//   - ids of requests: an answer carries the id that this very copy of the client gave
//     the request, so the place among those under way stands for it.
//   - alarms and timers, with their jitter: they are compared with instants of ticks alone,
//     so only the tick counts from which each is due, and their order.
//   - nonces, and ids of permits: they are only compared for being equal. The process numbers
//     those of its client, the store sees the number, and an answer brings the client's own
//     back. A number is given once in a history.
//   - generators: nonces have numbers, and of the jitter only the tick is left. Copies of
//     one state may draw differently; each draw is one that can happen, and a violation
//     that is found is one of an execution of the real client.
//
// What no Step reads before it has written it has a tag at its field, and is no part of
// these bytes either.

// dueAt returns the tick at which a timer for a Mono is due. If it is nil, a state
// is not normalised.
type dueAt func(mono int64) int64

// append appends a Mono, or the tick from which it is due.
func (d dueAt) append(dst []byte, mono int64) []byte {
	if d != nil {
		mono = d(mono)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(mono))
}

// normal is a Program that can be normalised.
type normal interface {
	appendNormal(dst []byte, due dueAt) []byte
}

// numbered is a nonce that a client has made.
type numbered struct {
	real   [16]byte
	number [16]byte // the process's
}

// identified is the id of a permit that a client has made, and the one that the process
// gives it.
type identified struct{ real, number string }

// canon is what a process needs to normalise its client.
type canon struct {
	origin uint64 // the first half of its numbers
	count  uint64 // nonces and ids of permits, so far
	nonces []numbered
	ids    []identified
}

const (
	nonceField  = `"nonce": "`
	nonceDigits = 32
)

// nonceIn finds the nonce in a record.
func nonceIn(body []byte) []byte {
	i := bytes.Index(body, []byte(nonceField))
	if i < 0 || len(body) < i+len(nonceField)+nonceDigits {
		return nil
	}
	return body[i+len(nonceField):][:nonceDigits]
}

// send numbers the nonces of the records that are sent, and the ids of permits.
func (c *canon) send(actions []core.Action) {
	for i := range actions {
		a := &actions[i]
		if a.Kind.IsRequest() && len(a.Body) > 0 {
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

// learn gives numbers to the ids of permits that a client has made since.
func (c *canon) learn(client core.Machine) {
	client.WriteState(&core.StateWriter{Normal: &learner{canon: c}})
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

// receive brings the client's own nonce back into a record that is read.
func (c *canon) receive(ev *core.Event) {
	if len(c.ids) > 0 && len(ev.Body) > 0 {
		ev.Body = bytes.Clone(ev.Body)
		c.identify(ev.Body, true)
	}
	var number [16]byte
	text := nonceIn(ev.Body)
	if _, err := hex.Decode(number[:], text); text == nil || err != nil {
		return
	}
	i := slices.IndexFunc(c.nonces, func(o numbered) bool { return o.number == number })
	if i < 0 {
		return
	}
	ev.Body = bytes.Clone(ev.Body)
	hex.Encode(nonceIn(ev.Body), c.nonces[i].real[:])
}

// appendState appends the normalised state of a client, of which the process has these
// requests under way.
func (c *canon) appendState(dst []byte, client core.Machine, asked []core.RequestID, due dueAt) []byte {
	if due == nil {
		return client.AppendState(dst)
	}
	w := core.StateWriter{Out: dst, Normal: &normaliser{canon: c, asked: asked, due: due}}
	client.WriteState(&w)
	return binary.AppendUvarint(w.Out, c.count)
}

// normaliser implements core.Normal.
type normaliser struct {
	*canon
	asked []core.RequestID
	due   dueAt
	met   []asker
}

// asker is a request of the machine in a part of the client.
type asker struct {
	of any
	id core.RequestID
}

func (n *normaliser) Due(mono int64) int64 { return n.due(mono) }
func (n *normaliser) ID(string)            {}
func (n *normaliser) Text(text []byte)     { n.identify(text, false) }

// Request is what an id stands for: one of those under way, or one of a part's machine.
func (n *normaliser) Request(of any, id core.RequestID) uint64 {
	if id == 0 {
		return 0
	}
	if slot := slices.Index(n.asked, id); of == nil && slot >= 0 {
		return uint64(1 + slot)
	}
	i := slices.Index(n.met, asker{of, id})
	if i < 0 {
		i = len(n.met)
		n.met = append(n.met, asker{of, id})
	}
	return uint64(100 + i)
}

// Nonce is the number of a nonce of the client's own.
func (n *normaliser) Nonce(a, b uint64) (uint64, uint64) {
	var real [16]byte
	binary.BigEndian.PutUint64(real[:], a)
	binary.BigEndian.PutUint64(real[8:], b)
	for i := range n.nonces {
		if n.nonces[i].real == real {
			real = n.nonces[i].number
		}
	}
	return binary.BigEndian.Uint64(real[:]), binary.BigEndian.Uint64(real[8:])
}

// learner implements core.Normal: it takes the ids alone.
type learner struct{ *canon }

func (l *learner) Due(mono int64) int64                    { return mono }
func (l *learner) Request(_ any, id core.RequestID) uint64 { return uint64(id) }
func (l *learner) Nonce(a, b uint64) (uint64, uint64)      { return a, b }
func (l *learner) Text([]byte)                             {}

// ID gives a number to an id that is new.
func (l *learner) ID(id string) {
	if id == "" || slices.ContainsFunc(l.ids, func(o identified) bool { return o.real == id }) {
		return
	}
	l.count++
	number := fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(l.origin), uint16(l.origin>>32), l.count)
	l.ids = append(slices.Clip(l.ids), identified{id, number})
}

// identifyText is the number of an id, if it is one.
func (c *canon) identifyText(id *string) {
	for i := range c.ids {
		if *id == c.ids[i].real {
			*id = c.ids[i].number
		}
	}
}
