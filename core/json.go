package core

import (
	"math/bits"
	"unicode/utf8"
)

// A reader of JSON for records that others wrote. It is strict: RFC 8259, plus
// the NaN, Infinity and -Infinity that Python writes and reads. It copies
// nothing and decodes nothing until asked: a value is a piece of the body.

// MaxDepth is how deep an array or an object is read.
const MaxDepth = 32

// tokenKind says what a JSON value is.
type tokenKind uint8

const (
	tokenAbsent    tokenKind = iota // no such field
	tokenString                     // raw is the inside, without its quotes
	tokenNumber                     // RFC 8259's grammar
	tokenNotFinite                  // NaN, Infinity, -Infinity
	tokenTrue
	tokenFalse
	tokenNull
	tokenNested // an array or object
)

// jsonToken is one JSON value as it stands in the body.
type jsonToken struct {
	kind tokenKind
	raw  []byte
}

// text is the inside of a JSON string as it stands in the body, escapes and
// all. The body was valid UTF-8 and the string well formed.
type text []byte

// plain reports that nothing in t needs decoding.
func (t text) plain() bool { return skipOrdinary(t, 0) == len(t) }

// equal reports whether t, decoded, is s. Half of a surrogate pair is no text
// that a Go string can hold, so it equals nothing, U+FFFD included: two holders
// must never be one because of what cannot be told apart.
func (t text) equal(s string) bool {
	for {
		plain := skipOrdinary(t, 0)
		if plain > len(s) || string(t[:plain]) != s[:plain] {
			return false
		}
		t, s = t[plain:], s[plain:]
		if len(t) == 0 {
			return s == ""
		}
		r, size := t.decodeEscape()
		decoded := string(r)
		if r == loneSurrogate || len(decoded) > len(s) || decoded != s[:len(decoded)] {
			return false
		}
		t, s = t[size:], s[len(decoded):]
	}
}

// appendTo appends t decoded: valid UTF-8, half surrogate pairs as U+FFFD.
func (t text) appendTo(dst []byte) []byte { return t.appendCut(dst, len(t)) }

// appendCut is appendTo of no more than so many bytes, in whole characters. What
// is beyond them is not decoded: somebody else's text can be 64 KiB.
func (t text) appendCut(dst []byte, most int) []byte {
	end := len(dst) + most
	for {
		plain := skipOrdinary(t, 0)
		if room := end - len(dst); plain > room {
			for room > 0 && !utf8.RuneStart(t[room]) {
				room--
			}
			return append(dst, t[:room]...)
		}
		dst = append(dst, t[:plain]...)
		t = t[plain:]
		if len(t) == 0 {
			return dst
		}
		r, size := t.decodeEscape()
		before := len(dst)
		dst = append(dst, string(r)...) // U+FFFD for half a pair
		if len(dst) > end {
			return dst[:before]
		}
		t = t[size:]
	}
}

// escapes are the letters behind a backslash, each with what it stands for.
const escapes = "b\bf\fn\nr\rt\t\"\"\\\\//"

// escaped returns what a backslash and c stand for, or 0.
func escaped(c byte) byte {
	for i := 0; i < len(escapes); i += 2 {
		if escapes[i] == c {
			return escapes[i+1]
		}
	}
	return 0
}

// loneSurrogate is what decodeEscape returns for half of a pair.
const loneSurrogate rune = -1

// decodeEscape decodes the first character of t, which begins with a backslash.
func (t text) decodeEscape() (r rune, size int) {
	if c := escaped(t[1]); c != 0 {
		return rune(c), 2
	}
	const surrogate, low, end = 0xd800, 0xdc00, 0xe000
	r, size = hex4(t[2:]), len(`\u0000`)
	if r < surrogate || r >= end {
		return r, size
	}
	if r < low && len(t) >= 2*size && t[size] == '\\' && t[size+1] == 'u' {
		if second := hex4(t[size+2:]); second >= low && second < end {
			return (r-surrogate)<<10 | (second - low) + 0x10000, 2 * size
		}
	}
	return loneSurrogate, size
}

// hex4 returns the number of four hexadecimal digits, or -1.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// scanner walks over a body. A method that answers false leaves i where the
// body stopped being JSON.
type scanner struct {
	b []byte
	i int
}

// at returns the byte at i, or 0, which is no part of any JSON text.
func (s *scanner) at() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) skipSpace() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' {
		switch s.b[s.i] {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return
		}
	}
}

// take steps over c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.at() != c {
		return false
	}
	s.i++
	return true
}

// word steps over w if it comes next.
func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// str reads a string from its opening quote on.
func (s *scanner) str() (inside []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.i
	for {
		s.i = skipOrdinary(s.b, s.i)
		switch s.at() {
		case '"':
			s.i++
			return s.b[start : s.i-1], true
		case '\\':
			if !s.escape() {
				return nil, false
			}
		default: // the end, or a control character
			return nil, false
		}
	}
}

func (s *scanner) escape() bool {
	s.i++
	if escaped(s.at()) != 0 {
		s.i++
		return true
	}
	if !s.take('u') || len(s.b)-s.i < 4 || hex4(s.b[s.i:]) < 0 {
		return false
	}
	s.i += 4
	return true
}

// skipOrdinary returns the index, from i on, of the first quote, backslash or
// control character. Eight bytes at a time: the lowest marked byte of a word is
// exact, because a borrow only spoils bytes above it (Mycroft's test for a zero
// byte, and its sibling for "less than n").
func skipOrdinary(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := le64(b[i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		marks := ((quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & highs
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// value reads one value of any kind. depth is how deep it stands; a value
// nested deeper than MaxDepth is not read.
func (s *scanner) value(depth int) (t jsonToken, ok bool) {
	start := s.i
	switch c := s.at(); {
	case c == '"':
		t.kind = tokenString
		t.raw, ok = s.str()
		return t, ok
	case c == '{' || c == '[':
		t.kind, ok = tokenNested, s.nested(depth)
	case c == '-' || '0' <= c && c <= '9':
		t.kind, ok = s.number()
	case c == 't':
		t.kind, ok = tokenTrue, s.word("true")
	case c == 'f':
		t.kind, ok = tokenFalse, s.word("false")
	case c == 'n':
		t.kind, ok = tokenNull, s.word("null")
	case c == 'N':
		t.kind, ok = tokenNotFinite, s.word("NaN")
	case c == 'I':
		t.kind, ok = tokenNotFinite, s.word("Infinity")
	}
	if !ok {
		return jsonToken{}, false
	}
	t.raw = s.b[start:s.i]
	return t, true
}

// nested steps over an array or an object, by calling value as deep as MaxDepth
// allows and no deeper.
func (s *scanner) nested(depth int) bool {
	if depth >= MaxDepth {
		return false
	}
	object := s.at() == '{'
	more, ok := s.open(), true
	for more && ok {
		_, _, more, ok = s.element(object, depth)
	}
	return ok
}

// open steps over the bracket that begins an array or an object, and reports
// whether an element follows; an empty one it steps over whole.
func (s *scanner) open() (more bool) {
	end := s.at() + 2 // ] and } stand two behind their openers
	s.i++
	s.skipSpace()
	return !s.take(end)
}

// element reads the next element of an array or an object at a depth, and what
// follows it: more is that it was a comma.
func (s *scanner) element(object bool, depth int) (key text, value jsonToken, more, ok bool) {
	end := byte(']')
	if object {
		end = '}'
		if key, ok = s.key(); !ok {
			return nil, value, false, false
		}
	}
	if value, ok = s.value(depth + 1); !ok {
		return nil, value, false, false
	}
	s.skipSpace()
	if s.take(end) {
		return key, value, false, true
	}
	ok = s.take(',')
	s.skipSpace()
	return key, value, ok, ok
}

// key reads a key, its colon and the space around that.
func (s *scanner) key() (text, bool) {
	k, ok := s.str()
	if !ok {
		return nil, false
	}
	s.skipSpace()
	if !s.take(':') {
		return nil, false
	}
	s.skipSpace()
	return k, true
}

func (s *scanner) number() (tokenKind, bool) {
	if s.take('-') && s.at() == 'I' {
		return tokenNotFinite, s.word("Infinity")
	}
	if !s.take('0') && !s.digits() { // no digit follows a leading zero
		return tokenNumber, false
	}
	if s.take('.') && !s.digits() {
		return tokenNumber, false
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.i++
		if !s.take('+') {
			s.take('-')
		}
		return tokenNumber, s.digits()
	}
	return tokenNumber, true
}

// digits steps over one digit or more.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}
