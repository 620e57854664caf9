package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// recordedAt is when the records of these tests were made: 2026-01-02T03:04:05Z.
const recordedAt = int64(1767323045) * 1e9

// recorder writes records as a machine of this process would.
func recorder(tb testing.TB, change func(*Config)) *machine {
	cfg := Config{
		Machine: MachineObserver, Protocol: ProtocolStrict, Name: "n", Seed: [16]byte{1},
		Host: "caf\u00e9 \"7\"\\\u0001", PID: "7", Boot: "b1",
	}
	if change != nil {
		change(&cfg)
	}
	m, err := newMachine(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m.now = Instant{Mono: 12_345_678_901, Wall: recordedAt}
	return &m
}

func goodVersion() ownVersion {
	return ownVersion{
		n: 7, origin: 5, state: VersionBroken, tenure: "t-1", owner: "o-2", owners: `"t-1", "o-2"`, nonce: nonce{1, 0xfedcba9876543210},
		ttl: 90 * time.Second, margin: 9500 * time.Millisecond, session: "sid", alone: true, why: "it \"hangs\"", by: "42@desk",
		label: "nightly",
	}
}

// TestVersionRoundTrip: what is written is read, field by field.
func TestVersionRoundTrip(t *testing.T) {
	own := goodVersion()
	var v version
	if got := parseVersion(appendVersion(nil, recorder(t, nil), &own), 7, &v); got != readGood {
		t.Fatalf("read: %d", got)
	}
	got := fmt.Sprint(v.n, v.origin, v.state, string(v.tenure), string(v.owner), string(v.owners), string(v.nonce), v.ttl, v.margin,
		string(v.session), v.alone, string(v.why.appendTo(nil)), string(v.by.appendTo(nil)), string(v.host.appendTo(nil)),
		string(v.pid.appendTo(nil)), string(v.label.appendTo(nil)), string(v.boot), v.boottime, v.wall)
	want := fmt.Sprint(7, 5, VersionBroken, "t-1", "o-2", `"t-1", "o-2"`, "0000000000000001fedcba9876543210", 90*time.Second,
		9500*time.Millisecond, "sid", true, "it \"hangs\"", "42@desk", "caf\u00e9 \"7\"\\\u0001", "7", "nightly", "b1",
		12_345_678_901, recordedAt)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !own.nonce.is(v.nonce) || (nonce{1, 2}).is(v.nonce) {
		t.Error("the nonce is not told from another")
	}
}

// TestBeatRoundTrips: a beat, a session's beat and a call.
func TestBeatRoundTrips(t *testing.T) {
	m := recorder(t, nil)
	var b beat
	if r := parseBeat(appendBeat(nil, m, "o-1", 9), &b); r != readGood || string(b.owner) != "o-1" || b.boottime != 12_345_678_901 || string(b.boot) != "b1" {
		t.Errorf("beat: %d %+v", r, b)
	}
	first := string(b.nonce)
	if parseBeat(appendBeat(nil, m, "o-1", 10), &b); string(b.nonce) == first || len(first) != 32 {
		t.Error("two beats have one nonce")
	}
	if r := parseSessionBeat(appendSessionBeat(nil, m, minute, 6*second), &b); r != readGood || b.ttl != minute {
		t.Errorf("session: %d %+v", r, b)
	}
	name := "caf\u00e9/\"x\""
	if r := parseCall(appendCall(nil, m, name, 12), &b); r != readGood || b.epoch != 12 || !text(b.name).equal(name) {
		t.Errorf("call: %d %+v", r, b)
	}
	if parseBeat(appendCall(nil, m, "n", 1), &b) == readGood || parseCall(appendBeat(nil, m, "o", 1), &b) == readGood {
		t.Error("one is read as the other")
	}
}

// TestVersionStrictness: what we do not write is corrupt, and never something else.
func TestVersionStrictness(t *testing.T) {
	own := goodVersion()
	good := string(appendVersion(nil, recorder(t, nil), &own))
	var v version
	for _, c := range []struct {
		name, from, to string
		want           readResult
	}{
		{"as it is", "", "", readGood},
		{"no spaces", "\n  ", "", readGood},
		{"a newer one", `"v": 1`, `"v": 2`, readNewer},
		{"a much newer one", `"v": 1`, `"v": 2, "what": ["ever"`, readNewer},
		{"v 0", `"v": 1`, `"v": 0`, readCorrupt},
		{"v negative", `"v": 1`, `"v": -1`, readCorrupt},
		{"v text", `"v": 1`, `"v": "1"`, readCorrupt},
		{"v broken", `"v": 1`, `"v": 1.5`, readCorrupt},
		{"a semaphore that holds nothing", `"lease"`, `"semaphore"`, readCorrupt},
		{"another kind", `"lease"`, `"barrier"`, readCorrupt},
		{"wrong order", `"tenure": "t-1"` + ",\n  " + `"origin": 5`, `"origin": 5` + ",\n  " + `"tenure": "t-1"`, readCorrupt},
		{"a field more", `"alone"`, `"colour": "blue", "alone"`, readCorrupt},
		{"a field less", `"origin": 5,`, ``, readCorrupt},
		{"twice", `"origin": 5,`, `"origin": 5, "origin": 5,`, readCorrupt},
		{"another version", `"n": 7`, `"n": 8`, readCorrupt},
		{"origin 0", `"origin": 5`, `"origin": 0`, readCorrupt},
		{"origin above", `"origin": 5`, `"origin": 8`, readCorrupt},
		{"state", `"broken"`, `"lost"`, readCorrupt},
		{"state empty", `"broken"`, `""`, readCorrupt},
		{"no tenure", `"t-1",`, `"",`, readCorrupt},
		{"escape in an id", `"tenure": "t-1"`, `"tenure": "t\u002d1"`, readCorrupt},
		{"escape in the session", `"session": "sid"`, `"session": "\u0073id"`, readCorrupt},
		{"escape in the boot", `"boot": "b1"`, `"boot": "\u0062"`, readCorrupt},
		{"escape in a field's name", `"tenure"`, `"t\u0065nure"`, readCorrupt},
		{"owners null", `["t-1", "o-2"]`, `null`, readCorrupt},
		{"owners empty", `["t-1", "o-2"]`, `[]`, readGood},
		{"owners tight", `["t-1", "o-2"]`, `["t-1","o-2"]`, readCorrupt},
		{"owners with numbers", `["t-1", "o-2"]`, `["t-1", 2]`, readCorrupt},
		{"owners nested", `["t-1", "o-2"]`, `[["t-1"]]`, readCorrupt},
		{"owners with an empty one", `["t-1", "o-2"]`, `["t-1", ""]`, readCorrupt},
		{"owners with an escape", `["t-1", "o-2"]`, `["t\"1"]`, readCorrupt},
		{"owners open", `["t-1", "o-2"]`, `["t-1", ]`, readCorrupt},
		{"too many owners", `["t-1", "o-2"]`, `["a"` + strings.Repeat(`, "a"`, MaxOwners+1) + `]`, readCorrupt},
		{"most owners", `["t-1", "o-2"]`, `["a"` + strings.Repeat(`, "a"`, MaxOwners-1) + `]`, readGood},
		{"no nonce", `"0000000000000001fedcba9876543210"`, `""`, readCorrupt},
		{"ttl negative", `"ttl_s": 90.0`, `"ttl_s": -90.0`, readCorrupt},
		{"ttl text", `"ttl_s": 90.0`, `"ttl_s": "90"`, readCorrupt},
		{"ttl huge", `"ttl_s": 90.0`, `"ttl_s": 1e30`, readCorrupt},
		{"margin above", `"margin_s": 9.5`, `"margin_s": 90.5`, readCorrupt},
		{"no ttl on a session", `"ttl_s": 90.0`, `"ttl_s": 0.0`, readCorrupt},
		{"alone text", `"alone": true`, `"alone": "true"`, readCorrupt},
		{"alone null", `"alone": true`, `"alone": null`, readCorrupt},
		{"boottime negative", `12345678901`, `-1`, readCorrupt},
		{"boottime huge", `12345678901`, `99999999999999999999`, readCorrupt},
		{"boottime beyond", `12345678901`, `9999999999999999999`, readCorrupt},
		{"no time", `"2026-01-02T03:04:05.000000+00:00"`, `"yesterday"`, readCorrupt},
		{"cut", "\n}", "", readCorrupt},
		{"two records", "\n}", "\n}{}", readCorrupt},
		{"spaces behind", "\n}", "\n}  \n", readGood},
		{"not UTF-8", `"nightly"`, "\"\xff\"", readCorrupt},
	} {
		if !strings.Contains(good, c.from) {
			t.Fatalf("%s: no %q in %s", c.name, c.from, good)
		}
		if got := parseVersion([]byte(strings.ReplaceAll(good, c.from, c.to)), 7, &v); got != c.want && c.from != "" {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	for n := range len(good) - 2 {
		if got := parseVersion([]byte(good[:n]), 7, &v); got != readCorrupt {
			t.Errorf("the first %d bytes: %d", n, got)
		}
	}
	if got := parseVersion(append([]byte(good), bytes.Repeat([]byte(" "), MaxRecord)...), 7, &v); got != readCorrupt {
		t.Errorf("too long: %d", got)
	}
}

// TestRecordsAreJSON: any reader of JSON reads our records, and finds the fields that
// the protocol says, in its order.
func TestRecordsAreJSON(t *testing.T) {
	m := recorder(t, nil)
	own := goodVersion()
	for want, body := range map[string][]byte{
		"v kind n state tenure origin owner owners nonce ttl_s margin_s session alone why by host pid label boot boottime_ns at": appendVersion(nil, m, &own),
		"v nonce owner seq boot boottime_ns":      appendBeat(nil, m, "o", 3),
		"v nonce ttl_s margin_s boot boottime_ns": appendSessionBeat(nil, m, minute, 6*second),
		"v nonce name epoch boot boottime_ns":     appendCall(nil, m, "caf\u00e9", 4),
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
	prefix := registerPrefix("a/n")
	for got, want := range map[string]string{
		versionKey(prefix, 1):       "a/n/_mopslock/fffffffffffffffe/v",
		versionKey(prefix, 1<<63):   "a/n/_mopslock/7fffffffffffffff/v",
		beatKey(prefix, 258, "o-1"): "a/n/_mopslock/fffffffffffffefd/b.o-1",
		sessionKey("s"):             "_mopslock/s/s/beat",
		callKey("s", 12):            "_mopslock/s/s/call/0000000012",
		CalibrationPrefix:           "_mopslock/c/",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for n := Epoch(1); n < 1<<62; n = n*3 + 1 {
		if versionKey(prefix, n) <= versionKey(prefix, n+1) {
			t.Errorf("version %d does not come behind %d", n, n+1)
		}
		got, owner, ok := parseRegisterKey(prefix, []byte(beatKey(prefix, n, "x")))
		if got != n || string(owner) != "x" || !ok {
			t.Errorf("%d: read %d %s %v", n, got, owner, ok)
		}
	}
	for _, key := range []string{
		"", prefix, "b/n/_mopslock/fffffffffffffffe/v", prefix + "ffffffffffffffff/v", prefix + "FFFFFFFFFFFFFFFE/v",
		prefix + "fffffffffffffffe/w", prefix + "fffffffffffffffe/v/", prefix + "fffffffffffffffe/b.", prefix + "fffffffffffffffe",
		prefix + "ffffffffffffffe/v",
	} {
		if n, owner, ok := parseRegisterKey(prefix, []byte(key)); ok {
			t.Errorf("%s is read as %d %s", key, n, owner)
		}
	}
}

// TestOwnersLists: adding and taking away.
func TestOwnersLists(t *testing.T) {
	list := withOwner(withOwner(withOwner("", "a"), "b"), "c")
	for got, want := range map[string]string{
		list:                    `"a", "b", "c"`,
		withOwner(list, "b"):    `"a", "b", "c"`,
		withoutOwner(list, "b"): `"a", "c"`,
		withoutOwner(list, "a"): `"b", "c"`,
		withoutOwner(list, "x"): list,
		withoutOwner(withoutOwner(withoutOwner(list, "a"), "b"), "c"): "",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !isAlone(`"a"`, "a") || isAlone(`"a"`, "b") || isAlone(list, "a") || isAlone("", "a") {
		t.Error("who is alone")
	}
}

// TestMoreOwners: once the list could not take an owner, there are more of them
// than it says, wherever the mark stands.
func TestMoreOwners(t *testing.T) {
	list := ""
	for i := range MaxOwners + 6 {
		list = withOwner(list, fmt.Sprintf("o%02d", i))
	}
	if !hasMoreOwners(list) {
		t.Fatalf("no mark in %s", list)
	}
	list = withOwner(withoutOwner(withoutOwner(list, "o01"), "o02"), "new")
	if !hasMoreOwners(list) {
		t.Errorf("lost the mark: %s", list)
	}
	if isAlone(withOwner(`"new"`, moreOwners), "new") || isAlone(withOwner(`"`+moreOwners+`"`, "new"), "new") {
		t.Error("alone beside the mark")
	}
}

// FuzzVersion: no bytes make a panic, and what is read as good is written the same.
func FuzzVersion(f *testing.F) {
	m := recorder(f, nil)
	own := goodVersion()
	f.Add(appendVersion(nil, m, &own))
	own.session, own.why, own.by, own.ttl, own.margin, own.state = "", "", "", 0, 0, VersionHeld
	f.Add(appendVersion(nil, m, &own))
	f.Add(appendBeat(nil, m, "o", 1))
	f.Add(appendSessionBeat(nil, m, minute, second))
	f.Add(appendCall(nil, m, "n", 1))
	f.Add([]byte(`{"v": 2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var v version
		var b beat
		if parseVersion(body, 7, &v) == readGood {
			if v.n != 7 || v.origin > v.n || v.ttl < 0 || v.margin < 0 || !isOwners([]byte("["+string(v.owners)+"]")) {
				t.Errorf("%+v", v)
			}
		}
		for _, parse := range []func([]byte, *beat) readResult{parseBeat, parseSessionBeat, parseCall} {
			if parse(body, &b) == readGood && (b.boottime < 0 || b.ttl < 0) {
				t.Errorf("%+v", b)
			}
		}
	})
}
