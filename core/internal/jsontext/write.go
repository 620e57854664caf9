package jsontext

import (
	"strconv"
)

// Writer appends the fields of a record: the text before a value, and
// the value.
type Writer []byte

func (w *Writer) Text(before, s string) { *w = AppendText(append(*w, before...), s) }

func (w *Writer) Number(before string, n uint64) {
	*w = strconv.AppendUint(append(*w, before...), n, 10)
}

func (w *Writer) Stamp(before string, wall int64) {
	*w = append(*w, before...)
	if wall != 0 {
		*w = AppendStamp(*w, wall)
	}
}

// Raw writes the text between values.
func (w *Writer) Raw(s string) { *w = append(*w, s...) }

func (w *Writer) Seconds(before string, nanos int64) {
	*w = AppendSeconds(append(*w, before...), nanos)
}

// Maybe writes a text, or nothing if it is empty.
func (w *Writer) Maybe(before, s string) {
	if s != "" {
		w.Text(before, s)
		*w = append(*w, '"')
	}
}

// AppendText writes the inside of a JSON string in ASCII, escaped as Python
// does. Bytes that are not UTF-8 become U+FFFD.
func AppendText(dst []byte, s string) []byte {
	if ordinaryASCII(s) {
		return append(dst, s...)
	}
	for _, c := range s {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			dst = append(dst, byte(c))
		} else {
			dst = appendEscape(dst, c)
		}
	}
	return dst
}

func appendEscape(dst []byte, c rune) []byte {
	for i := 1; i < len(escapes); i += 2 {
		if rune(escapes[i]) == c {
			return append(dst, '\\', escapes[i-1])
		}
	}
	if c > 0xffff {
		c -= 0x10000
		dst = appendHex4(dst, 0xd800+c>>10)
		c = 0xdc00 + c&0x3ff
	}
	return appendHex4(dst, c)
}

func appendHex4(dst []byte, c rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[c>>12&15], hex[c>>8&15], hex[c>>4&15], hex[c&15])
}

// ordinaryASCII reports whether s needs no escape. It tests eight bytes at a time; see
// SkipOrdinary. Here a borrow or carry out of a byte can only add marks.
func ordinaryASCII(s string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		quote, slash := x^('"'*ones), x^('\\'*ones)
		if (x|(x+ones)|(x-' '*ones)|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			return false
		}
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
