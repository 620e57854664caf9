package core

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core/wire"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// The oracle of the codec is vmihailenco/msgpack/v5 with the structs of package wire.

// inputSaid is the content of an input. The content of the other sorts of messages has a
// type of its own: []Action, Answer and Config.
type inputSaid struct {
	Instant
	Event
}

// encode writes the message of a content, and decode reads a message of a sort.
func encode(say any) []byte {
	switch say := say.(type) {
	case inputSaid:
		return AppendInput(nil, say.Instant, &say.Event)
	case []Action:
		return appendActions(nil, say)
	case Config:
		return AppendConfig(nil, &say)
	}
	a := say.(Answer)
	if a.Err != nil {
		return AppendError(nil, a.Err)
	}
	return AppendAnswer(nil, said{&a}, a.Actions)
}

func decode(sort string, b []byte) (any, error) {
	switch sort {
	case "input":
		var say inputSaid
		err := DecodeInput(b, &say.Instant, &say.Event)
		return say, err
	case "actions":
		actions, err := decodeActions(b, new(AnswerBuffer))
		return actions, err
	case "answer":
		var a Answer
		err := DecodeAnswer(b, new(AnswerBuffer), &a)
		return a, err
	}
	var c Config
	err := DecodeConfig(b, &c)
	return c, err
}

// decodeActions reads actions by themselves.
func decodeActions(b []byte, buf *AnswerBuffer) ([]Action, error) {
	d := newReader(b)
	actions := d.actions(buf)
	return actions, d.end()
}

// said is a Stepper that has given an answer.
type said struct{ *Answer }

func (s said) String() string                        { return s.State }
func (s said) Idle() bool                            { return s.Answer.Idle }
func (s said) Step(Instant, Event) ([]Action, error) { return s.Actions, nil }

// toWire returns a content as the structs of package wire.
func toWire(say any) any {
	switch say := say.(type) {
	case inputSaid:
		return mirrored[wire.Input](say)
	case []Action:
		all := make([]wire.Action, len(say))
		for i := range say {
			all[i] = mirrored[wire.Action](say[i])
		}
		return all
	case Answer:
		var e *Error
		if errors.As(say.Err, &e) {
			return wire.Answer{Error: e.Code.String(), Text: e.Text}
		}
		return mirrored[wire.Answer](say)
	}
	return mirrored[wire.Config](say.(Config))
}

func mirrored[W, F any](from F) (to W) {
	mirror(reflect.ValueOf(&from).Elem(), reflect.ValueOf(&to).Elem())
	return to
}

// mirror sets each field of to from the field of the same name.
func mirror(from, to reflect.Value) {
	for i := range to.NumField() {
		f, t := from.FieldByName(to.Type().Field(i).Name), to.Field(i)
		switch {
		case !f.IsValid() || f.IsZero():
		case f.Kind() == reflect.Pointer:
			t.Set(reflect.New(t.Type().Elem()))
			mirror(f.Elem(), t.Elem())
		case f.Kind() == reflect.Array:
			t.SetBytes(bytes.Clone(f.Slice(0, f.Len()).Bytes()))
		case f.Kind() == reflect.Uint8:
			t.SetString(f.Interface().(fmt.Stringer).String())
		case f.Kind() == reflect.Slice && t.Kind() == reflect.Slice && t.Type().Elem().Kind() == reflect.Struct:
			for n := range f.Len() {
				t.Set(reflect.Append(t, reflect.New(t.Type().Elem()).Elem()))
				mirror(f.Index(n), t.Index(n))
			}
		default: // integers of all sizes, texts as strings and as bytes
			t.Set(f.Convert(t.Type()))
		}
	}
}

// oracleEncode returns the message that msgpack/v5 makes of a wire struct.
func oracleEncode(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, v any,
) []byte {
	t.Helper()
	var w bytes.Buffer
	e := msgpack.NewEncoder(&w)
	e.UseCompactInts(true)
	e.SetCustomStructTag("json")
	if err := e.Encode(v); err != nil {
		t.Fatalf("%v", err)
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

// oracleArray reads the elements of an array itself: msgpack/v5 5.4.1 makes room for
// as many elements as a header claims, 565 GB for nine bytes.
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

// oracleMap does the same with the arrays inside a map. It refuses a map with more
// entries than keys. It also refuses a map that has a key twice: that is not canonical.
func oracleMap(d *msgpack.Decoder, to any, arrays map[string]func() error) error {
	v := reflect.ValueOf(to).Elem()
	fields := map[string]any{}
	for i := range v.NumField() {
		fields[tagOf(v.Type(), i)] = v.Field(i).Addr().Interface()
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

// tagOf returns the key of a field of a wire struct.
func tagOf(as reflect.Type, field int) string {
	key, _, _ := strings.Cut(as.Field(field).Tag.Get("json"), ",")
	return key
}

// fill draws the fields of a struct of the core: each field that its kind must have,
// and some of those that it may have.
func fill(t *rapid.T, to any, as any, keys []string, rules fieldRules) {
	v, wired := reflect.ValueOf(to).Elem(), reflect.TypeOf(as)
	for i := range wired.NumField() {
		key, f := tagOf(wired, i), v.FieldByName(wired.Field(i).Name)
		at := slices.IndexFunc(keys, func(k string) bool { return k[1:] == key })
		if must := rules.must>>at&1 == 1; f.IsZero() && (must || rules.may>>at&1 == 1 && rapid.Bool().Draw(t, key)) {
			f.Set(anyValue(t, key, f.Type()))
		}
	}
}

// anyValue returns a value of a type; it is not zero.
func anyValue(t *rapid.T, key string, typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch some := rapid.StringN(1, 80, 300); {
	case key == "body":
		v.SetBytes(rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 1, 300),
			rapid.Map(rapid.SampledFrom([]int{31, 32, 255, 256, 65_535, 65_536, MaxRecord + 1}), func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }),
		).Draw(t, key))
	case typ == reflect.TypeFor[*Observed]():
		s := new(Observed)
		fill(t, s, wire.Sight{}, sightKeys[:], fieldRules{must: 1, may: 1<<sightFields - 1})
		v.Set(reflect.ValueOf(s))
	case typ == reflect.TypeFor[*Terms]():
		c := new(Config)
		fill(t, c, wire.Config{}, configKeys[:], fieldRules{may: 1<<cfgFields - 1})
		v.Set(reflect.ValueOf(&c.Terms))
	case typ == reflect.TypeFor[[]Entry]():
		v.Set(reflect.ValueOf(testEntries(rapid.IntRange(1, 40).Draw(t, key), rapid.IntRange(1, 300).Draw(t, "length"))))
	case typ.Kind() == reflect.Bool:
		v.SetBool(true)
	case typ.Kind() == reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Int64Max(-1), rapid.Int64Min(1)).Draw(t, key))
	case typ.Kind() == reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32Min(1).Draw(t, key)))
	case typ.Kind() == reflect.Uint64:
		v.SetUint(rapid.Uint64Min(1).Draw(t, key))
	case typ.Kind() == reflect.Uint8:
		v.SetUint(rapid.Custom(func(t *rapid.T) uint64 { return rapid.Uint64Range(1, 63).Draw(t, key) }).Filter(func(n uint64) bool {
			v.SetUint(n)
			return !strings.Contains(v.Interface().(fmt.Stringer).String(), "(")
		}).Draw(t, key))
	case typ.Kind() == reflect.Array:
		reflect.Copy(v, reflect.ValueOf(append(rapid.SliceOfN(rapid.Byte(), 0, 15).Draw(t, key), 1)))
	case typ.Kind() == reflect.String:
		v.SetString(some.Draw(t, key))
	default:
		v.SetBytes([]byte(some.Draw(t, key)))
	}
	return v
}

// anything draws the content of a message of a sort.
func anything(t *rapid.T, sort string) any {
	switch sort {
	case "input":
		say := inputSaid{Instant: Instant{rapid.Int64().Draw(t, "mono"), rapid.Int64().Draw(t, "wall")}}
		say.Kind = anyValue(t, "kind", reflect.TypeFor[EventKind]()).Interface().(EventKind)
		fill(t, &say, wire.Input{}, inputKeys[:], inputRules(say.Kind))
		return say
	case "actions":
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) (a Action) {
			a.Kind = anyValue(t, "kind", reflect.TypeFor[ActionKind]()).Interface().(ActionKind)
			fill(t, &a, wire.Action{}, actionKeys[:], actionRules(a.Kind))
			if len(a.Body) > 300 { // a machine's messages fit
				a.Body = a.Body[:300]
			}
			return a
		}), 0, MaxActions).Draw(t, "actions")
	case "config":
		var c Config
		fill(t, &c, wire.Config{}, configKeys[:], fieldRules{may: 1<<cfgFields - 1})
		return c
	}
	if rapid.Bool().Draw(t, "error") {
		code := ErrorCode(rapid.IntRange(1, int(ErrorTooHeavy)).Draw(t, "code"))
		return Answer{Err: &Error{code, rapid.StringN(1, 80, 300).Draw(t, "text")}}
	}
	states := rapid.SampledFrom([][]string{
		leaseStateNames[:], companionStateNames[:], sessionStateNames[:], taskStateNames[:],
		invocationStateNames[:], semaphoreStateNames[:], bucketsStateNames[:], clientStateNames[:],
	}).Draw(t, "machine")
	a := Answer{State: rapid.SampledFrom(states[1:]).Draw(t, "state"), Idle: rapid.Bool().Draw(t, "idle")}
	if actions := anything(t, "actions").([]Action); len(actions) > 0 {
		a.Actions = actions
	}
	return a
}

// TestMessagesAreMsgpack: for any content msgpack/v5 writes the same bytes, and they
// are read as that content.
func TestMessagesAreMsgpack(t *testing.T) {
	for _, sort := range []string{"input", "actions", "answer", "config"} {
		t.Run(sort, rapid.MakeCheck(func(t *rapid.T) {
			say := anything(t, sort)
			b := encode(say)
			if want := oracleEncode(t, toWire(say)); !bytes.Equal(b, want) {
				t.Fatalf("%+v:\n%x\n%x", say, b, want)
			}
			if got, err := decode(sort, b); err != nil || !reflect.DeepEqual(got, say) {
				t.Fatalf("%v: %+v, want %+v", err, got, say)
			}
		}))
	}
}

// semantic has the rules that msgpack/v5 does not know. A message that it reads, and
// writes again as the same bytes, can break no other rule.
var semantic = map[string]bool{
	ruleLong: true, ruleCount: true, ruleMissing: true, ruleNotOfKind: true, ruleUTF8: true, ruleSeed: true, ruleName: true,
	ruleZero:  true, // a zero name, and a zero seed
	ruleRange: true, // integers of 32 bits
}

// fuzzMessages compares what we read from any bytes with what msgpack/v5 reads.
func fuzzMessages(f *testing.F, sort string) {
	for _, m := range goldenMessages(f) {
		if strings.HasPrefix(m.name, sort) {
			f.Add(m.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		say, err := decode(sort, b)
		got := toWire(say)
		oracle := reflect.New(reflect.TypeOf(got))
		oracleErr := oracleDecode(b, oracle.Interface())
		want := oracle.Elem().Interface()
		canonical := oracleErr == nil && bytes.Equal(oracleEncode(t, want), b)
		if err != nil {
			var refusal *MessageError
			if !errors.As(err, &refusal) || refusal.Offset < 0 || refusal.Offset > len(b) {
				t.Fatalf("%v", err)
			}
			if canonical && !semantic[refusal.Rule] {
				t.Fatalf("%v, but msgpack/v5 reads and writes it: %x", err, b)
			}
			return
		}
		if oracleErr != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read as %+v, by msgpack/v5 as %+v, %v: %x", got, want, oracleErr, b)
		}
		if again := encode(say); !bytes.Equal(again, b) || !canonical {
			t.Fatalf("not canonical:\n%x\n%x", b, again)
		}
	})
}

func FuzzInput(f *testing.F)   { fuzzMessages(f, "input") }
func FuzzActions(f *testing.F) { fuzzMessages(f, "actions") }
func FuzzAnswer(f *testing.F)  { fuzzMessages(f, "answer") }
func FuzzConfig(f *testing.F)  { fuzzMessages(f, "config") }
