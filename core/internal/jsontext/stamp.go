package jsontext

import (
	"github.com/mopslock/mopslock/core/internal/octets"
)

// A stamp is an instant as lock.json has it: Python's isoformat in UTC.
//
// We write YYYY-MM-DDTHH:MM:SS.ffffff+00:00, always six digits and never Z,
// because datetime.fromisoformat raises on anything else under Python 3.10,
// and that would stop a mops acquirer.
//
// We read T or a space, no fraction or one to nine digits, then Z, ±HH, ±HHMM,
// ±HH:MM or ±HH:MM:SS. A stamp without an offset is refused: mops always
// writes one, and a guessed zone would move a lease by hours.

const (
	StampLen = len("2006-01-02T15:04:05.000000+00:00")

	nanosPerMicro  = 1_000
	nanosPerSecond = 1_000_000_000
	secondsPerDay  = 86_400
	// MaxInstant bounds a stamp, in nanoseconds before and after 1970.
	MaxInstant = 1 << 62
	// MaxInstant in seconds, and one more, so that rounding does not matter.
	maxClockSeconds = MaxInstant/nanosPerSecond + 1
)

// AppendStamp appends wall in the form that core.FormatStamp returns.
func AppendStamp(dst []byte, wall int64) []byte {
	seconds, nanos := wall/nanosPerSecond, wall%nanosPerSecond
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+nanosPerSecond
	}
	fromMarch := uint64(seconds + daysFromMarch*secondsPerDay)
	year, month, day := civilFromDays(uint32(fromMarch / secondsPerDay))
	clock := uint32(fromMarch % secondsPerDay)
	micros := uint32(nanos) / nanosPerMicro

	at := len(dst)
	dst = append(dst, "0000-00-00T00:00:00.000000+00:00"...)
	b := (*[StampLen]byte)(dst[at:])
	put2(b, 0, year/100)
	put2(b, 2, year%100)
	put2(b, 5, month)
	put2(b, 8, day)
	put2(b, 11, clock/3600)
	put2(b, 14, clock/60%60)
	put2(b, 17, clock%60)
	put2(b, 20, micros/10_000)
	put2(b, 22, micros/100%100)
	put2(b, 24, micros%100)
	return dst
}

// put2 writes two digits of n, which is below 100.
func put2(b *[StampLen]byte, at int, n uint32) {
	b[at], b[at+1] = octets.TwoDigits[2*n], octets.TwoDigits[2*n+1]
}

// daysFromMarch is the days from 0000-03-01 to 1970-01-01: years that begin in
// March have their leap day last, and months of a linear rule.
const daysFromMarch = 719_468

// civilFromDays turns days since 0000-03-01 into a date of the proleptic
// Gregorian calendar, without a division by anything but a constant: Neri and
// Schneider, "Euclidean affine functions and their application to calendar
// algorithms" (2022), figure 12. Good to the year 32767, and so for all of an
// int64 of nanoseconds, 1677 to 2262.
func civilFromDays(days uint32) (year, month, day uint32) {
	n1 := 4*days + 3
	century := n1 / 146_097
	n2 := n1%146_097 | 3
	product := 2_939_745 * uint64(n2)
	yearOfCentury, dayOfYear := uint32(product>>32), uint32(product)/2_939_745/4
	n3 := 2_141*dayOfYear + 197_913
	year, month, day = 100*century+yearOfCentury, n3>>16, n3&0xffff/2_141+1
	if dayOfYear >= 306 { // January and February
		return year + 1, month - 12, day
	}
	return year, month, day
}

// daysFromCivil returns the days since 1970-01-01 of a date in year 1 or later:
// Howard Hinnant's days_from_civil ("chrono-Compatible Low-Level Date
// Algorithms").
func daysFromCivil(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	yoe := year - era*400
	doy := (153*(month-3)+2)/5 + day - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146_097 + doe - daysFromMarch
}

// parseStamp reads a stamp. ok is false if the stamp is malformed, or beyond
// MaxInstant.
func parseStamp(b []byte) (wall int64, ok bool) {
	const dateTime = len("2006-01-02T15:04:05")
	if len(b) < dateTime+1 || b[4] != '-' || b[7] != '-' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	if b[10] != 'T' && b[10] != ' ' {
		return 0, false
	}
	century, yy := get2(b, 0), get2(b, 2)
	month, day := get2(b, 5), get2(b, 8)
	hour, minute, second := get2(b, 11), get2(b, 14), get2(b, 17)
	if century|yy|month|day|hour|minute|second < 0 {
		return 0, false
	}
	year := 100*century + yy
	if year < 1 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	nanos, rest, ok := parseFraction(b[dateTime:])
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return 0, false
	}
	seconds := daysFromCivil(year, month, day)*secondsPerDay + hour*3600 + minute*60 + second - offset
	if seconds > maxClockSeconds || seconds < -maxClockSeconds {
		return 0, false
	}
	wall = seconds*nanosPerSecond + nanos
	return wall, wall <= MaxInstant && wall >= -MaxInstant
}

// get2 returns the number of two digits at b[at:], or -1 for anything else.
func get2(b []byte, at int) int64 {
	hi, lo := b[at]-'0', b[at+1]-'0'
	if hi > 9 || lo > 9 {
		return -1
	}
	return int64(hi)*10 + int64(lo)
}

func daysInMonth(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// parseFraction reads nothing, or a dot and one to nine digits, and returns
// what follows.
func parseFraction(b []byte) (nanos int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	i, unit := 1, int64(nanosPerSecond)
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if i > 9 {
			return 0, nil, false
		}
		unit /= 10
		nanos += int64(b[i]-'0') * unit
	}
	return nanos, b[i:], i > 1
}

// parseOffset reads the rest of a stamp and returns the seconds east of UTC.
func parseOffset(b []byte) (seconds int64, ok bool) {
	if len(b) == 1 && b[0] == 'Z' {
		return 0, true
	}
	if len(b) < len("+00") || (b[0] != '+' && b[0] != '-') {
		return 0, false
	}
	hour, minute, second := get2(b, 1), int64(0), int64(0)
	switch {
	case len(b) == len("+00"):
	case len(b) == len("+0000"):
		minute = get2(b, 3)
	case len(b) == len("+00:00") && b[3] == ':':
		minute = get2(b, 4)
	case len(b) == len("+00:00:00") && b[3] == ':' && b[6] == ':':
		minute, second = get2(b, 4), get2(b, 7)
	default:
		return 0, false
	}
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	seconds = hour*3600 + minute*60 + second
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// Stamp reads one of the stamps. If that is empty, null or absent, to stays as it is.
func (t *Token) Stamp(to *int64) bool {
	if t.Kind != TokenString || len(t.Raw) == 0 {
		return t.Kind <= TokenString || t.Kind == TokenNull
	}
	wall, ok := parseStamp(t.Raw)
	if !ok {
		const longest = 6 * len("2006-01-02T15:04:05.000000000+00:00:00")
		if len(t.Raw) > longest || Text(t.Raw).Plain() {
			return false
		}
		var buf [longest]byte
		wall, ok = parseStamp(Text(t.Raw).AppendTo(buf[:0]))
	}
	if ok && wall == 0 {
		wall = 1
	}
	*to = wall
	return ok
}
