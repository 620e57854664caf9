package core

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// What the messages are to vmihailenco/msgpack/v5, the oracle of the codec:
// structs whose fields stand in the order of the keys.

type wireInput struct {
	Mono    int64  `msgpack:"mono"`
	Wall    int64  `msgpack:"wall"`
	Kind    string `msgpack:"kind"`
	Wait    int64  `msgpack:"wait_ns,omitempty"`
	Brief   bool   `msgpack:"brief,omitempty"`
	Request uint64 `msgpack:"request,omitempty"`
	Outcome string `msgpack:"outcome,omitempty"`
	Class   string `msgpack:"class,omitempty"`
	Stamp   int64  `msgpack:"stamp_ns,omitempty"`
	Body    []byte `msgpack:"body,omitempty"`
}

type wireAction struct {
	Kind    string     `msgpack:"kind"`
	Request uint64     `msgpack:"request,omitempty"`
	Key     string     `msgpack:"key,omitempty"`
	Limit   int64      `msgpack:"limit_ns,omitempty"`
	Type    string     `msgpack:"type,omitempty"`
	Body    []byte     `msgpack:"body,omitempty"`
	Reason  string     `msgpack:"reason,omitempty"`
	Class   string     `msgpack:"class,omitempty"`
	At      int64      `msgpack:"at_ns,omitempty"`
	Wall    int64      `msgpack:"wall_ns,omitempty"`
	Holder  string     `msgpack:"holder,omitempty"`
	Sight   *wireSight `msgpack:"sight,omitempty"`
}

type wireSight struct {
	State      string `msgpack:"state"`
	Holder     string `msgpack:"holder,omitempty"`
	Host       string `msgpack:"host,omitempty"`
	PID        string `msgpack:"pid,omitempty"`
	Remote     bool   `msgpack:"remote,omitempty"`
	TTL        int64  `msgpack:"ttl_ns,omitempty"`
	WrittenAt  int64  `msgpack:"written_at_ns,omitempty"`
	AcquiredAt int64  `msgpack:"acquired_at_ns,omitempty"`
	ReleasedAt int64  `msgpack:"released_at_ns,omitempty"`
	LookAt     int64  `msgpack:"look_at_ns,omitempty"`
}

type wireConfig struct {
	Machine       string `msgpack:"machine,omitempty"`
	Protocol      string `msgpack:"protocol,omitempty"`
	Name          string `msgpack:"name,omitempty"`
	TTL           int64  `msgpack:"ttl_ns,omitempty"`
	Margin        int64  `msgpack:"margin_ns,omitempty"`
	AcquireMargin int64  `msgpack:"acquire_margin_ns,omitempty"`
	FleetExpire   int64  `msgpack:"fleet_expire_ns,omitempty"`
	Renewal       string `msgpack:"renewal,omitempty"`
	Expiry        string `msgpack:"expiry,omitempty"`
	StampUnit     int64  `msgpack:"stamp_unit_ns,omitempty"`
	Holder        string `msgpack:"holder,omitempty"`
	Role          string `msgpack:"role,omitempty"`
	Host          string `msgpack:"host,omitempty"`
	PID           string `msgpack:"pid,omitempty"`
	TID           uint64 `msgpack:"tid,omitempty"`
	Seed          []byte `msgpack:"seed,omitempty"`
}

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

func toWireInput(now Instant, ev *Event) wireInput {
	return wireInput{
		now.Mono, now.Wall, ev.Kind.String(), int64(ev.Wait), ev.Brief, uint64(ev.Request),
		nameOf(ev.Outcome), nameOf(ev.Class), ev.Stamp, ev.Body,
	}
}

func toWireActions(actions []Action) []wireAction {
	wire := make([]wireAction, len(actions))
	for i, a := range actions {
		wire[i] = wireAction{
			a.Kind.String(), uint64(a.Request), a.Key, int64(a.Limit), a.Type, a.Body,
			nameOf(a.Reason), nameOf(a.Class), a.At, a.Wall, string(a.Holder), nil,
		}
		if s := a.Sight; s != nil {
			wire[i].Sight = &wireSight{
				s.State.String(), string(s.Holder), string(s.Host), string(s.PID), s.Remote,
				int64(s.TTL), s.WrittenAt, s.AcquiredAt, s.ReleasedAt, s.LookAt,
			}
		}
	}
	return wire
}

func toWireConfig(c *Config) wireConfig {
	wire := wireConfig{
		nameOf(c.Machine), nameOf(c.Protocol), c.Name, int64(c.TTL), int64(c.Margin), int64(c.AcquireMargin),
		int64(c.FleetExpire), nameOf(c.Renewal), nameOf(c.Expiry), int64(c.StampUnit), string(c.Holder),
		nameOf(c.Role), c.Host, c.PID, c.TID, nil,
	}
	if c.Seed != [16]byte{} {
		wire.Seed = c.Seed[:]
	}
	return wire
}

// oracleEncode is what msgpack/v5 makes of a wire struct.
func oracleEncode(t testing.TB, v any) []byte {
	t.Helper()
	var w bytes.Buffer
	e := msgpack.NewEncoder(&w)
	e.UseCompactInts(true)
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
	var err error
	if actions, ok := v.(*[]wireAction); ok {
		err = oracleActions(d, r, actions)
	} else {
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
func oracleActions(d *msgpack.Decoder, r *bytes.Reader, actions *[]wireAction) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < 0 || n > r.Len() {
		return fmt.Errorf("an array of %d", n)
	}
	*actions = make([]wireAction, n)
	for i := range *actions {
		if err := d.Decode(&(*actions)[i]); err != nil {
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
