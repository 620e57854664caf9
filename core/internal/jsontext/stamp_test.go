package jsontext

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var stampForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`)

func formatStamp(wall int64) string { return string(AppendStamp(nil, wall)) }

func TestStampIsWrittenAsPythonDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall := rapid.Int64Range(-2*MaxInstant+1000, 2*MaxInstant-1).Draw(t, "wall")
		got := formatStamp(wall)
		// Go's Format cuts the fraction off, which rounds down only after 1970.
		micros := time.UnixMicro(floorDiv(wall, 1000)).UTC()
		if want := micros.Format("2006-01-02T15:04:05.000000-07:00"); got != want {
			t.Fatalf("%d: %s, want %s", wall, got, want)
		}
		if !stampForm.MatchString(got) {
			t.Fatalf("%d: %s has another form", wall, got)
		}
		want := micros.UnixNano()
		if read, ok := parseStamp([]byte(got)); ok != (want >= -MaxInstant && want <= MaxInstant) || ok && read != want {
			t.Fatalf("%s is read as %d %v, want %d", got, read, ok, want)
		}
	})
}

func floorDiv(a, b int64) int64 {
	if a < 0 && a%b != 0 {
		return a/b - 1
	}
	return a / b
}

func TestStampOfEveryDay(t *testing.T) {
	for day := int64(-106_000); day < 106_000; day++ {
		wall := day * 86_400 * int64(time.Second)
		want := time.Unix(day*86_400, 0).UTC().Format("2006-01-02")
		if got := formatStamp(wall)[:10]; got != want {
			t.Fatalf("day %d: %s, want %s", day, got, want)
		}
	}
}

func TestParseStampForms(t *testing.T) {
	const at = 1_756_000_000_000_000_000 // 2025-08-24T01:46:40Z
	good := map[string]int64{
		"2025-08-24T01:46:40Z":                at,
		"2025-08-24 01:46:40Z":                at,
		"2025-08-24T01:46:40+00:00":           at,
		"2025-08-24T01:46:40-00:00":           at,
		"2025-08-24T03:46:40+02:00":           at,
		"2025-08-24T03:46:40+0200":            at,
		"2025-08-24T03:46:40+02":              at,
		"2025-08-23T20:16:40-05:30":           at,
		"2025-08-24T01:46:50+00:00:10":        at,
		"2025-08-24T01:46:40.5+00:00":         at + 5e8,
		"2025-08-24T01:46:40.123456+00:00":    at + 123_456_000,
		"2025-08-24T01:46:40.123456789+00:00": at + 123_456_789,
		"2025-08-24T01:46:40.000000001Z":      at + 1,
		"1970-01-01T00:00:00Z":                0,
		"1969-12-31T23:59:59.999999+00:00":    -1000,
		"2024-02-29T00:00:00Z":                1_709_164_800e9,
		"2000-02-29T00:00:00Z":                951_782_400e9,
		"2116-02-20T23:53:38.427387904+00:00": MaxInstant,
		"1823-11-12T00:06:21.572612096+00:00": -MaxInstant,
		"2116-02-21T00:53:38.427387904+01:00": MaxInstant,
		"2025-08-24T01:46:40+23:59":           at - (23*60+59)*60e9,
	}
	for s, want := range good {
		if got, ok := parseStamp([]byte(s)); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "Z", "2025", "2025-08-24", "2025-08-24T01:46:40", "2025-08-24T01:46:40.5", // no offset
		"2025-08-24t01:46:40Z", "2025-08-24_01:46:40Z", "2025-08-24T01:46:40z",
		"2025-08-24T01:46:40.Z", "2025-08-24T01:46:40.1234567890Z", "2025-08-24T01:46:40,5Z",
		"2025-08-24T01:46Z", "20250824T014640Z", "2025-W34-7T01:46:40Z",
		"2025-8-24T01:46:40Z", "+2025-08-24T01:46:40Z", "-025-08-24T01:46:40Z",
		"2025-00-24T01:46:40Z", "2025-13-24T01:46:40Z", "2025-08-00T01:46:40Z", "2025-08-32T01:46:40Z",
		"2025-04-31T01:46:40Z", "2025-02-29T01:46:40Z", "1900-02-29T01:46:40Z",
		"2025-08-24T24:00:00Z", "2025-08-24T01:60:40Z", "2025-08-24T01:46:60Z",
		"2025-08-24T01:46:40+24:00", "2025-08-24T01:46:40+00:60", "2025-08-24T01:46:40+00:00:60",
		"2025-08-24T01:46:40+0", "2025-08-24T01:46:40+000", "2025-08-24T01:46:40+00:0",
		"2025-08-24T01:46:40+00-00", "2025-08-24T01:46:40+00:00-00", "2025-08-24T01:46:40 +00:00",
		"2025-08-24T01:46:40ZZ", "2025-08-24T01:46:40+00:00Z", " 2025-08-24T01:46:40Z", "2025-08-24T01:46:40Z ",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", // outside of MaxClockRange
		"2116-02-20T23:53:38.427387905+00:00", "1823-11-12T00:06:21.572612095+00:00",
		"２025-08-24T01:46:40Z", "2025-08-24T0a:46:40Z",
	} {
		if got, ok := parseStamp([]byte(s)); ok {
			t.Errorf("%q was read as %s", s, formatStamp(got))
		}
	}
}

// TestParseStampAgainstTime: dates that exist and dates that do not are read as time.Parse reads them.
func TestParseStampAgainstTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		s := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", draw("year", 1820, 2120), draw("month", 0, 13),
			draw("day", 0, 32), draw("hour", 0, 24), draw("minute", 0, 60), draw("second", 0, 60))
		if digits := draw("digits", 0, 9); digits > 0 {
			s += "." + fmt.Sprintf("%09d", draw("fraction", 0, 999_999_999))[:digits]
		}
		if s += "Z"; rapid.Bool().Draw(t, "offset") {
			sign := rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign")
			s = s[:len(s)-1] + fmt.Sprintf("%s%02d:%02d", sign, draw("off hour", 0, 23), draw("off minute", 0, 59))
		}
		want, err := time.Parse(time.RFC3339Nano, s)
		got, ok := parseStamp([]byte(s))
		inRange := err == nil && want.Year() > 1823 && want.Year() < 2116
		if inRange && (!ok || got != want.UnixNano()) {
			t.Fatalf("%s: %d %v, want %d", s, got, ok, want.UnixNano())
		}
		if err != nil && ok {
			t.Fatalf("%s: read as %d, but %v", s, got, err)
		}
	})
}

func TestStampAllocatesNothing(t *testing.T) {
	var buf [StampLen]byte
	if n := testing.AllocsPerRun(100, func() { parseStamp(AppendStamp(buf[:0], 1_756_000_000e9)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
