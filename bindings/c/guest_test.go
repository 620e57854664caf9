//go:build cgo && !mopslock_core

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/host"
)

// TestEngine: no caller waits for the engine longer than its timeout. It is opened once
// for all, and again only after a failure.
func TestEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		fails := errors.New("trap")
		e := engine{open: func() (host.Engine, error) {
			time.Sleep(time.Minute)
			if opened.Add(1) == 1 {
				return nil, fails
			}
			return host.Native{}, nil
		}}
		short := func() time.Duration {
			start := time.Now()
			ctx, done := context.WithTimeoutCause(t.Context(), time.Second, timeoutOpen)
			defer done()
			if _, err := e.get(ctx); !errors.Is(err, timeoutOpen) {
				t.Errorf("in a second: %v", err)
			}
			return time.Since(start)
		}
		for range 2 { // the second is another's, under way
			if took := short(); took != time.Second {
				t.Errorf("it took %v", took)
			}
		}
		_, err := e.get(t.Context())
		if code, _ := codeOf(err); code != -43 || !errors.Is(err, fails) {
			t.Errorf("a failure: %v", err)
		}
		short() // the next attempt
		for range 8 {
			go func() {
				if got, err := e.get(t.Context()); err != nil || got != (host.Native{}) {
					t.Errorf("%v, %v", got, err)
				}
			}()
		}
		time.Sleep(time.Hour)
		if n := opened.Load(); n != 2 {
			t.Errorf("opened %d times", n)
		}
	})
}
