package core

// Superseded versions are collected by whoever wins a version, now and then, and
// never before they are so old that nobody can still be acting on them
// (PROTOCOL 1.10). Safety does not rest on a delete: what comes back, or was
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
}

// startTidying lists what is below the newest versions.
func (l *StrictLease) startTidying() {
	if l.cur.n <= KeepVersions {
		return
	}
	l.garbage = &garbage{after: versionKey(l.prefix, l.cur.n-KeepVersions+1)}
	l.askGarbage()
}

func (l *StrictLease) askGarbage() {
	a := l.ask(forGarbage, ActionList, l.prefix, l.tidyLimit())
	a.After, a.Count = l.garbage.after, MaxEntries
}

// tidyLimit leaves renewals their time.
func (l *StrictLease) tidyLimit() Duration { return l.requestLimit(l.timers[timerDeadline]) }

// tidied takes an answer about superseded versions. Whatever goes wrong, the next
// winner collects them.
func (l *StrictLease) tidied(ev *Event) {
	g := l.garbage
	switch {
	case ev.Outcome == OutcomeUnknown:
		l.garbage = nil
	case l.bug(BugEpochReset) && l.state == LeaseReleasing:
		l.endRelease(0)
	case l.doing == forGarbage:
		l.sortOut(ev)
	case l.doing == forGarbageAge:
		var v version
		if ev.Outcome == OutcomeYes && l.isAgedHere(ev.Body, &v) {
			l.removeNext()
			return
		}
		l.garbage = nil
	default:
		g.keys = g.keys[:len(g.keys)-1]
		l.removeNext()
	}
}

// sortOut picks from a page what the version above it has superseded long ago.
func (l *StrictLease) sortOut(ev *Event) {
	g := l.garbage
	g.pages++
	for i := range ev.Entries {
		e := &ev.Entries[i]
		n, owner, ok := parseRegisterKey(l.prefix, e.Key)
		if ok && g.above != 0 && len(g.keys) < collectMost && l.isAged(g.above) {
			g.keys = append(g.keys, string(e.Key))
		}
		if ok {
			g.lowest = n
		}
		if ok && owner == nil {
			if g.above = e.Stamp; len(g.keys) == 0 {
				g.oldest = versionKey(l.prefix, n)
			}
		}
	}
	switch {
	case len(g.keys) > 0 && l.clock().at != 0:
		l.removeNext()
	case len(g.keys) > 0:
		l.ask(forGarbageAge, ActionGet, g.oldest, l.tidyLimit())
	case ev.More && g.pages < collectPages && g.lowest > 2*g.skip:
		// All of them are young, as they are where a name changes hands all the time:
		// on from farther below each time. The first there has no known age.
		g.skip = max(2*g.skip, MaxEntries)
		g.above, g.after = 0, versionKey(l.prefix, g.lowest-min(g.lowest-1, g.skip/2))
		l.askGarbage()
	default:
		l.garbage = nil
	}
}

// keep is how long a superseded version stays.
func (l *StrictLease) keep() int64 {
	const ttls = 8
	return max(int64(LeastKeep), ttls*int64(max(l.cfg.TTL, l.cur.ttl))+int64(10*second))
}

// isAged reports whether a version of this stamp superseded another long ago.
// Where the store's clock cannot be trusted the stamp is only a hint.
func (l *StrictLease) isAged(stamp int64) bool {
	if clock := l.clock(); clock.at != 0 {
		return l.lowerBound(clock, l.now.Mono) >= stamp+l.keep()+l.slop()
	}
	return l.cfg.Boot != "" && l.now.Wall >= stamp+l.keep()
}

// clock is what is known of the store's clock, if that can be relied on.
func (l *StrictLease) clock() clockSample {
	if l.cfg.Expiry != ExpiryCalibrated {
		return clockSample{}
	}
	return better(l.sample, l.fresh)
}

// isAgedHere is isAged by the clock of this boot.
func (l *StrictLease) isAgedHere(body []byte, v *version) bool {
	n, _, _ := parseRegisterKey(l.prefix, []byte(l.garbage.oldest))
	return parseVersion(body, n, v) == readGood && l.isOurBoot(v.boot) && l.now.Mono >= v.boottime+l.keep()
}

func (l *StrictLease) removeNext() {
	if len(l.garbage.keys) == 0 {
		l.garbage = nil
		return
	}
	oldest := l.garbage.keys[len(l.garbage.keys)-1] // first: what is interrupted leaves no hole
	l.ask(forDelete, ActionDelete, oldest, l.tidyLimit())
}
