package register

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"pgregory.net/rapid"
)

// record is one of ours and how it is read.
type record struct {
	body []byte
	read func(body []byte) ReadResult
}

// allRecords is one of each kind, without an ext.
func allRecords(tb testing.TB) map[string]record {
	m := Recorder(tb, nil)
	lease, bare := goodVersion(), goodVersion()
	bare.Session, bare.Why, bare.By, bare.Label = "", "", "", ""
	version := func(body []byte) ReadResult { return ParseVersion(body, 7, new(Version)) }
	beat := func(parse func([]byte, *BeatRecord) ReadResult) func([]byte) ReadResult {
		return func(body []byte) ReadResult { return parse(body, new(BeatRecord)) }
	}
	return map[string]record{
		"lease":        {AppendVersion(nil, m, &lease), version},
		"bare lease":   {AppendVersion(nil, m, &bare), version},
		"semaphore":    {valueRecord(tb, somePermits(2, true)), version},
		"beat":         {AppendBeat(nil, m, "o-1", 9), beat(parseBeat)},
		"session beat": {AppendSessionBeat(nil, m, core.Minute, 6*core.Second), beat(parseSessionBeat)},
		"call":         {AppendCall(nil, m, "n", 12), beat(ParseCall)},
	}
}

// with is a record with a text before its last bracket.
func with(body []byte, text string) []byte {
	return append(append([]byte(nil), bytes.TrimSuffix(body, []byte("\n}\n"))...), text+"\n}\n"...)
}

// TestExt: the last field of each record may be ext, an object of at most 1 KiB, and
// whatever else is a field more makes it corrupt.
func TestExt(t *testing.T) {
	filled := func(size int) string { return `{"a": "` + strings.Repeat("x", size-len(`{"a": ""}`)) + `"}` }
	nested := func(depth int) string { // the record itself is one, and ext the second
		return strings.Repeat(`{"a": `, depth-1) + "{}" + strings.Repeat("}", depth-1)
	}
	for kind, r := range allRecords(t) {
		for _, c := range []struct {
			name, text string
			want       ReadResult
		}{
			{"none", ``, ReadGood},
			{"empty", `, "ext": {}`, ReadGood},
			{"empty, with spaces", ",\n  \"ext\" :\t{ \n }", ReadGood},
			{"one field", `,"ext":{"colour":"blue"}`, ReadGood},
			{"fields of all kinds", `, "ext": {"a": 1, "b": "\u00e9", "c": [true, null, {"d": -1.5e3}], "a": 2}`, ReadGood},
			{"the names of ours", `, "ext": {"v": 2, "n": 9, "state": "held", "ext": {"boot": "x"}}`, ReadGood},
			{"most", `, "ext": ` + filled(core.MaxExt), ReadGood},
			{"deepest", `, "ext": ` + nested(core.MaxJSONDepth-1), ReadGood},
			{"spaces behind", ", \"ext\": {} \n" + strings.Repeat(" ", core.MaxExt), ReadGood},
			{"too long", `, "ext": ` + filled(core.MaxExt+1), ReadCorrupt},
			{"too long by spaces", `, "ext": {` + strings.Repeat(" ", core.MaxExt-1) + `}`, ReadCorrupt},
			{"too deep", `, "ext": ` + nested(core.MaxJSONDepth), ReadCorrupt},
			{"an array", `, "ext": []`, ReadCorrupt},
			{"a text", `, "ext": "{}"`, ReadCorrupt},
			{"null", `, "ext": null`, ReadCorrupt},
			{"a number", `, "ext": 1`, ReadCorrupt},
			{"true", `, "ext": true`, ReadCorrupt},
			{"nothing", `, "ext":`, ReadCorrupt},
			{"open", `, "ext": {"a": 1`, ReadCorrupt},
			{"a comma more in it", `, "ext": {"a": 1,}`, ReadCorrupt},
			{"a comma more behind", `, "ext": {},`, ReadCorrupt},
			{"a comma less before", ` "ext": {}`, ReadCorrupt},
			{"no JSON in it", `, "ext": {a: 1}`, ReadCorrupt},
			{"a control character in it", ", \"ext\": {\"a\": \"\n\"}", ReadCorrupt},
			{"not UTF-8", ", \"ext\": {\"a\": \"\xff\"}", ReadCorrupt},
			{"twice", `, "ext": {}, "ext": {}`, ReadCorrupt},
			{"not last", `, "ext": {}, "colour": "blue"`, ReadCorrupt},
			{"another field", `, "colour": {}`, ReadCorrupt},
			{"another field before", `, "colour": {}, "ext": {}`, ReadCorrupt},
			{"in capitals", `, "EXT": {}`, ReadCorrupt},
			{"escaped", `, "e\u0078t": {}`, ReadCorrupt},
		} {
			if got := r.read(with(r.body, c.text)); got != c.want {
				t.Errorf("%s, ext %s: %d, want %d", kind, c.name, got, c.want)
			}
		}
		body := with(r.body, `, "ext": {"a": [1, {"b": null}]}`)
		for n := range len(body) - 2 {
			if got := r.read(body[:n]); got != ReadCorrupt {
				t.Errorf("%s, its first %d bytes: %d", kind, n, got)
			}
		}
		if got := r.read(bytes.Replace(body, []byte(`"v": 1`), []byte(`"v": 1, "ext": {}`), 1)); got != ReadCorrupt {
			t.Errorf("%s, ext first: %d", kind, got)
		}
		if got := r.read(bytes.Replace(body, []byte(`"v": 1`), []byte(`"v": 2`), 1)); got != ReadNewer {
			t.Errorf("%s, a newer one with an ext: %d", kind, got)
		}
	}
}

// anyExt draws an object as another writer may have it: any spaces, any texts.
func anyExt(t *rapid.T) string {
	space := rapid.StringMatching(`[ \n\t]{0,2}`)
	text := rapid.Custom(func(t *rapid.T) string {
		quoted, _ := json.Marshal(rapid.StringN(0, 8, 24).Draw(t, "text"))
		return string(quoted)
	})
	value := rapid.OneOf(text, rapid.SampledFrom([]string{"0", "-1.50e+2", "true", "null", "[ ]", `[1,{"a" :{}}]`, `"\ud800\/"`}))
	out := "{"
	for i := range rapid.IntRange(0, 8).Draw(t, "fields") {
		if i > 0 {
			out += ","
		}
		out += space.Draw(t, "space") + text.Draw(t, "key") + space.Draw(t, "space") + ":" + value.Draw(t, "value") + space.Draw(t, "space")
	}
	return out + "}"
}

// TestExtIsCopied: the next version of a tenure has the ext of the one that was read, octet
// for octet, whichever process makes it; so has the next value of a semaphore. The state tells one
// ext from another, and a copy of a machine has it.
func TestExtIsCopied(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ext := anyExt(rt)
		own := goodVersion()
		own.N, own.Origin = 6, 5
		r := registerFor(t, core.Config{Machine: core.MachineLease})
		r.ReadVersion(with(AppendVersion(nil, Recorder(t, nil), &own), `, "ext": `+ext), 6, 0)
		for i := range 3 {
			next := r.Successor(core.VersionHeld)
			body := AppendVersion(nil, &r.Machine, &next)
			var v Version
			if result := ParseVersion(body, next.N, &v); result != ReadGood || string(v.ext) != ext {
				rt.Fatalf("read %d, %q, not %q", result, v.ext, ext)
			}
			if i%2 == 0 { // made by us, or read by another
				r.SetCurrent(&next, 1)
			} else {
				r.ReadVersion(body, next.N, 0)
			}
		}

		value := somePermits(2, true)
		value.Ext = ext
		read := readValue(rt, valueRecord(t, value))
		twin := CopyOf(&read)
		twin.Remove(func(*PermitEntry) bool { return true })
		if got := readValue(rt, valueRecord(t, &twin)); got.Ext != ext {
			rt.Fatalf("%q, not %q", got.Ext, ext)
		}
	})
}

// TestExtCostsNothing: to read a record with an ext takes no more from the heap than one
// without.
func TestExtCostsNothing(t *testing.T) {
	for kind, r := range allRecords(t) {
		allocs := func(body []byte) float64 { return testing.AllocsPerRun(100, func() { r.read(body) }) }
		if without, more := allocs(r.body), allocs(with(r.body, `, "ext": {"a": [1, {"b": null}]}`)); more != without {
			t.Errorf("%s: %v allocations, without it %v", kind, more, without)
		}
	}
}
