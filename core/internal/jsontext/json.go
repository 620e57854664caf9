// Package jsontext reads and writes the JSON of the store's records: a strict scanner
// that copies nothing, and the forms that texts, stamps and seconds have there. It does
// not know what a field means.
package jsontext

import (
	"math/bits"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core/internal/octets"
)

// A reader of JSON for records that others wrote. It is strict: RFC 8259, plus
// the NaN, Infinity and -Infinity that Python writes and reads. It copies
// nothing and decodes nothing until asked: a value is a piece of the body.

// MaxDepth is the depth down to which arrays and objects are read.
const MaxDepth = 32

// Kind says what a JSON value is.
type Kind uint8

const (
	TokenAbsent    Kind = iota // no such field
	TokenString                // Raw is the inside, without its quotes
	TokenNumber                // RFC 8259's grammar
	tokenNotFinite             // NaN, Infinity, -Infinity
	TokenTrue
	TokenFalse
	TokenNull
	TokenNested // an array or object
)

// Token is one JSON value as the body has it.
type Token struct {
	Kind Kind
	Raw  []byte
}

// Text is the inside of a JSON string as the body has it, with its escapes. The
// body was valid UTF-8 and the string well formed.
type Text []byte

// Plain reports whether nothing in t needs decoding.
func (t Text) Plain() bool { return SkipOrdinary(t, 0) == len(t) }

// Equal reports whether t, decoded, is s. A Go string cannot hold half of a
// surrogate pair, so such a half equals nothing, not even U+FFFD: otherwise two
// holders whose ids differ only there would be one.
func (t Text) Equal(s string) bool {
	for {
		plain := SkipOrdinary(t, 0)
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

// AppendTo appends t decoded: valid UTF-8, half surrogate pairs as U+FFFD.
func (t Text) AppendTo(dst []byte) []byte { return t.AppendCut(dst, len(t)) }

// AppendCut appends t decoded, but at most most bytes, in whole characters. It does
// not decode what is beyond them: another process's text can be 64 KiB.
func (t Text) AppendCut(dst []byte, most int) []byte {
	end := len(dst) + most
	for {
		plain := SkipOrdinary(t, 0)
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

// escapes are the letters behind a backslash, each with the character that it means.
const escapes = "b\bf\fn\nr\rt\t\"\"\\\\//"

// escaped returns the character that a backslash and c mean, or 0.
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
func (t Text) decodeEscape() (r rune, size int) {
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

// Scanner reads a body. A method that returns false leaves I where the body stopped
// being JSON.
type Scanner struct {
	B []byte
	I int
}

// At returns the byte at I, or at the end 0, which is no part of any JSON text.
func (s *Scanner) At() byte {
	if s.I < len(s.B) {
		return s.B[s.I]
	}
	return 0
}

func (s *Scanner) SkipSpace() {
	for s.I < len(s.B) && s.B[s.I] <= ' ' {
		switch s.B[s.I] {
		case ' ', '\n', '\r', '\t':
			s.I++
		default:
			return
		}
	}
}

// Take steps over c if it comes next.
func (s *Scanner) Take(c byte) bool {
	if s.At() != c {
		return false
	}
	s.I++
	return true
}

// word steps over w if it comes next.
func (s *Scanner) word(w string) bool {
	if len(s.B)-s.I < len(w) || string(s.B[s.I:s.I+len(w)]) != w {
		return false
	}
	s.I += len(w)
	return true
}

// str reads a string from its opening quote on.
func (s *Scanner) str() (inside []byte, ok bool) {
	if !s.Take('"') {
		return nil, false
	}
	start := s.I
	for {
		s.I = SkipOrdinary(s.B, s.I)
		switch s.At() {
		case '"':
			s.I++
			return s.B[start : s.I-1], true
		case '\\':
			if !s.escape() {
				return nil, false
			}
		default: // the end, or a control character
			return nil, false
		}
	}
}

func (s *Scanner) escape() bool {
	s.I++
	if escaped(s.At()) != 0 {
		s.I++
		return true
	}
	if !s.Take('u') || len(s.B)-s.I < 4 || hex4(s.B[s.I:]) < 0 {
		return false
	}
	s.I += 4
	return true
}

// SkipOrdinary returns the index, from i on, of the first quote, backslash or
// control character. It tests eight bytes at a time. The lowest marked byte of a word
// is exact, because a borrow only spoils bytes above it (Mycroft's test for a zero
// byte, and its variant for "less than n").
func SkipOrdinary(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := octets.LE64(b[i:])
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

// Value reads one value of any kind at a depth. It does not read a value that is
// nested deeper than MaxDepth.
func (s *Scanner) Value(depth int) (t Token, ok bool) {
	start := s.I
	switch c := s.At(); {
	case c == '"':
		t.Kind = TokenString
		t.Raw, ok = s.str()
		return t, ok
	case c == '{' || c == '[':
		t.Kind, ok = TokenNested, s.nested(depth)
	case c == '-' || '0' <= c && c <= '9':
		t.Kind, ok = s.number()
	case c == 't':
		t.Kind, ok = TokenTrue, s.word("true")
	case c == 'f':
		t.Kind, ok = TokenFalse, s.word("false")
	case c == 'n':
		t.Kind, ok = TokenNull, s.word("null")
	case c == 'N':
		t.Kind, ok = tokenNotFinite, s.word("NaN")
	case c == 'I':
		t.Kind, ok = tokenNotFinite, s.word("Infinity")
	}
	if !ok {
		return Token{}, false
	}
	t.Raw = s.B[start:s.I]
	return t, true
}

// nested steps over an array or an object. It calls Value down to MaxDepth and no
// deeper.
func (s *Scanner) nested(depth int) bool {
	if depth >= MaxDepth {
		return false
	}
	object := s.At() == '{'
	more, ok := s.Open(), true
	for more && ok {
		_, _, more, ok = s.Element(object, depth)
	}
	return ok
}

// Open steps over the bracket that begins an array or an object, and reports
// whether an element follows. If none does, it also steps over the closing bracket.
func (s *Scanner) Open() (more bool) {
	end := s.At() + 2 // in ASCII, ] and } are two behind [ and {
	s.I++
	s.SkipSpace()
	return !s.Take(end)
}

// Element reads the next element of an array or an object at a depth, and the comma
// or bracket behind it. more reports whether that was a comma.
func (s *Scanner) Element(object bool, depth int) (key Text, value Token, more, ok bool) {
	end := byte(']')
	if object {
		end = '}'
		if key, ok = s.Key(); !ok {
			return nil, value, false, false
		}
	}
	if value, ok = s.Value(depth + 1); !ok {
		return nil, value, false, false
	}
	s.SkipSpace()
	if s.Take(end) {
		return key, value, false, true
	}
	ok = s.Take(',')
	s.SkipSpace()
	return key, value, ok, ok
}

// Key reads a key, its colon and the space around the colon.
func (s *Scanner) Key() (Text, bool) {
	k, ok := s.str()
	if !ok {
		return nil, false
	}
	s.SkipSpace()
	if !s.Take(':') {
		return nil, false
	}
	s.SkipSpace()
	return k, true
}

func (s *Scanner) number() (Kind, bool) {
	if s.Take('-') && s.At() == 'I' {
		return tokenNotFinite, s.word("Infinity")
	}
	if !s.Take('0') && !s.digits() { // no digit follows a leading zero
		return TokenNumber, false
	}
	if s.Take('.') && !s.digits() {
		return TokenNumber, false
	}
	if c := s.At(); c == 'e' || c == 'E' {
		s.I++
		if !s.Take('+') {
			s.Take('-')
		}
		return TokenNumber, s.digits()
	}
	return TokenNumber, true
}

// digits steps over digits, and reports whether there was at least one.
func (s *Scanner) digits() bool {
	start := s.I
	for s.I < len(s.B) && s.B[s.I]-'0' <= 9 {
		s.I++
	}
	return s.I > start
}
