package core

import (
	"bytes"
	"errors"
	"fmt"
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
		Mono: now.Mono, Wall: now.Wall, Kind: ev.Kind.String(), Wait: int64(ev.Wait), Brief: ev.Brief,
		Request: uint64(ev.Request), Outcome: nameOf(ev.Outcome), Class: nameOf(ev.Class), Stamp: ev.Stamp, Body: ev.Body,
	}
}

func toWireActions(actions []Action) []wire.Action {
	all := make([]wire.Action, len(actions))
	for i, a := range actions {
		all[i] = wire.Action{
			Kind: a.Kind.String(), Request: uint64(a.Request), Key: a.Key, Limit: int64(a.Limit), Type: a.Type, Body: a.Body,
			Reason: nameOf(a.Reason), Class: nameOf(a.Class), At: a.At, Wall: a.Wall, Holder: string(a.Holder),
		}
		if s := a.Sight; s != nil {
			all[i].Sight = &wire.Sight{
				State: s.State.String(), Holder: string(s.Holder), Host: string(s.Host), PID: string(s.PID), Remote: s.Remote,
				TTL: int64(s.TTL), WrittenAt: s.WrittenAt, AcquiredAt: s.AcquiredAt, ReleasedAt: s.ReleasedAt, LookAt: s.LookAt,
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
		err = oracleActions(d, r, v)
	case *wire.Answer:
		err = oracleAnswer(d, r, v)
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

// oracleActions takes the array apart itself: msgpack/v5 5.4.1 makes room for as
// many elements as a header claims, 565 GB for nine bytes.
func oracleActions(d *msgpack.Decoder, r *bytes.Reader, actions *[]wire.Action) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < 0 || n > r.Len() {
		return fmt.Errorf("an array of %d", n)
	}
	*actions = make([]wire.Action, n)
	for i := range *actions {
		if err := d.Decode(&(*actions)[i]); err != nil {
			return err
		}
	}
	return nil
}

// oracleAnswer does the same with the array inside an answer. A map that is
// longer than the keys of an answer is refused; so is one with a key twice.
func oracleAnswer(d *msgpack.Decoder, r *bytes.Reader, answer *wire.Answer) error {
	n, err := d.DecodeMapLen()
	if err != nil || n < 0 || n > len(answerKeys) {
		return fmt.Errorf("a map of %d: %w", n, err)
	}
	for range n {
		key, err := d.DecodeString()
		if err != nil {
			return err
		}
		switch key {
		case "state":
			err = d.Decode(&answer.State)
		case "idle":
			err = d.Decode(&answer.Idle)
		case "actions":
			err = oracleActions(d, r, &answer.Actions)
		case "error":
			err = d.Decode(&answer.Error)
		case "text":
			err = d.Decode(&answer.Text)
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
	ev := Event{Kind: EventKind(rapid.IntRange(int(EventAcquire), int(EventWoke)).Draw(t, "kind"))}
	switch ev.Kind {
	case EventAcquire:
		ev.Wait = time.Duration(rapid.Int64().Draw(t, "wait"))
	case EventRelease:
		ev.Brief = rapid.Bool().Draw(t, "brief")
	case EventAnswer:
		ev.Request = RequestID(rapid.Uint64Min(1).Draw(t, "request"))
		ev.Outcome = Outcome(rapid.IntRange(1, 3).Draw(t, "outcome"))
		ev.Class = Class(rapid.IntRange(0, int(ClassFull)).Draw(t, "class"))
		ev.Stamp = rapid.Int64().Draw(t, "stamp")
		ev.Body = anyBody(t)
	}
	return ev
}

var actionKinds = []ActionKind{
	ActionGet, ActionPut, ActionWaiting, ActionHeld, ActionRenewed, ActionRefused, ActionLost,
	ActionReleased, ActionContactLost, ActionCannotMaintain, ActionLeft, ActionWarned, ActionWake,
}

var reasons = []Reason{
	ReasonTaken, ReasonBroken, ReasonReleased, ReasonUnreachable, ReasonExpired, ReasonHeld, ReasonRaced,
	ReasonCancelled, ReasonUnusable, ReasonLimit, ReasonAbsent, ReasonNoExpiry, ReasonNeverAcquired,
	ReasonUnreadable, ReasonTTLDiffers, ReasonCorruptTaken,
}

func anyAction(t *rapid.T) Action {
	a := Action{Kind: rapid.SampledFrom(actionKinds).Draw(t, "kind")}
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
		a.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
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
	if has(actHolder) {
		a.Holder = HolderID(text.Draw(t, "holder"))
	}
	if has(actSight) {
		s := anySighting(t)
		a.Sight = &s
	}
	return a
}

func anySighting(t *rapid.T) Sighting {
	text := func(name string) []byte { return []byte(rapid.String().Draw(t, name)) }
	instant := func(name string) int64 { return rapid.Int64().Draw(t, name) }
	return Sighting{
		State:  Observation(rapid.IntRange(1, int(ObservedCorrupt)).Draw(t, "state")),
		Holder: text("holder"), Host: text("host"), PID: text("pid"), Remote: rapid.Bool().Draw(t, "remote"),
		TTL: time.Duration(instant("ttl")), WrittenAt: instant("written"), AcquiredAt: instant("acquired"),
		ReleasedAt: instant("released"), LookAt: instant("look at"),
	}
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
	if rapid.Bool().Draw(t, "companion") {
		a.State = CompanionState(rapid.IntRange(1, int(CompanionLost)).Draw(t, "state")).String()
	} else {
		a.State = LeaseState(rapid.IntRange(1, int(LeaseLost)).Draw(t, "state")).String()
	}
	return a
}

func anyConfig(t *rapid.T) Config {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	duration := func(name string) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Int64(), rapid.Just(int64(0))).Draw(t, name))
	}
	enum := func(name string, most int) uint8 { return uint8(rapid.IntRange(0, most).Draw(t, name)) }
	c := Config{
		Machine: MachineKind(enum("machine", 2)), Protocol: Protocol(enum("protocol", 1)), Name: text("name"),
		TTL: duration("ttl"), Margin: duration("margin"), AcquireMargin: duration("acquire margin"),
		FleetExpire: duration("fleet"), Renewal: Renewal(enum("renewal", 2)), Expiry: Expiry(enum("expiry", 2)),
		StampUnit: duration("stamp unit"), Holder: HolderID(text("holder")), Role: Role(enum("role", 2)),
		Host: text("host"), PID: text("pid"), TID: rapid.Uint64().Draw(t, "tid"),
	}
	copy(c.Seed[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "seed"))
	return c
}
