package octets

import "unicode/utf8"

// Cut returns the length of the longest start of text with whole characters and at most most bytes.
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
