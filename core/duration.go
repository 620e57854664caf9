package core

// Units of a Duration, as in package time.
const (
	nanosecond  Duration = 1
	microsecond          = 1000 * nanosecond
	millisecond          = 1000 * microsecond
	second               = 1000 * millisecond
	minute               = 60 * second
	hour                 = 60 * minute
)

// durationText is what time.Duration's String says, on every engine: below a
// second in the largest unit that it fills.
func durationText(d Duration) string {
	text, u := "", uint64(d)
	if d < 0 {
		text, u = "-", -u
	}
	unit, name := uint64(second), "s"
	switch {
	case u == 0 || u >= unit:
	case u >= uint64(millisecond):
		unit, name = uint64(millisecond), "ms"
	case u >= uint64(microsecond):
		unit, name = uint64(microsecond), "\u00b5s"
	default:
		unit, name = uint64(nanosecond), "ns"
	}
	whole, last := u/unit, u/unit
	if name == "s" && whole >= 60 {
		if whole >= 3600 {
			text += uintText(whole/3600) + "h"
		}
		text += uintText(whole/60%60) + "m"
		last %= 60
	}
	return text + string(appendFraction(appendDecimal(nil, last), u%unit, unit)) + name
}

// appendFraction appends fraction/unit behind a point, without zeros at its end.
func appendFraction(b []byte, fraction, unit uint64) []byte {
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
