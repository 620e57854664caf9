// Package messages reads the messages of `mopslock-host step` as JSON or msgpack, and writes its
// answers. In both forms a message has the keys of package wire, in any order.
//
// It judges only the form. Package core judges what a message says.
package messages

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host/trace"
)

// MaxValue is how many bytes one value on stdin may have, with its newline: enough for the
// largest message, with its bytes as base64 and with escapes.
const MaxValue = 200 << 10

// ReadConfig reads the next value as a Config. It reads into the struct of package wire, writes that
// as the canonical message, and lets the core decode and judge the message.
func ReadConfig(f Form, cfg *core.Config) error {
	var w wire.Config
	if err := f.read(&w); err != nil {
		return err
	}
	message := canonical(&w)
	return explained(message, core.DecodeConfig(message, cfg))
}

// ReadInput reads the next value as an Input, as ReadConfig does.
func ReadInput(f Form, now *core.Instant, ev *core.Event) error {
	var w wire.Input
	if err := f.read(&w); err != nil {
		return err
	}
	if w.Class == core.ClassNone.String() { // the name of the zero value
		w.Class = ""
	}
	message := canonical(&w)
	return explained(message, core.DecodeInput(message, now, ev))
}

// canonical writes a struct of package wire as the core does.
func canonical(w any) []byte {
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	e.SetCustomStructTag("json")
	if err := e.Encode(w); err != nil {
		panic("messages: encoding to memory: " + err.Error())
	}
	return out.Bytes()
}

// explained names the key that the core refused. The core's error has an offset into a message that
// the sender has never seen.
func explained(message []byte, err error) error {
	var bad *core.MessageError
	if !errors.As(err, &bad) {
		return err
	}
	if key := KeyAt(message, bad.Offset); key != "" {
		return refusef("key %q: %s", key, bad.Rule)
	}
	return refusef("%s", bad.Rule)
}

// fieldOf returns a pointer to the field of a wire struct that has this key, or nil.
func fieldOf(to any, key string) any {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == key {
			return v.Field(i).Addr().Interface()
		}
	}
	return nil
}

// fields returns each field of a wire struct once.
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

// quoteKey shows a key in an error. The sender may have made it long.
func quoteKey(key string) string {
	const most = 80
	if len(key) > most {
		return strconv.Quote(strings.ToValidUTF8(key[:most], "")) + "…"
	}
	return strconv.Quote(key)
}

// errEntries says that the entries are no pairs.
var errEntries = errors.New("not an array of pairs of a key and a stamp")

// Form is JSON or msgpack.
type Form interface {
	// read reads the next value into a struct of package wire. Its error is a *Refusal of the
	// value, io.EOF at the end, or an error of stdin: ErrStdin.
	read(to any) error
	// Answer writes a canonical answer in this form.
	Answer(canonical []byte) ([]byte, error)
}

// Refusal says why a value is refused.
type Refusal struct {
	Text  string
	Fatal bool // the next value cannot be found
}

func (r *Refusal) Error() string { return r.Text }

func refusef(format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...)}
}

// ErrStdin marks an error of reading, not of the content.
var ErrStdin = errors.New("standard input")

// KeyAt returns the key of a message whose value has the byte at the offset, or "".
func KeyAt(message []byte, offset int) (found string) {
	_ = trace.Fields(message, func(key string, begin, end int) error {
		if begin <= offset && offset < end {
			found = key
		}
		return nil
	})
	return found
}
