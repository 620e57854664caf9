package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/mopslock/mopslock/core"
)

var update = flag.Bool("update", false, "write golden files anew")

// hostile is what somebody may have written into a record.
const hostile = "\x1b[31mroot\x1b[0m\n\u202e\"'\x00"

// Every text an Error can have, held against testdata/errors.txt.
func TestErrorTexts(t *testing.T) {
	seen := &Status{State: core.ObservedHeld, Holder: "their.id", Host: "thathost", PID: "99", TTL: minute, Left: 12340 * time.Millisecond}
	var b strings.Builder
	for _, kind := range []Kind{NotAcquired, Lost, NothingToJoin, Incompatible, NoResult, Ended} {
		for _, reason := range reasonsOf(kind) {
			for _, class := range classesOf(reason) {
				e := &Error{Kind: kind, Name: "nightly", Reason: reason, Class: class}
				fmt.Fprintf(&b, "%v\n", e)
				if reason == core.ReasonBroken {
					e.Seen = &Status{State: core.ObservedBroken, Why: "stuck since " + hostile, By: "7@thathost"}
					fmt.Fprintf(&b, "%v\n", e)
				}
				if e.of = ofBreak; kind == NotAcquired && (reason == core.ReasonHeld || reason == core.ReasonVacant) {
					fmt.Fprintf(&b, "%v\n", e)
				}
				e.of = ofLease
				if reason == core.ReasonHeld || reason == core.ReasonRaced || reason == core.ReasonTaken {
					e.Seen = seen
					fmt.Fprintf(&b, "%v\n", e)
				}
			}
		}
	}
	for _, err := range []error{errors.New("exit status 3"), errors.New(hostile), &EngineError{errors.New("trap")}} {
		fmt.Fprintf(&b, "%v\n", &Error{Kind: NoResult, Name: "nightly", Reason: core.ReasonFailed, Err: err})
	}
	fmt.Fprintf(&b, "%v\n", ErrClosed)
	fmt.Fprintf(&b, "%v\n", &Error{
		Kind: NotAcquired, Name: hostile, Reason: core.ReasonHeld,
		Seen: &Status{Holder: hostile, Host: hostile, PID: hostile},
	})
	fmt.Fprintf(&b, "%v\n", &Error{Kind: NotAcquired, Reason: core.ReasonHeld, Seen: &Status{State: core.ObservedCorrupt}})
	for _, over := range []*Status{
		{State: core.ObservedBroken, Why: "stuck since " + hostile, By: "7@thathost", Left: 12340 * time.Millisecond},
		{State: core.ObservedBroken},
		{State: core.ObservedReleased, Left: minute},
	} {
		fmt.Fprintf(&b, "%v\n", &Error{Kind: NotAcquired, Name: "nightly", Reason: core.ReasonHeld, Seen: over})
	}
	permitTexts(&b)
	fmt.Fprintf(&b, "%v\n", &Error{Kind: NotAcquired, Name: "nightly", Reason: core.ReasonHeld, Seen: seen, of: ofOwn})
	for _, e := range []*Error{
		{Name: "nightly"},
		{Name: "nightly", Seen: seen},
		{Name: "nightly", Seen: &Status{State: core.ObservedReleased, Left: minute}},
		{Name: "nightly", of: ofPermit, Seen: &Status{Held: 3, Holders: []PermitHolder{{ID: "their.id", Host: "thathost", PID: "99"}}}},
	} {
		fmt.Fprintf(&b, "%v\n", &waitError{e, context.DeadlineExceeded})
	}
	golden(t, "testdata/errors.txt", b.String())
	for line := range strings.Lines(b.String()) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(r) {
				t.Errorf("%q has %q", line, r)
			}
		}
	}
}

// permitTexts are those that differ where it is about a permit, or a limit.
func permitTexts(b *strings.Builder) {
	holder := PermitHolder{ID: "their.id", Host: "thathost", PID: "99"}
	for _, e := range []Error{
		{Kind: NotAcquired, Reason: core.ReasonFull},
		{Kind: NotAcquired, Reason: core.ReasonFull, Seen: &Status{Held: 3, Holders: []PermitHolder{holder}}},
		{Kind: NotAcquired, Reason: core.ReasonFull, Seen: &Status{Held: 9, Limit: 4, Holders: []PermitHolder{{ID: hostile, Host: hostile, PID: hostile}, holder, holder, holder}}},
		{Kind: NotAcquired, Reason: core.ReasonFull, Seen: &Status{State: core.ObservedCorrupt}},
		{Kind: NotAcquired, Reason: core.ReasonCrowded},
		{Kind: NotAcquired, Reason: core.ReasonUnreachable},
		{Kind: NotAcquired, Reason: core.ReasonCancelled, Err: &EngineError{errors.New("trap")}},
		{Kind: Lost, Reason: core.ReasonTaken},
		{Kind: Lost, Reason: core.ReasonUnreachable},
		{Kind: Lost, Reason: core.ReasonExpired},
		{Kind: Lost, Reason: core.ReasonUnreachable, Err: &EngineError{errors.New("trap")}},
		{Kind: Incompatible},
		{Kind: Incompatible, Reason: core.ReasonNewer},
		{Kind: Incompatible, Reason: core.ReasonKind},
		{Kind: Ended, Reason: core.ReasonReleased},
	} {
		for _, e.of = range []subject{ofPermit, ofLimit} {
			e.Name = "nightly"
			if e.of == ofPermit || e.Kind != Lost && e.Kind != Ended && e.Reason != core.ReasonFull && e.Reason != core.ReasonCrowded {
				fmt.Fprintf(b, "%v\n", &e)
			}
		}
	}
	fmt.Fprintf(b, "%v\n", &Error{Kind: Incompatible, Name: "nightly", Reason: core.ReasonKind, of: ofMemo})
}

func reasonsOf(kind Kind) []core.Reason {
	switch kind {
	case NotAcquired:
		return []core.Reason{core.ReasonHeld, core.ReasonRaced, core.ReasonCancelled, core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit, core.ReasonVacant, core.ReasonUnreadable}
	case Incompatible:
		return []core.Reason{core.ReasonNone, core.ReasonNewer, core.ReasonKind}
	case Lost:
		return []core.Reason{core.ReasonTaken, core.ReasonBroken, core.ReasonReleased, core.ReasonUnreachable, core.ReasonExpired}
	case NoResult:
		return []core.Reason{
			core.ReasonNone, core.ReasonFailed, core.ReasonTaken, core.ReasonBroken,
			core.ReasonExpired, core.ReasonUnreachable, core.ReasonUnusable,
		}
	case NothingToJoin:
		return []core.Reason{core.ReasonAbsent, core.ReasonNoExpiry, core.ReasonNeverAcquired, core.ReasonUnreadable}
	}
	return []core.Reason{core.ReasonNone, core.ReasonReleased}
}

func classesOf(reason core.Reason) []core.Class {
	switch reason {
	case core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit, core.ReasonUnreadable:
		return []core.Class{
			core.ClassNone, core.ClassOther, core.ClassUnreachable, core.ClassThrottled,
			core.ClassUnauthorized, core.ClassNoSuchStore, core.ClassReadOnly, core.ClassFull,
		}
	}
	return []core.Class{core.ClassNone}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Fatalf("%s differs (%v); now:\n%s", path, err, got)
	}
}

// Of a holder that renews in time it says when it did; of one that is late, when its lease can expire.
func TestWho(t *testing.T) {
	for left, want := range map[time.Duration]string{
		60 * time.Second:         "h on vm (pid 7), renewed 0.0 s ago",
		59500 * time.Millisecond: "h on vm (pid 7), renewed 0.5 s ago",
		30 * time.Second:         "h on vm (pid 7), renewed 30.0 s ago",
		20 * time.Second:         "h on vm (pid 7), which can expire in 20s",
		0:                        "h on vm (pid 7)",
		-time.Second:             "h on vm (pid 7)",
	} {
		s := Status{Holder: "h", Host: "vm", PID: "7", TTL: time.Minute, Left: left}
		if got := s.Who(); got != want {
			t.Errorf("%v left: %s", left, got)
		}
	}
}

func TestErrorIs(t *testing.T) {
	e := fmt.Errorf("wrapped: %w", &Error{Kind: Lost, Name: "n", Reason: core.ReasonTaken})
	for target, want := range map[error]bool{
		ErrLost: true, &Error{Kind: Lost, Reason: core.ReasonTaken}: true,
		&Error{Kind: Lost, Reason: core.ReasonExpired}: false,
		ErrNotAcquired: false, ErrNothingToJoin: false, ErrNoResult: false, ErrReleased: false, ErrClosed: false,
	} {
		if errors.Is(e, target) != want {
			t.Errorf("errors.Is %v: %v", target, !want)
		}
	}
}

// No log line and no error shows what a store's error has of secrets, and log
// lines have the keys that people filter by.
func TestLogsAndErrorsHaveNoSecrets(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.url = "s3://bucket/locks?awskey=hunter2"
		bad := theirs()
		bad.writer, bad.expire = hostile, 2*minute
		w.place("n", bad)
		var texts []string
		_, err := p.try("n")
		texts = append(texts, fmt.Sprint(err))
		l := p.acquire("m")
		p.store.always(fault{class: core.ClassUnreachable})
		_, err = p.try("n")
		texts = append(texts, fmt.Sprint(err))
		_, err = p.Inspect(background, "n")
		texts = append(texts, fmt.Sprint(err))
		<-l.Done()
		synctest.Wait()
		texts = append(texts, fmt.Sprint(l.Err()), p.log.String())
		for _, text := range texts {
			noSecrets(t, text)
		}
		for _, want := range []string{
			`msg="request failed" name=m verb=get class=unreachable error=`,
			`msg="lease lost" name=m reason=unreachable error=`,
			`name=n their_ttl=2m0s`,
		} {
			if !strings.Contains(p.log.String(), want) {
				t.Errorf("log lacks %q:\n%.2000s", want, p.log)
			}
		}
	})
}

func noSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{"hunter2", "c0ffee", "Signature", "\x1b"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q shows %q", text, secret)
		}
	}
}
