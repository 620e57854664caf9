package core

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core/wire"
)

// goldenMessage is a message of testdata/messages.txt: a sort, a kind and a number.
type goldenMessage struct {
	name  string
	bytes []byte
}

// goldenMessages has a message of every kind, for every language that speaks to the
// core. They never change: new ones are added below them.
func goldenMessages(t testing.TB) (all []goldenMessage) {
	t.Helper()
	for _, line := range linesOf(t, "testdata/messages.txt") {
		name, text, _ := strings.Cut(line, ": ")
		message, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, goldenMessage{name, message})
	}
	return all
}

// TestGoldenMessages: each is read, and written again as the same bytes.
func TestGoldenMessages(t *testing.T) {
	names := "\n"
	for _, m := range goldenMessages(t) {
		sort, _, _ := strings.Cut(m.name, " ")
		if say, err := decode(sort, m.bytes); err != nil || !bytes.Equal(encode(say), m.bytes) {
			t.Errorf("%s: read and written again: %x, %v", m.name, encode(say), err)
		}
		names += m.name + ":\n"
	}
	for kind := range 64 {
		for _, prefixed := range []string{"input " + EventKind(kind).String() + " ", "actions " + ActionKind(kind).String() + ":"} {
			if !strings.Contains(prefixed, "(") && !strings.Contains(names, "\n"+prefixed) {
				t.Errorf("%q has no golden message", prefixed)
			}
		}
	}
}

// TestMessageError: an error has its text and its code, and leaves the result zero.
func TestMessageError(t *testing.T) {
	var c Config
	c.TID = 7
	err := DecodeConfig([]byte("\x81\xa4name\xc0"), &c)
	if want := "mopslock: message: not a string (at byte 6)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !errors.Is(err, &Error{Code: ErrorMessage}) || errors.Is(err, &Error{Code: ErrorClock}) {
		t.Errorf("%v has another code", err)
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

// TestKeysHaveTheirLength: a key constant is a header and a text of that length.
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

// TestIntegerForms: the first and last numbers of every form, to and from msgpack/v5.
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

// TestEntriesFit: as many entries as FitEntries says, with all other fields that an
// answer can have, make a message that can be read. Hardly any more would fit.
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

// TestDecodeInputKeepsRoom: entries are made where the last ones were, and nothing
// of what was there before is left, not even after an error.
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
	ev := Event{
		Kind: EventAnswer, Request: 77, Outcome: OutcomeYes, Stamp: 1_756_000_000_000_000_000,
		Body: bytes.Repeat([]byte("record of a lease\n"), 24),
	}
	return AppendInput(nil, Instant{12_345_678_901_234, 1_756_000_000_123_456_000}, &ev)
}

func benchActions() []Action {
	return []Action{
		{
			Kind: ActionPut, Request: 77, Key: "nightly/report/lock/lock.json", Limit: 10 * time.Second,
			Type: LockFileType, Body: bytes.Repeat([]byte("record of a lease\n"), 24),
		},
		{Kind: ActionWake, At: 12_345_678_901_234},
	}
}

func TestCodecAllocatesNothing(t *testing.T) {
	input, actions := benchInput(), benchActions()
	refused := []Action{{Kind: ActionRefused, Reason: ReasonHeld, Observed: &Observed{State: ObservedHeld, Host: []byte("h")}}}
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

// TestAskedOfTheWrongKind: AppendInput writes each field that only a semaphore uses,
// whatever the event's kind is. So if an event has such a field and may not have it,
// its message is refused; AppendInput does not leave the field out.
func TestAskedOfTheWrongKind(t *testing.T) {
	for name, set := range map[string]func(*Event){
		"permit": func(ev *Event) { ev.Permit = 1 }, "capacity": func(ev *Event) { ev.Capacity = 1 },
		"width": func(ev *Event) { ev.Width = 1 }, "weight": func(ev *Event) { ev.Weight = 1 },
		"spare": func(ev *Event) { ev.Spare = 1 }, "store_limit": func(ev *Event) { ev.StoreLimit = 1 },
		"label": func(ev *Event) { ev.Label = []byte("l") }, "holder": func(ev *Event) { ev.Holder = []byte("h") },
	} {
		ev := Event{Kind: EventWoke}
		set(&ev)
		var refused *MessageError
		_, err := decode("input", encode(inputSaid{Event: ev}))
		if !errors.As(err, &refused) || refused.Rule != ruleNotOfKind {
			t.Errorf("woke with %s: %v, want: %s", name, err, ruleNotOfKind)
		}
	}
}
