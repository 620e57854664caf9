package doctor

import (
	"math"
	"time"
)

// sample is one write, the window by this machine's clock in which it was applied, and
// the stamps that the store gave it.
type sample struct {
	key        string
	sent, done int64
	get, list  int64 // 0 if not given
}

// units returns the resolutions that stamps can have, the coarsest first.
func units() []time.Duration {
	return []time.Duration{
		time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond,
		100 * time.Microsecond, 10 * time.Microsecond, time.Microsecond, 100 * time.Nanosecond, 10 * time.Nanosecond, time.Nanosecond,
	}
}

// unitOf returns the coarsest unit of which all stamps are multiples, or 0 without stamps.
// It tries a unit only if the stamps were given within half that unit or longer: with the
// next finer unit there would then have been five values, so it is not by chance.
func unitOf(stamps []int64, within time.Duration) time.Duration {
	if len(stamps) == 0 {
		return 0
	}
	for _, unit := range units() {
		all := within >= unit/2
		for _, stamp := range stamps {
			all = all && stamp%int64(unit) == 0
		}
		if all {
			return unit
		}
	}
	return time.Nanosecond
}

// judgeStamps finds the unit of the stamps, how far the clocks behind them disagree, and
// how far they are from ours. A write was applied between sent and done by our clock. By
// the store's clock it was applied at its stamp, or less than a unit later. So the store's
// clock is ahead of ours by an offset within this window:
//
//	stamp - done   <   offset   <   stamp + unit - sent
//
// If there is one clock, the windows of all writes overlap. If they do not, the gap is how
// far two clocks disagree at least. The overlap is never wider than half a round trip and
// half a unit on either side.
func (x *examiner) judgeStamps() {
	s := &x.report.Stamps
	s.Unit = Seconds(x.store.StampUnit())
	var gets, lists []int64
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, one := range x.stamps {
		first, last = min(first, one.sent), max(last, one.done)
		if one.get != 0 {
			gets = append(gets, one.get)
		}
		if one.list != 0 && x.report.Fresh.AfterWrite.Stale == 0 {
			lists = append(lists, one.list)
		}
	}
	s.Samples = len(gets) + len(lists)
	s.Get, s.List = Seconds(unitOf(gets, time.Duration(last-first))), Seconds(unitOf(lists, time.Duration(last-first)))
	if s.Samples == 0 {
		return
	}
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	unit := int64(x.store.StampUnit()) + int64(s.coarser())
	for _, one := range x.stamps {
		for _, stamp := range []int64{one.get, one.list} {
			if stamp != 0 && (stamp == one.get || len(lists) > 0) {
				least, most = max(least, stamp-one.done), min(most, stamp+unit-one.sent)
			}
		}
	}
	s.Spread = Seconds(max(0, least-most))
	c := &x.report.Clock
	c.Known, c.Offset, c.Bound = true, Seconds(least/2+most/2), Seconds(max(least-most, most-least)/2)
}
