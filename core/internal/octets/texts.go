package octets

import "unicode/utf8"

// Cut is how much of a text is within a number of bytes, in whole characters.
func Cut(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return most
}

// IsText reports whether s is UTF-8 of at most so many bytes.
func IsText(s string, most int) bool { return len(s) <= most && utf8.Valid([]byte(s)) }

// HasByte is strings.Contains. That package would bring unicode, sync and more
// along, which are a tenth of what the core is in the guest.
func HasByte(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}

// IsPrintable reports whether s is UTF-8 without control characters.
func IsPrintable(s string) bool {
	for _, r := range s {
		if IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

func IsControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }
