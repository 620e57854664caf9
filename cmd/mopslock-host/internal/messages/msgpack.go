package messages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host/trace"
)

// msgpackForm is values back to back. After bytes that are no msgpack the next value cannot be found,
// so they are the end. After a value that is only refused it reads the next one.
type msgpackForm struct{ in *bufio.Reader }

// Msgpack reads msgpack from in.
func Msgpack(in *bufio.Reader) Form { return msgpackForm{in} }

func (f msgpackForm) Answer(canonical []byte) ([]byte, error) { return canonical, nil }

func (f msgpackForm) read(to any) error {
	value, err := trace.ReadValue(f.in, MaxValue)
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Refusal{"the last value ends too early", true}
	case errors.Is(err, trace.ErrTooLong):
		return &Refusal{fmt.Sprintf("a value is longer than %d bytes", MaxValue), true}
	case errors.Is(err, trace.ErrTooDeep):
		return &Refusal{fmt.Sprintf("a value is nested more than %d deep", trace.MaxDepth), true}
	case errors.Is(err, trace.ErrNotMsgpack):
		return &Refusal{"not msgpack", true}
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStdin, err)
	}
	return pairs(value, to)
}

// pairs reads a map into a struct of package wire.
func pairs(value []byte, to any) error {
	known := fields{to: to}
	err := trace.Fields(value, func(key string, begin, end int) error {
		field, err := known.take(key)
		if err != nil {
			return err
		}
		if err := setMsgpack(field, value[begin:end]); err != nil {
			return refusef("key %q: %v", key, err)
		}
		return nil
	})
	var refused *Refusal
	if err != nil && !errors.As(err, &refused) {
		return refusef("%v", err)
	}
	return err
}

// setMsgpack sets a field. nil sets its zero value. msgpack/v5 alone would change an integer that
// does not fit to one that does.
func setMsgpack(field any, value []byte) (err error) {
	d := msgpack.NewDecoder(bytes.NewReader(value))
	code := value[0]
	if code == msgpcode.Nil {
		return nil
	}
	switch to := field.(type) {
	case *[]wire.Entry:
		return setEntriesMsgpack(to, d)
	case **wire.Config:
		*to = &wire.Config{}
		return pairs(value, *to)
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

// setEntriesMsgpack reads a value that ReadValue has found complete, so no array is longer than its
// elements.
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

// isSigned reports whether the integer can be below 0.
func isSigned(code byte) bool {
	return code >= msgpcode.NegFixedNumLow || code >= msgpcode.Int8 && code <= msgpcode.Int64
}
