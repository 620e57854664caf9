package core

import (
	"errors"
	"reflect"
	"testing"
)

// semaphoreMessages are those that came with semaphores and with buckets.
func semaphoreMessages(now Instant, add func(name string, message []byte)) {
	for _, ev := range []Event{
		{
			Kind: EventAcquire, Wait: Forever, Permit: 1<<64 - 1, Capacity: 1 << 20, Width: 1 << 16, Weight: 1<<32 - 1, Spare: 3,
			Label: []byte("h\u00e9"), Session: []byte("s-1"), SessionUntil: 1 << 40,
		},
		{Kind: EventAcquire, Capacity: 5, Width: 2, Holder: []byte("h\u00e9")},
		{Kind: EventRelease, Permit: 200},
		{Kind: EventRelease, Weight: 300, Holder: []byte("h")},
		{Kind: EventCancel, Permit: 7},
		{Kind: EventLimit, Permit: 1, StoreLimit: 1 << 40},
		{Kind: EventLimit, Permit: 2, StoreStamp: 5, StoreAt: 6},
		{Kind: EventDown, Holder: []byte("h")},
	} {
		add("input "+ev.Kind.String(), AppendInput(nil, now, &ev))
	}
	sight := &Sighting{
		State: ObservedHeld, Epoch: 9, Left: -5, Print: 7, Since: 6, Capacity: 100, Width: 1, Held: 140, Limit: 1 << 40,
		Permits: []byte(`["h","s-1",1]`), Dead: []byte("s-1,s-2"),
	}
	for _, a := range []Action{
		{Kind: ActionWaiting, Sight: sight, Permit: 3},
		{Kind: ActionHeld, At: Never, Wall: 1 << 60, Epoch: 9, Token: 9, Holder: "h", Session: "s-1", Permit: 3, Total: 140},
		{Kind: ActionRefused, Reason: ReasonCrowded, Sight: sight, Permit: 4},
		{Kind: ActionRefused, Reason: ReasonTooHeavy},
		{Kind: ActionRefused, Reason: ReasonOutOfBuckets},
		{Kind: ActionLost, Reason: ReasonExpired, Permit: 3},
		{Kind: ActionReleased, At: 5, Epoch: 10, Permit: 3},
		{Kind: ActionLimited, Permit: 1, Epoch: 10},
		{Kind: ActionGranted, Total: 1 << 36},
		{Kind: ActionCounted, Body: []byte("[]")},
		{Kind: ActionCounted, Count: 2, Body: []byte("[4,1]"), Total: 4},
		{Kind: ActionSeen, Sight: sight},
	} {
		add("actions "+a.Kind.String(), appendActions(nil, []Action{a}))
	}
	for _, a := range []Answer{
		{State: BucketsReady.String(), Idle: true, Actions: []Action{
			{Kind: ActionRefused, Reason: ReasonFull},
			{Kind: ActionCounted, Count: 1, Body: []byte("[4]"), Total: 3},
		}},
		{State: SemaphoreCommitting.String(), Actions: []Action{{Kind: ActionWaiting, Sight: sight, Permit: 3}, {Kind: ActionWake, At: 5}}},
	} {
		add("answer", appendAnswer(&a))
	}
	add("config semaphore", AppendConfig(nil, &Config{
		Machine: MachineSemaphore, Protocol: ProtocolStrict, Name: "n", OnSession: true, Seed: [16]byte{1},
	}))
	add("config buckets", AppendConfig(nil, &Config{Machine: MachineBuckets, Protocol: ProtocolStrict, Seed: [16]byte{1}}))
}

// TestAskedOfTheWrongKind: AppendInput passes over what is asked of a semaphore
// only where none of it is set, whatever the kind is; so an event that has any of
// it and may not makes a message that is refused, and not one without it.
func TestAskedOfTheWrongKind(t *testing.T) {
	for name, set := range map[string]func(*Event){
		"permit": func(ev *Event) { ev.Permit = 1 }, "capacity": func(ev *Event) { ev.Capacity = 1 },
		"width": func(ev *Event) { ev.Width = 1 }, "weight": func(ev *Event) { ev.Weight = 1 },
		"spare": func(ev *Event) { ev.Spare = 1 }, "store_limit": func(ev *Event) { ev.StoreLimit = 1 },
		"label": func(ev *Event) { ev.Label = []byte("l") }, "holder": func(ev *Event) { ev.Holder = []byte("h") },
	} {
		for _, ev := range []Event{{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes}, {Kind: EventWoke}} {
			var now Instant
			var got Event
			var refused *MessageError
			if err := DecodeInput(AppendInput(nil, now, &ev), &now, &got); err != nil {
				t.Errorf("%s without %s: %v", ev.Kind, name, err)
			}
			set(&ev)
			err := DecodeInput(AppendInput(nil, now, &ev), &now, &got)
			if !errors.As(err, &refused) || refused.Rule != ruleNotOfKind {
				t.Errorf("%s with %s: %v, want: %s", ev.Kind, name, err, ruleNotOfKind)
			}
		}
	}
}

// TestSightingDetaches: no text of a copy is the original's.
func TestSightingDetaches(t *testing.T) {
	var s Sighting
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			v.Field(i).SetBytes([]byte("x"))
		}
	}
	twin := s
	twin.detach()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice && v.Field(i).Pointer() == reflect.ValueOf(twin).Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
}
