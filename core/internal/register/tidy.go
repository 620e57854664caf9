package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// The winner of a version collects superseded ones, now and then, and never before
// they are so old that no process can still be acting on them
// (PROTOCOL S13). Safety does not rest on a delete: what comes back, or was
// never removed, is older than the newest version all the same.

const (
	CollectEach = 16 // the winner of each so many versions collects
	CollectMost = 64 // objects that it removes
)

// Garbage is the collection in progress. How much it asks for does not depend on how many
// versions there are: it reads single versions until it knows one that is old enough, lists
// what is below that, and deletes it. A list costs some stores as much as the name has
// versions, so there is none where everything is young.
//
//	1        old            young          newest
//	   gone   | superseded G ago |  young    |
//	      a page of it <─┘
type Garbage struct {
	old    core.Epoch // the newest version that was found to be old enough, or gone; 0 is none
	young  core.Epoch // the oldest that was found to be neither
	step   core.Epoch // how far below young the next one is sought, while each was young
	proven bool       // that old is there, and old enough
	listed bool
	Keys   []string // that are to be removed
	Left   int      // of the objects that it still may remove
}

// Tidying reports that the request in flight is about superseded versions, not
// about ours.
func (r *Register) Tidying() bool { return r.Doing >= ForGarbage }

// StartTidying begins a collection of what is below the newest versions; GoOnTidying is next.
func (r *Register) StartTidying() {
	if r.Cur.N <= core.KeepVersions || !r.tellsAge() {
		return
	}
	r.Garbage = &Garbage{young: r.Cur.N - core.KeepVersions + 2, step: 1, Left: CollectMost}
}

// GoOnTidying asks for the next thing of a collection, also of one that gave way to what was
// more urgent. If there is none, the collection ends.
func (r *Register) GoOnTidying() {
	g := r.Garbage
	switch {
	case g == nil:
	case len(g.Keys) > 0 && g.Left > 0:
		oldest := g.Keys[len(g.Keys)-1] // first
		r.Ask(ForDelete, core.ActionDelete, oldest, r.tidyLimit())
	case g.listed:
		r.Garbage = nil
	case r.Cfg.Expiry == core.ExpiryCalibrated && r.storeClock().At == 0: // our own version's stamp tells it
		r.Ask(ForGarbageClock, core.ActionGet, VersionKey(r.Prefix, r.Cur.N), r.tidyLimit())
	case g.seeks():
		r.Ask(ForGarbageAge, core.ActionGet, VersionKey(r.Prefix, g.next()), r.tidyLimit())
	case g.proven:
		a := r.Ask(ForGarbage, core.ActionList, r.Prefix, r.tidyLimit())
		a.After, a.Count = VersionKey(r.Prefix, g.old), CollectMost
	default:
		r.Garbage = nil
	}
}

// seeks reports whether one more version is to be read. A few that could be removed may stay,
// but below what an earlier collection left there is a hole, in which nothing is proven.
func (g *Garbage) seeks() bool {
	apart := g.young - g.old
	return g.old == 0 || apart > CollectEach || apart > 1 && (g.step == 1 || !g.proven)
}

// next is the version to be read: the very first, since where that is young, all are; then
// those below the newest, farther each time; and then the one in the middle.
func (g *Garbage) next() core.Epoch {
	switch {
	case g.old == 0:
		return 1
	case g.step < g.young-g.old:
		return g.young - g.step
	}
	return g.old + (g.young-g.old)/2
}

// tidyLimit leaves renewals their time.
func (r *Register) tidyLimit() core.Duration { return r.RequestLimit(r.Timers[base.TimerDeadline]) }

// Tidied takes an answer about superseded versions; GoOnTidying is next. Whatever goes wrong, the next winner collects them.
func (r *Register) Tidied(ev *core.Event) {
	g := r.Garbage
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		r.Garbage = nil
	case r.Doing == ForGarbageClock:
		if r.Learn(ev); r.storeClock().At == 0 { // there are no stamps
			r.Garbage = nil
		}
	case r.Doing == ForGarbageAge:
		r.narrow(ev)
	case r.Doing == ForGarbage:
		g.listed = true
		for i := range ev.Entries {
			if _, _, ok := ParseRegisterKey(r.Prefix, ev.Entries[i].Key); ok {
				g.Keys = append(g.Keys, string(ev.Entries[i].Key))
			}
		}
	default:
		g.Keys = g.Keys[:len(g.Keys)-1]
		g.Left--
	}
}

// narrow takes the version that was read.
func (r *Register) narrow(ev *core.Event) {
	g := r.Garbage
	n := g.next()
	seems, proven := r.isAged(ev, n)
	switch {
	case ev.Outcome == core.OutcomeNo || seems:
		g.old, g.proven = n, proven
	case g.old == 0:
		g.old, g.young = n, n+1 // all are young, and nothing is proven
	default:
		g.young, g.step = n, 4*g.step
	}
}

// tellsAge reports whether there is a clock to tell a version's age by.
func (r *Register) tellsAge() bool {
	return r.Cfg.Expiry == core.ExpiryCalibrated || r.Cfg.Boot != ""
}

// longEnough is G (PROTOCOL S13).
func (r *Register) longEnough() int64 {
	const ttls = 8
	return max(int64(core.LeastKeep), ttls*int64(max(r.Cfg.TTL.Duration(), r.Cur.TTL))+int64(10*core.Second))
}

// isAged reports whether version n, as it was read, has superseded the one below it long ago.
// Where the store's clock cannot be trusted its stamp is only a hint, which the clock of
// this boot must prove.
func (r *Register) isAged(ev *core.Event, n core.Epoch) (seems, proven bool) {
	if ev.Outcome != core.OutcomeYes || ev.Stamp == 0 {
		return false, false
	}
	if clock := r.storeClock(); clock.At != 0 {
		proven = r.lowerBound(clock, r.Now.Mono) >= ev.Stamp+r.keep()+r.slop()
		return proven, proven
	}
	var v Version
	if ParseVersion(ev.Body, n, &v) == ReadGood {
		at, ok := r.emitted(v.boot, v.boottime, ev.Stamp)
		proven = ok && r.Now.Mono >= at+r.keep()
	}
	return r.Now.Wall >= ev.Stamp+r.keep(), proven
}
