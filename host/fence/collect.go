package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

// Old slots are collected, and so a slot's number can be free a second time. A
// create that comes so late wins what everybody has long passed:
//
//	us:     newest is 7 ── create 8 ═══════════════════════════════ won?
//	other:      8 ── 9 ── … ── 40 ── a minute ── 8 is collected ─┘
//
// Nobody reads it, since the newest slot is what counts. But we must not take
// it for our success; nor, if 8 was ours, and the answer lost, somebody else's
// late create there for our failure. Hence two rules. A slot is collected only
// when it is none of the newest keepSlots, and its successor is older than
// keepFor, as the store's stamps alone tell. And what was found out later than
// patience counts only once it is confirmed: by the slot after it, which says
// whose it was written after. A stepped clock of a store can defeat the second
// half of the first rule, but not the first half.

// confirm reports whether our slot counts, when what is at its key seems to say
// so, or seems not to: won.
func (o *Object) confirm(ctx context.Context, mine *Slot, won bool) (bool, error) {
	newest, err := o.newestNumber(ctx)
	if err == nil && newest == mine.Number {
		return won, nil // the newest is what it seems
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
		// Ours lies where another's was. It goes again, as nobody's.
		_ = o.remove(ctx, o.slotKey(mine.Number))
	}
	return false, nil
}

// since is how long ago an instant of o.now was. Both clocks are asked: the
// monotonic one leaves out the time that a machine was suspended, and the wall
// clock can be stepped.
func (o *Object) since(then time.Time) time.Duration {
	now := o.now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// collect removes old slots, now and then; newest is the slot before the one
// that we have just won. That it fails costs nothing but room: whoever wins the
// next time does it.
func (o *Object) collect(ctx context.Context, newest *Slot) {
	if newest.Number%collectEach != 0 || newest.Number <= keepSlots || newest.Stamp == 0 {
		return
	}
	// The last that is kept comes first, and is the successor of the next.
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
