package lockfile

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
	"pgregory.net/rapid"
)

func readRecord(body []byte) (r Record) {
	Parse(body, &r)
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
		"mops_acquired": {Live, true, false, 2, 88 * time.Second},
		"mops_renewed":  {Live, true, false, 3, 88 * time.Second},
		"mops_remote":   {Live, true, true, 1, 88 * time.Second},
		"mops_released": {Released, true, false, 4, 88 * time.Second},
		"mops_claimed":  {Live, false, false, 1, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("../../testdata", "records", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			r := readRecord(body)
			if r.State != want.state || (r.AcquiredAt != 0) != want.acquired || r.Remote != want.remote ||
				r.Count != want.count || r.Expire != want.expire || r.NoExpiry {
				t.Errorf("read as %+v", r)
			}
			var all struct{ TID uint64 } // a Record does not keep it
			if err := json.Unmarshal(body, &all); err != nil {
				t.Fatal(err)
			}
			if again := Append(nil, &Own{
				Holder: core.HolderID(r.Writer.AppendTo(nil)), WrittenAt: r.WrittenAt, FirstWrittenAt: r.FirstWrittenAt,
				AcquiredAt: r.AcquiredAt, ReleasedAt: r.ReleasedAt, TTL: r.Expire, Count: r.Count,
				Host: string(r.host.AppendTo(nil)), PID: string(r.pid.AppendTo(nil)), TID: all.TID, Remote: r.Remote,
			}); !bytes.Equal(again, body) {
				t.Errorf("written again:\n%s\nwas\n%s", again, body)
			}
		})
	}
}

// gone, as a value for edited, removes the field.
const gone = "gone"

// edited returns a good live record with some fields replaced by JSON values.
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
		at := slices.IndexFunc(fields, func(f [2]string) bool { return f[0] == edits[i] })
		if at < 0 {
			at, fields = len(fields), append(fields, [2]string{edits[i], ""})
		}
		fields[at][1] = edits[i+1]
	}
	var parts []string
	for _, f := range fields {
		if f[1] != gone {
			parts = append(parts, strconv.Quote(f[0])+": "+f[1])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// TestRecordStates: each way in which a record is live, released, empty or corrupt, and
// whether it has no expiry: testdata/record_states.txt.
func TestRecordStates(t *testing.T) {
	names := map[recordState]string{Empty: "empty", Live: "live", Released: "released", Corrupt: "corrupt"}
	inner := strings.Trim(edited(), "{}")
	file, err := os.ReadFile("../../testdata/record_states.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSuffix(line, "\n")
		columns := strings.Split(line, "\t")
		var edits []string
		for _, edit := range columns[2:] {
			field, value, _ := strings.Cut(edit, " ")
			edits = append(edits, field, value)
		}
		body := edited(edits...)
		if len(edits) == 2 && edits[0] == "=" {
			quoted, err := strconv.Unquote(edits[1])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			body = strings.ReplaceAll(quoted, "@", inner)
		}
		r := readRecord([]byte(body))
		got := names[r.State] + map[bool]string{true: "!"}[r.NoExpiry]
		if got != columns[0] {
			t.Errorf("%s: %s, want %s: %s", columns[1], got, columns[0], body)
		}
	}
}

// TestRecordLimits: how deep and how long a record may be.
func TestRecordLimits(t *testing.T) {
	nested := func(depth int) string { // the record itself is the first level
		return edited("x", strings.Repeat(`{"a":`, depth-1)+"1"+strings.Repeat("}", depth-1))
	}
	long := func(size int) string { return edited("x", `"`+strings.Repeat("x", size-len(edited("x", `""`)))+`"`) }
	for _, pair := range [][2]string{{nested(core.MaxJSONDepth), nested(core.MaxJSONDepth + 1)}, {long(core.MaxRecord), long(core.MaxRecord + 1)}} {
		most, more := readRecord([]byte(pair[0])), readRecord([]byte(pair[1]))
		if most.State != Live || more.State != Corrupt {
			t.Errorf("%d bytes: state %d; %d bytes: state %d", len(pair[0]), most.State, len(pair[1]), more.State)
		}
	}
}

func TestRecordFields(t *testing.T) {
	r := readRecord([]byte(edited("writer_id", `"\u0061\/\n\ud83d\ude00\ud800z"`, "hostname", `"h\"1"`, "pid", "12",
		"write_count", "41", "writer_name", `"r\u0065mote"`, "expire_s", "0.6000000004",
		"first_acquired_at", `"1970-01-01T00:00:00Z"`)))
	if got := string(r.Writer.AppendTo(nil)); got != "a/\n\U0001f600\ufffdz" {
		t.Errorf("writer %q", got)
	}
	if got := string(r.host.AppendTo(nil)); got != `h"1` {
		t.Errorf("host %q", got)
	}
	if string(r.pid) != "12" || r.Count != 41 || !r.Remote || r.Expire != 600*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.AcquiredAt != 1 {
		t.Errorf("an instant of 0 must not look empty: %d", r.AcquiredAt)
	}
	for count, want := range map[string]int64{
		"0": 0, "7": 7, "-7": 0, "7.0": 0, "7e1": 0, `"7"`: 0, "null": 0,
		"999999999999999999": 999_999_999_999_999_999, "1000000000000000000": 0,
	} {
		if r := readRecord([]byte(edited("write_count", count))); r.Count != want || r.State != Live {
			t.Errorf("write_count %s: %d", count, r.Count)
		}
	}
	for name, want := range map[string]bool{`"remote"`: true, `"Remote"`: false, `""`: false, "1": false, "null": false} {
		if r := readRecord([]byte(edited("writer_name", name))); r.Remote != want {
			t.Errorf("writer_name %s: %v", name, r.Remote)
		}
	}
}

func TestRecordFingerprint(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		edited(), edited("writer_id", `"w.2"`), edited("write_count", "4"), edited("write_count", `"3"`),
		edited("written_at", `"2025-08-24T01:46:40.000002+00:00"`), edited("written_at", `""`, "write_count", gone),
		edited("writer_id", `"w.12025"`, "written_at", `""`), edited("written_at", "null", "write_count", "null"),
	} {
		r := readRecord([]byte(body))
		if other, ok := seen[r.Fingerprint()]; ok {
			t.Errorf("one fingerprint: %s and %s", body, other)
		}
		seen[r.Fingerprint()] = body
	}
	a, b := readRecord([]byte(edited())), readRecord([]byte(edited("hostname", "7", "released_at", "null", "z", "1")))
	if a.Fingerprint() != b.Fingerprint() {
		t.Error("the fingerprint is of more than writer_id, written_at and write_count")
	}
	if got := base.Fingerprint([]byte("foobar")); got != 0x85944171f73967e8 { // FNV's own test vector
		t.Errorf("fingerprint %x", got)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	own := testOwn()
	body := Append(nil, &own)
	odd := []byte(edited("writer_id", `"\u0061é"`, "written_at", `"\u0032025-08-24T01:46:40Z"`, `\u0070id`, "1", "x", "[[]]"))
	dst := make([]byte, 0, 1024)
	var r Record
	for name, do := range map[string]func(){
		"appendRecord": func() { dst = Append(dst[:0], &own) },
		"parseRecord":  func() { Parse(body, &r) },
		"odd record": func() {
			Parse(odd, &r)
			r.Writer.Equal("aé")
			dst = r.Writer.AppendTo(dst[:0])
			r.Fingerprint()
		},
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if r.State == Corrupt {
		t.Error("corrupt")
	}
}

// testOwn returns a record as a holder writes it at a renewal.
func testOwn() Own {
	return Own{
		Holder: "0190b6a2-7e0c-4f5e-8a36-5a8d0c7f1e2b", TTL: 88 * time.Second, Count: 17,
		WrittenAt: 1_756_000_088_123_456_000, FirstWrittenAt: 1_756_000_000_000_001_000,
		AcquiredAt: 1_756_000_001_500_000_000, Host: "worker-7f9c4d", PID: "12345", TID: 140_234_567_890_123,
	}
}

// TestOurRecord is the form of PROTOCOL L1, to the byte.
func TestOurRecord(t *testing.T) {
	own := testOwn()
	want := strings.Join([]string{
		`{`,
		`  "writer_id": "0190b6a2-7e0c-4f5e-8a36-5a8d0c7f1e2b",`,
		`  "written_at": "2025-08-24T01:48:08.123456+00:00",`,
		`  "expire_s": 88.0,`,
		`  "write_count": 17,`,
		`  "hostname": "worker-7f9c4d",`,
		`  "pid": "12345",`,
		`  "tid": 140234567890123,`,
		`  "first_written_at": "2025-08-24T01:46:40.000001+00:00",`,
		`  "first_acquired_at": "2025-08-24T01:46:41.500000+00:00",`,
		`  "released_at": ""`,
		`}`,
	}, "\n")
	if got := string(Append(nil, &own)); got != want {
		t.Errorf("a renewal:\n%s\nwant\n%s", got, want)
	}
	own.Remote = true
	remote := strings.Replace(want, "\"released_at\": \"\"\n}", "\"released_at\": \"\",\n  \"writer_name\": \"remote\"\n}", 1)
	if got := string(Append(nil, &own)); got != remote {
		t.Errorf("a companion's:\n%s\nwant\n%s", got, remote)
	}
	own.Remote, own.ReleasedAt, own.WrittenAt, own.AcquiredAt = false, own.WrittenAt, 0, 0
	released := strings.NewReplacer(
		`"written_at": "2025-08-24T01:48:08.123456+00:00"`, `"written_at": ""`,
		`"released_at": ""`, `"released_at": "2025-08-24T01:48:08.123456+00:00"`,
		`"first_acquired_at": "2025-08-24T01:46:41.500000+00:00"`, `"first_acquired_at": ""`,
	).Replace(want)
	if got := string(Append(nil, &own)); got != released {
		t.Errorf("released:\n%s\nwant\n%s", got, released)
	}
}

// anyOwn draws records with every kind of text in them.
func anyOwn(t *rapid.T) Own {
	stamp := func(name string) int64 {
		if rapid.Bool().Draw(t, name+" empty") {
			return 0
		}
		return rapid.Int64Range(-core.MaxClockRange/1000+1, core.MaxClockRange/1000).Draw(t, name) * 1000
	}
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`), rapid.StringMatching(`[a"\\\x00-\x1f\x7f-\xa0]{0,12}`))
	return Own{
		Holder: core.HolderID(text.Draw(t, "holder")), WrittenAt: stamp("written"), FirstWrittenAt: stamp("first written"),
		AcquiredAt: stamp("acquired"), ReleasedAt: stamp("released"),
		TTL:   time.Duration(rapid.Int64Range(1, int64(core.MaxTTL)).Draw(t, "ttl")),
		Count: rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "count"),
		Host:  text.Draw(t, "host"), PID: text.Draw(t, "pid"), TID: rapid.Uint64().Draw(t, "tid"),
		Remote: rapid.Bool().Draw(t, "remote"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := anyOwn(t)
		body := Append(nil, &own)
		r := readRecord(body)
		want := Live
		switch {
		case own.ReleasedAt != 0:
			want = Released
		case own.WrittenAt == 0 || own.Holder == "":
			want = Corrupt
		}
		if r.State != want {
			t.Fatalf("state %d, want %d: %s", r.State, want, body)
		}
		if r.WrittenAt != own.WrittenAt || r.FirstWrittenAt != own.FirstWrittenAt || r.AcquiredAt != own.AcquiredAt ||
			r.ReleasedAt != own.ReleasedAt || r.Expire != own.TTL || r.Count != own.Count || r.Remote != own.Remote {
			t.Fatalf("read back as %+v: %s", r, body)
		}
		for _, pair := range []struct {
			got  jsontext.Text
			want string
		}{{r.Writer, string(own.Holder)}, {r.host, own.Host}, {r.pid, own.PID}} {
			if !pair.got.Equal(pair.want) || string(pair.got.AppendTo(nil)) != pair.want || pair.got.Equal(pair.want+"x") {
				t.Fatalf("%q was read back as %q", pair.want, pair.got)
			}
		}
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
	})
}

// TestPythonReadsOurs hands records to Python: json.loads must read them,
// json.dumps must write the same bytes again, and fromisoformat must read every
// stamp as the same microsecond.
func TestPythonReadsOurs(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: how Python reads our records is not tested")
	}
	const script = `
import json, sys
from datetime import datetime, timedelta, timezone
epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
for line in sys.stdin:
    body, micros = line.split(" ")
    body = bytes.fromhex(body)
    record = json.loads(body)
    assert json.dumps(record, indent=2).encode() == body, body
    stamps = [record[k] for k in ("written_at", "first_written_at", "first_acquired_at", "released_at")]
    got = [(datetime.fromisoformat(s) - epoch) // timedelta(microseconds=1) if s else 0 for s in stamps]
    assert got == [int(m) for m in micros.split(",")], (got, micros)
    assert isinstance(record["expire_s"], float) and isinstance(record["pid"], str), body
    print(json.dumps(record["hostname"]))
`
	var in bytes.Buffer
	var want []string
	all := rapid.Custom(anyOwn)
	for i := range 300 {
		own := all.Example(i)
		own.TTL = max(own.TTL, core.MinTTL) // Python shows less than 100 µs with an exponent
		if i == 0 {
			own = testOwn()
			for c := rune(0); c < 0x180; c++ {
				own.Host += string(c)
			}
			own.Host += "\u2028\ufeff\ufffd\uffff\U00010000\U0010ffff"
		}
		in.WriteString(hex.EncodeToString(Append(nil, &own)))
		for j, wall := range []int64{own.WrittenAt, own.FirstWrittenAt, own.AcquiredAt, own.ReleasedAt} {
			in.WriteString(" ,,,"[j:][:1] + strconv.FormatInt(wall/1000, 10))
		}
		in.WriteString("\n")
		want = append(want, `"`+string(jsontext.AppendText(nil, own.Host))+`"`)
	}
	cmd := exec.Command(python, "-c", script)
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if got := strings.TrimSuffix(string(out), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("Python escapes texts in another way:\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
