package host

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Status is a lease as one read of its record shows it to somebody who takes
// no part. Holder, Host and PID are somebody else's text.
type Status struct {
	Name  string
	State core.Observation
	// Holder is the tenure's id; "" when vacant or corrupt.
	Holder string
	// Host and PID are of whoever wrote last: the holder or a companion.
	Host string
	PID  string
	// Companion: the last write was a companion's.
	Companion bool
	TTL       time.Duration
	// Acquired, Written and Released are by the writers' clocks; zero if not said.
	Acquired time.Time
	Written  time.Time
	Released time.Time
	// Age is how long ago the last write was, and Left what is left of the TTL,
	// by this machine's wall clock against the writer's; Left is negative once
	// it is over.
	Age  time.Duration
	Left time.Duration
}

// Inspect reads the record of a name. It takes no part: nothing is written.
// The error is CheckName's, ErrClosed or the store's.
func (h *Host) Inspect(ctx context.Context, name string) (Status, error) {
	if err := core.CheckName(name); err != nil {
		return Status{}, err
	}
	if h.keeper.isClosed() {
		return Status{}, ErrClosed
	}
	object, err := h.store.Get(ctx, name+"/"+core.LockFile)
	absent := errors.Is(err, store.ErrAbsent)
	if err != nil && !absent {
		if errors.Is(err, store.ErrClosed) {
			err = ErrClosed
		}
		return Status{}, err
	}
	h.reached.Store(true)
	now := h.clock.Now()
	return newStatus(name, core.Inspect(now, object.Body, absent, object.Stamp), now), nil
}

func newStatus(name string, s core.Sighting, now core.Instant) Status {
	status := Status{
		Name: name, State: s.State, Holder: string(s.Holder), Host: string(s.Host), PID: string(s.PID),
		Companion: s.Remote, TTL: s.TTL,
		Acquired: wallTime(s.AcquiredAt), Written: wallTime(s.WrittenAt), Released: wallTime(s.ReleasedAt),
	}
	if s.WrittenAt != 0 {
		status.Age = time.Duration(now.Wall - s.WrittenAt)
		status.Left = min(s.TTL, s.TTL-status.Age) // dated in the future, it still dies a TTL after we saw it
	}
	if s.ReleasedAt != 0 {
		status.Age, status.Left = time.Duration(now.Wall-s.ReleasedAt), 0
	}
	return status
}

func wallTime(wall int64) time.Time {
	if wall == 0 {
		return time.Time{}
	}
	return time.Unix(0, wall).UTC()
}

// listAhead is how many records of a page are read at once.
const listAhead = 16

// List yields every lease whose name begins with prefix, in byte order of the
// records' keys; a record that vanishes meanwhile is left out. An error with a
// Name is of that one record, and the list goes on; one without ends it.
func (h *Host) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if h.keeper.isClosed() {
			yield(Status{}, ErrClosed)
			return
		}
		after, more := "", true
		for more {
			page, rest, err := h.store.List(ctx, prefix, after, 0)
			if err != nil {
				yield(Status{}, err)
				return
			}
			h.reached.Store(true)
			names := make([]string, 0, len(page))
			for _, info := range page {
				after = info.Key
				if name, ok := strings.CutSuffix(info.Key, "/"+core.LockFile); ok && core.CheckName(name) == nil {
					names = append(names, name)
				}
			}
			if !h.listPage(ctx, names, yield) {
				return
			}
			more = rest && len(page) > 0
		}
	}
}

// listPage reads the records of one page, a few at a time, and yields in order.
func (h *Host) listPage(ctx context.Context, names []string, yield func(Status, error) bool) bool {
	for len(names) > 0 {
		batch := names[:min(listAhead, len(names))]
		names = names[len(batch):]
		found := make([]Status, len(batch))
		errs := make([]error, len(batch))
		var all sync.WaitGroup
		for i, name := range batch {
			all.Go(func() { found[i], errs[i] = h.Inspect(ctx, name) })
		}
		all.Wait()
		for i := range batch {
			if errs[i] == nil && found[i].State == core.ObservedVacant {
				continue
			}
			found[i].Name = batch[i]
			if !yield(found[i], errs[i]) || ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}
