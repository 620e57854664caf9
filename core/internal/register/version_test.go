package register

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// recordedAt is when the records of these tests were made: 2026-01-02T03:04:05Z.
const recordedAt = int64(1767323045) * 1e9

// Recorder writes records as a machine of this process would.
func Recorder(tb testing.TB, change func(*core.Config)) *base.Machine {
	cfg := core.Config{
		Machine: core.MachineInspection, Terms: core.Terms{Protocol: core.ProtocolStrict, Name: "n"}, Seed: [16]byte{1},
		Host: "caf\u00e9 \"7\"\\\u0001", PID: "7", Boot: "b1",
	}
	if change != nil {
		change(&cfg)
	}
	m, err := base.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m.Now = core.Instant{Mono: 12_345_678_901, Wall: recordedAt}
	return &m
}

func goodVersion() OwnVersion {
	return OwnVersion{
		N: 7, Origin: 5, State: core.VersionBroken, Tenure: "t-1", Owner: "o-2", Owners: `"t-1", "o-2"`, Nonce: Nonce{1, 0xfedcba9876543210},
		TTL: 90 * time.Second, Margin: 9500 * time.Millisecond, Session: "sid", Alone: true, Why: "it \"hangs\"", By: "42@desk",
		Label: "nightly",
	}
}

// TestVersionRoundTrip: what is written is read, field by field.
func TestVersionRoundTrip(t *testing.T) {
	own := goodVersion()
	var v Version
	if got := ParseVersion(AppendVersion(nil, Recorder(t, nil), &own), 7, &v); got != ReadGood {
		t.Fatalf("read: %d", got)
	}
	got := fmt.Sprint(v.n, v.origin, v.State, string(v.Tenure), string(v.owner), string(v.Owners), string(v.Nonce), v.ttl, v.margin,
		string(v.session), v.alone, string(v.why.AppendTo(nil)), string(v.by.AppendTo(nil)), string(v.host.AppendTo(nil)),
		string(v.pid.AppendTo(nil)), string(v.label.AppendTo(nil)), string(v.boot), v.boottime, v.wall)
	want := fmt.Sprint(7, 5, core.VersionBroken, "t-1", "o-2", `"t-1", "o-2"`, "0000000000000001fedcba9876543210", 90*time.Second,
		9500*time.Millisecond, "sid", true, "it \"hangs\"", "42@desk", "caf\u00e9 \"7\"\\\u0001", "7", "nightly", "b1",
		12_345_678_901, recordedAt)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !own.Nonce.Is(v.Nonce) || (Nonce{1, 2}).Is(v.Nonce) {
		t.Error("the nonce is not told from another")
	}
}

// TestBeatRoundTrips: a beat, a session's beat and a call.
func TestBeatRoundTrips(t *testing.T) {
	m := Recorder(t, nil)
	var b BeatRecord
	if r := parseBeat(AppendBeat(nil, m, "o-1", 9), &b); r != ReadGood || string(b.owner) != "o-1" || b.boottime != 12_345_678_901 || string(b.boot) != "b1" {
		t.Errorf("beat: %d %+v", r, b)
	}
	first := string(b.nonce)
	if parseBeat(AppendBeat(nil, m, "o-1", 10), &b); string(b.nonce) == first || len(first) != 32 {
		t.Error("two beats have one nonce")
	}
	if r := parseSessionBeat(AppendSessionBeat(nil, m, core.Minute, 6*core.Second), &b); r != ReadGood || b.ttl != core.Minute {
		t.Errorf("session: %d %+v", r, b)
	}
	name := "caf\u00e9/\"x\""
	if r := ParseCall(AppendCall(nil, m, name, 12), &b); r != ReadGood || b.Epoch != 12 || !jsontext.Text(b.Name).Equal(name) {
		t.Errorf("call: %d %+v", r, b)
	}
	if parseBeat(AppendCall(nil, m, "n", 1), &b) == ReadGood || ParseCall(AppendBeat(nil, m, "o", 1), &b) == ReadGood {
		t.Error("one is read as the other")
	}
}

// TestVersionStrictness: what we do not write is corrupt, and never something else.
func TestVersionStrictness(t *testing.T) {
	own := goodVersion()
	good := string(AppendVersion(nil, Recorder(t, nil), &own))
	var v Version
	for _, c := range []struct {
		name, from, to string
		want           ReadResult
	}{
		{"as it is", "", "", ReadGood},
		{"no spaces", "\n  ", "", ReadGood},
		{"a newer one", `"v": 1`, `"v": 2`, ReadNewer},
		{"a much newer one", `"v": 1`, `"v": 2, "what": ["ever"`, ReadNewer},
		{"v 0", `"v": 1`, `"v": 0`, ReadCorrupt},
		{"v negative", `"v": 1`, `"v": -1`, ReadCorrupt},
		{"v text", `"v": 1`, `"v": "1"`, ReadCorrupt},
		{"v broken", `"v": 1`, `"v": 1.5`, ReadCorrupt},
		{"a semaphore that holds nothing", `"lease"`, `"semaphore"`, ReadCorrupt},
		{"another kind", `"lease"`, `"barrier"`, ReadCorrupt},
		{"wrong order", `"tenure": "t-1"` + ",\n  " + `"origin": 5`, `"origin": 5` + ",\n  " + `"tenure": "t-1"`, ReadCorrupt},
		{"a field more", `"alone"`, `"colour": "blue", "alone"`, ReadCorrupt},
		{"a field less", `"origin": 5,`, ``, ReadCorrupt},
		{"twice", `"origin": 5,`, `"origin": 5, "origin": 5,`, ReadCorrupt},
		{"another version", `"n": 7`, `"n": 8`, ReadCorrupt},
		{"origin 0", `"origin": 5`, `"origin": 0`, ReadCorrupt},
		{"origin above", `"origin": 5`, `"origin": 8`, ReadCorrupt},
		{"state", `"broken"`, `"lost"`, ReadCorrupt},
		{"state empty", `"broken"`, `""`, ReadCorrupt},
		{"no tenure", `"t-1",`, `"",`, ReadCorrupt},
		{"escape in an id", `"tenure": "t-1"`, `"tenure": "t\u002d1"`, ReadCorrupt},
		{"escape in the session", `"session": "sid"`, `"session": "\u0073id"`, ReadCorrupt},
		{"escape in the boot", `"boot": "b1"`, `"boot": "\u0062"`, ReadCorrupt},
		{"escape in a field's name", `"tenure"`, `"t\u0065nure"`, ReadCorrupt},
		{"owners null", `["t-1", "o-2"]`, `null`, ReadCorrupt},
		{"owners empty", `["t-1", "o-2"]`, `[]`, ReadGood},
		{"owners tight", `["t-1", "o-2"]`, `["t-1","o-2"]`, ReadCorrupt},
		{"owners with a tab between", `["t-1", "o-2"]`, "[\"t-1\",\t\"o-2\"]", ReadCorrupt},
		{"owners with numbers", `["t-1", "o-2"]`, `["t-1", 2]`, ReadCorrupt},
		{"owners nested", `["t-1", "o-2"]`, `[["t-1"]]`, ReadCorrupt},
		{"owners with an empty one", `["t-1", "o-2"]`, `["t-1", ""]`, ReadCorrupt},
		{"owners with an escape", `["t-1", "o-2"]`, `["t\"1"]`, ReadCorrupt},
		{"owners open", `["t-1", "o-2"]`, `["t-1", ]`, ReadCorrupt},
		{"too many owners", `["t-1", "o-2"]`, `["a"` + strings.Repeat(`, "a"`, core.MaxOwners+1) + `]`, ReadCorrupt},
		{"most owners", `["t-1", "o-2"]`, `["a"` + strings.Repeat(`, "a"`, core.MaxOwners-1) + `]`, ReadGood},
		{"no nonce", `"0000000000000001fedcba9876543210"`, `""`, ReadCorrupt},
		{"ttl negative", `"ttl_s": 90.0`, `"ttl_s": -90.0`, ReadCorrupt},
		{"ttl text", `"ttl_s": 90.0`, `"ttl_s": "90"`, ReadCorrupt},
		{"ttl huge", `"ttl_s": 90.0`, `"ttl_s": 1e30`, ReadCorrupt},
		{"margin above", `"margin_s": 9.5`, `"margin_s": 90.5`, ReadCorrupt},
		{"no ttl on a session", `"ttl_s": 90.0`, `"ttl_s": 0.0`, ReadCorrupt},
		{"alone text", `"alone": true`, `"alone": "true"`, ReadCorrupt},
		{"alone null", `"alone": true`, `"alone": null`, ReadCorrupt},
		{"boottime negative", `12345678901`, `-1`, ReadCorrupt},
		{"boottime huge", `12345678901`, `99999999999999999999`, ReadCorrupt},
		{"boottime beyond", `12345678901`, `9999999999999999999`, ReadCorrupt},
		{"no time", `"2026-01-02T03:04:05.000000+00:00"`, `"yesterday"`, ReadCorrupt},
		{"cut", "\n}", "", ReadCorrupt},
		{"two records", "\n}", "\n}{}", ReadCorrupt},
		{"spaces behind", "\n}", "\n}  \n", ReadGood},
		{"not UTF-8", `"nightly"`, "\"\xff\"", ReadCorrupt},
	} {
		if !strings.Contains(good, c.from) {
			t.Fatalf("%s: no %q in %s", c.name, c.from, good)
		}
		if got := ParseVersion([]byte(strings.ReplaceAll(good, c.from, c.to)), 7, &v); got != c.want && c.from != "" {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	for n := range len(good) - 2 {
		if got := ParseVersion([]byte(good[:n]), 7, &v); got != ReadCorrupt {
			t.Errorf("the first %d bytes: %d", n, got)
		}
	}
	if got := ParseVersion(append([]byte(good), bytes.Repeat([]byte(" "), core.MaxRecord)...), 7, &v); got != ReadCorrupt {
		t.Errorf("too long: %d", got)
	}
}

// TestRecordsAreJSON: any reader of JSON reads our records, and finds the fields that
// the protocol says, in its order.
func TestRecordsAreJSON(t *testing.T) {
	m := Recorder(t, nil)
	own := goodVersion()
	for want, body := range map[string][]byte{
		"v kind n state tenure origin owner owners nonce ttl_s margin_s session alone why by host pid label boot boottime_ns at": AppendVersion(nil, m, &own),
		"v nonce owner seq boot boottime_ns":      AppendBeat(nil, m, "o", 3),
		"v nonce ttl_s margin_s boot boottime_ns": AppendSessionBeat(nil, m, core.Minute, 6*core.Second),
		"v nonce name epoch boot boottime_ns":     AppendCall(nil, m, "caf\u00e9", 4),
	} {
		var all map[string]any
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		var got []string
		for _, field := range regexp.MustCompile(`(?m)^  "(\w+)": `).FindAllSubmatch(body, -1) {
			got = append(got, string(field[1]))
		}
		if strings.Join(got, " ") != want || len(all) != len(got) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !bytes.HasSuffix(body, []byte("\n}\n")) {
			t.Errorf("no newline behind %s", body)
		}
	}
}

// TestKeys: the keys as the protocol has them; newest first in byte order.
func TestKeys(t *testing.T) {
	prefix := RegisterPrefix("a/n")
	for got, want := range map[string]string{
		VersionKey(prefix, 1):       "a/n/_mopslock/fffffffffffffffe/v",
		VersionKey(prefix, 1<<63):   "a/n/_mopslock/7fffffffffffffff/v",
		BeatKey(prefix, 258, "o-1"): "a/n/_mopslock/fffffffffffffefd/b.o-1",
		SessionKey("s"):             "_mopslock/s/s/beat",
		SessionSelfKey("s"):         "_mopslock/s/s/v",
		CallKey("s", 12):            "_mopslock/s/s/call/0000000012",
		core.StoreClockPrefix:       "_mopslock/c/",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for n := core.Epoch(1); n < 1<<62; n = n*3 + 1 {
		if VersionKey(prefix, n) <= VersionKey(prefix, n+1) {
			t.Errorf("version %d does not come behind %d", n, n+1)
		}
		got, owner, ok := ParseRegisterKey(prefix, []byte(BeatKey(prefix, n, "x")))
		if got != n || string(owner) != "x" || !ok {
			t.Errorf("%d: read %d %s %v", n, got, owner, ok)
		}
	}
	for _, key := range []string{
		"", prefix, "b/n/_mopslock/fffffffffffffffe/v", prefix + "ffffffffffffffff/v", prefix + "FFFFFFFFFFFFFFFE/v",
		prefix + "fffffffffffffffe/w", prefix + "fffffffffffffffe/v/", prefix + "fffffffffffffffe/b.", prefix + "fffffffffffffffe",
		prefix + "ffffffffffffffe/v",
	} {
		if n, owner, ok := ParseRegisterKey(prefix, []byte(key)); ok {
			t.Errorf("%s is read as %d %s", key, n, owner)
		}
	}
}

// TestOwnersLists: adding and taking away.
func TestOwnersLists(t *testing.T) {
	list := WithOwner(WithOwner(WithOwner("", "a"), "b"), "c")
	for got, want := range map[string]string{
		list:                    `"a", "b", "c"`,
		WithOwner(list, "b"):    `"a", "b", "c"`,
		WithoutOwner(list, "b"): `"a", "c"`,
		WithoutOwner(list, "a"): `"b", "c"`,
		WithoutOwner(list, "x"): list,
		WithoutOwner(WithoutOwner(WithoutOwner(list, "a"), "b"), "c"): "",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !IsAlone(`"a"`, "a") || IsAlone(`"a"`, "b") || IsAlone(list, "a") || IsAlone("", "a") {
		t.Error("who is alone")
	}
}

// TestMoreOwners: once the list could not take an owner, there are more of them
// than it says, wherever the mark stands.
func TestMoreOwners(t *testing.T) {
	list := ""
	for i := range core.MaxOwners + 6 {
		list = WithOwner(list, fmt.Sprintf("o%02d", i))
	}
	if !HasMoreOwners(list) {
		t.Fatalf("no mark in %s", list)
	}
	list = WithOwner(WithoutOwner(WithoutOwner(list, "o01"), "o02"), "new")
	if !HasMoreOwners(list) {
		t.Errorf("lost the mark: %s", list)
	}
	if IsAlone(WithOwner(`"new"`, moreOwners), "new") || IsAlone(WithOwner(`"`+moreOwners+`"`, "new"), "new") {
		t.Error("alone beside the mark")
	}
}

// FuzzVersion: no bytes make a panic, and what is read as good is written the same.
func FuzzVersion(f *testing.F) {
	m := Recorder(f, nil)
	own := goodVersion()
	f.Add(AppendVersion(nil, m, &own))
	own.Session, own.Why, own.By, own.TTL, own.Margin, own.State = "", "", "", 0, 0, core.VersionHeld
	f.Add(AppendVersion(nil, m, &own))
	own.Ext = `{"a": [1, {"b": "\u00e9"}]}`
	f.Add(AppendVersion(nil, m, &own))
	f.Add(with(AppendBeat(nil, m, "o", 2), `, "ext": {}`))
	f.Add(AppendBeat(nil, m, "o", 1))
	f.Add(AppendSessionBeat(nil, m, core.Minute, core.Second))
	f.Add(AppendCall(nil, m, "n", 1))
	f.Add([]byte(`{"v": 2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var v Version
		var b BeatRecord
		if ParseVersion(body, 7, &v) == ReadGood {
			if v.n != 7 || v.origin > v.n || v.ttl < 0 || v.margin < 0 || !isOwners([]byte("["+string(v.Owners)+"]")) {
				t.Errorf("%+v", v)
			}
			if own.Ext = string(v.ext); ParseVersion(AppendVersion(nil, m, &own), own.N, &v) != ReadGood || string(v.ext) != own.Ext {
				t.Errorf("%q is written as %q", own.Ext, v.ext)
			}
		}
		for _, parse := range []func([]byte, *BeatRecord) ReadResult{parseBeat, parseSessionBeat, ParseCall} {
			if parse(body, &b) == ReadGood && (b.boottime < 0 || b.ttl < 0) {
				t.Errorf("%+v", b)
			}
		}
	})
}
