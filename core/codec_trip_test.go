package core

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// tooLong reports whether a message is longer than any may be, which must be the
// one reason to refuse it; what is not must have been read.
func tooLong(t *rapid.T, message []byte, err error) bool {
	var refused *MessageError
	if len(message) > MaxMessage {
		if !errors.As(err, &refused) || refused.Rule != ruleLong {
			t.Fatalf("%d bytes: %v, want %s", len(message), err, ruleLong)
		}
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

func TestInputRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, ev := anyInstant(t), anyEvent(t)
		message := AppendInput([]byte("before"), now, &ev)[len("before"):]
		var gotNow Instant
		var got Event
		err := DecodeInput(message, &gotNow, &got)
		if tooLong(t, message, err) {
			return
		}
		if len(ev.Body) == 0 {
			ev.Body = nil
		}
		if len(ev.Session) == 0 {
			ev.Session = nil
		}
		if len(ev.Entries) == 0 {
			ev.Entries = nil
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
		var got Answer
		err := DecodeAnswer(message, new(AnswerBuffer), &got)
		if tooLong(t, message, err) {
			return
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
