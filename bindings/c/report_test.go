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
	"github.com/mopslock/mopslock/host/limiter"
	"github.com/mopslock/mopslock/host/store"
)

// TestCodes: a caller gets the code of the outermost error that is known, the core's word
// for it, if there is one, and how the store failed, if the store was asked. The numbers are
// the header's; tests/ produces them one by one.
func TestCodes(t *testing.T) {
	engine := &host.EngineError{Err: errors.New("trap")}
	slow := store.Fail("get", "k", core.ClassUnreachable, context.DeadlineExceeded)
	for _, test := range []struct {
		err    error
		code   int
		reason core.Reason
		class  core.Class
	}{
		{engine, -43, 0, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnusable, Err: engine}, -43, core.ReasonUnusable, 0},
		{&host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable, Err: engine}, -36, core.ReasonUnreachable, 0},
		{&host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable, Err: slow}, -36, core.ReasonUnreachable, 0},
		{&host.Error{Kind: host.NothingToJoin, Reason: core.ReasonUnreadable, Err: slow}, -38, core.ReasonUnreadable, 0},
		{&host.Error{Kind: host.Ended}, -37, 0, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonHeld}, -32, core.ReasonHeld, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonRaced}, -32, core.ReasonRaced, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonLimit, Err: slow}, -33, core.ReasonLimit, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonCancelled}, -34, core.ReasonCancelled, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnusable, Class: core.ClassUnauthorized}, -39, core.ReasonUnusable, core.ClassUnauthorized},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnusable, Class: core.ClassNoSuchStore}, -40, core.ReasonUnusable, core.ClassNoSuchStore},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnreachable, Class: core.ClassUnreachable}, -41, core.ReasonUnreachable, core.ClassUnreachable},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnusable, Class: core.ClassFull}, -42, core.ReasonUnusable, core.ClassFull},
		{slow, -41, 0, core.ClassUnreachable},
		{store.Fail("get", "k", core.ClassThrottled, errors.New("429")), -42, 0, core.ClassThrottled},
		{store.Fail("open", "", core.ClassOther, store.ErrURL), -1, 0, 0},
		{store.Fail("get", "k", core.ClassOther, store.ErrClosed), -35, 0, 0},
		{fmt.Errorf("no: %w", store.ErrKey), -1, 0, 0},
		{errors.Join(host.ErrClosed), -35, 0, 0},
		{context.DeadlineExceeded, -33, 0, 0},
		{context.Canceled, -34, core.ReasonCancelled, 0},
		{&core.Error{Code: core.ErrorConfig, Text: "ttl"}, -1, 0, 0},
		{errHandle, -2, 0, 0},
		{errShort, -3, 0, 0},
		{&host.Error{Kind: host.NoResult}, -48, 0, 0},
		{&host.Error{Kind: host.NoResult, Reason: core.ReasonUnusable, Class: core.ClassFull, Err: slow}, -48, core.ReasonUnusable, core.ClassFull},
		{&host.Error{Kind: host.NoResult, Reason: core.ReasonFailed, Err: engine}, -48, core.ReasonFailed, 0},
		{errSaid, -37, 0, 0},
		{errAbsent, -45, 0, 0},
		{errReader, -34, core.ReasonCancelled, 0},
		{errBodies, -1, 0, 0},
		{&host.Error{Kind: host.Incompatible}, -44, 0, 0},
		{&host.Error{Kind: host.Incompatible, Reason: core.ReasonNewer}, -44, core.ReasonNewer, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonVacant}, -45, core.ReasonVacant, 0},
		{store.Fail("get", "k", core.ClassOther, store.ErrAbsent), -45, 0, 0},
		{&fence.StaleError{Key: "k"}, -46, 0, 0},
		{&fence.UnknownError{Key: "k", Err: slow}, -47, 0, 0},
		{fmt.Errorf("no: %w", fence.ErrForeign), -44, 0, 0},
		{fmt.Errorf("no: %w", fence.ErrCorrupt), -44, 0, 0},
		{fmt.Errorf("no: %w", fence.ErrNewer), -44, 0, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonFull}, -49, core.ReasonFull, 0},
		{&limiter.Full{Name: "n"}, -49, core.ReasonFull, 0},
		{host.ErrWeightExceedsLimit, -50, core.ReasonTooHeavy, 0},
		{limiter.ErrWeightExceedsLimit, -50, core.ReasonTooHeavy, 0},
		{errors.Join(&core.Error{Code: core.ErrorConfig, Text: "weight"}, host.ErrWeightExceedsLimit), -50, core.ReasonTooHeavy, 0},
		{errOverslot, -50, core.ReasonTooHeavy, 0},
		{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonCrowded}, -51, core.ReasonCrowded, 0},
		{&host.Error{Kind: host.Incompatible, Reason: core.ReasonKind}, -44, core.ReasonKind, 0},
		{limiter.ErrOutOfBuckets, -52, core.ReasonOutOfBuckets, 0},
		{limiter.ErrOwnerEnded, -37, 0, 0},
		{errLimiterFreed, -35, 0, 0},
		{errChanged, -32, core.ReasonRaced, 0},
		{timeoutGuard, -33, 0, 0},
		{cancelled{}, -34, core.ReasonCancelled, 0},
		{timeoutRoom, -33, 0, 0},
		{host.ErrClosed, -35, 0, 0},
		{timeoutInspect, -33, 0, 0},
		{store.Fail("get", "k", core.ClassOther, store.ErrKey), -1, 0, 0},
		{&host.Error{Kind: host.Lost, Reason: core.ReasonTaken}, -36, core.ReasonTaken, 0},
	} {
		code, reason := codeOf(test.err)
		if class := classOf(test.err); int(code) != test.code || reason != test.reason || class != test.class {
			t.Errorf("%v: %d, %v, %v, want %+v", test.err, code, reason, class, test)
		}
	}
}

// TestClasses: every call that asked the store reports each class, whatever the code.
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
			{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnusable, Class: class, Err: failed}, code},
			{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonUnreachable, Class: class}, code},
			{&host.Error{Kind: host.NotAcquired, Reason: core.ReasonLimit, Class: class, Err: failed}, -33},
			{&host.Error{Kind: host.NothingToJoin, Reason: core.ReasonUnreadable, Class: class}, -38},
			{&host.Error{Kind: host.NoResult, Reason: core.ReasonUnusable, Class: class, Err: failed}, -48},
		} {
			if got, _ := codeOf(test.err); int(got) != test.code || classOf(test.err) != class {
				t.Errorf("%v: %d, %v, want %d, %v", test.err, got, classOf(test.err), test.code, class)
			}
		}
	}
}

// TestNoticed: the end of the time is not the store's failure, however the store
// says it; what is wrong anyway is said as ever.
func TestNoticed(t *testing.T) {
	over, done := context.WithTimeoutCause(t.Context(), 0, timeoutOpen)
	defer done()
	slow := store.Fail("open", "", core.ClassUnreachable, context.DeadlineExceeded)
	wrong := store.Fail("open", "", core.ClassOther, store.ErrURL)
	for _, test := range []struct {
		ctx       context.Context
		err, want error
	}{
		{over, slow, timeoutOpen},
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
