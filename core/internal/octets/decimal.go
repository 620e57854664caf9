package octets

import "strconv"

// TwoDigits are the numbers below 100.
const TwoDigits = "" +
	"00010203040506070809" + "10111213141516171819" +
	"20212223242526272829" + "30313233343536373839" +
	"40414243444546474849" + "50515253545556575859" +
	"60616263646566676869" + "70717273747576777879" +
	"80818283848586878889" + "90919293949596979899"

// DurationText returns the text of time.Duration's String, on every engine. Below a
// second it uses the largest unit of which the duration has at least one.
func DurationText(nanos int64) string {
	const second, millisecond, microsecond = 1e9, 1e6, 1e3
	text, u := "", uint64(nanos)
	if nanos < 0 {
		text, u = "-", -u
	}
	unit, name := uint64(second), "s"
	switch {
	case u == 0 || u >= unit:
	case u >= millisecond:
		unit, name = millisecond, "ms"
	case u >= microsecond:
		unit, name = microsecond, "\u00b5s"
	default:
		unit, name = 1, "ns"
	}
	whole, last := u/unit, u/unit
	if name == "s" && whole >= 60 {
		if whole >= 3600 {
			text += strconv.FormatUint(whole/3600, 10) + "h"
		}
		text += strconv.FormatUint(whole/60%60, 10) + "m"
		last %= 60
	}
	return text + string(AppendFraction(strconv.AppendUint(nil, last, 10), u%unit, unit)) + name
}

// AppendFraction appends fraction/unit behind a point, without zeros at its end.
func AppendFraction(b []byte, fraction, unit uint64) []byte {
	if fraction == 0 {
		return b
	}
	b = append(b, '.')
	for ; fraction > 0; fraction %= unit {
		unit /= 10
		b = append(b, '0'+byte(fraction/unit))
	}
	return b
}
