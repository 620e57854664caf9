package host

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/clock"
)

// frozen is a clock that stands still once it is told to.
type frozen struct {
	clock clock.System
	at    atomic.Pointer[core.Instant]
}

func (f *frozen) Now() core.Instant {
	if at := f.at.Load(); at != nil {
		return *at
	}
	return f.clock.Now()
}

// TestNap: the wait of a claim is napped, once and exactly, and its end wakes the
// loop; nothing longer is, and nothing under a clock that is not the machine's.
func TestNap(t *testing.T) {
	const margin = 5 * time.Millisecond
	machine := &frozen{}
	now := machine.Now()
	machine.at.Store(&now)
	h, err := Open(background, "mem://", &Options{Clock: machine, Memory: "-"})
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
		l, err := h.Acquire(background, "n", &AcquireOptions{Terms: terms})
		if err == nil {
			err = l.Release(background)
		}
		done <- err
	}()
	if d := <-naps; d != margin {
		t.Errorf("a nap of %v", d)
	}
	later := now
	later.Mono += int64(margin)
	later.Wall += int64(margin)
	machine.at.Store(&later)
	close(wake)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := h.Close(background); err != nil {
		t.Error(err)
	}
	if n := len(naps); n != 0 {
		t.Errorf("%d more naps", n)
	}
	if mine, err := Open(background, "mem://", &Options{Memory: "-"}); err != nil || (mine.nap == nil) != (clock.PreciseSleep() == nil) || mine.Close(background) != nil {
		t.Errorf("by the machine's clock: %v", err)
	}
}
