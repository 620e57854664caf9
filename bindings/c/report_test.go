//go:build cgo && !mopslock_core

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

// TestCodes: what a caller acts on is the outermost thing that is known. The
// numbers are the header's, where tests/ produces them one by one.
func TestCodes(t *testing.T) {
	engine := &host.EngineError{Err: errors.New("trap")}
	slow := store.Fail("get", "k", core.ClassUnreachable, context.DeadlineExceeded)
	for _, test := range []struct {
		err  error
		want int
	}{
		{engine, -43},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonUnusable, Err: engine}, -43},
		{&host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable, Err: engine}, -36},
		{&host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable, Err: slow}, -36},
		{&host.Error{Kind: host.CannotMaintain, Reason: core.ReasonUnreadable, Err: slow}, -38},
		{&host.Error{Kind: host.Ended}, -37},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonHeld}, -32},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonRaced}, -32},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonLimit, Err: slow}, -33},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonCancelled}, -34},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonUnusable, Class: core.ClassUnauthorized}, -39},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonUnusable, Class: core.ClassNoSuchStore}, -40},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonUnreachable, Class: core.ClassUnreachable}, -41},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonUnusable, Class: core.ClassFull}, -42},
		{slow, -41},
		{store.Fail("get", "k", core.ClassThrottled, errors.New("429")), -42},
		{store.Fail("open", "", core.ClassOther, store.ErrURL), -1},
		{store.Fail("get", "k", core.ClassOther, store.ErrClosed), -35},
		{fmt.Errorf("no: %w", store.ErrKey), -1},
		{errors.Join(host.ErrClosed), -35},
		{context.DeadlineExceeded, -33},
		{context.Canceled, -34},
		{&core.Error{Code: core.ErrorConfig, Text: "ttl"}, -1},
		{errHandle, -2},
		{errShort, -3},
		{&host.Error{Kind: host.NoResult}, -48},
		{&host.Error{Kind: host.NoResult, Reason: core.ReasonUnusable, Class: core.ClassFull, Err: slow}, -48},
		{&host.Error{Kind: host.NoResult, Reason: core.ReasonFailed, Err: engine}, -48},
		{errSaid, -37},
		{errAbsent, -45},
		{errReader, -34},
		{errBodies, -1},
		{&host.Error{Kind: host.Unfit}, -44},
		{&host.Error{Kind: host.Unfit, Reason: core.ReasonNewer}, -44},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonVacant}, -45},
		{store.Fail("get", "k", core.ClassOther, store.ErrAbsent), -45},
		{&fence.StaleError{Key: "k"}, -46},
		{&fence.UnknownError{Key: "k", Err: slow}, -47},
		{fmt.Errorf("no: %w", fence.ErrForeign), -44},
		{fmt.Errorf("no: %w", fence.ErrCorrupt), -44},
		{fmt.Errorf("no: %w", fence.ErrNewer), -44},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonFull}, -49},
		{&host.Full{Name: "n"}, -49},
		{host.ErrTooHeavy, -50},
		{errors.Join(&core.Error{Code: core.ErrorConfig, Text: "weight"}, host.ErrTooHeavy), -50},
		{errOverslot, -50},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonCrowded}, -51},
		{&host.Error{Kind: host.Unfit, Reason: core.ReasonKind}, -44},
		{host.ErrOutOfBuckets, -52},
		{host.ErrHolderEnded, -37},
		{errLimiterFreed, -35},
		{errChanged, -32},
		{lateGuard, -33},
	} {
		if got, _ := codeOf(test.err); int(got) != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}

// TestReasons: what the core has a word for is told with the code, whoever says it.
func TestReasons(t *testing.T) {
	for _, test := range []struct {
		err  error
		want core.Reason
	}{
		{&host.Full{Name: "n"}, core.ReasonFull},
		{errOverslot, core.ReasonTooHeavy},
		{host.ErrOutOfBuckets, core.ReasonOutOfBuckets},
		{cancelled{}, core.ReasonCancelled},
		{&host.Error{Kind: host.Refused, Reason: core.ReasonCrowded}, core.ReasonCrowded},
		{host.ErrHolderEnded, core.ReasonNone},
		{lateRoom, core.ReasonNone},
	} {
		if _, got := codeOf(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}

// TestClasses: whoever asked the store tells how it failed, whatever the code; who
// did not ask it has nothing to tell.
func TestClasses(t *testing.T) {
	for class, code := range map[core.Class]int{
		core.ClassOther: -42, core.ClassUnreachable: -41, core.ClassThrottled: -42, core.ClassUnauthorized: -39,
		core.ClassNoSuchStore: -40, core.ClassReadOnly: -42, core.ClassFull: -42,
	} {
		failed := store.Fail("put", "k", class, errors.New("no"))
		for _, test := range []struct {
			err  error
			code int
		}{
			{failed, code},
			{fmt.Errorf("listing: %w", failed), code},
			{store.Fail("get", "k", class, context.DeadlineExceeded), code},
			{&host.Error{Kind: host.Refused, Reason: core.ReasonUnusable, Class: class, Err: failed}, code},
			{&host.Error{Kind: host.Refused, Reason: core.ReasonUnreachable, Class: class}, code},
			{&host.Error{Kind: host.Refused, Reason: core.ReasonLimit, Class: class, Err: failed}, -33},
			{&host.Error{Kind: host.CannotMaintain, Reason: core.ReasonUnreadable, Class: class}, -38},
			{&host.Error{Kind: host.NoResult, Reason: core.ReasonUnusable, Class: class, Err: failed}, -48},
		} {
			if got, _ := codeOf(test.err); int(got) != test.code || classOf(test.err) != class {
				t.Errorf("%v: %d, %v, want %d, %v", test.err, got, classOf(test.err), test.code, class)
			}
		}
	}
	for _, err := range []error{
		errHandle, host.ErrClosed, lateInspect,
		cancelled{},
		&core.Error{Code: core.ErrorConfig, Text: "ttl"},
		&host.EngineError{Err: errors.New("trap")},
		store.Fail("open", "", core.ClassOther, store.ErrURL),
		store.Fail("get", "k", core.ClassOther, store.ErrKey),
		store.Fail("get", "k", core.ClassOther, store.ErrClosed),
		&host.Error{Kind: host.Refused, Reason: core.ReasonHeld},
		&host.Error{Kind: host.Lost, Reason: core.ReasonTaken},
		&host.Error{Kind: host.Ended},
	} {
		if got := classOf(err); got != core.ClassNone {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestNoticed: the end of the time is not the store's failure, however the store
// says it; what is wrong anyway is said as ever.
func TestNoticed(t *testing.T) {
	over, done := context.WithTimeoutCause(t.Context(), 0, lateOpen)
	defer done()
	slow := store.Fail("open", "", core.ClassUnreachable, context.DeadlineExceeded)
	wrong := store.Fail("open", "", core.ClassOther, store.ErrURL)
	for _, test := range []struct {
		ctx       context.Context
		err, want error
	}{
		{over, slow, lateOpen},
		{over, wrong, wrong},
		{t.Context(), slow, slow}, // a limit of its own
	} {
		if got := noticed(test.ctx, test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

// TestPutText: what is cut is cut between two characters, and always ends.
func TestPutText(t *testing.T) {
	for _, test := range []struct {
		room int
		text string
		want string
	}{
		{9, "", ""},
		{9, "name", "name"},
		{4, "name", "nam"},
		{1, "name", ""},
		{4, "aéé", "aé"},
		{3, "aé", "a"},
		{9, "a\x00b\xffc", "a?b?c"},
	} {
		to := make([]byte, test.room)
		putText(to, test.text)
		if got := string(to[:len(test.want)+1]); got != test.want+"\x00" {
			t.Errorf("%q in %d: %q", test.text, test.room, to)
		}
	}
}
