package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
)

// FormatError says that a file is no recording, or where it stops being one.
type FormatError struct {
	Offset int64 // of the value that is wrong
	Text   string
}

// Error returns the text behind the package's name.
func (e *FormatError) Error() string {
	return fmt.Sprintf("mopslock: trace: not a recording of this programme: %s (at byte %d)", e.Text, e.Offset)
}

// reader reads a recording value by value.
type reader struct {
	r      *bufio.Reader
	offset int64 // of the value that was read last
	next   int64
}

// closing is the last event, as bytes. A recording that was cut off does not end
// with it.
const closing = "\x81\xa5" + keyEvent + "\xa6" + eventClosed

// event is one event as the file has it.
type event struct {
	kind    string
	machine uint64
	message []byte // the config or the input
	answer  []byte
}

func newReader(r io.Reader) *reader { return &reader{r: bufio.NewReader(r)} }

func (r *reader) bad(format string, args ...any) error {
	return &FormatError{r.offset, fmt.Sprintf(format, args...)}
}

// value reads one value of at most limit bytes. It returns an error of the file
// itself as it is, also io.EOF and io.ErrUnexpectedEOF.
func (r *reader) value(limit int) ([]byte, error) {
	r.offset = r.next
	s := scanner{r: r.r, limit: limit}
	b, err := s.whole()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && bytes.HasSuffix(s.b, []byte(closing)):
		return nil, r.bad("a value reaches over the recording's end, so it is damaged")
	case errors.Is(err, ErrTooLong):
		return nil, r.bad("a value of more than %d bytes", limit)
	case errors.Is(err, ErrTooDeep):
		return nil, r.bad("a value nested more than %d deep", MaxDepth)
	case errors.Is(err, ErrNotMsgpack):
		return nil, r.bad("not msgpack")
	}
	r.next += int64(len(b))
	return b, err
}

// maxHeader bounds the bytes of a header. It leaves room for later versions.
const maxHeader = 1 << 10

func (r *reader) header() error {
	b, err := r.value(maxHeader)
	switch {
	case errors.Is(err, io.EOF):
		return r.bad("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.bad("it does not begin with a whole header")
	case err != nil:
		return err
	}
	version := uint64(0)
	err = Fields(b, func(key string, begin, end int) (err error) {
		if key == keyHeader {
			version, err = number(b[begin:end])
		}
		return err
	})
	switch {
	case err != nil || version == 0:
		return r.bad("it does not begin with the header of one")
	case version > Version:
		return r.bad("it was written by a newer mopslock, as version %d; this one reads version %d", version, Version)
	}
	return nil
}

// event reads the next event. The error says whether the event was cut off.
func (r *reader) event() (event, error) {
	var e event
	b, err := r.value(MaxValue)
	if err != nil {
		return e, err
	}
	seen := map[string][]byte{}
	err = Fields(b, func(key string, begin, end int) error {
		if _, twice := seen[key]; twice {
			return fmt.Errorf("key %q stands twice", key)
		}
		seen[key] = b[begin:end]
		return nil
	})
	if err == nil {
		err = e.fill(seen)
	}
	if err != nil {
		return e, r.bad("%v", err)
	}
	return e, nil
}

// keysOf returns the keys that an event has beside its kind, or nil if there is no
// such event.
func keysOf(kind string) []string {
	switch kind {
	case eventMade:
		return []string{keyMachine, keyConfig, keyAnswer}
	case eventStepped:
		return []string{keyMachine, keyInput, keyAnswer}
	case eventFailed:
		return []string{keyMachine, keyInput}
	case eventDropped:
		return []string{keyMachine}
	case eventClosed:
		return []string{}
	}
	return nil
}

func (e *event) fill(seen map[string][]byte) (err error) {
	if e.kind, err = text(seen[keyEvent]); err != nil {
		return errors.New("a value that is no event")
	}
	keys := keysOf(e.kind)
	if keys == nil {
		return fmt.Errorf("there is no event %q", e.kind)
	}
	for _, key := range keys {
		value, there := seen[key]
		switch {
		case !there:
			return fmt.Errorf("event %s without its key %q", e.kind, key)
		case key == keyMachine:
			if e.machine, err = number(value); err != nil || e.machine == 0 {
				return fmt.Errorf("event %s: machine is not a number from 1 upwards", e.kind)
			}
		case key == keyAnswer:
			e.answer = value
		default:
			e.message = value
		}
	}
	if len(seen) != 1+len(keys) {
		return fmt.Errorf("event %s with a key that it cannot have", e.kind)
	}
	return nil
}

// number reads an integer of any width that is not negative.
func number(value []byte) (uint64, error) {
	n, err := msgpack.NewDecoder(bytes.NewReader(value)).DecodeInt64()
	if err != nil || n < 0 {
		return 0, errors.New("not a number")
	}
	return uint64(n), nil
}

func text(value []byte) (string, error) {
	if len(value) == 0 || !isText(value[0]) {
		return "", errors.New("not a string")
	}
	return msgpack.NewDecoder(bytes.NewReader(value)).DecodeString()
}
