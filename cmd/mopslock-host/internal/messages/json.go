package messages

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core/wire"
)

// jsonForm is one object a line. After a refused line it reads the next one.
type jsonForm struct{ in *bufio.Reader }

// JSON reads JSON from in.
func JSON(in *bufio.Reader) Form { return jsonForm{in} }

func (f jsonForm) Answer(canonical []byte) ([]byte, error) {
	return Line(canonical, new(wire.Answer))
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
	if err := members(d, to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refusef("the line goes on after its object")
	}
	return nil
}

// members reads an object, whose bracket was read, into a struct of package wire.
func members(d *json.Decoder, to any) error {
	known := fields{to: to}
	for d.More() {
		key, err := d.Token()
		if err != nil { // its text is of the version of Go
			return refusef("the line is not a whole JSON object")
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
	return nil
}

// line reads one line. It keeps nothing of a line that is too long.
func (f jsonForm) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		piece, err := f.in.ReadSlice('\n')
		if long = long || len(line)+len(piece) > MaxValue; !long {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (long || len(line) > 0): // without its newline
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrStdin, err)
		}
		if long {
			return nil, refusef("the line is longer than %d bytes", MaxValue)
		}
		return line, nil
	}
}

// setJSON sets a field. null sets its zero value.
func setJSON(field any, value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	var err error
	what := ""
	switch to := field.(type) {
	case *[]wire.Entry:
		return setEntriesJSON(to, value)
	case **wire.Config:
		*to = &wire.Config{}
		d := json.NewDecoder(bytes.NewReader(value))
		if bracket, err := d.Token(); err != nil || bracket != json.Delim('{') {
			return errors.New("not an object")
		}
		return members(d, *to)
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
		if err == nil && strings.ContainsAny(text, "\r\n") { // Strict skips them
			return errors.New(what)
		}
	}
	if err != nil {
		return errors.New(what)
	}
	return nil
}

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

// escapes matches each escape in a JSON string. Its group matches half of a surrogate pair.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)`)

// halfPair reports whether a JSON string escapes half of a surrogate pair.
// encoding/json reads it as U+FFFD, and two names would become one lease.
func halfPair(text []byte) bool {
	for _, escape := range escapes.FindAllSubmatch(text, -1) {
		if escape[1] != nil {
			return true
		}
	}
	return false
}

// Line returns a message as one line of JSON. It decodes into the struct as.
func Line(message []byte, as any) ([]byte, error) {
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
