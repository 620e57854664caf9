package core

import (
	"bytes"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
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
	return names, messages
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

// Beginnings of messages.
const (
	msgStart  = "\xa4mono\x01\xa4wall\x02"
	msgWoke   = msgStart + "\xa4kind\xa4woke"
	msgAnswer = msgStart + "\xa4kind\xa6answer"
	msgAsked  = msgAnswer + "\xa7request\x01"
	msgDone   = msgAsked + "\xa7outcome\xa3yes"
	msgWake   = "\xa4kind\xa4wake"
	msgHeld   = "\xa5state\xa4held"
	msgLost   = "\xa4kind\xa4lost\xa6reason\xa5taken"
)

// malformed breaks every rule, most of them in every way.
var malformed = []struct {
	rule, sort, message string
	offset              int
}{
	{ruleLong, "input", strings.Repeat("\x83"+msgWoke, MaxMessage), 0},
	{ruleLong, "actions", "\x90" + strings.Repeat("\x00", MaxMessage), 0},
	{ruleLong, "config", "\x80" + strings.Repeat("\x00", MaxMessage), 0},
	{ruleTruncated, "input", "", 0},
	{ruleTruncated, "actions", "", 0},
	{ruleTruncated, "config", "", 0},
	{ruleTruncated, "input", "\x83", 1},
	{ruleTruncated, "input", "\x83" + msgStart[:5], 6},
	{ruleTruncated, "input", "\x83\xa4mono\xcd\x01", 6},
	{ruleTruncated, "input", "\x83\xa4mono\xcc", 6},
	{ruleTruncated, "input", "\x83\xa4mono\xcf\x01\x02\x03\x04\x05\x06\x07", 6},
	{ruleTruncated, "input", "\x83\xa4mono\xd3\x81\x02\x03\x04\x05\x06\x07", 6},
	{ruleTruncated, "input", "\x83" + msgWoke[:len(msgWoke)-1], 18},
	{ruleTruncated, "input", "\x83\xa4mon", 1},
	{ruleTruncated, "input", "\x86" + msgDone + "\xa4body\xc4\x02x", 1 + len(msgDone) + 5},
	{ruleTruncated, "input", "\x86" + msgDone + "\xa4body\xc6\xff\xff\xff\xffx", 1 + len(msgDone) + 5},
	{ruleTruncated, "input", "\xdf\xff\xff\xff\xff" + msgWoke, 0},
	{ruleTruncated, "actions", "\x91", 1},
	{ruleTruncated, "actions", "\xdd\xff\xff\xff\xff", 0},
	{ruleTruncated, "actions", "\x91\x83" + msgLost + "\xa5sight", 31},
	{ruleTruncated, "config", "\x81\xa4name\xdb\xff\xff\xff\xffx", 6},
	{ruleLong, "answer", "\x80" + strings.Repeat("\x00", MaxMessage), 0},
	{ruleTruncated, "answer", "", 0},
	{ruleTruncated, "answer", "\x82" + msgHeld, 1 + len(msgHeld)},
	{ruleTruncated, "answer", "\x82" + msgHeld + "\xa7actions\xdd\xff\xff\xff\xff", 1 + len(msgHeld) + 8},
	{ruleTrailing, "answer", "\x81" + msgHeld + "\x00", 1 + len(msgHeld)},
	{ruleMap, "answer", "\x90", 0},
	{ruleArray, "answer", "\x82" + msgHeld + "\xa7actions\x80", 1 + len(msgHeld) + 8},
	{ruleCount, "answer", "\x82" + msgHeld + "\xa7actions\x97" + strings.Repeat("\x81"+msgWake, 7), 1 + len(msgHeld) + 8},
	{ruleZero, "answer", "\x82" + msgHeld + "\xa7actions\x90", 1 + len(msgHeld) + 8},
	{ruleMissing, "answer", "\x80", 0},
	{ruleMissing, "answer", "\x81\xa5error\xa5clock", 0},
	{ruleNotOfKind, "answer", "\x83" + msgHeld + "\xa5error\xa5clock\xa4text\xa1x", 0},
	{ruleUnknown, "answer", "\x82" + msgHeld + "\xa6holder\xa1h", 1 + len(msgHeld)},
	{ruleKeyOrder, "answer", "\x82\xa4idle\xc3" + msgHeld, 7},
	{ruleName, "answer", "\x81\xa5state\xa7excited", 7},
	{ruleName, "answer", "\x82\xa5error\xa5sorry\xa4text\xa1x", 7},
	{ruleTrailing, "input", "\x83" + msgWoke + "\x00", 1 + len(msgWoke)},
	{ruleTrailing, "input", "\x83" + msgWoke + "\xa5brief\xc3", 1 + len(msgWoke)},
	{ruleTrailing, "actions", "\x90\x80", 1},
	{ruleTrailing, "config", "\x80\x80", 1},
	{ruleMap, "input", "\x93" + msgWoke, 0},
	{ruleMap, "input", "\xc0", 0},
	{ruleMap, "actions", "\x91\xc0", 1},
	{ruleMap, "actions", "\x91\x83" + msgLost + "\xa5sight\xc0", 31},
	{ruleMap, "config", "\xa1x", 0},
	{ruleArray, "actions", "\x80", 0},
	{ruleArray, "actions", "\xc0", 0},
	{ruleCount, "actions", "\x97" + strings.Repeat("\x81"+msgWake, 7), 0},
	{ruleCount, "actions", "\xdc\x00\x10" + strings.Repeat("\x81"+msgWake, 16), 0},
	{ruleKeyType, "input", "\x84" + msgWoke + "\x01\x02", 1 + len(msgWoke)},
	{ruleKeyType, "input", "\x83\xc4\x04mono\x01", 1},
	{ruleKeyOrder, "input", "\x83\xa4wall\x02\xa4mono\x01\xa4kind\xa4woke", 7},
	{ruleKeyOrder, "actions", "\x91\x82\xa5at_ns\x01" + msgWake, 9},
	{ruleKeyOrder, "config", "\x82\xa6ttl_ns\x01\xa4name\xa1x", 9},
	{ruleDuplicate, "input", "\x84" + msgStart + "\xa4wall\x02\xa4kind\xa4woke", 13},
	{ruleDuplicate, "config", "\x82\xa3tid\x01\xa3tid\x01", 6},
	{ruleDuplicate, "actions", "\x91\x83" + msgLost + "\xa5sight\x82\xa5state\xa4held\xa5state\xa4held", 43},
	{ruleUnknown, "input", "\x84" + msgWoke + "\xa1x\x01", 1 + len(msgWoke)},
	{ruleUnknown, "input", "\x84" + msgWoke + "\xa0\x01", 1 + len(msgWoke)},
	{ruleUnknown, "config", "\x81\xa9margin_nz\x01", 1},
	{ruleMissing, "input", "\x80", 0},
	{ruleMissing, "input", "\x82\xa4mono\x01\xa4wall\x02", 0},
	{ruleMissing, "input", "\x82\xa4wall\x01\xa4kind\xa4woke", 0},
	{ruleMissing, "input", "\x83" + msgAnswer, 0},
	{ruleMissing, "input", "\x84" + msgAsked, 0},
	{ruleMissing, "actions", "\x91\x80", 1},
	{ruleMissing, "actions", "\x91\x82\xa4kind\xa3get\xa7request\x01", 1},
	{ruleMissing, "actions", "\x91\x81\xa4kind\xa4lost", 1},
	{ruleMissing, "actions", "\x91\x83" + msgLost + "\xa5sight\x80", 31},
	{ruleNotOfKind, "input", "\x84" + msgWoke + "\xa5brief\xc3", 0},
	{ruleNotOfKind, "input", "\x84" + msgStart + "\xa4kind\xa7acquire\xa7request\x01", 0},
	{ruleNotOfKind, "input", "\x86" + msgStart + "\xa4kind\xa6answer\xa7wait_ns\x01\xa7request\x01\xa7outcome\xa2no", 0},
	{ruleNotOfKind, "actions", "\x91\x82" + msgWake + "\xa6holder\xa1h", 1},
	{ruleInt, "input", "\x83\xa4mono\xa11\xa4wall\x02\xa4kind\xa4woke", 6},
	{ruleInt, "input", "\x83\xa4mono\xcb\x00\x00\x00\x00\x00\x00\x00\x00", 6},
	{ruleInt, "input", "\x83\xa4mono\xc0", 6},
	{ruleInt, "config", "\x81\xa3tid\xc3", 5},
	{ruleRange, "input", "\x83\xa4mono\xcf\x80\x00\x00\x00\x00\x00\x00\x00\xa4wall\x02\xa4kind\xa4woke", 6},
	{ruleRange, "input", "\x85" + msgAnswer + "\xa7request\xff\xa7outcome\xa3yes", 1 + len(msgAnswer) + 8},
	{ruleRange, "config", "\x81\xa3tid\xd0\x80", 5},
	{ruleStr, "input", "\x83" + msgStart + "\xa4kind\x08", 18},
	{ruleStr, "input", "\x83" + msgStart + "\xa4kind\xc4\x04woke", 18},
	{ruleStr, "config", "\x81\xa4name\xc0", 6},
	{ruleUTF8, "config", "\x81\xa4name\xa2a\xff", 6},
	{ruleUTF8, "config", "\x81\xa4name\xa3\xed\xa0\x80", 6},
	{ruleUTF8, "config", "\x81\xa1\xff\x01", 1},
	{ruleUTF8, "actions", "\x91\x83" + msgLost + "\xa5sight\x82\xa5state\xa4held\xa4host\xa1\xc0", 48},
	{ruleBin, "input", "\x86" + msgDone + "\xa4body\xa2{}", 1 + len(msgDone) + 5},
	{ruleBin, "config", "\x81\xa4seed\xd9\x2016 bytes of str??16 bytes of str", 6},
	{ruleSeed, "config", "\x81\xa4seed\xc4\x0f123456789012345", 6},
	{ruleSeed, "config", "\x81\xa4seed\xc4\x1112345678901234567", 6},
	{ruleBool, "input", "\x84" + msgStart + "\xa4kind\xa7release\xa5brief\x01", 32},
	{ruleName, "input", "\x83" + msgStart + "\xa4kind\xa4Woke", 18},
	{ruleName, "input", "\x85" + msgAsked + "\xa7outcome\xa5maybe", 1 + len(msgAsked) + 8},
	{ruleName, "actions", "\x91\x81\xa4kind\xacActionKind(7", 7},
	{ruleName, "config", "\x81\xa8protocol\xa6strict", 10},
	{ruleForm, "input", "\x83\xd9\x04mono\x01", 1}, // a key has a form too
	{ruleForm, "input", "\xde\x00\x03" + msgWoke, 0},
	{ruleForm, "input", "\xdf\x00\x00\x00\x03" + msgWoke, 0},
	{ruleForm, "actions", "\xdc\x00\x01\x81" + msgWake, 0},
	{ruleForm, "actions", "\xdd\x00\x00\x00\x01\x81" + msgWake, 0},
	{ruleForm, "input", "\x83\xa4mono\xcc\x7f", 6},
	{ruleForm, "input", "\x83\xa4mono\xcd\x00\xff", 6},
	{ruleForm, "input", "\x83\xa4mono\xce\x00\x00\xff\xff", 6},
	{ruleForm, "input", "\x83\xa4mono\xcf\x00\x00\x00\x00\xff\xff\xff\xff", 6},
	{ruleForm, "input", "\x83\xa4mono\xd0\x05", 6},
	{ruleForm, "input", "\x83\xa4mono\xd0\xe0", 6},
	{ruleForm, "input", "\x83\xa4mono\xd1\xff\x80", 6},
	{ruleForm, "input", "\x83\xa4mono\xd1\x01\x00", 6},
	{ruleForm, "input", "\x83\xa4mono\xd2\xff\xff\x80\x00", 6},
	{ruleForm, "input", "\x83\xa4mono\xd3\xff\xff\xff\xff\x80\x00\x00\x00", 6},
	{ruleForm, "input", "\x83\xa4mono\xd3\x7f\xff\xff\xff\x80\x00\x00\x00", 6},
	{ruleForm, "input", "\x83" + msgStart + "\xa4kind\xd9\x04woke", 18},
	{ruleForm, "config", "\x81\xa4name\xda\x00\x01x", 6},
	{ruleForm, "config", "\x81\xa4name\xdb\x00\x00\x00\x01x", 6},
	{ruleForm, "input", "\x86" + msgDone + "\xa4body\xc5\x00\x01x", 1 + len(msgDone) + 5},
	{ruleForm, "input", "\x86" + msgDone + "\xa4body\xc6\x00\x00\x00\x01x", 1 + len(msgDone) + 5},
	{ruleZero, "input", "\x84" + msgStart + "\xa4kind\xa7acquire\xa7wait_ns\x00", 34},
	{ruleZero, "input", "\x84" + msgStart + "\xa4kind\xa7release\xa5brief\xc2", 32},
	{ruleZero, "input", "\x85" + msgAnswer + "\xa7request\x00\xa7outcome\xa3yes", 1 + len(msgAnswer) + 8},
	{ruleZero, "input", "\x86" + msgDone + "\xa5class\xa4none", 1 + len(msgDone) + 6},
	{ruleZero, "input", "\x86" + msgDone + "\xa4body\xc4\x00", 1 + len(msgDone) + 5},
	{ruleZero, "input", "\x83" + msgStart + "\xa4kind\xa0", 18},
	{ruleZero, "config", "\x81\xa4name\xa0", 6},
	{ruleZero, "config", "\x81\xa3tid\x00", 5},
	{ruleZero, "config", "\x81\xa4seed\xc4\x10" + strings.Repeat("\x00", 16), 6},
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
	if len(sightKeys) != sightFields || len(actionKeys) != actSight+1 || len(inputKeys) != inBody+1 {
		t.Error("keys and their places differ")
	}
}

func TestInputRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, ev := anyInstant(t), anyEvent(t)
		message := AppendInput([]byte("before"), now, &ev)[len("before"):]
		var gotNow Instant
		var got Event
		if err := DecodeInput(message, &gotNow, &got); err != nil {
			t.Fatal(err)
		}
		if len(ev.Body) == 0 {
			ev.Body = nil
		}
		if gotNow != now || !reflect.DeepEqual(got, ev) {
			t.Fatalf("%+v %+v, want %+v %+v", gotNow, got, now, ev)
		}
	})
}

func TestActionsRoundTrip(t *testing.T) {
	var buf AnswerBuffer // in use all the time, as a host has it
	rapid.Check(t, func(t *rapid.T) {
		actions := anyActions(t)
		got, err := decodeActions(appendActions(nil, actions), &buf)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(toWireActions(got), toWireActions(actions)) {
			t.Fatalf("%+v, want %+v", got, actions)
		}
	})
}

func TestAnswerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyAnswer(t)
		message := appendAnswer(&want)
		if len(message) > MaxMessage {
			t.Skip("longer than a message")
		}
		var got Answer
		if err := DecodeAnswer(message, new(AnswerBuffer), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(appendAnswer(&got), message) || got.State != want.State || got.Idle != want.Idle ||
			len(got.Actions) != len(want.Actions) || !reflect.DeepEqual(got.Err, want.Err) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, got := anyConfig(t), Config{}
		if err := DecodeConfig(AppendConfig(nil, &c), &got); err != nil || got != c {
			t.Fatalf("%+v, %v, want %+v", got, err, c)
		}
	})
}

// TestMessagesAreMsgpack: msgpack/v5 writes the same bytes, of every kind.
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
	message, held := appendActions(nil, actions), appendActions(nil, []Action{{Kind: ActionHeld, Holder: "h"}})
	dst := make([]byte, 0, 1024)
	var now Instant
	var ev Event
	var buf AnswerBuffer
	if err := DecodeInput(input, &now, &ev); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(){
		"DecodeInput": func() { _ = DecodeInput(input, &now, &ev) },
		"AppendInput": func() { dst = AppendInput(dst[:0], now, &ev) },
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
