package core

// Superseded versions are collected by whoever wins a version, now and then, and
// never before they are so old that nobody can still be acting on them
// (PROTOCOL S13). Safety does not rest on a delete: what comes back, or was
// never removed, is older than the newest version all the same.

// collectEach: the winner of each so many versions collects.
const (
	collectEach  = 16
	collectPages = 20  // that it looks through
	collectMost  = 128 // objects that it removes
)

// garbage is the collection in progress.
type garbage struct {
	after  string
	above  int64  // stamp of the version above the one at hand, 0 while it is not known
	oldest string // key of the version by whose age the rest was judged
	keys   []string
	pages  int
	lowest Epoch // that was listed
	skip   Epoch // how far the next page begins below this one
	left   int   // of the objects that it still may remove
}

// tidying reports that the request in flight is about superseded versions, not
// about ours.
func (r *register) tidying() bool { return r.doing >= forGarbage }

// startTidying lists what is below the newest versions.
func (r *register) startTidying() {
	if r.cur.n <= KeepVersions {
		return
	}
	r.garbage = &garbage{after: versionKey(r.prefix, r.cur.n-KeepVersions+1), left: collectMost}
	r.askGarbage()
}

func (r *register) askGarbage() {
	a := r.ask(forGarbage, ActionList, r.prefix, r.tidyLimit())
	a.After, a.Count = r.garbage.after, MaxEntries
}

// tidyLimit leaves renewals their time.
func (r *register) tidyLimit() Duration { return r.requestLimit(r.timers[timerDeadline]) }

// tidied takes an answer about superseded versions. Whatever goes wrong, the next
// winner collects them.
func (r *register) tidied(ev *Event) {
	g := r.garbage
	switch {
	case ev.Outcome == OutcomeUnknown:
		r.garbage = nil
	case r.doing == forGarbage:
		r.sortOut(ev)
	case r.doing == forGarbageAge:
		var v version
		if ev.Outcome == OutcomeYes && r.isAgedHere(ev, &v) {
			r.removeNext()
			return
		}
		r.garbage = nil
	default:
		g.keys = g.keys[:len(g.keys)-1]
		r.removeNext()
	}
}

// sortOut picks from a page what the version above it has superseded long ago.
func (r *register) sortOut(ev *Event) {
	g := r.garbage
	g.pages++
	for i := range ev.Entries {
		e := &ev.Entries[i]
		n, owner, ok := parseRegisterKey(r.prefix, e.Key)
		if ok && g.above != 0 && len(g.keys) < collectMost && r.isAged(g.above) {
			g.keys = append(g.keys, string(e.Key))
		}
		if ok {
			g.lowest = n
		}
		if ok && owner == nil {
			if g.above = e.Stamp; len(g.keys) == 0 {
				g.oldest = versionKey(r.prefix, n)
			}
		}
	}
	switch {
	case len(g.keys) > 0 && r.clock().at != 0:
		r.removeNext()
	case len(g.keys) > 0:
		r.ask(forGarbageAge, ActionGet, g.oldest, r.tidyLimit())
	case ev.More && g.pages < collectPages && g.lowest > 2*g.skip:
		// All of them are young, as they are where a name changes hands all the time:
		// on from farther below each time. The first there has no known age.
		g.skip = max(2*g.skip, MaxEntries)
		g.above, g.after = 0, versionKey(r.prefix, g.lowest-min(g.lowest-1, g.skip/2))
		r.askGarbage()
	default:
		r.garbage = nil
	}
}

// keep is how long a superseded version stays.
func (r *register) keep() int64 {
	const ttls = 8
	return max(int64(LeastKeep), ttls*int64(max(r.cfg.TTL, r.cur.ttl))+int64(10*second))
}

// isAged reports whether a version of this stamp superseded another long ago.
// Where the store's clock cannot be trusted the stamp is only a hint.
func (r *register) isAged(stamp int64) bool {
	if clock := r.clock(); clock.at != 0 {
		return r.lowerBound(clock, r.now.Mono) >= stamp+r.keep()+r.slop()
	}
	return r.cfg.Boot != "" && r.now.Wall >= stamp+r.keep()
}

// clock is what is known of the store's clock, if that can be relied on.
func (r *register) clock() clockSample {
	if r.cfg.Expiry != ExpiryCalibrated {
		return clockSample{}
	}
	return better(r.sample, r.fresh)
}

// isAgedHere is isAged by the clock of this boot.
func (r *register) isAgedHere(ev *Event, v *version) bool {
	n, _, _ := parseRegisterKey(r.prefix, []byte(r.garbage.oldest))
	if parseVersion(ev.Body, n, v) != readGood {
		return false
	}
	at, ok := r.emitted(v.boot, v.boottime, ev.Stamp)
	return ok && r.now.Mono >= at+r.keep()
}

func (r *register) removeNext() {
	if len(r.garbage.keys) == 0 || r.garbage.left == 0 {
		r.garbage = nil
		return
	}
	r.garbage.left--
	oldest := r.garbage.keys[len(r.garbage.keys)-1] // first: what is interrupted leaves no hole
	r.ask(forDelete, ActionDelete, oldest, r.tidyLimit())
}
