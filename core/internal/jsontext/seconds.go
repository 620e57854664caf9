package jsontext

import (
	"strconv"

	"github.com/mopslock/mopslock/core/internal/octets"
)

// ParseSeconds reads a JSON number of seconds exactly and rounds it to the nearest
// nanosecond, but a number above 0 to 1 at least. ok is false if the number is
// negative or more than most, which is in nanoseconds.
func ParseSeconds(b []byte, most int64) (nanos int64, ok bool) {
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	mantissa, integer, exponent := b, len(b), 0
	for i, c := range b {
		if c == 'e' || c == 'E' {
			mantissa, integer, exponent = b[:i], min(i, integer), parseExponent(b[i+1:])
			break
		}
		if c == '.' {
			integer = i
		}
	}
	// power is the decimal place, in nanoseconds, of the current digit.
	power := integer - 1 + exponent + 9
	ns, something := int64(0), false
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		digit := int64(c - '0')
		something = something || digit != 0
		switch {
		case power >= 0:
			ns = ns*10 + digit
		case power == -1 && digit >= 5:
			ns++
		}
		if ns > most {
			return 0, false
		}
		power--
	}
	for ; power >= 0 && ns > 0; power-- {
		ns *= 10
		if ns > most {
			return 0, false
		}
	}
	if something && ns == 0 {
		ns = 1
	}
	if negative && ns > 0 {
		return 0, false
	}
	return ns, true
}

// parseExponent reads what follows the e of a JSON number. It cuts an exponent that
// is beyond all use: even a mantissa of MaxRecord digits does not make up for the rest.
func parseExponent(b []byte) int {
	const beyond = 1 << 24
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	n := 0
	for _, c := range b {
		n = min(n*10+int(c-'0'), beyond)
	}
	if negative {
		return -n
	}
	return n
}

// AppendSeconds appends nanos, which is not negative, in seconds: the shortest decimal
// that is exact, without an exponent, and with .0 if it is whole, as Python shows a float.
func AppendSeconds(dst []byte, nanos int64) []byte {
	dst = strconv.AppendUint(dst, uint64(nanos/nanosPerSecond), 10)
	if nanos%nanosPerSecond == 0 {
		return append(dst, ".0"...)
	}
	return octets.AppendFraction(dst, uint64(nanos%nanosPerSecond), nanosPerSecond)
}
