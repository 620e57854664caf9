package core

import "unicode/utf8"

// cut is how much of a text is within a number of bytes, in whole characters.
func cut(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return most
}

// isText reports whether s is UTF-8 of at most so many bytes.
func isText(s string, most int) bool { return len(s) <= most && utf8.Valid([]byte(s)) }

// hasByte is strings.Contains. That package would bring unicode, sync and more
// along, which are a tenth of what the core is in the guest.
func hasByte(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}

// isPrintable reports whether s is UTF-8 without control characters.
func isPrintable(s string) bool {
	for _, r := range s {
		if isControl(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }
