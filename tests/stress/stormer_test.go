//go:build linux

package stress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
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

// climate is what a storm's processes are told.
type climate struct {
	URL    string
	Binary string // mopslock-host
	Ledger ledger
	Over   string // the file that is there when the storm is over
	Was    string // a name that was leased before: without it, the place is another one
	Terms  host.Terms
	View   host.View     // of a semaphore; the zero one is a lease
	Off    time.Duration // of this process' clocks
	Pace   time.Duration // at most, from one call of a tenure to the next
}

// belief is a lease or a permit.
type belief interface {
	fence.Claim
	Err() error
	Release(ctx context.Context) error
}

// acquire takes the storm's lease, or a permit of this weight.
func (c *climate) acquire(ctx context.Context, h *host.Host, weight int) (belief, error) {
	if c.View == (host.View{}) {
		return h.Acquire(ctx, stormLease, &host.AcquireOptions{Terms: c.Terms})
	}
	return h.AcquirePermit(ctx, stormLease, c.View, &host.PermitOptions{Terms: c.Terms, Weight: weight})
}

// clock is the clock of a machine that was booted at another time, and whose wall clock is off.
type clock struct {
	began time.Time
	off   time.Duration
}

func (c clock) Now() core.Instant {
	mono := 24*time.Hour + 3*c.off + time.Since(c.began)
	return core.Instant{Mono: mono.Nanoseconds(), Wall: time.Now().Add(c.off).UnixNano()}
}

// worker is one process of a storm. It takes the lease again and again, and
// increments the guarded counter under its token while it holds the lease. After
// a loss it increments once more, as code does that never checks.
type worker struct {
	climate
	object *fence.Object // nil where there are no tokens to guard it by
	calls  int
}

func stormer(args []string) error {
	w := &worker{}
	if err := json.Unmarshal([]byte(args[0]), &w.climate); err != nil {
		return err
	}
	ctx, cancel := w.untilOver()
	defer cancel()
	h, err := w.open(ctx)
	for ; err != nil && ctx.Err() == nil; h, err = w.open(ctx) { // the place may be away
		w.Ledger.note("refused", err)
		pause(ctx, 50*time.Millisecond)
	}
	if err != nil {
		return nil // it was away to the end
	}
	for n := 1; ctx.Err() == nil; n++ {
		held, err := w.acquire(ctx, h, 1)
		if err != nil {
			w.Ledger.note("refused", err)
			pause(ctx, 50*time.Millisecond)
			continue
		}
		w.tenure(ctx, fmt.Sprint(os.Getpid(), ".", n), held)
	}
	// Close releases what is held; otherwise it expires. Either is a good end here.
	closing, cancelClosing := context.WithTimeout(context.Background(), time.Second)
	defer cancelClosing()
	_ = h.Close(closing)
	return nil
}

// untilOver is a context that ends with the storm.
func (c *climate) untilOver() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Lstat(c.Over); err == nil {
				cancel()
			}
			pause(ctx, 20*time.Millisecond)
		}
	}()
	return ctx, cancel
}

// open opens the place, and the guarded object there.
func (w *worker) open(ctx context.Context) (*host.Host, error) {
	s, err := hoststore.Open(ctx, w.URL)
	if err != nil {
		return nil, err
	}
	if w.Terms.Protocol == core.ProtocolStrict && w.View == (host.View{}) {
		if w.object, err = fence.Open(s, stormCounter); err != nil {
			return nil, err
		}
	}
	opts := &host.Options{Memory: "-"}
	if w.Off != 0 {
		opts.Clock, opts.Boot = clock{time.Now(), w.Off}, "booted-by-"+w.Off.String()
	}
	h, err := host.Open(ctx, w.URL, opts)
	if err != nil || w.Was == "" {
		return h, err
	}
	seen, err := h.Inspect(ctx, w.Was)
	if err == nil && seen.State == core.ObservedVacant {
		err = errElsewhere
	}
	if page, _, failed := s.List(ctx, w.Was+"/", "", 1); failed != nil || len(page) == 0 {
		err = errors.Join(err, failed, errElsewhere)
	}
	return h, err
}

var errElsewhere = errors.New("this is not the store of the storm")

// commander is one process of a storm. It takes the lease, or a permit, by the command, again and again.
func commander(args []string) error {
	c := &climate{}
	if err := json.Unmarshal([]byte(args[0]), c); err != nil {
		return err
	}
	ctx, cancel := c.untilOver()
	defer cancel()
	for ctx.Err() == nil {
		var said bytes.Buffer
		wait := time.Duration(rand.IntN(3)) * c.Terms.TTL.Duration()
		cmd := exec.CommandContext(ctx, c.Binary, c.words(wait)...)
		cmd.Stderr, cmd.WaitDelay = &said, bound
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		began := time.Now()
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return err
		}
		c.Ledger.note("status", status(cmd.ProcessState), (time.Since(began) - wait).Milliseconds(), strings.TrimSpace(said.String()))
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// words are mopslock-host's, with the terms of the storm.
func (c *climate) words(wait time.Duration) []string {
	words := []string{"run"}
	if c.View != (host.View{}) {
		words = []string{"permit", "--capacity", fmt.Sprint(c.View.Capacity), "--width", fmt.Sprint(c.View.Width)}
	} else {
		words = append(words, "--protocol", c.Terms.Protocol.String())
	}
	words = append(words, "--store", c.URL, "--ttl", c.Terms.TTL.Duration().String(), "--wait", wait.String())
	if c.Terms.Protocol == core.ProtocolLastWriter {
		words = append(words, "--acquire-margin", c.Terms.AcquireMargin.String(), "--fleet-expire", "none")
	}
	if c.Terms.Session {
		words = append(words, "--session")
	}
	return append(words, stormLease, "--", os.Args[0], helperMark, "guarded", string(c.Ledger), c.Pace.String())
}

// guarded LEDGER PACE is what runs under the command. It believes as long as it runs.
func guarded(args []string) error {
	log, id := ledger(args[0]), fmt.Sprint(os.Getenv("MOPSLOCK_HOLDER"), ".", os.Getpid())
	pace, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	for range 1 + rand.IntN(100) {
		log.note("sure", id, os.Getenv("MOPSLOCK_TOKEN"), log.length())
		time.Sleep(rand.N(pace))
	}
	log.note("released", id) // by the command, from here on
	return nil
}

// sure notes a point of the ledger after which the lease was held, and reports whether it
// is. The length is read first: a process may be stopped before it asks.
func (w *worker) sure(id string, held belief) bool {
	at := w.Ledger.length()
	if held.Err() != nil {
		return false
	}
	w.Ledger.note("sure", id, held.FencingToken(), at)
	return true
}

func (w *worker) tenure(ctx context.Context, id string, held belief) {
	t := fence.Of(held)
	if w.sure(id, held) && rand.IntN(3) == 0 {
		w.call("raise", t, func() (fence.Slot, error) { return w.object.Raise(ctx, t) })
	}
	for range 1 + rand.IntN(20) {
		if ctx.Err() != nil || !w.sure(id, held) {
			break
		}
		if rand.IntN(4) == 0 {
			w.call("read", t, func() (fence.Slot, error) { return w.object.Read(ctx) })
		} else {
			w.increment(ctx, t)
		}
		pause(ctx, rand.N(w.Pace))
		if rand.IntN(40) == 0 { // it is held for some renewals
			for n := rand.IntN(100); n > 0 && ctx.Err() == nil && w.sure(id, held); n-- {
				pause(ctx, w.Terms.TTL.Duration()/50)
			}
		}
	}
	if !w.sure(id, held) {
		w.Ledger.note("lost", id, held.Err())
		w.increment(ctx, t)
		return
	}
	if err := held.Release(ctx); err != nil {
		w.Ledger.note("unreleased", id, err)
		return
	}
	w.Ledger.note("released", id)
}

func (w *worker) increment(ctx context.Context, t fence.Tenure) {
	w.call("increment", t, func() (fence.Slot, error) {
		return w.object.Update(ctx, t, func(old []byte) ([]byte, error) {
			return fmt.Appendf(nil, "%d %d-%d", counted(old)+1, os.Getpid(), w.calls), nil
		})
	})
}

// call notes the call, and then its answer.
func (w *worker) call(what string, t fence.Tenure, do func() (fence.Slot, error)) {
	if w.object == nil {
		return
	}
	w.calls++
	id := fmt.Sprint(os.Getpid(), "-", w.calls)
	w.Ledger.note("call", id, what, t.Token)
	slot, err := do()
	switch {
	case err == nil:
		w.Ledger.note("back", id, "ok", counted(slot.Body))
	case errors.Is(err, fence.ErrStale):
		w.Ledger.note("back", id, "stale", err)
	case errors.Is(err, fence.ErrUnknown):
		w.Ledger.note("back", id, "unknown", err)
	default:
		w.Ledger.note("back", id, "failed", err)
	}
}

// counted reads "VALUE ID", which increment has written; an empty body is 0.
func counted(body []byte) int {
	text, _, _ := strings.Cut(string(body), " ")
	value, err := strconv.Atoi(text)
	if err != nil && len(body) > 0 {
		panic("stress: the counter is " + string(body))
	}
	return value
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
