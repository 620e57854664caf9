//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// inWorld runs a test in a world of its own.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		t.Cleanup(w.end)
		test(t, w)
	})
}

// stuck is a reader who has stopped reading, until it is closed.
type stuck chan struct{}

func (s stuck) Write(text []byte) (int, error) {
	<-s
	return len(text), nil
}

// A reader of our stderr who has stopped reading must not keep us from ending the command.
func TestNobodyReadsStderr(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reader := make(stuck)
		defer close(reader)
		p := w.launch([]string{"MOPSLOCK_STORE=shelf://one"}, nil, io.Discard, reader, strings.Fields("run --ttl 9s --protocol strict n -- sleep 300"))
		time.Sleep(5 * time.Second)
		w.shelf("one").setFault(func(string, string) (core.Class, bool) { return core.ClassUnreachable, true })
		if <-p.ended; p.status != exit.StatusLost {
			t.Errorf("exit status %d", p.status)
		}
	})
}

// Nor does a reader of step's answers keep it from being ended; and one that has gone ends it as every command.
func TestStepIsEnded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reader := make(stuck)
		const lines = `{"machine":"lease","protocol":"lastwriter","name":"n","seed":"AQIDBAUGBwgJCgsMDQ4PEA=="}` + "\n{}\n"
		p := w.launch(nil, strings.NewReader(lines), reader, io.Discard, []string{"step"})
		synctest.Wait()
		p.signal(syscall.SIGINT)
		if <-p.ended; p.status != 128+int(syscall.SIGINT) {
			t.Errorf("exit status %d", p.status)
		}
		close(reader)
		out, gone := io.Pipe()
		_ = out.CloseWithError(syscall.EPIPE)
		p = w.launch(nil, strings.NewReader(lines), gone, io.Discard, []string{"step"})
		if <-p.ended; p.status != 128+int(syscall.SIGPIPE) {
			t.Errorf("exit status %d", p.status)
		}
	})
}

// held is a lease of which so much is left.
type held struct {
	*host.Lease
	left time.Duration
}

func (h *held) Name() string        { return "n" }
func (h *held) Err() error          { return nil }
func (h *held) Left() time.Duration { return h.left }

// A pause that ends between deadline - grace and the deadline is no failing renewal: the one that goes out at once has
// half of what is left for it. Without a pause SIGTERM is sent at deadline - grace.
func TestFenceAfterAPause(t *testing.T) {
	for name, c := range map[string]struct {
		left []time.Duration
		told bool
	}{
		"in time":             {[]time.Duration{10 * time.Second}, true},
		"a little late":       {[]time.Duration{9900 * time.Millisecond}, true},
		"paused":              {[]time.Duration{9 * time.Second, 8 * time.Second, 4600 * time.Millisecond}, false},
		"paused, and failing": {[]time.Duration{9 * time.Second, 4500 * time.Millisecond}, true},
		"paused, renewed":     {[]time.Duration{9 * time.Second, 50 * time.Second, 9 * time.Second}, false},
		"renewed, and late":   {[]time.Duration{9 * time.Second, 50 * time.Second, 10 * time.Second}, true},
	} {
		var said bytes.Buffer
		lease := new(held)
		s := supervisor{app: &app{console: console.New(&said, nil)}, loss: &lossFlags{onLoss: "continue"}, name: "n", grace: 10 * time.Second}
		for _, lease.left = range c.left {
			s.fence(lease)
		}
		if s.terminated != c.told {
			t.Errorf("%s: told %v", name, s.terminated)
		}
	}
}

// A lease that is lost for another reason has nothing left, too. That is no
// failing renewal: nothing is said of one, and no signal is sent for it.
func TestFenceOfALostLease(t *testing.T) {
	ctx := context.Background()
	h, err := host.Open(ctx, "mem://", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx)
	lease, err := h.Acquire(ctx, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := supervisor{app: &app{console: console.New(&said, nil)}, loss: &lossFlags{onLoss: "continue"}, name: "n", grace: time.Second}
	s.fence(lease)
	s.app.console.Flush()
	if s.terminated || said.Len() > 0 {
		t.Errorf("terminated %v, said %q", s.terminated, said.String())
	}
}

// SIGTERM never comes before a renewal is due, an interval after the stamp, however slow acquiring was; and where the
// deadline is near by a large margin, or by somebody else's short TTL, there is still some grace.
func TestGraceWithin(t *testing.T) {
	for name, test := range map[string]struct{ ttl, margin, slow, deadline, interval, grace time.Duration }{
		"as is":                       {60 * time.Second, 0, 0, 54 * time.Second, 20 * time.Second, 10 * time.Second},
		"slowly":                      {60 * time.Second, 0, 19 * time.Second, 54 * time.Second, 20 * time.Second, 10 * time.Second},
		"large margin":                {24 * time.Second, 11600 * time.Millisecond, 0, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"large margin, slowly":        {24 * time.Second, 11600 * time.Millisecond, 1400 * time.Millisecond, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"large margin, very slowly":   {24 * time.Second, 11600 * time.Millisecond, 5200 * time.Millisecond, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"short TTL of the fleet":      {88 * time.Second, 0, 0, 16200 * time.Millisecond, 6 * time.Second, 7650 * time.Millisecond},
		"and a large margin":          {24 * time.Second, 11600 * time.Millisecond, 0, 7200 * time.Millisecond, 2670 * time.Millisecond, 3300 * time.Millisecond},
		"and slowly":                  {88 * time.Second, 0, 3600 * time.Millisecond, 16200 * time.Millisecond, 6 * time.Second, 5950 * time.Millisecond},
		"short TTL of one, long ours": {600 * time.Second, 0, 0, 79200 * time.Millisecond, 29334 * time.Millisecond, 10 * time.Second},
	} {
		s := supervisor{loss: &lossFlags{grace: defaultGrace}}
		got := s.graceWithin(test.deadline-test.slow, test.ttl, test.margin)
		if got.Round(time.Microsecond) != test.grace || test.deadline-got < test.interval {
			t.Errorf("%s: %v, want %v", name, got, test.grace)
		}
	}
}
