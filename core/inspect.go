package core

// Inspect says what a record is to somebody who takes no part. absent is that
// the store has none; stamp is the store's modification time of the object in
// nanoseconds since 1970, or 0. Nothing is remembered, so only wall clocks can
// tell held from stale. The result's bytes are fresh.
func Inspect(now Instant, body []byte, absent bool, stamp int64) Sighting {
	var s Sighting
	if absent {
		s.State = ObservedVacant
		return s
	}
	var k tenure
	k.now = now
	parseRecord(body, &k.seen)
	k.seen.show(&s, k.observe())
	if s.State == ObservedCorrupt {
		s.WrittenAt = stamp
	}
	return s
}
