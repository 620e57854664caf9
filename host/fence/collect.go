package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

// Old slots are collected, so a slot's number can become free a second time. A very
// late create then wins a number that the chain has long passed:
//
//	us:     newest is 7 ── create 8 ═══════════════════════════════ won?
//	other:      8 ── 9 ── … ── 40 ── a minute ── 8 is collected ─┘
//
// No process reads that slot, since only the newest one counts. But we must not take
// it for our success. Nor, if 8 was ours and its answer was lost, may we take another
// process's late create at 8 for our failure. Hence two rules:
//
//   - A slot is collected only if it is none of the newest keepSlots, and if its
//     successor is older than keepFor by the store's own stamps. A store whose clock
//     is set can defeat the second condition, but not the first.
//   - A result that came later than patience counts only once it is confirmed: the slot
//     after ours says, by its After, on which slot it was written.

// confirm reports whether our slot counts. won is what the object at its key seems to
// say.
func (o *Object) confirm(ctx context.Context, mine *Slot, won bool) (bool, error) {
	newest, err := o.newestNumber(ctx)
	if err == nil && newest == mine.Number {
		return won, nil // the newest slot cannot have been collected
	}
	var next Slot
	if err == nil {
		next, err = o.get(ctx, o.slotKey(mine.Number+1), mine.Number+1)
	}
	if err != nil {
		err = fmt.Errorf("it was answered so late that it must be confirmed: %w", err)
		return false, &UnknownError{Key: o.key, Number: mine.Number, Nonce: mine.Nonce, Err: err}
	}
	if next.After == mine.Nonce {
		return true, nil
	}
	if won {
		// Ours is where another's slot was collected, and no slot names it: remove it.
		_ = o.remove(ctx, o.slotKey(mine.Number))
	}
	return false, nil
}

// since returns how long ago an instant of o.now was, by the clock that says more: the
// monotonic clock leaves out the time that a machine was suspended, and the wall clock
// can be set.
func (o *Object) since(then time.Time) time.Duration {
	now := o.now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// collect removes old slots, now and then. newest is the slot before the one that we
// have just won. A failure costs only room: the winner of a later collection removes
// what is left.
func (o *Object) collect(ctx context.Context, newest *Slot) {
	if newest.Number%collectEach != 0 || newest.Number <= keepSlots || newest.Stamp == 0 {
		return
	}
	// The oldest slot that is kept comes first: it is the successor of the next in the list.
	page, _, err := o.list(ctx, o.slotKey(newest.Number-keepSlots+2), store.MaxPage)
	if err != nil {
		return
	}
	var old []string
	above := int64(0)
	for i := range page {
		if _, ok := o.slotNumber(page[i].Key); !ok {
			continue
		}
		if above != 0 && above+int64(keepFor+o.store.StampUnit()) <= newest.Stamp {
			old = append(old, page[i].Key)
		}
		above = page[i].Stamp
	}
	for _, key := range old[max(0, len(old)-collectMost):] {
		if o.remove(ctx, key) != nil {
			return
		}
	}
}

func (o *Object) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return o.store.Delete(ctx, key)
}
