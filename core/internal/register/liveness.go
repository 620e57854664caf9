package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// Three rules say that a tenure is dead (PROTOCOL S5), each on one
// clock, and any of them frees: the store's by its lower bound, this boot's, and
// ours since we saw nothing change. A version counts as a beat of the owner that made it.

// isDead applies them to what the observation has read so far. In the end, when all
// that can be read was, it is noted what stands unchanged.
func (r *Register) isDead(end bool) bool {
	start := r.judgedAt()
	if newest, ok := r.newestStamp(); ok && r.Calibrated() &&
		r.LowerBound(r.Sample, start) >= newest+int64(r.ttl())+r.Slop() {
		return true
	}
	if newest, ok := r.newestBoottime(); ok && start >= newest+int64(r.ttl()) {
		return true
	}
	return end && r.isUnchanged(start)
}

// isYoung reports that the version itself is no ttl old, so that nothing else has
// to be read to know that its tenure is not dead.
func (r *Register) isYoung() bool {
	k, c := &r.Observation, &r.Cur
	ttl := int64(c.TTL)
	return c.State == core.VersionHeld && (c.SameBoot && k.Start < c.Boottime+ttl ||
		k.Stamp != 0 && r.Calibrated() && r.LowerBound(r.Sample, k.Start) < k.Stamp+ttl+r.Slop())
}

// ttl is how long the newest beat counts.
func (r *Register) ttl() core.Duration {
	c := &r.Cur
	switch {
	case c.Result == ReadCorrupt:
		return max(r.Cfg.TTL, core.CorruptMin)
	case c.State == core.VersionHeld:
		return max(c.TTL, r.Observation.sessionBeat.ttl) // they differ only where somebody broke the rules
	}
	return max(c.untilDead(), r.Observation.sessionBeat.ttl)
}

// Calibrated reports whether there is a bound of the store's clock to judge by.
func (r *Register) Calibrated() bool {
	return r.Cfg.Expiry == core.ExpiryCalibrated && r.Sample.At != 0
}

// A release or a break ends the version below it: from then on nobody joins that
// or renews it. What its owners may still believe rests on its own beats,
// and those are judged as if it were held. An owner's renewal that was good asked
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

// needsEnded reports whether the version that was ended is still to be read: to be
// judged, or to tell people where the holder of a broken lease is.
func (r *Register) needsEnded() bool {
	c := &r.Cur
	wanted := c.isEnded() && c.TTL != 0 && !c.alone || c.State == core.VersionBroken && r.Passive
	return wanted && c.N > 1 && !(r.Ended.read && r.Ended.epoch == c.N-1)
}

// EndedRead takes in the version that was ended, as one more beat.
func (r *Register) EndedRead(ev *core.Event) {
	var v Version
	c, good := &r.Cur, false
	r.Ended = Beat{epoch: c.N - 1}
	r.Ended.take(r, ev, func(body []byte, b *BeatRecord) ReadResult {
		result := ParseVersion(body, c.N-1, &v)
		good = result == ReadGood && v.State == core.VersionHeld && core.HolderID(v.Tenure) == c.Tenure
		b.nonce, b.boot, b.boottime = v.Nonce, v.boot, v.boottime
		return result
	})
	r.Ended.Absent = !good
	if s := r.Observed; good && c.State == core.VersionBroken {
		s.Host, s.PID = v.host.AppendCut(s.Host, core.MaxText), v.pid.AppendCut(s.PID, core.MaxText)
		s.Remote = string(v.owner) != string(v.Tenure)
	}
}

// hasEnded reports that the version that was ended is known, and all beats under it.
// Without them the end alone is judged, as it is where there is no ttl: its holder
// asks now and then. A page that ends above that version may not show all.
func (r *Register) hasEnded() bool {
	c, k, e := &r.Cur, &r.Observation, &r.Ended
	cut := !k.poll && k.More && k.Lowest >= r.beatsOf()
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
	k := &r.Observation
	newest = k.Stamp
	if r.Cur.isEnded() {
		if newest = 0; r.hasEnded() {
			newest = r.Ended.Stamp
		}
	}
	ok = newest != 0
	for i := range k.beats {
		if b := &k.beats[i]; r.counts(b) {
			newest, ok = max(newest, b.Stamp), ok && b.Stamp != 0
		}
	}
	if k.session && !k.absent {
		newest, ok = max(newest, k.sessionBeat.Stamp), ok && k.sessionBeat.Stamp != 0
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
	k := &r.Observation
	newest, ok = r.boottime()
	first, last := r.epochsByBoot()
	if !ok || k.More && k.Lowest >= first {
		return 0, false
	}
	for i := range k.beats {
		b := &k.beats[i]
		if b.epoch < first || b.epoch > last {
			continue
		}
		if !b.read || !b.Absent && !b.SameBoot {
			return 0, false
		}
		newest = max(newest, b.boottime)
	}
	if k.session && !k.absent {
		if !k.sessionBeat.SameBoot {
			return 0, false
		}
		newest = max(newest, k.sessionBeat.boottime)
	}
	return newest, true
}

// nextUnread is the next beat whose body the verdict needs, or nil.
func (r *Register) nextUnread() *Beat {
	k, c := &r.Observation, &r.Cur
	of := r.beatsOf()
	lowest := of
	ttl := int64(r.ttl())
	made, sameBoot := r.boottime()
	bySameBoot := sameBoot && k.Start >= made+ttl &&
		(!k.session || k.absent || k.sessionBeat.SameBoot && k.Start >= k.sessionBeat.boottime+ttl)
	if bySameBoot || r.Passive && sameBoot {
		lowest = c.Origin
	}
	if _, ok := r.newestStamp(); !bySameBoot && !k.poll && ok && r.Calibrated() {
		return nil // the stamps of the list are enough
	}
	for i := range k.beats {
		if b := &k.beats[i]; !b.read && b.epoch <= of && b.epoch >= lowest {
			return b
		}
	}
	return nil
}

// isUnchanged is the rule of last resort: all beats stood unchanged for a ttl of
// our own clock, from the end of the first observation that showed them to the start
// of this one. So has a release or a break, with the call to its session, that stood
// for a ttl. It notes what this observation shows.
func (r *Register) isUnchanged(start int64) bool {
	beats, complete := r.fingerprint()
	end, told := r.endFingerprint()
	stood := complete && r.stood(&r.Unchanged, beats, start)
	return told && r.stood(&r.EndUnchanged, end, start) || stood
}

// stood reports whether what an observation shows was there for a ttl before it.
func (r *Register) stood(w *base.Unchanged, fingerprint uint64, start int64) bool {
	if fingerprint != w.Fingerprint {
		*w = base.Unchanged{Fingerprint: fingerprint, Since: r.Now.Mono}
		return false
	}
	return start-w.Since >= int64(r.ttl())
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
	k, c := &r.Observation, &r.Cur
	of := r.beatsOf()
	fingerprint = base.Mix(uint64(of), c.Fingerprint)
	if c.isEnded() {
		if !r.hasEnded() {
			return 0, false
		}
		fingerprint = base.Mix(uint64(of), r.Ended.fingerprint)
	}
	for i := range k.beats {
		b := &k.beats[i]
		if !r.counts(b) {
			continue
		}
		mark, read := r.markOf(b)
		if !read {
			return 0, false
		}
		fingerprint += base.Mix(1, mark) // any order: a list has another than a poll
	}
	if k.session && !k.absent {
		fingerprint += base.Mix(2, k.sessionBeat.fingerprint)
	}
	return max(fingerprint, 1), true // 0 is none
}

// DeadAt is the earliest Mono at which what was seen can be dead, or unset.
func (r *Register) DeadAt() int64 {
	at := base.Unset
	if r.Cur.State == core.VersionHeld && r.Cur.TTL == 0 {
		return at
	}
	soonest := func(instant int64) {
		if instant > r.Observation.Start { // up to then the observation itself has judged
			at = min(at, instant)
		}
	}
	ttl := int64(r.ttl())
	// Of beats that were not read, any can only be newer.
	if newest, all := r.newestStamp(); newest != 0 && r.Calibrated() {
		reaches := r.Sample.reaches(newest + ttl + r.Slop())
		if all { // a sample that has come since was not judged by yet
			reaches = max(reaches, r.Observation.Start+1)
		}
		soonest(reaches)
	}
	if newest, ok := r.newestBoottime(); ok {
		soonest(newest + ttl)
	} else if made, ok := r.boottime(); ok {
		soonest(made + ttl)
	}
	if w := r.standing(); w.Fingerprint != 0 {
		soonest(w.Since + ttl)
	}
	return at
}

// showLeft tells people what is left of the TTL, by whose clock.
func (r *Register) showLeft(s *core.Observed) {
	if c := &r.Cur; c.Result != ReadGood || c.State == core.VersionHeld && c.TTL == 0 || c.alone {
		return // not ours to tell; until it is released or broken; free
	}
	ttl := int64(r.ttl())
	most := ttl
	if r.Cur.isEnded() {
		// It is free a ttl after the end, or after the call to its session, which was made
		// right after that and which an observer does not read. It decides nothing.
		if s.Left = core.Duration(min(ttl, s.ReleasedAt+ttl-r.Now.Wall)); r.hasSession() && r.Call.N != r.Cur.N {
			most = int64(s.Left)
		}
	}
	if newest, ok := r.newestBoottime(); ok {
		s.Left = core.Duration(min(most, newest+ttl-r.Now.Mono))
		return
	}
	if r.Cur.SameBoot && r.isYoung() { // at least
		s.Left = core.Duration(r.Cur.Boottime + ttl - r.Now.Mono)
		return
	}
	sample := Better(r.Sample, r.Fresh)
	if newest, ok := r.newestStamp(); ok && sample.At != 0 && r.Cfg.Expiry == core.ExpiryCalibrated {
		s.Left, s.StoreClock = core.Duration(min(most, newest+ttl-r.LowerBound(sample, r.Now.Mono))), true
		// To a machine that takes no part, and has no sample but the beat's own stamp, our
		// wall clock tells more. It decides nothing.
		if byWall := core.Duration(newest + ttl - r.Now.Wall); r.Passive && byWall < s.Left {
			s.Left, s.StoreClock = byWall, false
		}
	}
}

// needsCall reports whether a session may still keep alive what was released or
// broken: nobody can tell when it heard, unless it is called by its own chain.
func (r *Register) needsCall() bool {
	if r.Passive || !r.Cur.isEnded() || !r.countsFromCall() {
		return false
	}
	return r.Call.N != r.Cur.N || r.Call.stamp == 0 && !r.Observation.called && r.Cfg.Expiry == core.ExpiryCalibrated
}

// SeekCall looks for the call that names this break, and makes it if there is none.
func (r *Register) SeekCall(limit core.Duration) {
	k := &r.Observation
	switch {
	case !k.called || k.after != "":
		if r.Call.readOf != r.Cur.N {
			r.Call.readOf, r.Call.next = r.Cur.N, 0
		}
		if k.callNext = max(k.callNext, r.Call.next); k.after == "" && r.Call.next > 0 {
			k.after = CallKey(r.Cur.Session, r.Call.next-1)
		}
		a := r.Ask(ForCalls, core.ActionList, CallPrefix(r.Cur.Session), limit)
		a.After, a.Count = k.after, ObservationEntries
	case len(k.calls) > 0:
		r.Ask(ForCall, core.ActionGet, k.calls[0], limit)
	default:
		r.Body = AppendCall(r.Body[:0], &r.Machine, r.Cfg.Name, r.Cur.N)
		r.Write(ForNewCall, core.ActionCreate, CallKey(r.Cur.Session, k.callNext), limit)
	}
}

func (r *Register) CallsListed(ev *core.Event) {
	k := &r.Observation
	k.called, k.after = true, ""
	for i := range ev.Entries {
		key := ev.Entries[i].Key
		if n, ok := parseCallKey(r.Cur.Session, key); ok {
			k.calls = append(k.calls, string(key))
			k.callNext = max(k.callNext, n+1)
		}
	}
	if n := len(ev.Entries); ev.More && n > 0 {
		k.after = string(ev.Entries[n-1].Key)
	}
}

func (r *Register) CallRead(ev *core.Event) {
	k := &r.Observation
	read, _ := parseCallKey(r.Cur.Session, []byte(r.Key))
	k.calls = k.calls[1:]
	var call BeatRecord
	r.Call.next = read + 1
	if ev.Outcome == core.OutcomeYes && ParseCall(ev.Body, &call) == ReadGood &&
		call.Epoch == r.Cur.N && jsontext.Text(call.Name).Equal(r.Cfg.Name) {
		r.Call = CallSeen{N: r.Cur.N, stamp: ev.Stamp}
		k.calls = k.calls[:0]
	}
}

func (r *Register) CallMade(ev *core.Event) {
	if ev.Outcome == core.OutcomeNo { // somebody else's call; the next one is as good
		r.Observation.callNext++
		return
	}
	r.Call = CallSeen{N: r.Cur.N, readOf: r.Cur.N, next: r.Observation.callNext}
	r.Observation.called = r.Cfg.Expiry != core.ExpiryCalibrated // its stamp is still to be read
	r.Observation.callNext = 0
}
