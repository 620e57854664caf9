package outbox

import (
	"reflect"
	"slices"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
)

const limit = 10 * core.Second

// owner owns requests.
type owner struct {
	Sender
	part
}

type part struct{ core.Part }

// box is an outbox with its alarms.
type box struct {
	*testing.T
	Outbox
	alarms alarms.Alarms
	now    int64
}

func newBox(t *testing.T, slots, transfers uint64) *box {
	b := &box{T: t}
	b.Init(&core.Config{InFlight: slots, Transfers: transfers}, &b.alarms)
	b.Reset()
	return b
}

// ask sends a request of a new owner.
func (b *box) ask(lane Lane) *owner {
	of := &owner{}
	b.Send(of, lane, 7, &core.Action{Kind: core.ActionPut, Key: "k", Body: []byte("b"), Limit: limit}, b.now)
	return of
}

// sent are the ids of the requests that went out since it was asked last.
func (b *box) sent() (ids []core.RequestID) {
	for b.HasNext() {
		if late := b.SendNext(b.now); late != nil {
			b.Errorf("too late: %+v", late)
		}
	}
	for _, a := range b.All() {
		if a.Kind == core.ActionPut {
			ids = append(ids, a.Request)
		}
	}
	b.Reset()
	return ids
}

func (b *box) want(what string, ids ...core.RequestID) {
	b.Helper()
	if got := b.sent(); !slices.Equal(got, ids) {
		b.Errorf("%s: sent %v, not %v", what, got, ids)
	}
}

func (b *box) answer(id core.RequestID, outcome core.Outcome, class core.Class, rest core.Duration) Flight {
	b.Helper()
	ev := core.Event{Kind: core.EventAnswer, Request: id, Outcome: outcome, Class: class, RetryAfter: rest}
	if _, text := b.Check(&ev); text != "" {
		b.Fatal(text)
	}
	return b.Answer(&ev, b.now)
}

// pass rings what is due until a moment, and returns what came too late.
func (b *box) pass(d core.Duration) (late []*Flight) {
	b.now += int64(d)
	for b.alarms.IsDue(b.now) {
		a := b.alarms.First()
		b.alarms.Disarm(a)
		if f := b.Ring(a.Rings.(*Queued)); f != nil {
			late = append(late, f)
		}
	}
	return late
}

// TestLanes: a quarter of the slots is for beats, which go before the usual; transfers have slots of their own.
func TestLanes(t *testing.T) {
	b := newBox(t, 4, 1)
	for range 5 {
		b.ask(Usual)
	}
	b.ask(Transfer)
	b.ask(Transfer)
	b.want("three of four slots, and one transfer", 1, 2, 3, 6)
	b.ask(Beat)
	b.ask(Beat)
	b.want("the last slot", 8)
	b.answer(1, core.OutcomeYes, 0, 0)
	b.want("the beat goes first", 9)
	b.answer(2, core.OutcomeYes, 0, 0)
	b.answer(6, core.OutcomeYes, 0, 0)
	b.want("the next of each", 4, 7)
}

// TestWaitIsOfTheLimit: what waits for a slot is sent with what is left of its limit, or is answered.
func TestWaitIsOfTheLimit(t *testing.T) {
	b := newBox(t, 2, 1)
	b.ask(Usual)
	second := b.ask(Usual)
	third := b.ask(Usual)
	b.want("one slot", 1)
	b.now += int64(limit) / 4
	b.answer(1, core.OutcomeYes, 0, 0)
	b.SendNext(b.now)
	if a := b.All()[0]; a.Limit != limit*3/4 || a.Claim != 7 || string(a.Body) != "b" {
		t.Errorf("%+v", a)
	}
	b.Reset()
	late := b.pass(limit)
	if len(late) != 1 || late[0].Owner != Owner(third) || third.flights[0] != 0 || second.flights[0] == 0 {
		t.Errorf("%+v", late)
	}
	b.answer(2, core.OutcomeUnknown, core.ClassUnreachable, 0)
	b.want("nothing is left")
	if !b.IsEmpty() || b.alarms.First() != nil {
		t.Error("not empty")
	}
}

// TestRest: a store that asks to be left alone is, but for half of a limit at the most, and not by who does not wait.
func TestRest(t *testing.T) {
	b := newBox(t, 4, 1)
	b.ask(Beat)
	b.want("before", 1)
	b.answer(1, core.OutcomeUnknown, core.ClassThrottled, limit/4)
	b.ask(Beat)
	direct := &owner{Sender: Sender{Direct: true}}
	b.Send(direct, Usual, 0, &core.Action{Kind: core.ActionPut, Limit: limit}, b.now)
	b.want("only who does not wait", 3)
	b.pass(limit / 4)
	b.want("the rest is over", 2)
	b.answer(2, core.OutcomeUnknown, core.ClassThrottled, 100*limit)
	b.ask(Beat)
	b.pass(limit/2 - 1)
	b.want("not yet")
	b.pass(1)
	b.want("half of the limit", 4)
}

// TestTransfersRest: a transfer leaves a store alone as all others do, also one that waited for a slot; and one that
// is ended meanwhile is answered at once, and is not sent.
func TestTransfersRest(t *testing.T) {
	b := newBox(t, 4, 2)
	b.ask(Transfer)
	b.ask(Transfer)
	b.ask(Transfer)
	b.want("two slots", 1, 2)
	b.answer(1, core.OutcomeUnknown, core.ClassThrottled, limit/4)
	b.want("a slot is free, and the store asks to be left alone")
	b.pass(limit/4 - 1)
	b.want("not yet")
	b.pass(1)
	b.want("the rest is over", 3)
	b.answer(3, core.OutcomeUnknown, core.ClassThrottled, limit/4)
	ended := b.ask(Transfer)
	b.EndTransfer(ended, 0, b.now)
	if late := b.pass(0); len(late) != 1 || late[0].Owner != Owner(ended) {
		t.Errorf("ended while it rests: %+v", late)
	}
	b.pass(limit / 4)
	b.want("nothing is left")
}

// TestAbandon: what nobody wants any more is told to the host and keeps its slot; what was not sent is forgotten.
func TestAbandon(t *testing.T) {
	b := newBox(t, 2, 1)
	of := b.ask(Usual)
	waiting := b.ask(Usual)
	b.want("one slot", 1)
	b.Abandon(waiting)
	b.Send(of, Usual, 7, &core.Action{Kind: core.ActionPut, Limit: limit}, b.now) // gives up the one before
	if a := b.All(); len(a) != 1 || a[0].Kind != core.ActionAbandon || a[0].Request != 1 {
		t.Errorf("%+v", a)
	}
	b.want("its slot is taken")
	if f := b.answer(1, core.OutcomeYes, 0, 0); f.Owner != nil {
		t.Error("somebody wants it")
	}
	b.want("then the next", 3)
}

// TestEndTransfer: a transfer that is ended is answered all the same.
func TestEndTransfer(t *testing.T) {
	b := newBox(t, 2, 1)
	of, waiting := b.ask(Transfer), b.ask(Transfer)
	b.want("one slot", 1)
	for range 2 { // told once
		b.EndTransfer(of, 0, b.now)
	}
	if a := b.All(); len(a) != 1 || a[0].Kind != core.ActionAbandon {
		t.Errorf("%+v", a)
	}
	b.EndTransfer(waiting, 0, b.now)
	if late := b.pass(0); len(late) != 1 || late[0].Owner != Owner(waiting) {
		t.Errorf("%+v", late)
	}
	if f := b.answer(1, core.OutcomeUnknown, core.ClassUnreachable, 0); f.Owner != Owner(of) {
		t.Errorf("%+v", f)
	}
	b.ask(Usual)
	b.AbandonTransfer(b.ask(Usual), 0) // no transfer
	b.want("the usual are not concerned", 3)
}

// TestOutage: it is told once when three in a row have failed in one direction, and its end when both are well.
func TestOutage(t *testing.T) {
	b := newBox(t, 8, 8)
	tells := func(lane Lane, verb core.ActionKind, outcome core.Outcome, class core.Class, want ...core.Action) {
		t.Helper()
		b.now += int64(core.Second)
		b.Send(&owner{}, lane, 7, &core.Action{Kind: verb, Limit: limit}, b.now)
		id := b.All()[0].Request
		b.Reset()
		b.answer(id, outcome, class, 0)
		if !slices.EqualFunc(b.All(), want, func(a, b core.Action) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("%+v, want %+v", b.All(), want)
		}
		b.Reset()
	}
	fails := func(verb core.ActionKind, want ...core.Action) {
		t.Helper()
		tells(Usual, verb, core.OutcomeUnknown, core.ClassThrottled, want...)
		tells(Transfer, core.ActionPutResult, core.OutcomeUnknown, core.ClassUnreachable)
		tells(Usual, verb, core.OutcomeUnknown, core.ClassUnsupported)
	}
	fails(core.ActionPut)
	fails(core.ActionPut)
	tells(Usual, core.ActionGet, core.OutcomeNo, 0) // reads are well
	fails(core.ActionDelete, core.Action{Kind: core.ActionOutage, Verb: core.ActionDelete, Class: core.ClassThrottled, Count: 3})
	fails(core.ActionPut)
	fails(core.ActionGet)
	fails(core.ActionGet)
	fails(core.ActionGet, core.Action{Kind: core.ActionOutage, Verb: core.ActionGet, Class: core.ClassThrottled, Count: 3})
	tells(Beat, core.ActionPut, core.OutcomeYes, 0) // reads still fail
	tells(Beat, core.ActionList, core.OutcomeYes, 0, core.Action{Kind: core.ActionRecovered, Count: 3, Took: 10 * core.Second})
}

// TestTableGrows: ids of what is under way stay good, and each is given once.
func TestTableGrows(t *testing.T) {
	b := newBox(t, 0, 0)
	for range 300 {
		b.ask(Beat)
	}
	ids := b.sent()
	if len(ids) != defaultInFlight {
		t.Error(len(ids), "sent")
	}
	given := map[core.RequestID]bool{}
	for len(ids) > 0 {
		given[ids[0]] = true
		b.answer(ids[0], core.OutcomeYes, 0, 0)
		ids = append(ids[1:], b.sent()...)
	}
	if !b.IsEmpty() || len(given) != 300 {
		t.Error(len(given), "ids")
	}
}
