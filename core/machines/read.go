package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Inspect says what a record of lastwriter shows to a process that takes no part. absent
// says that the store has no record; stamp is the store's modification time of the object
// in nanoseconds since 1970, or 0. Inspect remembers nothing, so only wall clocks can tell
// held from stale. The result's bytes are fresh.
func Inspect(now core.Instant, body []byte, absent bool, stamp int64) core.Observed {
	return lastwriter.Inspect(now, body, absent, stamp)
}

// Permit is a holder of a semaphore as its record shows it. Its texts are other
// processes': escape them before you show them.
type Permit = register.Permit

// EachPermit calls each with every permit of Observed.Permits, in the record's order.
func EachPermit(raw []byte, each func(Permit)) { register.EachPermit(raw, each) }
