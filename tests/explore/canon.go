package explore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Two histories whose difference no client can ever see should be one state. The bytes of
// AppendState say more than that, so the explorer walks through a client itself:
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
//   - buffers: what is in them is written anew before it is sent.
//   - counters of back-off that have reached its ceiling, and all of a waiter that
//     holds: a holder never waits again.

// unseen are the fields that no later Step reads before it has written them, what stands in
// another place as well, and what is only told to people.
var unseen = map[string]bool{
	"client.Client.now": true, "outbox.Outbox.Actions": true, "outbox.Outbox.alarms": true,
	"client.Client.oldest": true, "client.Client.newest": true, "client.claim.prev": true, "client.claim.next": true,
	"outbox.table.issued": true, "outbox.Flight.Asked": true, "base.Machine.Now": true, "base.Machine.Issued": true, "base.Machine.Out": true,
	"core.Config.Seed": true, "register.Register.Body": true, "register.Register.Observed": true, "strict.Session.body": true,
	"strict.Parked.now": true, "strict.Parked.issued": true, "invocation.Invocation.bodies": true, "invocation.Invocation.observed": true,
	"invocation.Invocation.event": true, "lastwriter.Tenure.seen": true, "lastwriter.Tenure.Observed": true,
}

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
	ceiling     = 12 // steps of a back-off, after which it grows no more
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
	semaphores := reflect.ValueOf(client).Elem().FieldByName("semaphores")
	for i := range semaphores.Len() {
		asks := semaphores.Index(i).Elem().FieldByName("unit").Elem().FieldByName("machine").Elem().Elem().FieldByName("Asks")
		for j := range asks.Len() {
			id := asks.Index(j).FieldByName("ID").String()
			if id == "" || slices.ContainsFunc(c.ids, func(o identified) bool { return o.real == id }) {
				continue
			}
			c.count++
			number := fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(c.origin), uint16(c.origin>>32), c.count)
			c.ids = append(slices.Clip(c.ids), identified{id, number})
		}
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
	w := &walk{canon: c, asked: asked, due: due, dst: dst, seen: map[met]uint64{}}
	w.value(reflect.ValueOf(client))
	return binary.AppendUvarint(w.dst, c.count)
}

// walk goes through a client and appends what counts.
type walk struct {
	*canon
	asked   []core.RequestID
	due     dueAt
	dst     []byte
	seen    map[met]uint64 // pointers, in the order in which they were met
	unit    uintptr        // whose machine is at hand
	ids     []asker        // requests of machines, likewise
	settled bool           // the lease at hand holds, and is not about to do anything
}

type met struct {
	at uintptr
	is reflect.Type
}

type asker struct {
	unit uintptr
	id   core.RequestID
}

func (w *walk) uint(v uint64) { w.dst = binary.AppendUvarint(w.dst, v) }

func (w *walk) text(s string) {
	w.uint(uint64(len(s)))
	from := len(w.dst)
	w.dst = append(w.dst, s...)
	w.identify(w.dst[from:], false)
}

func (w *walk) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			w.uint(1)
		} else {
			w.uint(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.dst = binary.AppendVarint(w.dst, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Type() == reflect.TypeFor[core.RequestID]() {
			w.request(core.RequestID(v.Uint()))
			return
		}
		w.uint(v.Uint())
	case reflect.String:
		w.text(v.String())
	case reflect.Interface:
		if v.IsNil() {
			w.uint(0)
			return
		}
		w.text(v.Elem().Type().String())
		w.value(v.Elem())
	case reflect.Pointer:
		w.pointer(v)
	case reflect.Map:
		w.entries(v)
	case reflect.Slice, reflect.Array:
		w.list(v)
	case reflect.Struct:
		w.record(v)
	default:
		panic("explore: a client has a " + v.Type().String())
	}
}

// request appends what an id stands for: one of those under way, or one of a unit's machine.
func (w *walk) request(id core.RequestID) {
	if slot := slices.Index(w.asked, id); w.unit == 0 && id != 0 && slot >= 0 {
		w.uint(uint64(1 + slot))
		return
	}
	if id == 0 {
		w.uint(0)
		return
	}
	of := asker{w.unit, id}
	i := slices.Index(w.ids, of)
	if i < 0 {
		i = len(w.ids)
		w.ids = append(w.ids, of)
	}
	w.uint(uint64(100 + i))
}

func (w *walk) pointer(v reflect.Value) {
	if v.IsNil() {
		w.uint(0)
		return
	}
	at := met{v.Pointer(), v.Type()}
	if n, known := w.seen[at]; known {
		w.uint(n + 1)
		return
	}
	w.seen[at] = uint64(len(w.seen) + 1)
	w.uint(1)
	w.value(v.Elem())
}

func (w *walk) entries(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.Kind() == reflect.String {
			return strings.Compare(a.String(), b.String())
		}
		return cmp.Compare(a.Uint(), b.Uint())
	})
	w.uint(uint64(len(keys)))
	for _, key := range keys {
		w.value(key)
		w.value(v.MapIndex(key))
	}
}

func (w *walk) list(v reflect.Value) {
	switch v.Type().String() {
	case "[]outbox.Flight":
		w.flights(v)
		return
	case "base.timers":
		for i := range v.Len() {
			w.dst = w.due.append(w.dst, v.Index(i).Int())
		}
		return
	}
	w.uint(uint64(v.Len()))
	for i := range v.Len() {
		w.value(v.Index(i))
	}
}

// flights are the requests of a client, wherever they stand in its table.
func (w *walk) flights(v reflect.Value) {
	id := func(f reflect.Value) uint64 { return f.FieldByName("id").Uint() }
	var all []reflect.Value
	for i := range v.Len() {
		if id(v.Index(i)) != 0 {
			all = append(all, v.Index(i))
		}
	}
	slices.SortFunc(all, func(a, b reflect.Value) int { return cmp.Compare(id(a), id(b)) })
	w.uint(uint64(len(all)))
	for _, f := range all {
		w.value(f)
	}
}

func (w *walk) record(v reflect.Value) {
	switch v.Type().String() {
	case "base.RNG":
		return
	case "register.Nonce":
		w.nonce(v.Field(0).Uint(), v.Field(1).Uint())
		return
	case "alarms.Alarm":
		if v.FieldByName("index").Int() != 0 {
			w.dst = w.due.append(w.dst, v.FieldByName("At").Int())
		}
		return
	case "alarms.Alarms":
		w.alarms(v.FieldByName("all"))
		return
	case "strict.Lease":
		held := v.FieldByName("State").Uint() == uint64(core.LeaseHeld)
		w.settled = held && v.FieldByName("Attempt").IsNil() && v.FieldByName("Garbage").IsNil()
		defer func() { w.settled = false }()
	}
	t := v.Type()
	for i := range t.NumField() {
		field := t.Field(i).Name
		if unseen[v.Type().String()+"."+field] {
			continue
		}
		switch field {
		case "Polls", "Races", "polls", "races", "Told", "waitedAt":
			if w.settled {
				continue
			}
			if n := v.Field(i); n.CanInt() {
				w.uint(uint64(min(ceiling, n.Int())))
				continue
			}
		case "InnerWake", "wakeAt":
			w.dst = w.due.append(w.dst, v.Field(i).Int())
			continue
		case "machine", "OwnersID":
			outer := w.unit
			if w.unit = v.Addr().Pointer(); field == "OwnersID" {
				w.unit = 0
				if of := v.FieldByName("Owner"); !of.IsNil() {
					w.unit = of.Elem().Pointer()
				}
			}
			w.value(v.Field(i))
			w.unit = outer
			continue
		}
		w.value(v.Field(i))
	}
}

// alarms are appended in the order in which they ring.
func (w *walk) alarms(v reflect.Value) {
	all := make([]reflect.Value, v.Len())
	for i := range all {
		all[i] = v.Index(i).Elem()
	}
	slices.SortFunc(all, func(a, b reflect.Value) int {
		return cmp.Or(cmp.Compare(a.FieldByName("At").Int(), b.FieldByName("At").Int()),
			cmp.Compare(a.FieldByName("serial").Uint(), b.FieldByName("serial").Uint()))
	})
	w.uint(uint64(len(all)))
	for _, a := range all {
		w.value(a.FieldByName("Rings"))
	}
}

func (w *walk) nonce(a, b uint64) {
	var real [16]byte
	binary.BigEndian.PutUint64(real[:], a)
	binary.BigEndian.PutUint64(real[8:], b)
	for i := range w.nonces {
		if w.nonces[i].real == real {
			real = w.nonces[i].number
		}
	}
	w.dst = append(w.dst, real[:]...)
}

// identifyText is the number of an id, if it is one.
func (c *canon) identifyText(id *string) {
	for i := range c.ids {
		if *id == c.ids[i].real {
			*id = c.ids[i].number
		}
	}
}
