package core

import (
	"math"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core/internal/octets"
)

// reader reads one message. The first fail takes the rest of the message away, so
// that no later step has to check for a failure.
type reader struct {
	b []byte
	i int
	openedMap
	rule string // the first rule that was broken, or ""
	at   int    // where it was broken
}

// openedMap is the map that is being read.
type openedMap struct {
	start int      // where it began
	keys  []string // the keys that it may have, in their order
	seen  fieldSet
	left  int // entries that were not read yet
}

func newReader(b []byte) reader {
	d := reader{b: b}
	if len(b) > MaxMessage {
		d.fail(ruleLong, 0)
	}
	return d
}

func (d *reader) fail(rule string, at int) {
	if d.rule == "" {
		d.rule, d.at = rule, at
	}
	d.b, d.i, d.left = nil, 0, 0
}

func (d *reader) end() error {
	if d.i < len(d.b) {
		d.fail(ruleTrailing, d.i)
	}
	if d.rule != "" {
		return &MessageError{Rule: d.rule, Offset: d.at}
	}
	return nil
}

// key steps over key, the key of field, if it comes next.
func (d *reader) key(field fieldSet, key string) bool {
	end := d.i + len(key)
	if d.left == 0 || end > len(d.b) || string(d.b[d.i:end]) != key {
		return false
	}
	d.i = end
	d.left--
	d.seen |= 1 << field
	return true
}

// steps over item if it comes next.
func (d *reader) steps(item string) bool {
	end := d.i + len(item)
	if end > len(d.b) || string(d.b[d.i:end]) != item {
		return false
	}
	d.i = end
	return true
}

// closeMap checks the map after every key was offered.
func (d *reader) closeMap(rules fieldRules) {
	switch {
	case d.left > 0:
		d.failKey()
	case d.seen&^rules.may != 0:
		d.fail(ruleNotOfKind, d.start)
	case rules.must&^d.seen != 0:
		d.fail(ruleMissing, d.start)
	}
}

// failKey says what is wrong with the key at hand.
func (d *reader) failKey() {
	at := d.i
	c, ok := d.peek()
	if !ok {
		return
	}
	if (c < 0xa0 || c > 0xbf) && (c < 0xd9 || c > 0xdb) {
		d.fail(ruleKeyType, at)
		return
	}
	var key []byte
	if c != 0xa0 { // "" is an unknown key like any other
		key = d.text()
	}
	for i, known := range d.keys {
		if string(key) == known[1:] {
			if d.seen&(1<<i) != 0 {
				d.fail(ruleDuplicate, at)
			}
			d.fail(ruleKeyOrder, at)
		}
	}
	d.fail(ruleUnknown, at)
}

// peek returns the next byte without stepping over it.
func (d *reader) peek() (byte, bool) {
	if d.i >= len(d.b) {
		d.fail(ruleTruncated, d.i)
		return 0, false
	}
	return d.b[d.i], true
}

// openMap reads the header of a map that may have these keys.
func (d *reader) openMap(keys []string) {
	d.start, d.keys, d.seen = d.i, keys, 0
	d.left = d.open(0x80, 0xde, ruleMap)
}

func (d *reader) openArray() int { return d.open(0x90, 0xdc, ruleArray) }

// open reads a header of four bits, or of 16 or 32 that begins with wide.
func (d *reader) open(short, wide byte, rule string) int {
	at := d.i
	c, ok := d.peek()
	switch {
	case !ok:
		return 0
	case c&0xf0 == short:
		d.i++
		return int(c & 0xf)
	case c == wide || c == wide+1:
		return d.count(at, d.sized(at, c-wide, 2, 16))
	}
	d.fail(rule, at)
	return 0
}

// count returns n, the size of the item that began at, as an int. It fails if fewer
// bytes are left, so that the size fits the int of a 32-bit machine.
func (d *reader) count(at int, n uint64) int {
	if n > uint64(len(d.b)-d.i) {
		d.fail(ruleTruncated, at)
		return 0
	}
	return int(n)
}

// sized reads the number behind the first byte of an item. The narrowest form has
// width bytes, and no number below least. Each next form is twice as wide, and has
// no number for which the form before has room.
func (d *reader) sized(at int, form byte, width int, least uint64) uint64 {
	if width <<= form; form > 0 {
		least = 1 << (4 * width)
	}
	return d.number(at, width, least)
}

// number reads the width bytes behind the first byte of an item. A number below
// least has a shorter form, and is refused.
func (d *reader) number(at, width int, least uint64) (u uint64) {
	b := d.b[at+1:]
	if len(b) < width {
		d.fail(ruleTruncated, at)
		return 0
	}
	for _, c := range b[:width] {
		u = u<<8 | uint64(c)
	}
	if u < least {
		d.fail(ruleForm, at)
		return 0
	}
	d.i = at + 1 + width
	return u
}

// integer reads any integer: its 64 bits, and whether it is below 0.
func (d *reader) integer() (u uint64, negative bool) {
	at := d.i
	c, ok := d.peek()
	switch {
	case !ok:
		return 0, false
	case c < 0x80:
		d.i++
		return uint64(c), false
	case c >= 0xe0:
		d.i++
		return uint64(int64(int8(c))), true
	case c >= 0xcc && c <= 0xcf:
		return d.sized(at, c-0xcc, 1, 1<<7), false
	case c >= 0xd0 && c <= 0xd3:
		return d.signed(at, 8<<(c-0xd0))
	}
	d.fail(ruleInt, at)
	return 0, false
}

// signed reads a signed integer of so many bits. If half as many bits can hold the
// number, it has a shorter form, and is refused.
func (d *reader) signed(at, bits int) (u uint64, negative bool) {
	raw := d.number(at, bits/8, 0)
	v := int64(raw<<(64-bits)) >> (64 - bits)
	most := int64(-33)
	if bits > 8 {
		most = -1<<(bits/2-1) - 1
	}
	if v > most {
		d.fail(ruleForm, at)
		return 0, false
	}
	return uint64(v), true
}

func (d *reader) int() int64 {
	at := d.i
	// Nearly every integer is an instant of eight bytes: it is read without a call.
	if len(d.b)-at > 8 && d.b[at] == 0xcf {
		if u := octets.BE64(d.b[at+1:]); u >= 1<<32 && u <= math.MaxInt64 {
			d.i += 9
			return int64(u)
		}
	}
	u, negative := d.integer()
	if u > math.MaxInt64 && !negative {
		d.fail(ruleRange, at)
		return 0
	}
	return int64(u)
}

func (d *reader) nonzeroInt() int64 {
	at := d.i
	v := d.int()
	if v == 0 {
		d.fail(ruleZero, at)
	}
	return v
}

func (d *reader) nonzeroUint32() uint32 {
	at := d.i
	u := d.nonzeroUint()
	if u > 1<<32-1 {
		d.fail(ruleRange, at)
	}
	return uint32(u)
}

func (d *reader) nonzeroUint() uint64 {
	at := d.i
	u, negative := d.integer()
	if negative {
		d.fail(ruleRange, at)
		return 0
	}
	if u == 0 {
		d.fail(ruleZero, at)
	}
	return u
}

// isTrue reads a boolean, which must be true: false is left out.
func (d *reader) isTrue() bool {
	at := d.i
	switch c, ok := d.peek(); {
	case ok && c == 0xc3:
		d.i++
		return true
	case ok && c == 0xc2:
		d.fail(ruleZero, at)
	case ok:
		d.fail(ruleBool, at)
	}
	return false
}

// named reads the wire name of a number that is not 0.
func (d *reader) named(names []string) uint8 {
	at := d.i
	n, ok := numberOf(names, d.str())
	switch {
	case !ok:
		d.fail(ruleName, at)
	case n == 0:
		d.fail(ruleZero, at)
	}
	return n
}

// bin reads bytes that are not empty.
func (d *reader) bin() []byte {
	at := d.i
	c, ok := d.peek()
	switch {
	case !ok:
		return nil
	case c >= 0xc4 && c <= 0xc6:
		return d.bytes(at, d.sized(at, c-0xc4, 1, 0))
	}
	d.fail(ruleBin, at)
	return nil
}

// str reads a string that is not empty, and does not check its bytes.
func (d *reader) str() []byte {
	at := d.i
	c, ok := d.peek()
	switch {
	case !ok:
		return nil
	case c&0xe0 == 0xa0:
		d.i++
		if end := d.i + int(c&0x1f); end > d.i && end <= len(d.b) {
			at, d.i = d.i, end
			return d.b[at:end:end]
		}
		return d.bytes(at, uint64(c&0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return d.bytes(at, d.sized(at, c-0xd9, 1, 32))
	}
	d.fail(ruleStr, at)
	return nil
}

// text is str that must be UTF-8.
func (d *reader) text() []byte {
	at := d.i
	s := d.str()
	if !utf8.Valid(s) {
		d.fail(ruleUTF8, at)
		return nil
	}
	return s
}

// bytes reads so many bytes of the item that began at.
func (d *reader) bytes(at int, size uint64) []byte {
	n := d.count(at, size)
	if n == 0 {
		d.fail(ruleZero, at) // unless something failed before
		return nil
	}
	d.i += n
	return d.b[d.i-n : d.i : d.i]
}
