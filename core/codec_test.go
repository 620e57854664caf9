package core

import (
	"bytes"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core/wire"
	"pgregory.net/rapid"
)

// goldenMessages has a message of every kind; its bytes are in
// testdata/messages.txt, for every language that speaks to the core.
func goldenMessages() (names []string, messages map[string][]byte) {
	messages = map[string][]byte{}
	add := func(name string, message []byte) {
		names = append(names, name)
		messages[name] = message
	}
	now := Instant{Mono: 12_345_678_901, Wall: 1_756_000_000_000_000_000}
	for _, ev := range []Event{
		{Kind: EventAcquire},
		{Kind: EventAcquire, Wait: Forever},
		{Kind: EventAcquire, Wait: time.Minute},
		{Kind: EventAccompany},
		{Kind: EventRelease},
		{Kind: EventRelease, Brief: true},
		{Kind: EventCancel},
		{Kind: EventLeave},
		{Kind: EventChanged},
		{Kind: EventWoke},
		{Kind: EventAnswer, Request: 1, Outcome: OutcomeNo},
		{Kind: EventAnswer, Request: 200, Outcome: OutcomeYes, Stamp: 1_756_000_000_000_000_000, Body: []byte("{}")},
		{Kind: EventAnswer, Request: 1 << 40, Outcome: OutcomeUnknown, Class: ClassThrottled},
	} {
		add("input "+ev.Kind.String()+" "+strconv.Itoa(len(names)), AppendInput(nil, now, &ev))
	}
	sight := &Sighting{
		State: ObservedHeld, Holder: []byte("SwarmTon.JEn7"), Host: []byte("h\u00e9"), PID: []byte("12"), Remote: true,
		TTL: 88 * time.Second, WrittenAt: 1_756_000_000_000_000_000, AcquiredAt: -1, ReleasedAt: 0, LookAt: 1 << 33,
	}
	for _, a := range []Action{
		{Kind: ActionGet, Request: 1, Key: "a/lock/lock.json", Limit: 10 * time.Second},
		{
			Kind: ActionPut, Request: 2, Key: "a/lock/lock.json", Limit: 10 * time.Second,
			Type: LockFileType, Body: []byte("{}"),
		},
		{Kind: ActionWaiting, Sight: sight},
		{Kind: ActionHeld, At: 1 << 40, Wall: 1 << 60, Holder: "h"},
		{Kind: ActionRenewed, At: 1 << 40},
		{Kind: ActionRefused, Reason: ReasonUnreachable, Class: ClassOther},
		{Kind: ActionLost, Reason: ReasonTaken, Sight: &Sighting{State: ObservedStale}},
		{Kind: ActionReleased},
		{Kind: ActionContactLost},
		{Kind: ActionCannotMaintain, Reason: ReasonNoExpiry},
		{Kind: ActionLeft},
		{Kind: ActionWarned, Reason: ReasonCorruptTaken, Key: "a/lock.json"},
		{Kind: ActionDeadline, At: 1 << 40},
		{Kind: ActionWake, At: -40_000},
	} {
		add("actions "+a.Kind.String(), appendActions(nil, []Action{a}))
	}
	add("actions none", appendActions(nil, nil))
	add("actions two", appendActions(nil, []Action{{Kind: ActionReleased}, {Kind: ActionWake, At: 5}}))
	for _, a := range []Answer{
		{State: LeaseIdle.String(), Idle: true},
		{State: LeaseWaiting.String(), Actions: []Action{{Kind: ActionWaiting, Sight: sight}, {Kind: ActionWake, At: 5}}},
		{State: CompanionLeft.String(), Idle: true, Actions: []Action{{Kind: ActionLeft}}},
		{Err: &Error{ErrorConfig, "name: empty"}},
		{Err: &Error{ErrorClock, "clock out of range"}},
		{Err: &Error{ErrorEvent, "answer without an outcome"}},
		{Err: &Error{ErrorRequest, "answer to request 2, but only 1 were issued"}},
		{Err: &MessageError{ruleMap, 7}},
		{Err: errHandle(9)},
	} {
		add("answer "+strconv.Itoa(len(names)), appendAnswer(&a))
	}
	add("config empty", AppendConfig(nil, &Config{}))
	add("config full", AppendConfig(nil, &Config{
		Machine: MachineCompanion, Protocol: ProtocolLastWriter, Name: "a/lock", TTL: DefaultTTL, Margin: 1, AcquireMargin: 2,
		FleetExpire: None, Renewal: RenewalBlind, Expiry: ExpiryObserved, StampUnit: time.Microsecond, Holder: "h",
		Role: RoleOwner, Host: "host", PID: "7", TID: 1<<64 - 1, Seed: [16]byte{15: 1},
	}))
	strictMessages(now, func(name string, message []byte) {
		if _, taken := messages[name]; taken || !strings.HasPrefix(name, "actions") {
			name += " " + strconv.Itoa(len(names))
		}
		add(name, message)
	})
	return names, messages
}

// strictMessages are the golden messages that came with strict.
func strictMessages(now Instant, add func(name string, message []byte)) {
	const key = "a/lock/_mopslock/fffffffffffffffe/v"
	const stamp = 1_756_000_000_000_000_000
	for _, ev := range []Event{
		{Kind: EventBegin},
		{Kind: EventCalled, Epoch: 7, Session: []byte("s-1"), SessionUntil: 1 << 40},
		{Kind: EventWoke, Session: []byte("s-2"), SessionEnd: ReasonUnreachable},
		{Kind: EventWoke, StoreStamp: stamp, StoreAt: -5},
		{Kind: EventAnswer, Request: 3, Outcome: OutcomeYes, Entries: []Entry{{[]byte(key), stamp}, {[]byte("b"), 0}}, More: true},
		{Kind: EventAnswer, Request: 4, Outcome: OutcomeYes, Entries: testEntries(16, 20), StoreStamp: stamp, StoreAt: 9},
		{
			Kind: EventAnswer, Request: 5, Outcome: OutcomeYes, Class: ClassOther, Stamp: -1, Entries: testEntries(1, 1),
			More: true, Body: []byte("{}"), Session: []byte("s"), SessionUntil: Never, SessionEnd: ReasonExpired,
			StoreStamp: stamp, StoreAt: 1,
		},
	} {
		add("input "+ev.Kind.String(), AppendInput(nil, now, &ev))
	}
	sight := &Sighting{
		State: ObservedBroken, Holder: []byte("h"), Host: []byte("w"), PID: []byte("12"), Remote: true, TTL: None, WrittenAt: 1,
		AcquiredAt: 2, ReleasedAt: 3, LookAt: 4, Epoch: 9, Token: 8, Companions: []byte("c1,c2"), Label: []byte("h\u00e9"),
		Session: []byte("s-1"), Why: []byte("stuck"), By: []byte("1@w"), Left: -5, StoreClock: true, Print: 1<<64 - 1, Since: 6,
	}
	request := Action{Request: 1, Key: key, Limit: 10 * time.Second}
	of := func(kind ActionKind, a Action) Action {
		a.Kind = kind
		return a
	}
	for _, a := range []Action{
		of(ActionCreate, Action{Request: 2, Key: key, Limit: 1, Type: "application/json", Body: []byte("{}")}),
		of(ActionExists, request),
		of(ActionDelete, request),
		{Kind: ActionList, Request: 3, Key: "a/lock/_mopslock/", After: key, Count: MaxEntries, Limit: 1},
		{Kind: ActionList, Request: 3, Key: "a/lock/_mopslock/", Count: 1, Limit: 1},
		{Kind: ActionHeld, At: Never, Wall: 1 << 60, Epoch: 9, Token: 8, Holder: "h", Session: "s-1"},
		{Kind: ActionReleased, At: 1 << 40, Epoch: 9},
		{Kind: ActionAdopted, Epoch: 1 << 63},
		{Kind: ActionCalled, Key: "a/lock", Epoch: 10},
		{Kind: ActionCalibrate},
		{Kind: ActionCalibrated, At: 5, Wall: stamp},
		{Kind: ActionBroken, Epoch: 10},
		{Kind: ActionSeen, Sight: sight},
		{Kind: ActionSeen, Sight: &Sighting{State: ObservedVacant}},
		{Kind: ActionRefused, Reason: ReasonVacant, Sight: sight},
	} {
		add("actions "+a.Kind.String(), appendActions(nil, []Action{a}))
	}
	for _, a := range []Answer{
		{State: SessionInForce.String(), Actions: []Action{{Kind: ActionRenewed, At: 7}, {Kind: ActionWake, At: 5}}},
		{State: TaskWorking.String(), Actions: []Action{{Kind: ActionSeen, Sight: sight}, {Kind: ActionWake, At: 5}}},
	} {
		add("answer", appendAnswer(&a))
	}
	add("config strict", AppendConfig(nil, &Config{
		Machine: MachineCompanion, Protocol: ProtocolStrict, Name: "a/lock", TTL: None, Margin: 1, AcquireMargin: 2,
		FleetExpire: 3, Renewal: RenewalChecked, Expiry: ExpiryCalibrated, StampUnit: 4, Holder: "h", Role: RoleOwner,
		StampSpread: None, Boot: "b", OnSession: true, Epoch: 9, Owner: "o", LastEpoch: 8, LastAt: -7, SeenPrint: 1<<64 - 1,
		SeenSince: 6, Beside: true, Why: "stuck", Now: true, Label: "h\u00e9", Host: "w", PID: "1", TID: 2, Seed: [16]byte{1},
	}))
	invocationMessages(now, add)
	semaphoreMessages(now, add)
}

// testEntries are so many, with keys of so many bytes.
func testEntries(n, length int) (all []Entry) {
	for i := range n {
		key := strings.Repeat("k", length-1) + string(rune('!'+i%90))
		all = append(all, Entry{[]byte(key), int64(i) * 1_000_000_007_000})
	}
	return all
}

func TestGoldenMessages(t *testing.T) {
	file, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	names, messages := goldenMessages()
	var lines []string
	for _, name := range names {
		lines = append(lines, name+": "+hex.EncodeToString(messages[name]))
		if again, err := recoded(name, messages[name]); err != nil || !bytes.Equal(again, messages[name]) {
			t.Errorf("%s: read and written again: %x, %v", name, again, err)
		}
	}
	if got := strings.Join(lines, "\n") + "\n"; got != string(file) {
		t.Errorf("testdata/messages.txt differs; messages are for ever. Now:\n%s", got)
	}
	for kind := range 64 {
		for _, prefixed := range []string{"input " + EventKind(kind).String() + " ", "actions " + ActionKind(kind).String() + ":"} {
			if !strings.Contains(prefixed, "(") && !strings.Contains("\n"+string(file), "\n"+prefixed) {
				t.Errorf("%q has no golden message", prefixed)
			}
		}
	}
}

// recoded reads a message, of the sort that its name begins with, and writes it again.
func recoded(name string, message []byte) ([]byte, error) {
	switch strings.Fields(name)[0] {
	case "input":
		var now Instant
		var ev Event
		err := DecodeInput(message, &now, &ev)
		return AppendInput(nil, now, &ev), err
	case "actions":
		actions, err := decodeActions(message, new(AnswerBuffer))
		return appendActions(nil, actions), err
	case "answer":
		var a Answer
		err := DecodeAnswer(message, new(AnswerBuffer), &a)
		return appendAnswer(&a), err
	}
	var c Config
	err := DecodeConfig(message, &c)
	return AppendConfig(nil, &c), err
}

// decodeActions reads actions by themselves.
func decodeActions(b []byte, buf *AnswerBuffer) ([]Action, error) {
	d := newReader(b)
	actions := d.actions(buf)
	if err := d.end(); err != nil {
		return nil, err
	}
	return actions, nil
}

func TestMalformedMessages(t *testing.T) {
	covered := map[string]bool{}
	for _, test := range malformed {
		covered[test.rule] = true
		_, err := recoded(test.sort, []byte(test.message))
		var got *MessageError
		if !errors.As(err, &got) || got.Rule != test.rule || got.Offset != test.offset {
			t.Errorf("%s %.80q: %v, want: %s (at byte %d)", test.sort, test.message, err, test.rule, test.offset)
		}
	}
	for _, rule := range messageRules(t) {
		if !covered[rule] {
			t.Errorf("no message breaks the rule %q", rule)
		}
	}
}

// messageRules is the list of rules at the head of codec.go.
func messageRules(t *testing.T) (rules []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codec.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(c.Names[0].Name, "rule") {
			rule, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
			if err != nil || slices.Contains(rules, rule) {
				t.Errorf("%s: %v, or not distinct", c.Names[0].Name, err)
			}
			rules = append(rules, rule)
		}
		return true
	})
	return rules
}

func TestMessageError(t *testing.T) {
	var c Config
	c.TID = 7
	err := DecodeConfig([]byte("\x81\xa4name\xc0"), &c)
	if want := "mopslock: message: not a string (at byte 6)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if c != (Config{}) {
		t.Errorf("after an error: %+v", c)
	}
	now, ev := Instant{1, 2}, Event{Kind: EventWoke}
	if err := DecodeInput([]byte("\x82\xa4mono\x01\xa4wall\x02"), &now, &ev); err == nil || now != (Instant{}) || ev.Kind != 0 {
		t.Errorf("after %v: %v %v", err, now, ev)
	}
	if !strings.HasPrefix(ruleLong, "longer than "+strconv.Itoa(MaxMessage)+" ") {
		t.Errorf("%q, but MaxMessage is %d", ruleLong, MaxMessage)
	}
}

// TestKeysHaveTheirLength: a key constant is its header and its text.
func TestKeysHaveTheirLength(t *testing.T) {
	for _, keys := range [][]string{inputKeys[:], actionKeys[:], sightKeys[:], configKeys[:]} {
		for _, key := range keys {
			if int(key[0]) != 0xa0+len(key)-1 || len(key) > 32 {
				t.Errorf("%q", key)
			}
		}
	}
	if len(sightKeys) != sightFields || len(actionKeys) != actFields || len(inputKeys) != inFields || len(configKeys) != cfgFields {
		t.Error("keys and their places differ")
	}
}

func TestMessagesAreMsgpack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now, ev := anyInstant(rt), anyEvent(rt)
		if got, want := AppendInput(nil, now, &ev), oracleEncode(t, toWireInput(now, &ev)); !bytes.Equal(got, want) {
			rt.Fatalf("input:\n%x\n%x", got, want)
		}
		actions := anyActions(rt)
		if got, want := appendActions(nil, actions), oracleEncode(t, toWireActions(actions)); !bytes.Equal(got, want) {
			rt.Fatalf("actions:\n%x\n%x", got, want)
		}
		answer := anyAnswer(rt)
		if got, want := appendAnswer(&answer), oracleEncode(t, toWireAnswer(&answer)); !bytes.Equal(got, want) {
			rt.Fatalf("answer:\n%x\n%x", got, want)
		}
		c := anyConfig(rt)
		if got, want := AppendConfig(nil, &c), oracleEncode(t, toWireConfig(&c)); !bytes.Equal(got, want) {
			rt.Fatalf("config:\n%x\n%x", got, want)
		}
	})
}

// TestIntegerForms: the edges of every form, to and from msgpack/v5.
func TestIntegerForms(t *testing.T) {
	for shift := range 64 {
		for _, delta := range []int64{-33, -32, -1, 0, 1} {
			for _, v := range []int64{1<<shift + delta, -(1 << shift) + delta} {
				message := AppendInput(nil, Instant{v, -v}, &Event{Kind: EventWoke})
				if want := oracleEncode(t, wire.Input{Mono: v, Wall: -v, Kind: "woke"}); !bytes.Equal(message, want) {
					t.Fatalf("%d: %x, want %x", v, message, want)
				}
				var now Instant
				var ev Event
				if err := DecodeInput(message, &now, &ev); err != nil || now != (Instant{v, -v}) {
					t.Fatalf("%d: %v, %v", v, now, err)
				}
			}
		}
	}
}

// TestEntriesFit: as many entries as FitEntries says make a message that can be
// read, with all that an answer can have beside them, and few more would fit.
func TestEntriesFit(t *testing.T) {
	for _, length := range []int{1, 31, 32, 100, 255, 256, 800, 1100, MaxMessage} {
		entries := testEntries(MaxEntries+1, length)
		for i := range entries {
			entries[i].Stamp = 1 << 62
		}
		n := FitEntries(entries)
		ev := Event{
			Kind: EventAnswer, Request: 1 << 63, Outcome: OutcomeUnknown, Class: ClassUnauthorized, Stamp: 1 << 62,
			Entries: entries[:n], More: true, Session: bytes.Repeat([]byte{'s'}, MaxHolder), SessionUntil: Never,
			SessionEnd: ReasonUnreachable, StoreStamp: 1 << 62, StoreAt: 1 << 62,
		}
		message := AppendInput(nil, Instant{1 << 62, 1 << 62}, &ev)
		var now Instant
		var got Event
		if err := DecodeInput(message, &now, &got); err != nil || len(got.Entries) != n {
			t.Errorf("%d of %d bytes: %v", n, length, err)
		}
		if n < MaxEntries && MaxMessage-len(message) > length+4<<10 {
			t.Errorf("%d of %d bytes leave %d bytes", n, length, MaxMessage-len(message))
		}
		if n > MaxEntries || FitEntries(entries[:n]) != n {
			t.Errorf("%d of %d bytes, of those %d", n, length, FitEntries(entries[:n]))
		}
	}
}

// TestDecodeInputKeepsRoom: entries are made where the last ones were, and what
// was there before is gone, after an error too.
func TestDecodeInputKeepsRoom(t *testing.T) {
	list := AppendInput(nil, Instant{}, &Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes, Entries: testEntries(3, 4)})
	ev := Event{Kind: EventCalled, Epoch: 7, Entries: make([]Entry, 1, 3)}
	room := &ev.Entries[0]
	var now Instant
	if err := DecodeInput(list, &now, &ev); err != nil || len(ev.Entries) != 3 || &ev.Entries[0] != room || ev.Epoch != 0 {
		t.Errorf("%v: %+v", err, ev)
	}
	for _, message := range [][]byte{AppendInput(nil, now, &Event{Kind: EventWoke}), list[:len(list)-1], nil} {
		err := DecodeInput(message, &now, &ev)
		if len(ev.Entries) != 0 || cap(ev.Entries) != 3 || (err != nil) != (ev.Kind == 0) || ev.Request != 0 {
			t.Errorf("%x: %v: %+v", message, err, ev)
		}
	}
}

func benchInput() []byte {
	own := testOwn()
	ev := Event{
		Kind: EventAnswer, Request: 77, Outcome: OutcomeYes, Stamp: 1_756_000_000_000_000_000,
		Body: appendRecord(nil, &own),
	}
	return AppendInput(nil, Instant{12_345_678_901_234, 1_756_000_000_123_456_000}, &ev)
}

func benchActions() []Action {
	own := testOwn()
	return []Action{
		{
			Kind: ActionPut, Request: 77, Key: "nightly/report/lock/lock.json", Limit: 10 * time.Second,
			Type: LockFileType, Body: appendRecord(nil, &own),
		},
		{Kind: ActionWake, At: 12_345_678_901_234},
	}
}

func TestCodecAllocatesNothing(t *testing.T) {
	input, actions := benchInput(), benchActions()
	refused := []Action{{Kind: ActionRefused, Reason: ReasonHeld, Sight: &Sighting{State: ObservedHeld, Host: []byte("h")}}}
	list := Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes, Entries: testEntries(16, 70), Session: []byte("s")}
	listInput := AppendInput(nil, Instant{}, &list)
	listed := Event{Entries: make([]Entry, 0, MaxEntries)}
	message, held := appendActions(nil, actions), appendActions(nil, []Action{
		{Kind: ActionHeld, Holder: "h", Session: "s"},
		{Kind: ActionList, Request: 1, Key: "n/_mopslock/", After: "n/_mopslock/f", Count: 9, Limit: 1},
	})
	dst := make([]byte, 0, 4096)
	var now Instant
	var ev Event
	var buf AnswerBuffer
	if err := DecodeInput(input, &now, &ev); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(){
		"DecodeInput": func() { _ = DecodeInput(input, &now, &ev) },
		"AppendInput": func() { dst = AppendInput(dst[:0], now, &ev) },
		"DecodeInput of a list": func() {
			if err := DecodeInput(listInput, &now, &listed); err != nil || len(listed.Entries) != 16 {
				t.Fatal(err)
			}
		},
		"AppendInput of a list": func() { dst = AppendInput(dst[:0], now, &list) },
		"AppendActions": func() {
			dst = appendActions(dst[:0], actions)
			dst = appendActions(dst[:0], refused)
		},
		"DecodeActions": func() {
			_, _ = decodeActions(message, &buf)
			_, _ = decodeActions(held, &buf)
		},
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDecodeInput(b *testing.B) {
	message := benchInput()
	var now Instant
	var ev Event
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeInput(message, &now, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendActions(b *testing.B) {
	actions := benchActions()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = appendActions(dst[:0], actions)
	}
}

func BenchmarkAppendInput(b *testing.B) {
	var now Instant
	var ev Event
	if err := DecodeInput(benchInput(), &now, &ev); err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendInput(dst[:0], now, &ev)
	}
}

func BenchmarkDecodeActions(b *testing.B) {
	message := appendActions(nil, benchActions())
	var buf AnswerBuffer
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeActions(message, &buf); err != nil {
			b.Fatal(err)
		}
	}
}

func TestMessageErrorIsACoreError(t *testing.T) {
	err := DecodeConfig([]byte{0xc0}, new(Config))
	if !errors.Is(err, &Error{Code: ErrorMessage}) || errors.Is(err, &Error{Code: ErrorClock}) {
		t.Errorf("%v", err)
	}
}
