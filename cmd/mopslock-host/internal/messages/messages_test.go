package messages

import (
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core/wire"
)

// Entries go in as pairs, in both forms, and come out of a trace as they went in.
func TestEntriesForms(t *testing.T) {
	const text = `[["a/\u003cb>&é\"\\\n/v",1756000000000000000],["b",0]]`
	want := []wire.Entry{{Key: "a/<b>&é\"\\\n/v", Stamp: 1_756_000_000_000_000_000}, {Key: "b"}}
	var in wire.Input
	if err := setJSON(&in.Entries, []byte(text)); err != nil || !slices.Equal(in.Entries, want) {
		t.Fatalf("%+v, %v", in.Entries, err)
	}
	in.Kind = "answer"
	line, err := Line(canonical(&in), new(wire.Input))
	if shown := `"entries":[["a/<b>&é\"\\\u000a/v",1756000000000000000],["b",0]]`; err != nil || !strings.Contains(string(line), shown) {
		t.Errorf("%s, %v", line, err)
	}
	// Any width, bin for text, nil for zero.
	packed := "\xdd\x00\x00\x00\x02\xdc\x00\x02\xc4\x0da/<b>&é\"\\\n/v\xd3\x18\x5e\x90\xb2\x41\x96\x00\x00\x92\xa1b\xc0"
	if err := setMsgpack(&in.Entries, []byte(packed)); err != nil || !slices.Equal(in.Entries, want) {
		t.Fatalf("%+v, %v", in.Entries, err)
	}
	for bad, why := range map[string]string{
		`{}`: "not an array", `["a",1]`: "not an array", `[["a"]]`: "not an array", `[["a",1,2]]`: "not an array", `[null]`: "not an array",
		`[[1,2]]`: "the key of entry 1: not a string", `[["a",1],["b",1.5]]`: "the stamp of entry 2: not an integer",
		`[["\ud800",1]]`: "the key of entry 1: half of a surrogate pair",
	} {
		if err := setJSON(&in.Entries, []byte(bad)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", bad, err, why)
		}
	}
	for bad, why := range map[string]string{
		"\x80": "not an array", "\x92\xa1a\x01": "not an array", "\x91\x91\xa1a": "not an array", "\x91\x93\xa1a\x01\x01": "not an array",
		"\x91\x92\x01\x01": "the key of entry 1: not a string", "\x91\x92\xa1a\xca\x00\x00\x00\x00": "the stamp of entry 1: not an integer",
		"\x91\x92\xa1a\xcf\xff\x00\x00\x00\x00\x00\x00\x00": "the stamp of entry 1: not an integer",
	} {
		if err := setMsgpack(&in.Entries, []byte(bad)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%x: %v, want %s", bad, err, why)
		}
	}
}

// What encoding/json would take for U+FFFD is found, and nothing else is taken for it.
func TestHalfPair(t *testing.T) {
	for _, half := range []string{`\ud800`, `\uDBFFx`, `\udc00`, `\udfff\ud800`, `\ud800\ud800\udc00`, `\ud800\n`, `\ud83d\ude00\ude00`, `\\\ud800`} {
		if !halfPair([]byte(`"` + half + `"`)) {
			t.Errorf("%s: not found", half)
		}
	}
	for _, whole := range []string{``, `a`, `\ud83d\ude00`, `\uD83D\uDE00`, `\ufffd`, "\ufffd", `\\ud800`, `\ud7ff\ue000`, `\"ud800`} {
		if halfPair([]byte(`"` + whole + `"`)) {
			t.Errorf("%s: found", whole)
		}
	}
}

// Terms are a map within an input, in both forms, and say which key is wrong.
func TestTermsForms(t *testing.T) {
	var in wire.Input
	if err := setJSON(&in.Terms, []byte(`{"name":"n","on_session":true}`)); err != nil || in.Terms.Name != "n" || !in.Terms.OnSession {
		t.Fatalf("%+v, %v", in.Terms, err)
	}
	packed := canonical(in.Terms)
	in.Terms = nil
	if err := setMsgpack(&in.Terms, packed); err != nil || in.Terms.Name != "n" || !in.Terms.OnSession {
		t.Fatalf("%+v, %v", in.Terms, err)
	}
	for text, why := range map[string]string{`{"nam":1}`: `unknown key "nam"`, `[]`: "not an object", `{"name":1}`: `key "name": not a string`} {
		if err := setJSON(&in.Terms, []byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", text, err, why)
		}
	}
	if err := setMsgpack(&in.Terms, []byte("\x81\xa3nam\x01")); err == nil || !strings.Contains(err.Error(), `unknown key "nam"`) {
		t.Error(err)
	}
}
