package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, s *fakeStore, o *Object)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		test(t, s, open(t, s))
		s.landing.Wait()
	})
}

func count(t *testing.T, o *Object, token uint64) error {
	t.Helper()
	_, err := o.Update(t.Context(), tenure(token), increment)
	return err
}

func counted(t *testing.T, o *Object, want string) {
	t.Helper()
	read, err := o.Read(t.Context())
	ok(t, err)
	same(t, "counter", string(read.Body), want)
}

// The update counts once, in whatever way the answer of a create is lost.
func TestLostAnswers(t *testing.T) {
	for name, f := range map[string]fault{
		"applied":            {lost: true},
		"not applied":        {refused: core.ClassUnreachable},
		"throttled":          {refused: core.ClassThrottled},
		"applied a bit late": {late: 40 * time.Millisecond},
		"applied very late":  {late: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
				ok(t, count(t, o, 1))
				s.once(f)
				ok(t, count(t, o, 1))
				s.landing.Wait()
				counted(t, o, "2")
				same(t, "slots", o.slots(t), 2)
			})
		})
	}
}

// A store answers "exists" to its own success, because a proxy or an SDK sends each
// request twice.
func TestExistsOfOneself(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		s.On = func(ctx context.Context, c *storetest.Call, apply func(context.Context) error) error {
			if c.Verb == "create" {
				_ = apply(ctx)
			}
			return apply(ctx)
		}
		ok(t, count(t, o, 1))
		ok(t, count(t, o, 1))
		counted(t, o, "2")
		result, won, err := CreateOnce(t.Context(), s, "result", tenure(1), []byte("x"))
		ok(t, err)
		if !won || string(result.Body) != "x" {
			t.Errorf("won %v: %+v", won, result)
		}
	})
}

// If the fate of a write stays unknown, its error says so, and how to settle it.
func TestUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		s.on(func(string) fault { return fault{late: time.Minute} })
		err := count(t, o, 1)
		is(t, err, ErrUnknown)
		is(t, err, errFake)
		unknown, isUnknown := errors.AsType[*UnknownError](err)
		if !isUnknown || unknown.Number != 1 || unknown.Nonce == "" || !strings.Contains(err.Error(), "compare the nonce") {
			t.Fatal(err)
		}
		same(t, "creates", strings.Count(s.Requests(), "create"), settleTries)
		s.on(nil)
		s.landing.Wait()
		read, err := o.Read(t.Context())
		ok(t, err)
		same(t, "nonce", read.Nonce, unknown.Nonce)
		counted(t, o, "1")
	})
}

// After Raise, no write that is still under way can land.
func TestRaiseStopsWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		ok(t, count(t, o, 5))
		s.on(func(string) fault { return fault{late: time.Minute} })
		is(t, count(t, o, 5), ErrUnknown)
		s.on(nil)
		_, err := o.Raise(t.Context(), tenure(6))
		ok(t, err)
		s.landing.Wait()
		counted(t, o, "1")
		same(t, "slots", o.slots(t), 2)
	})
}

func TestHopelessStoresAreAskedOnce(t *testing.T) {
	for _, class := range []core.Class{core.ClassUnauthorized, core.ClassReadOnly, core.ClassFull, core.ClassNoSuchStore} {
		bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
			s.on(func(string) fault { return fault{refused: class} })
			is(t, count(t, o, 1), ErrUnknown)
			same(t, class.String(), s.Requests(), "list create get")
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errFake)
		_, err := o.Write(ctx, tenure(1), nil)
		same(t, "error", err, errFake)
		_, _, err = CreateOnce(ctx, s, "result", tenure(1), nil)
		same(t, "error", err, errFake)
		same(t, "requests", s.Requests(), "")

		s.on(func(string) fault { return fault{refused: core.ClassUnreachable} })
		short, cancelShort := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancelShort()
		_, err = o.Write(short, tenure(1), nil)
		is(t, err, ErrUnknown)
		is(t, err, context.DeadlineExceeded)

		s.on(nil)
		s.Close()
		_, errWrite := o.Write(t.Context(), tenure(1), nil)
		_, _, errCreate := CreateOnce(t.Context(), s, "result", tenure(1), nil)
		for _, err := range []error{errWrite, errCreate} {
			if is(t, err, store.ErrClosed); errors.Is(err, ErrUnknown) {
				t.Error("nothing was sent, but the error says that the outcome is unknown")
			}
		}
	})
}

// fill writes n slots, one a second.
func fill(t *testing.T, o *Object, n int, token uint64) {
	t.Helper()
	for range n {
		ok(t, count(t, o, token))
		time.Sleep(time.Second)
	}
}

func TestOldSlotsAreCollected(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		fill(t, o, 600, 1)
		if n := o.slots(t); n < keepSlots || n > 60+2*collectEach+collectMost {
			t.Errorf("%d slots are left", n)
		}
		counted(t, o, "600")
		if !strings.Contains(s.Requests(), "delete") {
			t.Error("nothing was deleted")
		}
	})
}

// The newest slots stay, however old they are.
func TestNewestSlotsStay(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		fill(t, o, 2*collectEach-1, 1)
		time.Sleep(24 * time.Hour)
		fill(t, o, 2, 1)
		same(t, "slots", o.slots(t), keepSlots+1)
		page, _, err := o.list(t.Context(), "", 0)
		ok(t, err)
		for i := range page {
			same(t, "key", page[i].Key, o.slotKey(uint64(2*collectEach+1-i)))
		}
	})
}

// A create wins nothing if it lands on a number that was collected meanwhile. With a
// slot a second, 34 and all slots below it are collected when 97 is written:
//
//	us:     newest is 33 ── create 34 ═══════════════════════════════ won! ── confirm: no ── again
//	other:       34 … 103, and 34 is collected                      ┘
func TestLateCreateOfACollectedSlot(t *testing.T) {
	for name, test := range map[string]struct {
		other uint64 // the other's token
		slots int    // slots that the other writes meanwhile
		want  error
		count string
	}{
		"of one tenure":           {5, 75, nil, "109"}, // 33, 75 and ours, once
		"of a zombie":             {6, 75, ErrStale, "108"},
		"successor collected too": {6, 160, ErrUnknown, "193"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
				fill(t, o, 33, 5)
				s.once(fault{slow: time.Duration(test.slots-5) * time.Second})
				done := make(chan error)
				go func() { done <- count(t, o, 5) }()
				synctest.Wait()
				fill(t, open(t, s), test.slots, test.other)
				if err := <-done; !errors.Is(err, test.want) {
					t.Errorf("error %v; want %v", err, test.want)
				}
				counted(t, o, test.count)
				if _, err := o.get(t.Context(), o.slotKey(34), 34); test.want != ErrUnknown && !errors.Is(err, store.ErrAbsent) {
					t.Errorf("the late slot was left behind: %v", err)
				}
			})
		})
	}
}

// A create that was applied in time counts although its answer comes late, if its slot
// is the newest or if the next slot names it. Otherwise its outcome is unknown.
func TestLateAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		after int
		want  error
	}{
		"newest": {0, nil}, "named by the next": {5, nil}, "the next is collected": {160, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
				fill(t, o, 20, 1)
				s.once(fault{answer: 300 * time.Second})
				done := make(chan error)
				go func() { done <- count(t, o, 1) }()
				synctest.Wait()
				fill(t, open(t, s), test.after, 1)
				if err := <-done; test.want == nil {
					ok(t, err)
				} else {
					is(t, err, test.want)
				}
				read, err := o.Read(t.Context())
				ok(t, err)
				same(t, "slot", read.Number, uint64(21+test.after))
			})
		})
	}
}

// Our create was applied, and its answer lost. The slot was collected, and another's
// late create landed there. We must not take that one for our failure.
func TestLateCreateOfAnotherInOurPlace(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakeStore, o *Object) {
		fill(t, o, 33, 1)
		s.once(fault{answer: 70 * time.Second, told: store.Fail("create", "", core.ClassUnreachable, errFake)})
		done := make(chan error)
		go func() { done <- count(t, o, 1) }()
		synctest.Wait()
		other := open(t, s)
		fill(t, other, 65, 1)
		late := Slot{Number: 34, Token: 1, Holder: tenure(1).Holder, Nonce: "late", Written: 34}
		ok(t, s.Store.Create(t.Context(), o.slotKey(34), late.encode(), contentType)) // it was collected
		ok(t, <-done)
		counted(t, o, "99") // 33, ours once, 65
	})
}

// A suspended machine's monotonic clock may stand still: the wall clock counts.
func TestSuspended(t *testing.T) {
	o := open(t, untouchable{})
	then := time.Now()
	o.now = func() time.Time { return then.Round(0).Add(time.Hour) }
	same(t, "since", o.since(then), time.Hour)
}

// A reader gives up on a list that keeps naming slots that are not there.
func TestListOfWhatIsNotThere(t *testing.T) {
	s := newStore(t)
	s.On = func(_ context.Context, c *storetest.Call, apply func(context.Context) error) error {
		if c.Verb == "list" {
			c.Page = []store.Info{{Key: c.Key + "fffffffffffffff0"}}
			return nil
		}
		return apply(t.Context())
	}
	_, err := open(t, s).Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "linearizable") {
		t.Error(err)
	}
}
