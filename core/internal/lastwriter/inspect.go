package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// Inspect says what a record is to a caller that takes no part. absent is that
// the store has none; stamp is the store's modification time of the object in
// nanoseconds since 1970, or 0. Nothing is remembered, so only wall clocks can
// tell held from stale. The result's bytes are fresh.
func Inspect(now core.Instant, body []byte, absent bool, stamp int64) core.Observed {
	var s core.Observed
	if absent {
		s.State = core.ObservedVacant
		return s
	}
	var t Tenure
	t.Now = now
	lockfile.Parse(body, &t.seen)
	t.seen.Show(&s, t.observe())
	if s.State == core.ObservedCorrupt {
		s.WrittenAt = stamp
	}
	return s
}
