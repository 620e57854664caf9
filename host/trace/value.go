package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Why ReadValue refuses a value. A caller cannot read on after such an error.
var (
	ErrTooLong    = errors.New("mopslock: trace: a value is longer than allowed")
	ErrTooDeep    = errors.New("mopslock: trace: a value is nested too deeply")
	ErrNotMsgpack = errors.New("mopslock: trace: not msgpack")
)

// ReadValue reads one msgpack value of at most limit bytes and returns its bytes,
// which the caller may keep. io.EOF means that there is none, and
// io.ErrUnexpectedEOF that it ends too early. ReadValue makes no room for what a
// header only claims: it never holds more than limit bytes.
func ReadValue(r *bufio.Reader, limit int) ([]byte, error) {
	s := scanner{r: r, limit: limit}
	return s.whole()
}

// whole reads one value. If that is cut off, s.b has the part that was read.
func (s *scanner) whole() ([]byte, error) {
	err := s.value()
	if errors.Is(err, io.EOF) && len(s.b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return s.b, nil
}

// scanner reads a value from r into b.
type scanner struct {
	r     *bufio.Reader
	b     []byte
	limit int
}

// value goes from item to item without calling itself, so each level of nesting
// costs one number, and there are at most MaxDepth of them.
func (s *scanner) value() error {
	var open [MaxDepth]uint64 // items that the containers around this item still lack
	for depth := 0; ; {
		items, err := s.item()
		if err != nil {
			return err
		}
		if items > 0 {
			if depth == MaxDepth {
				return ErrTooDeep
			}
			open[depth] = items
			depth++
			continue
		}
		for depth > 0 { // each container that is complete now is an item of the next one
			open[depth-1]--
			if open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// item reads one item and returns how many more belong to it.
func (s *scanner) item() (items uint64, err error) {
	c, err := s.number(1)
	if err != nil {
		return 0, err
	}
	switch code := byte(c); {
	case msgpcode.IsFixedNum(code), code == msgpcode.Nil, code == msgpcode.True, code == msgpcode.False:
		return 0, nil
	case msgpcode.IsFixedMap(code):
		return 2 * (c & 0xf), nil
	case msgpcode.IsFixedArray(code):
		return c & 0xf, nil
	case msgpcode.IsFixedString(code):
		return 0, s.take(c & 0x1f)
	case code >= msgpcode.Bin8 && code <= msgpcode.Bin32:
		return 0, s.counted(1<<(code-msgpcode.Bin8), 0)
	case code >= msgpcode.Ext8 && code <= msgpcode.Ext32:
		return 0, s.counted(1<<(code-msgpcode.Ext8), 1)
	case code == msgpcode.Float, code == msgpcode.Double:
		return 0, s.take(4 << (code - msgpcode.Float))
	case code >= msgpcode.Uint8 && code <= msgpcode.Uint64:
		return 0, s.take(1 << (code - msgpcode.Uint8))
	case code >= msgpcode.Int8 && code <= msgpcode.Int64:
		return 0, s.take(1 << (code - msgpcode.Int8))
	case code >= msgpcode.FixExt1 && code <= msgpcode.FixExt16:
		return 0, s.take(1<<(code-msgpcode.FixExt1) + 1)
	case code >= msgpcode.Str8 && code <= msgpcode.Str32:
		return 0, s.counted(1<<(code-msgpcode.Str8), 0)
	case code == msgpcode.Array16, code == msgpcode.Array32:
		return s.number(2 << (code - msgpcode.Array16))
	case code == msgpcode.Map16, code == msgpcode.Map32:
		n, err := s.number(2 << (code - msgpcode.Map16))
		return 2 * n, err
	}
	return 0, ErrNotMsgpack
}

// counted reads a length, and then so many bytes and more.
func (s *scanner) counted(width int, more uint64) error {
	n, err := s.number(width)
	if err != nil {
		return err
	}
	return s.take(n + more)
}

// number reads a big-endian number of so many bytes.
func (s *scanner) number(width int) (n uint64, err error) {
	if err := s.take(uint64(width)); err != nil {
		return 0, err
	}
	for _, c := range s.b[len(s.b)-width:] {
		n = n<<8 | uint64(c)
	}
	return n, nil
}

// take reads n bytes, in pieces as they come.
func (s *scanner) take(n uint64) error {
	if n > uint64(s.limit-len(s.b)) {
		return ErrTooLong
	}
	for n > 0 {
		piece := int(min(n, 4<<10))
		at := len(s.b)
		s.b = append(s.b, make([]byte, piece)...)
		got, err := io.ReadFull(s.r, s.b[at:])
		s.b = s.b[:at+got]
		if err != nil {
			return err
		}
		n -= uint64(piece)
	}
	return nil
}

// Fields calls visit for each entry of a map, with its key and the place of its value
// in b. b must come from ReadValue or from our own writer.
func Fields(b []byte, visit func(key string, begin, end int) error) error {
	if len(b) == 0 || !isMap(b[0]) {
		return errors.New("not a map")
	}
	r := bytes.NewReader(b) // read by msgpack/v5 without a buffer between
	d := msgpack.NewDecoder(r)
	n, err := d.DecodeMapLen()
	if err != nil {
		return err
	}
	for range n {
		if c, err := d.PeekCode(); err != nil || !isText(c) {
			return errors.Join(errors.New("a key is not a string"), err)
		}
		key, err := d.DecodeString()
		if err != nil {
			return err
		}
		begin := len(b) - r.Len()
		if err := d.Skip(); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if err := visit(key, begin, len(b)-r.Len()); err != nil {
			return err
		}
	}
	return nil
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}

// isText reports whether msgpack/v5 reads c as the start of a string. It leaves out nil.
func isText(c byte) bool { return msgpcode.IsString(c) || msgpcode.IsBin(c) }
