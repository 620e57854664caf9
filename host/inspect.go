package host

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/mopslock/mopslock/core"
)

// Inspect looks at a name, under either protocol. It takes no part: nothing is
// written. If a strict lease is held, it is shown, and not an old client's record beside
// it. The error is CheckName's, ErrClosed, ctx's cause or the store's.
func (h *Host) Inspect(ctx context.Context, name string) (Status, error) {
	return h.observe(ctx, name, 0)
}

// observe reads a name, under one protocol or with 0 under either.
func (h *Host) observe(ctx context.Context, name string, protocol core.Protocol) (Status, error) {
	q := h.newQuery(name, ofRead)
	if err := q.run(ctx, core.Event{Kind: core.EventLook, Terms: &core.Terms{Name: name, Protocol: protocol}}); err != nil {
		return Status{}, ofReading(err)
	}
	return *q.seen, nil
}

// ofReading is an error as that of any read: it is the store's, if the store has said something.
func ofReading(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Err != nil && e.Kind == NotAcquired {
		return e.Err
	}
	return err
}

// listAhead is how many records of a page are read at once.
const listAhead = 16

// List yields every lease and semaphore whose name begins with prefix, in byte order of the
// keys of its objects; one that vanishes meanwhile is left out. An error with a Name is of
// that one lease, and the list goes on; an error without a Name ends it. A list of
// everything also removes what dead processes have left beside their leases.
func (h *Host) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if h.loop.IsClosing() {
			yield(Status{}, ErrClosed)
			return
		}
		sweep := &sweeper{host: h}
		strict := map[string]bool{} // yielded at their versions
		after, more := "", true
		for more {
			page, rest, err := h.direct().list(ctx, prefix, after)
			if err != nil {
				yield(Status{}, err)
				return
			}
			h.reached.Store(true)
			names := make([]listed, 0, len(page))
			for _, info := range page {
				after = info.Key
				sweep.see(info)
				if found, ok := nameOf(info.Key, strict); ok && strings.HasPrefix(found.name, prefix) {
					names = append(names, found)
				}
			}
			if !h.listPage(ctx, names, yield) {
				return
			}
			more = rest && len(page) > 0
		}
		if prefix == "" {
			sweep.sweep(ctx)
		}
	}
}

// listed is a name of which a listing has shown a key.
type listed struct {
	name      string
	versioned bool // by a key of strict
}

// nameOf is the name that a key is of, once: many keys are of one strict lease,
// and they come before its lock.json, if it has one.
func nameOf(key string, strict map[string]bool) (found listed, ok bool) {
	if at := strings.Index(key, "/"+core.RegisterDir+"/"); at > 0 {
		found = listed{key[:at], true}
	} else if name, ok := strings.CutSuffix(key, "/"+core.LockFile); ok {
		found.name = name
	}
	if strict[found.name] || core.CheckName(found.name) != nil {
		return listed{}, false
	}
	if found.versioned {
		strict[found.name] = true
	}
	return found, true
}

// listPage reads the records of one page, a few at a time, and yields in order.
func (h *Host) listPage(ctx context.Context, names []listed, yield func(Status, error) bool) bool {
	for len(names) > 0 {
		batch := names[:min(listAhead, len(names))]
		names = names[len(batch):]
		found := make([]Status, len(batch))
		errs := make([]error, len(batch))
		var all sync.WaitGroup
		for i := range batch {
			kept := core.ProtocolLastWriter
			if batch[i].versioned {
				kept = 0
			}
			all.Go(func() { found[i], errs[i] = h.observe(ctx, batch[i].name, kept) })
		}
		all.Wait()
		for i := range batch {
			if errs[i] == nil && found[i].State == core.ObservedVacant && !found[i].IsSemaphore() {
				continue
			}
			found[i].Name = batch[i].name
			if !yield(found[i], errs[i]) || ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}
