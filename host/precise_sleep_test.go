package host

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/clock"
)

// stopped is a clock that stands still once it is told to.
type stopped struct {
	clock clock.System
	at    atomic.Pointer[core.Instant]
}

func (f *stopped) Now() core.Instant {
	if at := f.at.Load(); at != nil {
		return *at
	}
	return f.clock.Now()
}

// The wait before a verification is slept precisely, once, and its end wakes the
// loop; nothing longer is, and nothing under a clock that is not the machine's.
func TestPreciseSleep(t *testing.T) {
	const margin = 5 * time.Millisecond
	machine := &stopped{}
	now := machine.Now()
	machine.at.Store(&now)
	h, err := Open(background, "mem://", &Options{Clock: machine, Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	if h.preciseSleep != nil {
		t.Error("it sleeps by another clock")
	}
	sleeps, wake := make(chan time.Duration, 10), make(chan struct{})
	h.preciseSleep = func(d time.Duration) {
		sleeps <- d
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
	if d := <-sleeps; d != margin {
		t.Errorf("a sleep of %v", d)
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
	if n := len(sleeps); n != 0 {
		t.Errorf("%d more sleeps", n)
	}
	if mine, err := Open(background, "mem://", &Options{Memory: "-"}); err != nil || (mine.preciseSleep == nil) != (clock.PreciseSleep() == nil) || mine.Close(background) != nil {
		t.Errorf("by the machine's clock: %v", err)
	}
}
