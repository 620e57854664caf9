package octets

// Numbers in decimal. strconv does the same, but brings errors and a part of
// reflection into the guest.

// TwoDigits are the numbers below 100.
const TwoDigits = "" +
	"00010203040506070809" + "10111213141516171819" +
	"20212223242526272829" + "30313233343536373839" +
	"40414243444546474849" + "50515253545556575859" +
	"60616263646566676869" + "70717273747576777879" +
	"80818283848586878889" + "90919293949596979899"

// AppendDecimal appends n.
// It is not inlined: at its many calls that would cost the WASM guest kilobytes.
func AppendDecimal(dst []byte, n uint64) []byte {
	var b [20]byte
	at := len(b)
	for n >= 10 {
		at -= 2
		b[at], b[at+1] = TwoDigits[n%100*2], TwoDigits[n%100*2+1]
		n /= 100
	}
	if n > 0 || at == len(b) {
		at--
		b[at] = '0' + byte(n)
	}
	return append(dst, b[at:]...)
}

func UintText(n uint64) string { return string(AppendDecimal(nil, n)) }

func IntText(n int64) string {
	if n < 0 {
		return "-" + UintText(-uint64(n))
	}
	return UintText(uint64(n))
}

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
			text += UintText(whole/3600) + "h"
		}
		text += UintText(whole/60%60) + "m"
		last %= 60
	}
	return text + string(AppendFraction(AppendDecimal(nil, last), u%unit, unit)) + name
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
