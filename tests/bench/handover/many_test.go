package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLedger: it counts the waiters' requests from when they poll as seldom as they ever
// do to the release of their leases, and requests that are for none of their names.
func TestLedger(t *testing.T) {
	synctest.Test(t, testLedger) // where no time passes by itself
}

func testLedger(t *testing.T) {
	l := &ledger{from: time.Now().Add(-2 * interval), until: map[string]time.Time{}}
	for range 3 {
		l.note("a/_mopslock/1/v")
		l.note("b/_mopslock/1/v")
	}
	l.note("_mopslock/store.json")
	l.ends("a")
	l.note("a/_mopslock/1/v") // the claim
	l.ends("b")
	if got, want := l.perInterval(), 7.0/4; got != want {
		t.Errorf("%v, not %v", got, want)
	}
	early := &ledger{from: time.Now().Add(interval), until: map[string]time.Time{}}
	early.note("a/_mopslock/1/v")
	early.ends("a")
	if early.asked != 0 || early.waited != 0 {
		t.Errorf("%d asked in %v, before they have settled", early.asked, early.waited)
	}
}
