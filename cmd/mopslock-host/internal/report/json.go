package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a value as one line of JSON that a terminal can show.
func JSON(v any) (string, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	return EscapeControls(line.String()), nil
}

// EscapeControls escapes what JSON leaves as it is and some terminals obey: DEL, the controls above
// it, and marks that turn the direction of text.
func EscapeControls(line string) string {
	var out strings.Builder
	for _, r := range line {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// Seconds returns a duration in seconds, rounded to the millisecond.
func Seconds(d time.Duration) float64 {
	return math.Round(d.Seconds()*1000) / 1000
}

// PrintableLines returns a foreign text of several lines as a terminal can show it. It escapes what
// the terminal could take for a command.
func PrintableLines(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r == '\r' && strings.HasPrefix(text, "\r\n"):
		default:
			quoted := fmt.Sprintf("%+q", string(r))
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return out.String()
}
