package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// This file has the takeover rule: when the tenure of a name, or a session, is dead. Three
// clocks can tell (PROTOCOL S5), and any of them frees: the store's by its lower bound,
// this boot's, and ours since we saw nothing change. The parts that a mutation leaves out
// are in rules.go; how what is judged here is read stands in observe.go.

// life says when a tenure or a session ends, by each clock: a ttl after the newest beat
// that keeps it alive. base.Unset is that the clock cannot tell.
type life struct {
	store   int64 // of the store's clock, which has the slop on top (S5.1)
	boot    int64 // Mono: by what this boot's clock stamped (S5.2)
	own     int64 // Mono: a ttl since all was first seen as it stands (S5.3)
	atLeast bool  // there may be newer beats than those that were read
}

// untold is a life of which no clock can tell.
func untold() life { return life{store: base.Unset, boot: base.Unset, own: base.Unset} }

// lifeOf is the life that one beat gives, as far as its own stamps tell.
func lifeOf(b *Beat, ttl int64) life {
	l := untold()
	if b.Stamp != 0 {
		l.store = b.Stamp + ttl
	}
	if b.SameBoot {
		l.boot = b.boottime + ttl
	}
	return l
}

// isDead is the rule, as of the start of the observation: one clock is enough.
func (r *Register) isDead(l life) bool {
	at := r.judgedAt()
	past, _ := r.isPastByStore(l)
	return past || at >= l.boot || at >= l.own
}

// isAlive reports that the store's clock or this boot's shows a life that is not over.
func (r *Register) isAlive(l life) bool {
	past, told := r.isPastByStore(l)
	return told && !past || l.boot != base.Unset && r.judgedAt() < l.boot
}

// isPastByStore reports whether a life is over by the store's clock, if that can tell.
func (r *Register) isPastByStore(l life) (past, told bool) {
	told = l.store != base.Unset && r.hasStoreClock()
	return told && r.lowerBound(r.Sample, r.judgedAt()) >= l.store+r.slop(), told
}

// canBeDeadAt is the earliest Mono, after one as of which it was judged, at which isDead
// can find a life over; base.Unset is never.
func (r *Register) canBeDeadAt(l life, judged int64) int64 {
	byStore := base.Unset
	if l.store != base.Unset && r.hasStoreClock() {
		byStore = r.Sample.reaches(l.store + r.slop())
		if !l.atLeast { // a sample that has come since was not judged by yet
			byStore = max(byStore, judged+1)
		}
	}
	earliest := base.Unset
	for _, at := range [...]int64{byStore, l.boot, l.own} {
		if at > judged {
			earliest = min(earliest, at)
		}
	}
	return earliest
}

// hasStoreClock reports whether there is a bound of the store's clock to judge by.
func (r *Register) hasStoreClock() bool {
	return r.Cfg.Expiry == core.ExpiryCalibrated && r.Sample.At != 0
}

// tenureLife is that of the tenure by what the observation has read so far. A version
// counts as a beat of the owner that made it.
func (r *Register) tenureLife() life {
	l, ttl := untold(), int64(r.ttl())
	if newest, ok := r.newestStamp(); ok {
		l.store = newest + ttl
	}
	if newest, ok := r.newestBoottime(); ok {
		l.boot = newest + ttl
	}
	return l
}

// wholeTenureLife is the same once all was read that can be: then what stands unchanged tells.
func (r *Register) wholeTenureLife() life {
	l := r.tenureLife()
	if w := r.standing(); w.Fingerprint != 0 {
		l.own = w.Since + int64(r.ttl())
	}
	return l
}

// DeadAt is the earliest Mono at which what was seen can be dead, or base.Unset.
func (r *Register) DeadAt() int64 {
	if r.Cur.State == core.VersionHeld && r.Cur.TTL == 0 {
		return base.Unset
	}
	l, ttl := r.wholeTenureLife(), int64(r.ttl())
	// Of beats that were not read, any can only be newer.
	if newest, _ := r.newestStamp(); newest != 0 && l.store == base.Unset {
		l.store, l.atLeast = newest+ttl, true
	}
	if made, ok := r.boottime(); ok && l.boot == base.Unset {
		l.boot = made + ttl
	}
	return r.canBeDeadAt(l, r.Observation.Start)
}

// isYoung reports that the version itself is no ttl old, so that nothing else has
// to be read to know that its tenure is not dead.
func (r *Register) isYoung() bool {
	c := &r.Cur
	made := Beat{Stamp: r.Observation.Stamp, SameBoot: c.SameBoot, boottime: c.Boottime}
	return c.State == core.VersionHeld && r.isAlive(lifeOf(&made, int64(c.TTL)))
}

// sessionLife is that of a session, which has one beat.
func (r *Register) sessionLife(s *seenSession) life {
	ttl := r.sessionTTL(s)
	l := lifeOf(&s.Beat, ttl)
	l.own = s.unchanged.Since + ttl
	return l
}

// HasStood reports whether the newest version, which is no record, has stood for so long,
// by the store's clock or since it was first seen (PROTOCOL P7).
func (r *Register) HasStood(hold int64) bool {
	l := lifeOf(&Beat{Stamp: r.Cur.Stamp}, hold)
	l.own = r.Unchanged.Since + hold
	return r.isDead(l)
}

// ttl is how long the newest beat counts.
func (r *Register) ttl() core.Duration {
	c := &r.Cur
	switch {
	case c.Result == ReadCorrupt:
		return max(r.Cfg.TTL.Duration(), core.CorruptMin)
	case c.State == core.VersionHeld:
		return max(c.TTL, r.Observation.sessionBeat.ttl) // they differ only where a process broke the rules
	}
	return max(c.untilDead(), r.Observation.sessionBeat.ttl)
}

// A release or a break ends the version below it: from then on no process joins that
// or renews it. Its owners' belief rests on its own beats, and those are judged as if
// it were held. An owner's renewal that was good asked
// for the version above after its beat was answered, so that beat was there before
// the end was:
//
//	holder   put b (under n) ── exists v(n+1): no, believes for a ttl from the put
//	breaker                                          create v(n+1) broken
//	taker                                            beats under n, a ttl old: free
//
// For the same reason the end's own stamp is a bound: a beat that lands after it
// renews nothing. Where a session may still keep the lease the stamp of its call is.

// beatsOf is the version whose beats count.
func (r *Register) beatsOf() core.Epoch {
	if r.Cur.isEnded() {
		return r.Cur.N - 1
	}
	return r.Cur.N
}

// isEnded reports that the version says that its tenure is over.
func (c *Current) isEnded() bool {
	return c.State == core.VersionReleased || c.State == core.VersionBroken
}

// hasSession reports that a session may keep the lease alive.
func (r *Register) hasSession() bool { return r.Cur.Session != "" && !r.Observation.absent }

// hasEnded reports that the version that was ended is known, and all beats under it.
// Without them the end alone is judged, as it is where there is no ttl: its holder
// asks now and then. A page that ends above that version may not show all.
func (r *Register) hasEnded() bool {
	c, obs, e := &r.Cur, &r.Observation, &r.Ended
	cut := !obs.poll && obs.More && obs.Lowest >= r.beatsOf()
	return c.isEnded() && c.TTL != 0 && e.read && e.epoch == c.N-1 && !e.Absent && !cut
}

// newestStamp is the store's stamp from which a ttl counts: that of the newest beat,
// or of the end if that is earlier; not ok where one of them has none.
func (r *Register) newestStamp() (newest int64, ok bool) {
	newest, ok = r.newestBeat()
	if end, told := r.endStamp(); told && (!ok || end < newest) {
		return end, true
	}
	return newest, ok
}

// endStamp is the stamp of a release or a break, or of the call that tells a session.
func (r *Register) endStamp() (stamp int64, ok bool) {
	stamp = r.Observation.Stamp
	if r.countsFromCall() {
		if stamp = 0; r.Call.N == r.Cur.N {
			stamp = r.Call.stamp
		}
	}
	return stamp, r.Cur.isEnded() && stamp != 0
}

// newestBeat is the stamp of the newest beat.
func (r *Register) newestBeat() (newest int64, ok bool) {
	obs := &r.Observation
	newest = obs.Stamp
	if r.Cur.isEnded() {
		if newest = 0; r.hasEnded() {
			newest = r.Ended.Stamp
		}
	}
	ok = newest != 0
	for i := range obs.beats {
		if b := &obs.beats[i]; r.counts(b) {
			newest, ok = max(newest, b.Stamp), ok && b.Stamp != 0
		}
	}
	if obs.session && !obs.absent {
		newest, ok = max(newest, obs.sessionBeat.Stamp), ok && obs.sessionBeat.Stamp != 0
	}
	return newest, ok
}

// newestBoottime is the newest beat by the clock of this boot; not ok if
// any was made elsewhere or was not read.
//
// A record carries the time at which it was emitted, and may land much later.
// An owner that renewed in between renewed under the version below:
//
//	holder     put b (under n) ── exists v(n+1): no, believes for a ttl
//	companion  create v(n+1) . . . . . . . . . . . . landed  (emitted before b)
//	taker                                                    v(n+1) is a ttl old
func (r *Register) newestBoottime() (newest int64, ok bool) {
	obs := &r.Observation
	newest, ok = r.boottime()
	first, last := r.epochsByBoot()
	if !ok || obs.More && obs.Lowest >= first {
		return 0, false
	}
	for i := range obs.beats {
		b := &obs.beats[i]
		if b.epoch < first || b.epoch > last {
			continue
		}
		if !b.read || !b.Absent && !b.SameBoot {
			return 0, false
		}
		newest = max(newest, b.boottime)
	}
	if obs.session && !obs.absent {
		if !obs.sessionBeat.SameBoot {
			return 0, false
		}
		newest = max(newest, obs.sessionBeat.boottime)
	}
	return newest, true
}

// noteUnchanged notes what this observation shows, for the rule of last resort: all beats
// stood unchanged for a ttl of our own clock, from the end of the first observation that
// showed them to the start of this one. So has a release or a break, with the call to its
// session, that stood for a ttl.
func (r *Register) noteUnchanged() {
	if fingerprint, complete := r.fingerprint(); complete {
		r.note(&r.Unchanged, fingerprint)
	}
	if fingerprint, told := r.endFingerprint(); told {
		r.note(&r.EndUnchanged, fingerprint)
	}
}

func (r *Register) note(w *base.Unchanged, fingerprint uint64) {
	if fingerprint != w.Fingerprint {
		*w = base.Unchanged{Fingerprint: fingerprint, Since: r.Now.Mono}
	}
}

// standing is what stands unchanged for the longest, of what this observation shows.
// An end stands for good; beats that are new in it may be of a session that goes on.
func (r *Register) standing() (longest base.Unchanged) {
	if fingerprint, complete := r.fingerprint(); complete && fingerprint == r.Unchanged.Fingerprint {
		longest = r.Unchanged
	}
	renewed := longest.Fingerprint == 0 || r.hasSession() && longest.Since >= r.Observation.Start
	if fingerprint, told := r.endFingerprint(); told && fingerprint == r.EndUnchanged.Fingerprint && (renewed || r.EndUnchanged.Since < longest.Since) {
		longest = r.EndUnchanged
	}
	return longest
}

// endFingerprint is of a release or a break; not told while its session is
// still to be called.
func (r *Register) endFingerprint() (fingerprint uint64, told bool) {
	c := &r.Cur
	fingerprint = base.Mix(uint64(c.N), c.Fingerprint)
	if r.Call.N == c.N {
		fingerprint += base.Mix(3, 1)
	} else if r.countsFromCall() {
		return 0, false
	}
	return max(fingerprint, 1), c.isEnded()
}

// fingerprint is of all beats.
func (r *Register) fingerprint() (fingerprint uint64, complete bool) {
	obs, c := &r.Observation, &r.Cur
	of := r.beatsOf()
	fingerprint = base.Mix(uint64(of), c.Fingerprint)
	if c.isEnded() {
		if !r.hasEnded() {
			return 0, false
		}
		fingerprint = base.Mix(uint64(of), r.Ended.fingerprint)
	}
	for i := range obs.beats {
		b := &obs.beats[i]
		if !r.counts(b) {
			continue
		}
		mark, read := r.markOf(b)
		if !read {
			return 0, false
		}
		fingerprint += base.Mix(1, mark) // any order: a list has another than a poll
	}
	if obs.session && !obs.absent {
		fingerprint += base.Mix(2, obs.sessionBeat.fingerprint)
	}
	return max(fingerprint, 1), true // 0 is none
}
