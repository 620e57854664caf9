package core

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core/wire"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// The oracle of the codec is vmihailenco/msgpack/v5 with the structs of package wire.

// nameOf is the wire name of what is not zero.
func nameOf[E interface {
	~uint8
	fmt.Stringer
}](e E) string {
	if e == 0 {
		return ""
	}
	return e.String()
}

func toWireInput(now Instant, ev *Event) wire.Input {
	return wire.Input{
		Mono: now.Mono, Wall: now.Wall, Kind: ev.Kind.String(), Wait: int64(ev.Wait), Brief: ev.Brief, Result: ev.Result,
		Request: uint64(ev.Request), Outcome: nameOf(ev.Outcome), Class: nameOf(ev.Class), Stamp: ev.Stamp,
		Entries: toWireEntries(ev.Entries), More: ev.More, Body: ev.Body, Epoch: uint64(ev.Epoch),
		Permit: ev.Permit, Capacity: uint64(ev.Capacity), Width: uint64(ev.Width), Weight: uint64(ev.Weight),
		Spare: uint64(ev.Spare), StoreLimit: ev.StoreLimit, Label: string(ev.Label), Holder: string(ev.Holder),
		Session: string(ev.Session), SessionUntil: ev.SessionUntil, SessionEnd: nameOf(ev.SessionEnd),
		StoreStamp: ev.StoreStamp, StoreAt: ev.StoreAt,
	}
}

func toWireEntries(entries []Entry) (all []wire.Entry) {
	for _, e := range entries {
		all = append(all, wire.Entry{Key: string(e.Key), Stamp: e.Stamp})
	}
	return all
}

func toWireActions(actions []Action) []wire.Action {
	all := make([]wire.Action, len(actions))
	for i, a := range actions {
		all[i] = wire.Action{
			Kind: a.Kind.String(), Request: uint64(a.Request), Key: a.Key, After: a.After, Count: a.Count,
			Limit: int64(a.Limit), Type: a.Type, Body: a.Body, Reason: nameOf(a.Reason), Class: nameOf(a.Class),
			At: a.At, Wall: a.Wall, Epoch: uint64(a.Epoch), Token: uint64(a.Token), Holder: string(a.Holder), Session: a.Session,
			Permit: a.Permit, Total: a.Total,
		}
		if s := a.Sight; s != nil {
			all[i].Sight = &wire.Sight{
				State: s.State.String(), Holder: string(s.Holder), Host: string(s.Host), PID: string(s.PID), Remote: s.Remote,
				TTL: int64(s.TTL), WrittenAt: s.WrittenAt, AcquiredAt: s.AcquiredAt, ReleasedAt: s.ReleasedAt, LookAt: s.LookAt,
				Epoch: uint64(s.Epoch), Token: uint64(s.Token), Companions: string(s.Companions), Label: string(s.Label),
				Session: string(s.Session), Why: string(s.Why), By: string(s.By), Left: int64(s.Left), StoreClock: s.StoreClock,
				Print: s.Print, Since: s.Since, Capacity: uint64(s.Capacity), Width: uint64(s.Width), Held: s.Held,
				Limit: s.Limit, Permits: string(s.Permits), Dead: string(s.Dead),
			}
		}
	}
	return all
}

func toWireConfig(c *Config) wire.Config {
	out := wire.Config{
		Machine: nameOf(c.Machine), Protocol: nameOf(c.Protocol), Name: c.Name, TTL: int64(c.TTL), Margin: int64(c.Margin),
		AcquireMargin: int64(c.AcquireMargin), FleetExpire: int64(c.FleetExpire), Renewal: nameOf(c.Renewal),
		Expiry: nameOf(c.Expiry), StampUnit: int64(c.StampUnit), Holder: string(c.Holder), Role: nameOf(c.Role),
		OnSession: c.OnSession, Owner: c.Owner, Epoch: uint64(c.Epoch), Boot: c.Boot, StampSpread: int64(c.StampSpread),
		LastEpoch: uint64(c.LastEpoch), LastAt: c.LastAt, SeenPrint: c.SeenPrint, SeenSince: c.SeenSince, Beside: c.Beside,
		Why: c.Why, Now: c.Now, Label: c.Label, MemoFailures: c.MemoFailures, WithoutLease: c.WithoutLease, Creates: c.Creates,
		Host: c.Host, PID: c.PID, TID: c.TID,
	}
	if c.Seed != [16]byte{} {
		out.Seed = c.Seed[:]
	}
	return out
}

func toWireAnswer(a *Answer) wire.Answer {
	var e *Error
	if errors.As(a.Err, &e) {
		return wire.Answer{Error: e.Code.String(), Text: e.Text}
	}
	out := wire.Answer{State: a.State, Idle: a.Idle}
	if len(a.Actions) > 0 {
		out.Actions = toWireActions(a.Actions)
	}
	return out
}

// appendAnswer writes an answer that was read.
func appendAnswer(a *Answer) []byte {
	if a.Err != nil {
		return AppendError(nil, a.Err)
	}
	return AppendAnswer(nil, said{a}, a.Actions)
}

// said is a Stepper that has said an answer.
type said struct{ *Answer }

func (s said) String() string                        { return s.State }
func (s said) Idle() bool                            { return s.Answer.Idle }
func (s said) Step(Instant, Event) ([]Action, error) { return s.Actions, nil }

// oracleEncode is what msgpack/v5 makes of a wire struct.
func oracleEncode(t testing.TB, v any) []byte {
	t.Helper()
	var w bytes.Buffer
	e := msgpack.NewEncoder(&w)
	e.UseCompactInts(true)
	e.SetCustomStructTag("json")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// oracleDecode reads all of b into v, strictly as far as msgpack/v5 can.
func oracleDecode(b []byte, v any) error {
	r := bytes.NewReader(b)
	d := msgpack.NewDecoder(r)
	d.DisallowUnknownFields(true)
	d.SetCustomStructTag("json")
	var err error
	switch v := v.(type) {
	case *[]wire.Action:
		err = oracleArray(d, r, v)
	case *wire.Input:
		err = oracleMap(d, v, map[string]func() error{"entries": func() error { return oracleArray(d, r, &v.Entries) }})
	case *wire.Answer:
		err = oracleMap(d, v, map[string]func() error{"actions": func() error { return oracleArray(d, r, &v.Actions) }})
	default:
		err = d.Decode(v)
	}
	if err != nil {
		return err
	}
	if r.Len() > 0 { // a bytes.Reader is read without a buffer between
		return fmt.Errorf("%d bytes after the message", r.Len())
	}
	return nil
}

// oracleArray takes the array apart itself: msgpack/v5 5.4.1 makes room for as
// many elements as a header claims, 565 GB for nine bytes.
func oracleArray[E any](d *msgpack.Decoder, r *bytes.Reader, to *[]E) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < 0 || n > r.Len() {
		return fmt.Errorf("an array of %d", n)
	}
	*to = make([]E, n)
	for i := range *to {
		if err := d.Decode(&(*to)[i]); err != nil {
			return err
		}
	}
	return nil
}

// oracleMap does the same with the arrays inside a map. A map that is longer
// than its keys is refused; so is one with a key twice, for it is not canonical.
func oracleMap(d *msgpack.Decoder, to any, arrays map[string]func() error) error {
	v := reflect.ValueOf(to).Elem()
	fields := map[string]any{}
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[key] = v.Field(i).Addr().Interface()
	}
	n, err := d.DecodeMapLen()
	if err != nil || n < 0 || n > len(fields) {
		return fmt.Errorf("a map of %d: %w", n, err)
	}
	for range n {
		key, err := d.DecodeString()
		switch {
		case err != nil:
			return err
		case arrays[key] != nil:
			err = arrays[key]()
		case fields[key] != nil:
			err = d.Decode(fields[key])
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Generators of what a host and a machine say.

func anyInstant(t *rapid.T) Instant {
	return Instant{rapid.Int64().Draw(t, "mono"), rapid.Int64().Draw(t, "wall")}
}

func anyBody(t *rapid.T) []byte {
	return rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 300),
		rapid.Map(rapid.SampledFrom([]int{31, 32, 255, 256, 65_535, 65_536, MaxRecord + 1}), func(n int) []byte {
			return bytes.Repeat([]byte{'x'}, n)
		}),
	).Draw(t, "body")
}

func anyEvent(t *rapid.T) Event {
	ev := Event{Kind: EventKind(rapid.IntRange(int(EventAcquire), int(EventDown)).Draw(t, "kind"))}
	switch ev.Kind {
	case EventAcquire:
		ev.Wait = time.Duration(rapid.Int64().Draw(t, "wait"))
		if rapid.Bool().Draw(t, "asks") {
			ev.Permit, ev.Weight = rapid.Uint64().Draw(t, "permit"), rapid.Uint32().Draw(t, "weight")
			ev.Capacity, ev.Width = rapid.Uint32().Draw(t, "capacity"), rapid.Uint32().Draw(t, "width")
			ev.Spare, ev.Label = rapid.Uint32().Draw(t, "spare"), anyText(t, "label")
			ev.Holder = anyText(t, "holder")
		}
	case EventBegin:
		ev.Wait = time.Duration(rapid.Int64().Draw(t, "wait"))
	case EventEnded:
		ev.Outcome = Outcome(rapid.IntRange(1, 3).Draw(t, "outcome"))
		ev.Result = rapid.Bool().Draw(t, "result")
	case EventRelease:
		ev.Brief = rapid.Bool().Draw(t, "brief")
		ev.Permit, ev.Weight = rapid.Uint64().Draw(t, "permit"), rapid.Uint32().Draw(t, "weight")
		ev.Holder = anyText(t, "holder")
	case EventCancel:
		ev.Permit = rapid.Uint64().Draw(t, "permit")
	case EventLimit:
		ev.Permit, ev.StoreLimit = rapid.Uint64Min(1).Draw(t, "permit"), rapid.Uint64().Draw(t, "limit")
	case EventDown:
		ev.Holder = append(anyText(t, "holder"), 'h')
	case EventAnswer:
		ev.Request = RequestID(rapid.Uint64Min(1).Draw(t, "request"))
		ev.Outcome = Outcome(rapid.IntRange(1, 3).Draw(t, "outcome"))
		ev.Class = Class(rapid.IntRange(0, int(ClassFull)).Draw(t, "class"))
		ev.Stamp = rapid.Int64().Draw(t, "stamp")
		ev.Entries = rapid.SliceOfN(rapid.Custom(anyEntry), 0, 40).Draw(t, "entries")
		ev.More = rapid.Bool().Draw(t, "more")
		ev.Body = anyBody(t)
	case EventCalled:
		ev.Epoch = Epoch(rapid.Uint64Min(1).Draw(t, "epoch"))
	}
	if rapid.Bool().Draw(t, "known") {
		ev.Session = []byte(rapid.String().Draw(t, "session"))
		ev.SessionUntil = rapid.Int64().Draw(t, "session until")
		ev.SessionEnd = rapid.SampledFrom(append(numbersOf[Reason](reasonNames[:]), ReasonNone)).Draw(t, "session end")
		ev.StoreStamp, ev.StoreAt = rapid.Int64().Draw(t, "store stamp"), rapid.Int64().Draw(t, "store at")
	}
	return ev
}

// anyText is what an event has as text; nil where there is none, as it is read.
func anyText(t *rapid.T, name string) []byte {
	if s := rapid.String().Draw(t, name); s != "" {
		return []byte(s)
	}
	return nil
}

func anyEntry(t *rapid.T) Entry {
	return Entry{[]byte(rapid.StringN(1, 300, -1).Draw(t, "key")), rapid.Int64().Draw(t, "stamp")}
}

// numbersOf are all that have a name, but for none.
func numbersOf[E ~uint8](names []string) (all []E) {
	for n, name := range names {
		if name != "" && n > 0 {
			all = append(all, E(n))
		}
	}
	return all
}

func anyAction(t *rapid.T) Action {
	a := Action{Kind: rapid.SampledFrom(numbersOf[ActionKind](actionKindNames[:])).Draw(t, "kind")}
	rules := actionRules(a.Kind)
	has := func(field int) bool {
		return rules.must&(1<<field) != 0 || rules.may&(1<<field) != 0 && rapid.Bool().Draw(t, actionKeys[field])
	}
	text := rapid.StringN(1, 80, 300)
	if has(actRequest) {
		a.Request = RequestID(rapid.Uint64Min(1).Draw(t, "request"))
	}
	if has(actKey) {
		a.Key = text.Draw(t, "key")
	}
	if has(actAfter) {
		a.After = text.Draw(t, "after")
	}
	if has(actCount) {
		a.Count = rapid.Uint64Min(1).Draw(t, "count")
	}
	if has(actLimit) {
		a.Limit = time.Duration(rapid.Int64Min(1).Draw(t, "limit"))
	}
	if has(actType) {
		a.Type = rapid.OneOf(rapid.Just(LockFileType), text).Draw(t, "type")
	}
	if has(actBody) {
		a.Body = append(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"), 0)
	}
	if has(actReason) {
		a.Reason = rapid.SampledFrom(numbersOf[Reason](reasonNames[:])).Draw(t, "reason")
	}
	if has(actClass) {
		a.Class = Class(rapid.IntRange(1, int(ClassFull)).Draw(t, "class"))
	}
	if has(actAt) {
		a.At = rapid.Int64().Draw(t, "at")
	}
	if has(actWall) {
		a.Wall = rapid.Int64().Draw(t, "wall")
	}
	if has(actEpoch) {
		a.Epoch = Epoch(rapid.Uint64Min(1).Draw(t, "epoch"))
	}
	if has(actToken) {
		a.Token = Epoch(rapid.Uint64Min(1).Draw(t, "token"))
	}
	if has(actSession) {
		a.Session = text.Draw(t, "session")
	}
	if has(actHolder) {
		a.Holder = HolderID(text.Draw(t, "holder"))
	}
	if has(actSight) {
		s := anySighting(t)
		a.Sight = &s
	}
	if has(actPermit) {
		a.Permit = rapid.Uint64Min(1).Draw(t, "permit")
	}
	if has(actTotal) {
		a.Total = rapid.Uint64Min(1).Draw(t, "total")
	}
	return a
}

func anySighting(t *rapid.T) Sighting {
	text := func(name string) []byte { return []byte(rapid.String().Draw(t, name)) }
	instant := func(name string) int64 { return rapid.Int64().Draw(t, name) }
	s := Sighting{
		State:  Observation(rapid.IntRange(1, int(ObservedCorrupt)).Draw(t, "state")),
		Holder: text("holder"), Host: text("host"), PID: text("pid"), Remote: rapid.Bool().Draw(t, "remote"),
		TTL: time.Duration(instant("ttl")), WrittenAt: instant("written"), AcquiredAt: instant("acquired"),
		ReleasedAt: instant("released"), LookAt: instant("look at"),
	}
	if rapid.Bool().Draw(t, "strict") {
		s.Epoch, s.Token = Epoch(rapid.Uint64().Draw(t, "epoch")), Epoch(rapid.Uint64().Draw(t, "token"))
		s.Companions, s.Label, s.Session = text("companions"), text("label"), text("session")
		s.Why, s.By, s.Left = text("why"), text("by"), time.Duration(instant("left"))
		s.StoreClock, s.Print, s.Since = rapid.Bool().Draw(t, "store clock"), rapid.Uint64().Draw(t, "print"), instant("since")
	}
	if rapid.Bool().Draw(t, "semaphore") {
		s.Capacity, s.Width = rapid.Uint32().Draw(t, "capacity"), rapid.Uint32().Draw(t, "width")
		s.Held, s.Limit = rapid.Uint64().Draw(t, "held"), rapid.Uint64().Draw(t, "limit")
		s.Permits, s.Dead = text("permits"), text("dead")
	}
	return s
}

func anyActions(t *rapid.T) []Action {
	return rapid.SliceOfN(rapid.Custom(anyAction), 0, MaxActions).Draw(t, "actions")
}

func anyAnswer(t *rapid.T) Answer {
	if rapid.Bool().Draw(t, "error") {
		code := ErrorCode(rapid.IntRange(1, int(ErrorHandle)).Draw(t, "code"))
		return Answer{Err: &Error{code, rapid.StringN(1, 80, 300).Draw(t, "text")}}
	}
	a := Answer{Idle: rapid.Bool().Draw(t, "idle"), Actions: anyActions(t)}
	states := rapid.SampledFrom([][]string{
		leaseStateNames[:], companionStateNames[:], sessionStateNames[:], taskStateNames[:],
		invocationStateNames[:], semaphoreStateNames[:], bucketsStateNames[:],
	}).Draw(t, "machine")
	a.State = rapid.SampledFrom(states[1:]).Draw(t, "state")
	return a
}

func anyConfig(t *rapid.T) Config {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	duration := func(name string) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Int64(), rapid.Just(int64(0))).Draw(t, name))
	}
	enum := func(name string, most int) uint8 { return uint8(rapid.IntRange(0, most).Draw(t, name)) }
	c := Config{
		Machine: MachineKind(enum("machine", int(MachineBuckets))), Protocol: Protocol(enum("protocol", 2)), Name: text("name"),
		TTL: duration("ttl"), Margin: duration("margin"), AcquireMargin: duration("acquire margin"),
		FleetExpire: duration("fleet"), Renewal: Renewal(enum("renewal", 2)), Expiry: Expiry(enum("expiry", 3)),
		StampUnit: duration("stamp unit"), Holder: HolderID(text("holder")), Role: Role(enum("role", 2)),
		Host: text("host"), PID: text("pid"), TID: rapid.Uint64().Draw(t, "tid"),
	}
	if rapid.Bool().Draw(t, "strict") {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		c.OnSession, c.Beside, c.Now = flag("on session"), flag("beside"), flag("now")
		c.Owner, c.Boot, c.Why, c.Label = text("owner"), text("boot"), text("why"), text("label")
		c.StampSpread, c.LastAt, c.SeenSince = duration("spread"), int64(duration("last at")), int64(duration("since"))
		c.Epoch, c.LastEpoch = Epoch(rapid.Uint64().Draw(t, "epoch")), Epoch(rapid.Uint64().Draw(t, "last epoch"))
		c.SeenPrint = rapid.Uint64().Draw(t, "print")
	}
	copy(c.Seed[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "seed"))
	return c
}
