package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host/trace"
)

// maxStepValue is bytes of one value on stdin, a line's newline among them: the
// largest message, with its bytes as base64 and room for escapes.
const maxStepValue = 200 << 10

// readConfig reads a value into the wire's struct, lets msgpack/v5 make the
// canonical message of it, and has the core read that: the core alone judges.
func readConfig(f form, cfg *core.Config) error {
	var w wire.Config
	if err := f.read(&w); err != nil {
		return err
	}
	message := canonical(&w)
	return explained(message, core.DecodeConfig(message, cfg))
}

func readInput(f form, now *core.Instant, ev *core.Event) error {
	var w wire.Input
	if err := f.read(&w); err != nil {
		return err
	}
	if w.Class == core.ClassNone.String() { // a name, and the zero value too
		w.Class = ""
	}
	message := canonical(&w)
	return explained(message, core.DecodeInput(message, now, ev))
}

// canonical is a struct of package wire as the core writes it.
func canonical(w any) []byte {
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	e.SetCustomStructTag("json")
	if err := e.Encode(w); err != nil {
		panic("main: encoding to memory: " + err.Error())
	}
	return out.Bytes()
}

// explained names the key that the core did not like: its offset is of a
// message that the sender has never seen.
func explained(message []byte, err error) error {
	var bad *core.MessageError
	if !errors.As(err, &bad) {
		return err
	}
	if key := keyAt(message, bad.Offset); key != "" {
		return refusef("key %q: %s", key, bad.Rule)
	}
	return refusef("%s", bad.Rule)
}

// messageJSON is a message as one line of JSON; as is the struct for it.
func messageJSON(message []byte, as any) ([]byte, error) {
	d := msgpack.NewDecoder(bytes.NewReader(message))
	d.DisallowUnknownFields(true)
	d.SetCustomStructTag("json")
	if err := d.Decode(as); err != nil {
		return nil, err
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(as); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}

// fieldOf is a pointer to the field of a wire struct that has this key, or nil.
func fieldOf(to any, key string) any {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == key {
			return v.Field(i).Addr().Interface()
		}
	}
	return nil
}

// fields hands out each field of a wire struct once.
type fields struct {
	to   any
	seen map[string]bool
}

func (f *fields) take(key string) (any, error) {
	field := fieldOf(f.to, key)
	switch {
	case field == nil:
		return nil, refusef("unknown key %s", quoteKey(key))
	case f.seen[key]:
		return nil, refusef("key %s stands twice", quoteKey(key))
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[key] = true
	return field, nil
}

// quoteKey is a key as an error shows it; its length is the sender's.
func quoteKey(key string) string {
	const most = 80
	if len(key) > most {
		return strconv.Quote(strings.ToValidUTF8(key[:most], "")) + "…"
	}
	return strconv.Quote(key)
}

// jsonForm is one object a line. A line that is refused leaves the next one
// where it is.
type jsonForm struct{ in *bufio.Reader }

func (f jsonForm) answer(canonical []byte) ([]byte, error) {
	return messageJSON(canonical, new(wire.Answer))
}

func (f jsonForm) read(to any) error {
	line, err := f.line()
	if err != nil {
		return err
	}
	if !utf8.Valid(line) {
		return refusef("the line is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return refusef("the line is not a JSON object")
	}
	known := fields{to: to}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return refusef("the line is not JSON: %v", err)
		}
		name, _ := key.(string)
		field, err := known.take(name)
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return refusef("key %q: not JSON: %v", name, err)
		}
		if err := setJSON(field, value); err != nil {
			return refusef("key %q: %v", name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return refusef("the line is not a whole JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refusef("the line goes on after its object")
	}
	return nil
}

// line reads one line within the bound; of a longer one nothing is kept.
func (f jsonForm) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		piece, err := f.in.ReadSlice('\n')
		if long = long || len(line)+len(piece) > maxStepValue; !long {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (long || len(line) > 0): // without its newline
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errStdin, err)
		}
		if long {
			return nil, refusef("the line is longer than %d bytes", maxStepValue)
		}
		return line, nil
	}
}

// setJSON sets a field; null is its zero value.
func setJSON(field any, value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	var err error
	what := ""
	switch to := field.(type) {
	case *[]wire.Entry:
		return setEntriesJSON(to, value)
	case *int64:
		what, err = "not an integer of 64 bits", json.Unmarshal(value, to)
	case *uint64:
		what, err = "not an integer from 0 to 2^64-1", json.Unmarshal(value, to)
	case *bool:
		what, err = "not true or false", json.Unmarshal(value, to)
	case *string:
		what, err = "not a string", json.Unmarshal(value, to)
		if err == nil && halfPair(value) {
			return errors.New("half of a surrogate pair")
		}
	case *[]byte:
		var text string
		what = "not a string of base64"
		if err = json.Unmarshal(value, &text); err == nil {
			*to, err = base64.StdEncoding.Strict().DecodeString(text)
		}
		if err == nil && strings.ContainsAny(text, "\r\n") { // Strict passes over them
			return errors.New(what)
		}
	}
	if err != nil {
		return errors.New(what)
	}
	return nil
}

// errEntries is what is wrong with entries whose shape is wrong.
var errEntries = errors.New("not an array of pairs of a key and a stamp")

func setEntriesJSON(to *[]wire.Entry, value json.RawMessage) error {
	var pairs [][]json.RawMessage
	if err := json.Unmarshal(value, &pairs); err != nil {
		return errEntries
	}
	*to = make([]wire.Entry, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			return errEntries
		}
		e := &(*to)[i]
		if err := setJSON(&e.Key, pair[0]); err != nil {
			return fmt.Errorf("the key of entry %d: %w", i+1, err)
		}
		if err := setJSON(&e.Stamp, pair[1]); err != nil {
			return fmt.Errorf("the stamp of entry %d: %w", i+1, err)
		}
	}
	return nil
}

// escapes finds each escape in a JSON string; the group is half of a surrogate pair.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)`)

// halfPair reports whether a JSON string escapes half of a surrogate pair.
// encoding/json takes it for U+FFFD, and two names would be one lease.
func halfPair(text []byte) bool {
	for _, escape := range escapes.FindAllSubmatch(text, -1) {
		if escape[1] != nil {
			return true
		}
	}
	return false
}

// msgpackForm is values back to back. Where one that is no msgpack ends nobody
// can say, so that is the end; what is only refused is not.
type msgpackForm struct{ in *bufio.Reader }

func (f msgpackForm) answer(canonical []byte) ([]byte, error) { return canonical, nil }

func (f msgpackForm) read(to any) error {
	value, err := trace.ReadValue(f.in, maxStepValue)
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &refusal{"the last value ends too early", true}
	case errors.Is(err, trace.ErrTooLong):
		return &refusal{fmt.Sprintf("a value is longer than %d bytes", maxStepValue), true}
	case errors.Is(err, trace.ErrTooDeep):
		return &refusal{fmt.Sprintf("a value is nested more than %d deep", trace.MaxDepth), true}
	case errors.Is(err, trace.ErrNotMsgpack):
		return &refusal{"not msgpack", true}
	case err != nil:
		return fmt.Errorf("%w: %w", errStdin, err)
	}
	known := fields{to: to}
	err = trace.Fields(value, func(key string, begin, end int) error {
		field, err := known.take(key)
		if err != nil {
			return err
		}
		if err := setMsgpack(field, value[begin:end]); err != nil {
			return refusef("key %q: %v", key, err)
		}
		return nil
	})
	var refused *refusal
	if err != nil && !errors.As(err, &refused) {
		return refusef("%v", err)
	}
	return err
}

// setMsgpack sets a field; nil is its zero value. msgpack/v5 by itself would
// bring an integer that does not fit to one that does.
func setMsgpack(field any, value []byte) (err error) {
	d := msgpack.NewDecoder(bytes.NewReader(value))
	code := value[0]
	if code == msgpcode.Nil {
		return nil
	}
	switch to := field.(type) {
	case *[]wire.Entry:
		return setEntriesMsgpack(to, d)
	case *int64:
		*to, err = d.DecodeInt64()
		if !isInteger(code) || code == msgpcode.Uint64 && *to < 0 {
			err = errors.New("not an integer of 64 bits")
		}
	case *uint64:
		*to, err = d.DecodeUint64()
		if !isInteger(code) || isSigned(code) && int64(*to) < 0 {
			err = errors.New("not an integer from 0 to 2^64-1")
		}
	case *bool:
		if *to, err = d.DecodeBool(); err != nil {
			err = errors.New("not true or false")
		}
	case *string:
		if *to, err = d.DecodeString(); err != nil {
			err = errors.New("not a string")
		}
	case *[]byte:
		if *to, err = d.DecodeBytes(); err != nil {
			err = errors.New("not bytes")
		}
	}
	return err
}

// setEntriesMsgpack reads what ReadValue found whole: no array claims more
// elements than there are.
func setEntriesMsgpack(to *[]wire.Entry, d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return errEntries
	}
	*to = make([]wire.Entry, max(n, 0))
	for i := range *to {
		if width, err := d.DecodeArrayLen(); err != nil || width != 2 {
			return errEntries
		}
		e := &(*to)[i]
		for what, field := range [...]any{&e.Key, &e.Stamp} {
			value, err := d.DecodeRaw()
			if err == nil {
				err = setMsgpack(field, value)
			}
			if err != nil {
				return fmt.Errorf("the %s of entry %d: %w", [...]string{"key", "stamp"}[what], i+1, err)
			}
		}
	}
	return nil
}

func isInteger(code byte) bool {
	return msgpcode.IsFixedNum(code) || code >= msgpcode.Uint8 && code <= msgpcode.Int64
}

// isSigned is what can be below 0.
func isSigned(code byte) bool {
	return code >= msgpcode.NegFixedNumLow || code >= msgpcode.Int8 && code <= msgpcode.Int64
}
