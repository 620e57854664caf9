package jsontext

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestSeconds: TTLs are read and written right at their edges, and what is written is read back.
func TestSeconds(t *testing.T) {
	const most = 30 * 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"88": 88 * time.Second, "88.0": 88 * time.Second, "0.6": 600 * time.Millisecond, "8.8e1": 88 * time.Second,
		"880E-1": 88 * time.Second, "0.000000001": 1, "0.0000000004": 1, "1.0000000004": time.Second,
		"1.0000000005": time.Second + 1, "2592000": most, "2592000.0000000004": most, "2.592e6": most,
		"1e-400": 1, "0." + strings.Repeat("0", 400) + "1e401": time.Second,
		"1" + strings.Repeat("0", 400) + "e-400": time.Second, "0e999999999": 0, "-0.0": 0, "0": 0,
		"0.1234567891": 123_456_789, "0.9999999999": time.Second, "5e-10": 1, "123.456e-3": 123_456 * time.Microsecond,
	} {
		if got, ok := ParseSeconds([]byte(s), int64(most)); !ok || got != int64(want) {
			t.Errorf("%.60s: %d %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"-1", "-1e-400", "2592000.000000001", "2592001", "1e7", "1e400",
		"9223372036854775807", "99999999999999999999999", "1e99999999999999999999",
	} {
		if got, ok := ParseSeconds([]byte(s), int64(most)); ok {
			t.Errorf("%s was read as %d", s, got)
		}
	}
	for want, ttl := range map[string]time.Duration{
		"88.0": 88 * time.Second, "0.6": 600 * time.Millisecond, "0.05": 50 * time.Millisecond,
		"0.000000001": 1, "2592000.0": most, "2591999.999999999": most - 1, "1.000001": time.Second + 1000,
	} {
		if got := string(AppendSeconds(nil, int64(ttl))); got != want {
			t.Errorf("%d: %s, want %s", ttl, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ttl := rapid.Int64Range(1, int64(most)).Draw(t, "ttl")
		got, ok := ParseSeconds(AppendSeconds(nil, ttl), int64(most))
		if !ok || got != ttl {
			t.Fatalf("%d: read back as %d %v", ttl, got, ok)
		}
	})
}

// TestTextEqual: U+FFFD stands for what cannot be decoded, and must never make two holders one.
func TestTextEqual(t *testing.T) {
	for _, test := range []struct {
		raw, s string
		want   bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "", false},
		{"", "a", false},
		{`\u0061`, "a", true},
		{`\u0061`, `\u0061`, false},
		{`\ud83d\ude00`, "\U0001f600", true},
		{`\ud83d`, "\ufffd", false},
		{`\ude00\ud83d`, "\ufffd\ufffd", false},
		{`\ud83d\u0061`, "\ufffda", false},
		{`\ufffd`, "\ufffd", true},
		{"\ufffd", "\ufffd", true},
		{`\ufffd`, "\xff", false},
		{`\n\/\\\"`, "\n/\\\"", true},
		{`a\u0062`, "a", false},
		{`\u0061`, "ab", false},
	} {
		if got := Text(test.raw).Equal(test.s); got != test.want {
			t.Errorf("%q equal %q: %v", test.raw, test.s, got)
		}
	}
}

func TestAppendTextMendsWhatIsNotUTF8(t *testing.T) {
	if got := string(AppendText(nil, "a\xffb\xed\xa0\x80")); got != `a\ufffdb\ufffd\ufffd\ufffd` {
		t.Errorf("%s", got)
	}
	for size := range 20 { // each place in and after a word of eight
		for at := range size {
			for _, c := range "\x00\x1f\"\\\x7f\u0080é" {
				s := strings.Repeat("a", at) + string(c) + strings.Repeat("~", size-at-1)
				if got := Text(AppendText(nil, s)); got.Plain() || string(got.AppendTo(nil)) != s {
					t.Fatalf("%q: %s", s, got)
				}
			}
		}
		s := strings.Repeat("\x7e", size)
		if got := string(AppendText(nil, s)); got != s || !utf8.ValidString(got) {
			t.Fatalf("%q: %q", s, got)
		}
	}
}
