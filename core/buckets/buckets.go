// Package buckets counts, in one process, how many permits of a name each holder has:
// canal_lock's bucketed counters, for which each caller gives its own capacity and
// width. Machine is the same behind messages. It asks no store and knows no time.
package buckets

import "github.com/mopslock/mopslock/core"

// Buckets counts the permits held on one name: canal_lock's counters, kept as the one
// number from which they all follow. Capacity and width are each caller's own view,
// and may differ from call to call. It is pure data: no clock, no lock. The zero
// value is ready, with nothing held.
//
// The idea and the counters are Fred Hebert's canal_lock. There the counters, one for
// each bucket, are all there is: callers of different capacities disagree about them,
// and it grants more than anybody's limit. Here the number held decides, and the
// counters are a view of it. Buckets are filled from left to right. A bucket shows
// capacity + 1 once a caller walked past it while it was full, until it drops.
type Buckets[H comparable] struct {
	held     uint64
	capacity uint32 // of the latest acquire that was granted; the counters' scale
	highest  uint32 // how many buckets were ever reached
	// Callers walked past all buckets left of the last full one: otherwise that one
	// would not be full. passed says whether a caller walked past the last full one.
	passed bool
	first  share[H]     // the first holder; most names have only one
	others map[H]uint64 // nil until a second one comes
}

// share is what one holder holds; with weight 0 there is no holder.
type share[H comparable] struct {
	holder H
	weight uint64
}

// Acquire grants holder weight permits (0 means one), all or none, if with them no more
// than capacity x width are held. total is how many are held then. If reason is not
// ReasonNone, Acquire granted nothing: ReasonFull, or ReasonTooHeavy if the weight
// alone is more than the view. The view must be one that CheckView allows.
func (b *Buckets[H]) Acquire(capacity, width, weight uint32, holder H) (total uint64, reason core.Reason) {
	more := uint64(max(weight, 1))
	if reason = b.judge(capacity, width, weight); reason != core.ReasonNone {
		// A caller that finds it full has walked past all buckets of its view.
		b.passed = b.passed || reason == core.ReasonFull && uint64(width) >= b.full()
		return b.held, reason
	}
	b.held += more
	b.capacity = capacity
	b.give(holder, more)
	// Divisions take longer than all the rest, so there is none without need.
	if b.held > uint64(b.highest)*uint64(capacity) {
		b.highest = uint32((b.held-1)/uint64(capacity)) + 1
	}
	// The last permit filled the last full bucket, or walked past it.
	b.passed = b.held < uint64(capacity) || b.held%uint64(capacity) != 0
	return b.held, core.ReasonNone
}

// judge returns why Acquire would grant nothing, or ReasonNone.
func (b *Buckets[H]) judge(capacity, width, weight uint32) core.Reason {
	most, more := uint64(capacity)*uint64(width), uint64(max(weight, 1))
	switch {
	case more > most:
		return core.ReasonTooHeavy
	case b.held+more > most:
		return core.ReasonFull
	}
	return core.ReasonNone
}

// Release takes weight permits (0 means one) back from holder. If holder does not
// hold so many, Release takes none and returns false: out_of_buckets.
func (b *Buckets[H]) Release(holder H, weight uint32) bool {
	less := uint64(max(weight, 1))
	if b.HeldBy(holder) < less {
		return false
	}
	b.take(holder, less)
	return true
}

// Down takes back all that holder holds, and returns how much that was.
func (b *Buckets[H]) Down(holder H) (freed uint64) {
	if freed = b.HeldBy(holder); freed > 0 {
		b.take(holder, freed)
	}
	return freed
}

// Held returns how many permits are held.
func (b *Buckets[H]) Held() uint64 { return b.held }

// HeldBy returns how many permits the holder holds.
func (b *Buckets[H]) HeldBy(holder H) uint64 {
	if b.first.weight > 0 && b.first.holder == holder {
		return b.first.weight
	}
	return b.others[holder]
}

// Holders returns how many holders hold anything.
func (b *Buckets[H]) Holders() int {
	if b.first.weight > 0 {
		return len(b.others) + 1
	}
	return len(b.others)
}

// Highest returns how many buckets were ever reached: how many counters there are.
func (b *Buckets[H]) Highest() uint32 { return b.highest }

// AppendCounters appends the counters of the first most buckets.
func (b *Buckets[H]) AppendCounters(dst []uint32, most int) []uint32 {
	full, passed := b.full(), b.full()
	if !b.passed && passed > 0 {
		passed--
	}
	for i := range min(uint64(b.highest), uint64(most)) {
		counter := uint32(0)
		switch {
		case i < passed:
			counter = b.capacity + 1
		case i < full:
			counter = b.capacity
		case i == full:
			counter = uint32(b.held % uint64(b.capacity))
		}
		dst = append(dst, counter)
	}
	return dst
}

// full returns how many buckets are full.
func (b *Buckets[H]) full() uint64 {
	if b.held == 0 {
		return 0
	}
	return b.held / uint64(b.capacity)
}

func (b *Buckets[H]) give(holder H, more uint64) {
	switch {
	case b.first.weight > 0 && b.first.holder == holder:
		b.first.weight += more
	case b.first.weight == 0 && (len(b.others) == 0 || b.others[holder] == 0):
		b.first = share[H]{holder, more}
	default:
		if b.others == nil {
			b.others = map[H]uint64{}
		}
		b.others[holder] += more
	}
}

// take lets buckets drop from right to left.
func (b *Buckets[H]) take(holder H, less uint64) {
	before := b.held
	b.held -= less
	// If fewer buckets are full now, the last full one was left of the one that dropped.
	if !b.passed {
		b.passed = b.full() < before/uint64(b.capacity)
	}
	if b.first.weight > 0 && b.first.holder == holder {
		b.first.weight -= less
		if b.first.weight == 0 {
			b.first = share[H]{}
		}
		return
	}
	left := b.others[holder] - less
	if left == 0 {
		delete(b.others, holder)
		return
	}
	b.others[holder] = left
}
