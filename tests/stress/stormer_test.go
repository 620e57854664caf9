//go:build linux || darwin

package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	hoststore "github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/azblob" // azblob://
	_ "github.com/mopslock/mopslock/host/store/gs"     // gs://
	_ "github.com/mopslock/mopslock/host/store/s3"     // s3://
)

// The names of a storm.
const (
	stormLease   = "storm/lease"
	stormCounter = "storm/counter"
)

// stormer is one process of a storm: it takes the lease again and again, and
// increments the guarded counter under its token while it holds it, and once
// more after it was lost, as code does that asks nobody. What it calls and what
// comes back it writes down as it happens.
type stormer struct {
	store   hoststore.Store
	object  *fence.Object
	journal *os.File
	calls   int
}

// stormLimit ends what a failed test leaves behind.
const stormLimit = 30 * time.Minute

// storm URL LOG TTL REST OVER: until the file OVER is there, with a rest of up to REST
// after each turn.
func storm(url, log, ttlText, restText, over string) int {
	ttl, err := time.ParseDuration(ttlText)
	if err != nil {
		return fail(err)
	}
	rest, err := time.ParseDuration(restText)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stormLimit)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Lstat(over); err == nil {
				cancel()
			}
			pause(ctx, 20*time.Millisecond)
		}
	}()
	w := &stormer{}
	if w.store, err = hoststore.Open(ctx, url); err != nil {
		return fail(err)
	}
	if w.object, err = fence.Open(w.store, stormCounter); err != nil {
		return fail(err)
	}
	if w.journal, err = os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fail(err)
	}
	h, err := host.Open(ctx, url, &host.Options{Memory: "-"})
	if err != nil {
		return fail(err)
	}
	for ctx.Err() == nil {
		opts := &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict, TTL: ttl}}
		lease, err := h.Acquire(ctx, stormLease, opts)
		if err != nil {
			w.note("refused", "-", err.Error())
			pause(ctx, 50*time.Millisecond)
			continue
		}
		w.tenure(ctx, lease)
		if rest > 0 {
			pause(ctx, rand.N(rest))
		}
	}
	// What is held is released, or else expires: either is a good end here.
	closing, cancelClosing := context.WithTimeout(context.Background(), time.Second)
	defer cancelClosing()
	_ = h.Close(closing)
	return 0
}

// note writes one line: WHAT ID NANOSECONDS TEXT. It is one write, so that a
// SIGKILL leaves whole lines but for the last.
func (w *stormer) note(what, id, text string) { w.noteAt(monotonic(), what, id, text) }

func (w *stormer) noteAt(at time.Duration, what, id, text string) {
	text = strings.ReplaceAll(text, "\n", " ")
	if _, err := fmt.Fprintf(w.journal, "%s %s %d %s\n", what, id, at.Nanoseconds(), text); err != nil {
		os.Exit(fail(err))
	}
}

// sure notes an instant at which the lease was held, and reports whether it is. The
// clock is read first: a process may be stopped between the two.
func (w *stormer) sure(what string, lease *host.Lease) bool {
	at := monotonic()
	if lease.Err() != nil {
		return false
	}
	w.noteAt(at, what, "-", fmt.Sprint(lease.FencingToken()))
	return true
}

func (w *stormer) tenure(ctx context.Context, lease *host.Lease) {
	t := fence.Of(lease)
	w.sure("held", lease)
	if rand.IntN(3) == 0 {
		w.raise(ctx, t)
	}
	for range 1 + rand.IntN(20) {
		if ctx.Err() != nil || !w.sure("sure", lease) {
			break
		}
		if rand.IntN(4) == 0 {
			w.read(ctx)
		} else {
			w.increment(ctx, t)
		}
		pause(ctx, rand.N(10*time.Millisecond))
	}
	if !w.sure("sure", lease) {
		w.note("lost", "-", lease.Err().Error())
		w.increment(ctx, t)
		return
	}
	if err := lease.Release(ctx); err != nil {
		w.note("unreleased", "-", err.Error())
		return
	}
	w.note("released", "-", fmt.Sprint(t.Token))
}

func (w *stormer) call(what string, t fence.Tenure) (id string) {
	w.calls++
	id = fmt.Sprintf("%d-%d", os.Getpid(), w.calls)
	w.note(what, id, fmt.Sprint(t.Token))
	return id
}

func (w *stormer) increment(ctx context.Context, t fence.Tenure) {
	id := w.call("increment", t)
	slot, err := w.object.Update(ctx, t, func(old []byte) ([]byte, error) {
		value, err := counterValue(old)
		return fmt.Appendf(nil, "%d %s", value+1, id), err
	})
	w.back(id, &slot, err)
}

func (w *stormer) read(ctx context.Context) {
	id := w.call("read", fence.Tenure{})
	slot, err := w.object.Read(ctx)
	w.back(id, &slot, err)
}

func (w *stormer) raise(ctx context.Context, t fence.Tenure) {
	id := w.call("raise", t)
	slot, err := w.object.Raise(ctx, t)
	w.back(id, &slot, err)
}

// back notes what a call returned.
func (w *stormer) back(id string, slot *fence.Slot, err error) {
	switch {
	case err == nil:
		value, errValue := counterValue(slot.Body)
		if errValue != nil {
			os.Exit(fail(errValue))
		}
		w.note("ok", id, fmt.Sprint(value))
	case errors.Is(err, fence.ErrStale):
		w.note("stale", id, err.Error())
	case errors.Is(err, fence.ErrUnknown):
		w.note("unknown", id, err.Error())
	default:
		w.note("failed", id, err.Error())
	}
}

// counterValue reads "VALUE ID"; nothing is 0.
func counterValue(body []byte) (int, error) {
	if body == nil {
		return 0, nil
	}
	text, _, _ := strings.Cut(string(body), " ")
	return strconv.Atoi(text)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
