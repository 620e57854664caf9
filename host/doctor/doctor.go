// Package doctor examines a store: does create-if-absent have one winner, are lists and
// reads fresh, are the stamps what the driver expects? It then says which protocol can
// keep leases there, with which TTL and margins.
//
// It writes below Prefix, under an id of its own, and deletes that again. If a doctor is
// killed, the objects that it leaves are harmless: they are no lease and no session, and
// a person may delete them. It also leaves the store's capability record (package capability), which says
// what it saw of create-if-absent. If that refuses the store, no process uses strict
// there until a doctor finds the store mended.
//
// It holds no lease, so it disturbs none. It proves nothing: a store with one winner in
// every round may have two in the next.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Prefix begins the keys of everything that doctors write, except the capability record.
const Prefix = "_mopslock/d/"

// Writers is how many creates of one key are sent at once in each round.
const Writers = 16

// Bounds and defaults.
const (
	DefaultRounds = 50
	DefaultTries  = 40
	MaxRounds     = 100_000
	MaxTries      = 1000

	leastRounds  = 10              // rounds of the default, however slow the store is
	leastTries   = 8               // tries of each verb, however slow the store is
	phaseLimit   = 2 * time.Second // no more tries begin after it
	raceLimit    = 6 * time.Second // no more rounds of the default begin after it
	requestLimit = core.FirstAnswerLimit
	silenceLimit = 15 * time.Second // after so long without any answer the examination ends
	tidyLimit    = 10 * time.Second
	attempts     = 4 // of one request whose outcome is unknown
	backOff      = 250 * time.Millisecond
)

// Options are for Examine. The zero value, and nil, are good.
type Options struct {
	// Rounds is how many times Writers race, at most MaxRounds. 0 means up to
	// DefaultRounds, within some seconds.
	Rounds int
	// Tries is how often each verb is tried at most, up to MaxTries. 0 means
	// DefaultTries. A slow store gets fewer tries.
	Tries int
	// Progress is called with the progress of a step: done of total. It must not block.
	Progress func(step string, done, total int)
}

// Examine examines a store. It takes some seconds, has at most Writers requests in flight,
// and tries no request for longer than 5 s.
//
// The error is ctx's cause, or one for bad Options, or a *store.Error: the store was not
// reached within 5 s, or fell silent for 15 s, or is missing, or the credentials do not
// allow it to write and to read, which any lease needs, or its capability record cannot be read. What
// was found until then is in the Report, which is nil only for bad Options. Examine
// deletes what it wrote, as far as it can.
func Examine(ctx context.Context, s store.Store, opts *Options) (*Report, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.Rounds < 0 || opts.Rounds > MaxRounds || opts.Tries < 0 || opts.Tries > MaxTries {
		return nil, fmt.Errorf("mopslock: doctor: rounds %d, tries %d: from 0 to %d and %d", opts.Rounds, opts.Tries, MaxRounds, MaxTries)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	x := &examiner{
		ctx: ctx, stop: stop, heard: time.Now(), store: store.Guard(s), opts: *opts, prefix: Prefix + uuid.NewString() + "/", begun: time.Now(),
		verbs: map[string]*tally{}, report: &Report{Findings: []Finding{}, Verbs: []Verb{}}, left: map[string]bool{},
	}
	if x.opts.Tries == 0 {
		x.opts.Tries = DefaultTries
	}
	err := x.examine()
	x.tidy()
	x.conclude(err)
	return x.report, err
}

// examiner is one examination.
type examiner struct {
	ctx    context.Context
	stop   context.CancelCauseFunc
	store  store.Store
	opts   Options
	prefix string
	begun  time.Time

	mu      sync.Mutex
	heard   time.Time // the latest answer
	crowded bool      // many requests are in flight at once
	verbs   map[string]*tally
	left    map[string]bool // keys that may be there
	stamps  []sample
	report  *Report
}

// tally counts the outcomes of the requests of one verb.
type tally struct {
	took      []time.Duration // of those that were answered and were in flight alone
	answered  int
	unknown   int
	throttled int
	denied    *store.Error // the latest denial, unless an answer came since
	denials   int          // since the latest answer
}

// examine runs one step after the other. A step returns an error only if the rest would be
// useless.
func (x *examiner) examine() error {
	for _, step := range []func() error{x.reach, x.live, x.race, x.burst, x.writeCapability} {
		if err := step(); err != nil {
			return err
		}
		if x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
	}
	return nil
}

func (x *examiner) progress(step string, done, total int) {
	if x.opts.Progress != nil {
		x.opts.Progress(step, done, total)
	}
}

// reach writes an object and reads it. It tries until the store answers, up to 5 s. It
// writes first: some stores do not tell a caller that may not list whether an object is
// absent.
func (x *examiner) reach() error {
	x.progress("reach", 0, 1)
	key := x.prefix + "reach"
	var err error
	for pause := backOff / 4; ; pause = min(2*pause, time.Second) {
		if err = x.putBy(ask, key, fresh()); err == nil || !passing(err) || time.Since(x.begun)+pause >= core.FirstAnswerLimit {
			break
		}
		sleep(x.ctx, pause)
	}
	if err == nil {
		x.report.Reached = Milliseconds(time.Since(x.begun))
		_, err = x.get(key)
	} else if denial(err) {
		x.report.Reached = Milliseconds(time.Since(x.begun))
		_, _ = x.get(key) // for the rights
		_, _ = x.list(x.prefix)
	}
	x.progress("reach", 1, 1)
	return err
}

// passing reports whether the same request may succeed the next time.
func passing(err error) bool {
	switch classOf(err) {
	case core.ClassUnreachable, core.ClassThrottled, core.ClassOther:
		return !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, store.ErrKey) && !errors.Is(err, store.ErrClosed)
	}
	return false
}

// denial reports whether the caller may not do that.
func denial(err error) bool {
	class := classOf(err)
	return class == core.ClassUnauthorized || class == core.ClassReadOnly
}

// classOf returns the class of an unknown outcome, or core.ClassNone for an answer.
func classOf(err error) core.Class {
	if e, ok := errors.AsType[*store.Error](err); ok {
		return e.Class
	}
	return store.ClassOf(err)
}

// tidy deletes the objects that may be there. It does so even if ctx has ended.
func (x *examiner) tidy() {
	if x.report.Reached == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), tidyLimit)
	defer cancel()
	x.crowd(true)
	keys := make(chan string)
	var all sync.WaitGroup
	for range Writers {
		all.Go(func() {
			for key := range keys {
				_ = x.removeIn(ctx, key)
			}
		})
	}
	for _, key := range x.remains() {
		if ctx.Err() == nil {
			keys <- key
		}
	}
	close(keys)
	all.Wait()
	x.report.Left = len(x.remains())
}

func (x *examiner) remains() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys := make([]string, 0, len(x.left))
	for key := range x.left {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
