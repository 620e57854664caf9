package core

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func readRecord(body []byte) (r record) {
	parseRecord(body, &r)
	return r
}

// TestMopsRecords reads what mops 3.29 itself wrote (acquire, maintain, a remote
// writer, release and an unverified claim), and writes the same bytes again.
func TestMopsRecords(t *testing.T) {
	for name, want := range map[string]struct {
		state    recordState
		acquired bool
		remote   bool
		count    int64
		expire   time.Duration
	}{
		"mops_acquired": {recordLive, true, false, 2, 88 * time.Second},
		"mops_renewed":  {recordLive, true, false, 3, 88 * time.Second},
		"mops_remote":   {recordLive, true, true, 1, 88 * time.Second},
		"mops_released": {recordReleased, true, false, 4, 88 * time.Second},
		"mops_claimed":  {recordLive, false, false, 1, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", "records", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			r := readRecord(body)
			if r.state != want.state || (r.acquiredAt != 0) != want.acquired || r.remote != want.remote ||
				r.count != want.count || r.expire != want.expire || r.noExpiry {
				t.Errorf("read as %+v", r)
			}
			if again := rewritten(t, body, &r); !bytes.Equal(again, body) {
				t.Errorf("written again:\n%s\nwas\n%s", again, body)
			}
		})
	}
}

// rewritten writes what was read; tid, which we do not keep, comes from body.
func rewritten(t *testing.T, body []byte, r *record) []byte {
	t.Helper()
	var all struct{ TID uint64 }
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	return appendRecord(nil, &ownRecord{
		holder: HolderID(r.writer.appendTo(nil)), writtenAt: r.writtenAt, firstWrittenAt: r.firstWrittenAt,
		acquiredAt: r.acquiredAt, releasedAt: r.releasedAt, ttl: r.expire, count: r.count,
		host: string(r.host.appendTo(nil)), pid: string(r.pid.appendTo(nil)), tid: all.TID, remote: r.remote,
	})
}

// gone, as a value for edited, takes the field out.
const gone = "gone"

// edited is a good live record with some fields replaced by JSON values.
func edited(edits ...string) string {
	const stamp = `"2025-08-24T01:46:40.000001+00:00"`
	fields := [][2]string{
		{"writer_id", `"w.1"`},
		{"written_at", stamp},
		{"expire_s", "88.0"},
		{"write_count", "3"},
		{"hostname", `"h"`},
		{"pid", `"1"`},
		{"tid", "2"},
		{"first_written_at", stamp},
		{"first_acquired_at", stamp},
		{"released_at", `""`},
	}
	for i := 0; i < len(edits); i += 2 {
		known := false
		for j := range fields {
			if fields[j][0] == edits[i] {
				fields[j][1], known = edits[i+1], true
			}
		}
		if !known {
			fields = append(fields, [2]string{edits[i], edits[i+1]})
		}
	}
	var parts []string
	for _, f := range fields {
		if f[1] != gone {
			parts = append(parts, strconv.Quote(f[0])+": "+f[1])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

const stampJSON = `"2025-08-24T01:46:40Z"`

type stateTest struct{ why, body string }

// stateTests has a case for each way to be live, released, empty or corrupt:
// COMPAT rows 2 to 13, and DESIGN section 11.
var stateTests = map[recordState][]stateTest{
	recordEmpty: {{"no bytes", ""}},
	recordLive: {
		{"as mops writes it", edited()},
		{"row 2: compact", strings.ReplaceAll(edited(), " ", "")},
		{"row 2: much space", "\t\r\n " + strings.ReplaceAll(edited(), ",", "\n,\t") + " \r\n"},
		{"row 3: another order", `{"expire_s":1,"written_at":` + stampJSON + `,"writer_id":"w"}`},
		{"row 3: unknown fields", edited("x", `{"writer_id": [1, {}, [], null]}`, "y", "-1.5e+7", "", "0")},
		{"row 3: writer_name", edited("writer_name", `"remote"`)},
		{"a field twice: the last counts", `{"expire_s":"no","released_at":` + stampJSON + "," + edited()[1:]},
		{"row 4: any text", edited("writer_id", `"a b/\u00e9\ud83d\ude00"`)},
		{"row 5: no fraction", edited("written_at", `"2025-08-24T01:46:40+00:00"`)},
		{"row 5: Z, nanoseconds", edited("written_at", `"2025-08-24T01:46:40.123456789Z"`)},
		{"row 5: an offset", edited("written_at", `"2025-08-24T03:46:40+02:00"`)},
		{"row 5: escaped", edited("written_at", `"\u0032025-08-24T01:46:40Z"`)},
		{"row 6: integer", edited("expire_s", "88")},
		{"row 6: exponent", edited("expire_s", "8.8E+1")},
		{"row 6: 30 days", edited("expire_s", "2592000.0")},
		{"row 6: very short", edited("expire_s", "1e-300")},
		{"row 7: types", edited("pid", "7", "tid", `"x"`, "hostname", "null")},
		{"row 7: nonsense", edited("pid", "[{}]", "tid", "NaN", "hostname", "true", "write_count", `"x"`)},
		{"row 7: tid of 2^63", edited("tid", "9223372036854775808")},
		{"row 8: no counts", edited("write_count", gone, "first_written_at", gone)},
		{"row 9: not acquired", edited("first_acquired_at", `""`)},
		{"row 9: null and absent", edited("first_acquired_at", "null", "released_at", gone)},
		{"row 10: null is not released", edited("released_at", "null")},
		{"an escaped key", strings.Replace(edited(), "writer_id", `\u0077riter\u005fid`, 1)},
		{"dated in the future", edited("written_at", `"2100-01-01T00:00:00Z"`)},
	},
	recordReleased: {
		{"row 10: as mops writes it", edited("written_at", `""`, "released_at", stampJSON)},
		{"written_at kept", edited("released_at", stampJSON)},
		{"row 11: nothing else", `{"released_at": ` + stampJSON + `}`},
		{"row 11: all else wrong", edited("released_at", stampJSON, "writer_id", "7", "expire_s", "NaN",
			"written_at", "false", "first_acquired_at", `"x"`)},
		{"no expiry", edited("released_at", stampJSON, "expire_s", "0")},
		{"released in 1970", edited("released_at", `"1970-01-01T00:00:00Z"`)},
	},
	recordCorrupt: {
		{"not JSON", "lock"},
		{"truncated", edited()[:40]},
		{"one brace", "{"},
		{"nothing but space", " \n"},
		{"zero bytes", "\x00\x00\x00"},
		{"row 11: array", `[` + edited() + `]`},
		{"row 11: null", "null"},
		{"row 11: string", `"x"`},
		{"empty object", "{}"},
		{"goes on", edited() + "{}"},
		{"goes on after release", edited("released_at", stampJSON) + "x"},
		{"zero at the end", edited() + "\x00"},
		{"byte order mark", "\ufeff" + edited()},
		{"not UTF-8", edited("hostname", "\"\xff\"")},
		{"a surrogate in UTF-8", edited("hostname", "\"\xed\xa0\x80\"")},
		{"control character", edited("hostname", "\"\n\"")},
		{"unknown escape", edited("hostname", `"\x"`)},
		{"half an escape", edited("hostname", `"\u00g0"`)},
		{"single quotes", strings.ReplaceAll(edited(), `"`, `'`)},
		{"comma at the end", edited()[:len(edited())-1] + ",}"},
		{"comma in front", "{," + edited()[1:]},
		{"leading zero", edited("tid", "01")},
		{"no digit after the dot", edited("tid", "1.")},
		{"no digit before it", edited("tid", ".1")},
		{"bare minus", edited("tid", "-")},
		{"plus", edited("tid", "+1")},
		{"no exponent", edited("tid", "1e")},
		{"hexadecimal", edited("tid", "0x10")},
		{"nan", edited("tid", "nan")},
		{"key without quotes", "{a: 1," + edited()[1:]},
		{"too deep", edited("x", strings.Repeat("[", MaxJSONDepth)+strings.Repeat("]", MaxJSONDepth))},
		{"too long", edited("x", `"`+strings.Repeat("x", MaxRecord)+`"`)},
		{"row 11: no writer_id", edited("writer_id", gone)},
		{"row 11: writer_id empty", edited("writer_id", `""`)},
		{"row 11: writer_id a number", edited("writer_id", "1")},
		{"row 11: writer_id null", edited("writer_id", "null")},
		{"row 13: no expire_s", edited("expire_s", gone)},
		{"row 11: expire_s null", edited("expire_s", "null")},
		{"row 11: expire_s 0", edited("expire_s", "-0.0e5")},
		{"row 11: expire_s negative", edited("expire_s", "-1")},
		{"row 11: expire_s huge", edited("expire_s", "2592000.00001")},
		{"row 11: expire_s beyond numbers", edited("expire_s", "1e999999999999999999999")},
		{"row 11: expire_s NaN", edited("expire_s", "NaN")},
		{"row 11: expire_s Infinity", edited("expire_s", "Infinity")},
		{"row 11: expire_s -Infinity", edited("expire_s", "-Infinity")},
		{"row 11: expire_s true", edited("expire_s", "true")},
		{"row 11: expire_s text", edited("expire_s", `"88.0"`)},
		{"row 11: expire_s nested", edited("expire_s", "[88.0]")},
		{"row 11: written_at odd", edited("written_at", `"yesterday"`)},
		{"row 11: written_at a number", edited("written_at", "1756000000")},
		{"row 11: written_at empty", edited("written_at", `""`)},
		{"row 11: written_at null", edited("written_at", "null")},
		{"row 11: written_at absent", edited("written_at", gone)},
		{"row 5: no offset", edited("written_at", `"2025-08-24T01:46:40"`)},
		{"far away", edited("written_at", `"9999-12-31T23:59:59Z"`)},
		{"row 11: released_at odd", edited("released_at", `"x"`)},
		{"row 11: released_at false", edited("released_at", "false")},
		{"row 11: released_at 0", edited("released_at", "0")},
		{"row 11: first_acquired_at odd", edited("first_acquired_at", `"x"`)},
		{"row 11: first_acquired_at nested", edited("first_acquired_at", "{}")},
		{"row 11: first_written_at odd", edited("first_written_at", `" "`)},
		{"released, but the last one counts", edited("released_at", stampJSON, "released_at", `""`, "writer_id", gone)},
	},
}

func TestRecordStates(t *testing.T) {
	for state, tests := range stateTests {
		for _, test := range tests {
			if r := readRecord([]byte(test.body)); r.state != state {
				t.Errorf("%s: state %d, want %d: %.300s", test.why, r.state, state, test.body)
			}
		}
	}
}

func TestRecordNestingLimit(t *testing.T) {
	deepest := MaxJSONDepth - 1 // the record itself is one
	body := edited("x", strings.Repeat(`{"a":`, deepest)+"1"+strings.Repeat("}", deepest))
	if r := readRecord([]byte(body)); r.state != recordLive {
		t.Errorf("%d deep: state %d", MaxJSONDepth, r.state)
	}
}

func TestRecordNoExpiry(t *testing.T) {
	for body, want := range map[string]bool{
		edited():                                             false,
		edited("expire_s", gone):                             true,
		edited("expire_s", "0"):                              true,
		edited("expire_s", "-0"):                             true,
		edited("expire_s", "0.000e+10"):                      true,
		edited("expire_s", "null"):                           true,
		edited("expire_s", "false"):                          false,
		edited("expire_s", "NaN"):                            false,
		edited("expire_s", "-1"):                             false,
		edited("expire_s", "1e-300"):                         false,
		edited("expire_s", "0", "writer_id", "0"):            false,
		edited("expire_s", "0", "written_at", `""`):          false,
		edited("expire_s", "0", "first_acquired_at", `"x"`):  false,
		edited("expire_s", "0", "released_at", stampJSON):    true,
		edited("expire_s", "[]", "released_at", stampJSON):   false,
		edited("expire_s", "88.0", "released_at", stampJSON): false,
		"{}": false,
		edited("expire_s", "0", "released_at", stampJSON) + "rest": false,
	} {
		if r := readRecord([]byte(body)); r.noExpiry != want {
			t.Errorf("noExpiry %v, want %v: %s", r.noExpiry, want, body)
		}
	}
}

func TestRecordFields(t *testing.T) {
	r := readRecord([]byte(edited("writer_id", `"\u0061\/\n\ud83d\ude00\ud800z"`, "hostname", `"h\"1"`, "pid", "12",
		"write_count", "41", "writer_name", `"r\u0065mote"`, "expire_s", "0.6000000004",
		"first_acquired_at", `"1970-01-01T00:00:00Z"`)))
	if got := string(r.writer.appendTo(nil)); got != "a/\n\U0001f600\ufffdz" {
		t.Errorf("writer %q", got)
	}
	if got := string(r.host.appendTo(nil)); got != `h"1` {
		t.Errorf("host %q", got)
	}
	if string(r.pid) != "12" || r.count != 41 || !r.remote || r.expire != 600*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.acquiredAt != 1 {
		t.Errorf("an instant of 0 must not look empty: %d", r.acquiredAt)
	}
	for count, want := range map[string]int64{
		"0": 0, "7": 7, "-7": 0, "7.0": 0, "7e1": 0, `"7"`: 0, "null": 0,
		"999999999999999999": 999_999_999_999_999_999, "1000000000000000000": 0,
	} {
		if r := readRecord([]byte(edited("write_count", count))); r.count != want || r.state != recordLive {
			t.Errorf("write_count %s: %d", count, r.count)
		}
	}
	for name, want := range map[string]bool{`"remote"`: true, `"Remote"`: false, `""`: false, "1": false, "null": false} {
		if r := readRecord([]byte(edited("writer_name", name))); r.remote != want {
			t.Errorf("writer_name %s: %v", name, r.remote)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"88": 88 * time.Second, "88.0": 88 * time.Second, "0.6": 600 * time.Millisecond, "8.8e1": 88 * time.Second,
		"880E-1": 88 * time.Second, "0.000000001": 1, "0.0000000004": 1, "1.0000000004": time.Second,
		"1.0000000005": time.Second + 1, "2592000": MaxTTL, "2592000.0000000004": MaxTTL, "2.592e6": MaxTTL,
		"1e-400": 1, "0." + strings.Repeat("0", 400) + "1e401": time.Second,
		"1" + strings.Repeat("0", 400) + "e-400": time.Second, "0e999999999": 0, "-0.0": 0, "0": 0,
		"0.1234567891": 123_456_789, "0.9999999999": time.Second, "5e-10": 1, "123.456e-3": 123_456 * time.Microsecond,
	} {
		if got, ok := parseSeconds([]byte(s)); !ok || got != want {
			t.Errorf("%.60s: %d %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"-1", "-1e-400", "2592000.000000001", "2592001", "1e7", "1e400",
		"9223372036854775807", "99999999999999999999999", "1e99999999999999999999",
	} {
		if got, ok := parseSeconds([]byte(s)); ok {
			t.Errorf("%s was read as %d", s, got)
		}
	}
}

// TestTextEqual: U+FFFD for what cannot be decoded must never make two holders one.
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
		if got := text(test.raw).equal(test.s); got != test.want {
			t.Errorf("%q equal %q: %v", test.raw, test.s, got)
		}
	}
}

func TestRecordPrint(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		edited(), edited("writer_id", `"w.2"`), edited("write_count", "4"), edited("write_count", `"3"`),
		edited("written_at", `"2025-08-24T01:46:40.000002+00:00"`), edited("written_at", `""`, "write_count", gone),
		edited("writer_id", `"w.12025"`, "written_at", `""`), edited("written_at", "null", "write_count", "null"),
	} {
		r := readRecord([]byte(body))
		if other, ok := seen[r.print()]; ok {
			t.Errorf("one print: %s and %s", body, other)
		}
		seen[r.print()] = body
	}
	a, b := readRecord([]byte(edited())), readRecord([]byte(edited("hostname", "7", "released_at", "null", "z", "1")))
	if a.print() != b.print() {
		t.Error("the print is of more than writer_id, written_at and write_count")
	}
	if got := fingerprint([]byte("foobar")); got != 0x85944171f73967e8 { // FNV's own test vector
		t.Errorf("fingerprint %x", got)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	own := testOwn()
	body := appendRecord(nil, &own)
	odd := []byte(edited("writer_id", `"\u0061é"`, "written_at", `"\u0032025-08-24T01:46:40Z"`, `\u0070id`, "1", "x", "[[]]"))
	dst := make([]byte, 0, 1024)
	var r record
	for name, do := range map[string]func(){
		"appendRecord": func() { dst = appendRecord(dst[:0], &own) },
		"parseRecord":  func() { parseRecord(body, &r) },
		"odd record": func() {
			parseRecord(odd, &r)
			r.writer.equal("aé")
			dst = r.writer.appendTo(dst[:0])
			r.print()
		},
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if r.state == recordCorrupt {
		t.Error("corrupt")
	}
}

func BenchmarkParseRecord(b *testing.B) {
	own := testOwn()
	body := appendRecord(nil, &own)
	var r record
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		parseRecord(body, &r)
	}
}
