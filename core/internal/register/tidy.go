package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// The winner of a version collects superseded ones, now and then, and never before
// they are so old that no process can still be acting on them
// (PROTOCOL S13). Safety does not rest on a delete: what comes back, or was
// never removed, is older than the newest version all the same.

// collectEach: the winner of each so many versions collects.
const (
	CollectEach  = 16
	collectPages = 20  // that it looks through
	CollectMost  = 128 // objects that it removes
)

// Garbage is the collection in progress.
type Garbage struct {
	after  string
	above  int64  // stamp of the version above the one at hand, 0 while it is not known
	oldest string // key of the version by whose age the rest was judged
	Keys   []string
	pages  int
	lowest core.Epoch // that was listed
	skip   core.Epoch // how far the next page begins below this one
	Left   int        // of the objects that it still may remove
}

// Tidying reports that the request in flight is about superseded versions, not
// about ours.
func (r *Register) Tidying() bool { return r.Doing >= ForGarbage }

// StartTidying lists what is below the newest versions.
func (r *Register) StartTidying() {
	if r.Cur.N <= core.KeepVersions {
		return
	}
	r.Garbage = &Garbage{after: VersionKey(r.Prefix, r.Cur.N-core.KeepVersions+1), Left: CollectMost}
	r.askGarbage()
}

func (r *Register) askGarbage() {
	a := r.Ask(ForGarbage, core.ActionList, r.Prefix, r.tidyLimit())
	a.After, a.Count = r.Garbage.after, core.MaxEntries
}

// tidyLimit leaves renewals their time.
func (r *Register) tidyLimit() core.Duration { return r.RequestLimit(r.Timers[base.TimerDeadline]) }

// Tidied takes an answer about superseded versions. Whatever goes wrong, the next
// winner collects them.
func (r *Register) Tidied(ev *core.Event) {
	g := r.Garbage
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		r.Garbage = nil
	case r.Doing == ForGarbage:
		r.sortOut(ev)
	case r.Doing == ForGarbageAge:
		var v Version
		if ev.Outcome == core.OutcomeYes && r.isAgedHere(ev, &v) {
			r.removeNext()
			return
		}
		r.Garbage = nil
	default:
		g.Keys = g.Keys[:len(g.Keys)-1]
		r.removeNext()
	}
}

// sortOut picks from a page what the version above it has superseded long ago.
func (r *Register) sortOut(ev *core.Event) {
	g := r.Garbage
	g.pages++
	for i := range ev.Entries {
		e := &ev.Entries[i]
		n, owner, ok := ParseRegisterKey(r.Prefix, e.Key)
		if ok && g.above != 0 && len(g.Keys) < CollectMost && r.isAged(g.above) {
			g.Keys = append(g.Keys, string(e.Key))
		}
		if ok {
			g.lowest = n
		}
		if ok && owner == nil {
			if g.above = e.Stamp; len(g.Keys) == 0 {
				g.oldest = VersionKey(r.Prefix, n)
			}
		}
	}
	switch {
	case len(g.Keys) > 0 && r.storeClock().At != 0:
		r.removeNext()
	case len(g.Keys) > 0:
		r.Ask(ForGarbageAge, core.ActionGet, g.oldest, r.tidyLimit())
	case ev.More && g.pages < collectPages && g.lowest > 2*g.skip:
		// All of them are young, as they are where a name changes hands all the time:
		// on from farther below each time. The first there has no known age.
		g.skip = max(2*g.skip, core.MaxEntries)
		g.above, g.after = 0, VersionKey(r.Prefix, g.lowest-min(g.lowest-1, g.skip/2))
		r.askGarbage()
	default:
		r.Garbage = nil
	}
}

// keep is how long a superseded version stays.
func (r *Register) keep() int64 {
	const ttls = 8
	return max(int64(core.LeastKeep), ttls*int64(max(r.Cfg.TTL.Duration(), r.Cur.TTL))+int64(10*core.Second))
}

// isAged reports whether a version of this stamp superseded another long ago.
// Where the store's clock cannot be trusted the stamp is only a hint.
func (r *Register) isAged(stamp int64) bool {
	if clock := r.storeClock(); clock.At != 0 {
		return r.lowerBound(clock, r.Now.Mono) >= stamp+r.keep()+r.slop()
	}
	return r.Cfg.Boot != "" && r.Now.Wall >= stamp+r.keep()
}

// isAgedHere is isAged by the clock of this boot.
func (r *Register) isAgedHere(ev *core.Event, v *Version) bool {
	n, _, _ := ParseRegisterKey(r.Prefix, []byte(r.Garbage.oldest))
	if ParseVersion(ev.Body, n, v) != ReadGood {
		return false
	}
	at, ok := r.emitted(v.boot, v.boottime, ev.Stamp)
	return ok && r.Now.Mono >= at+r.keep()
}

func (r *Register) removeNext() {
	if len(r.Garbage.Keys) == 0 || r.Garbage.Left == 0 {
		r.Garbage = nil
		return
	}
	r.Garbage.Left--
	oldest := r.Garbage.Keys[len(r.Garbage.Keys)-1] // first: what is interrupted leaves no hole
	r.Ask(ForDelete, core.ActionDelete, oldest, r.tidyLimit())
}
