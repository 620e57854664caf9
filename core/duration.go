package core

import "strconv"

// Units of a Duration, as in package time.
const (
	nanosecond  Duration = 1
	microsecond          = 1000 * nanosecond
	millisecond          = 1000 * microsecond
	second               = 1000 * millisecond
	minute               = 60 * second
	hour                 = 60 * minute
)

// durationText is what time.Duration's String says, on every engine.
func durationText(d Duration) string {
	if d == 0 {
		return "0s"
	}
	if d > -second && d < second {
		return shortText(d)
	}
	u := uint64(d)
	var b []byte
	if d < 0 {
		b, u = append(b, '-'), -u
	}
	seconds, fraction := u/uint64(second), u%uint64(second)
	if seconds >= 3600 {
		b = append(strconv.AppendUint(b, seconds/3600, 10), 'h')
	}
	if seconds >= 60 {
		b = append(strconv.AppendUint(b, seconds/60%60, 10), 'm')
	}
	b = strconv.AppendUint(b, seconds%60, 10)
	return string(append(appendFraction(b, fraction, uint64(second)), 's'))
}

// shortText is of less than a second, in the largest unit that it fills.
func shortText(d Duration) string {
	var b []byte
	u := uint64(d)
	if d < 0 {
		b, u = append(b, '-'), -u
	}
	unit, name := uint64(nanosecond), "ns"
	switch {
	case u >= uint64(millisecond):
		unit, name = uint64(millisecond), "ms"
	case u >= uint64(microsecond):
		unit, name = uint64(microsecond), "\u00b5s"
	}
	b = strconv.AppendUint(b, u/unit, 10)
	return string(append(appendFraction(b, u%unit, unit), name...))
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
