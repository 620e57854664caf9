package host

import (
	"context"
	"testing"
	"time"
)

// TestNap: the wait of a claim is napped, once and exactly, and its end wakes the
// keeper; nothing longer is, and nothing under a clock that is not the machine's.
func TestNap(t *testing.T) {
	const margin = 5 * time.Millisecond
	ctx := context.Background()
	clock := &frozen{}
	now := clock.Now()
	clock.at.Store(&now)
	h, err := Open(ctx, "mem://", &Options{Clock: clock, Engine: engine, Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	if h.nap != nil {
		t.Error("it naps by another clock")
	}
	naps, wake := make(chan time.Duration, 10), make(chan struct{})
	h.nap = func(d time.Duration) {
		naps <- d
		<-wake
	}
	done := make(chan error, 1)
	go func() {
		terms := lastWriter.Terms
		terms.AcquireMargin = margin
		l, err := h.Acquire(ctx, "n", &AcquireOptions{Terms: terms})
		if err == nil {
			err = l.Release(ctx)
		}
		done <- err
	}()
	if d := <-naps; d != margin {
		t.Errorf("a nap of %v", d)
	}
	later := now
	later.Mono += int64(margin)
	later.Wall += int64(margin)
	clock.at.Store(&later)
	close(wake)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := len(naps); n != 0 {
		t.Errorf("%d more naps", n)
	}
	if mine, err := Open(ctx, "mem://", &Options{Engine: engine, Memory: "-"}); err != nil || (mine.nap == nil) != (napper() == nil) || mine.Close(ctx) != nil {
		t.Errorf("by the machine's clock: %v", err)
	}
}
