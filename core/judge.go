package core

// Three rules say that a tenure is dead (PROTOCOL S5), each on one
// clock, and any of them frees: the store's by its lower bound, this boot's, and
// ours since we saw nothing change.

// isDead applies them to what the look has read so far. In the end, when all
// that can be read was, the observation is noted too.
func (r *register) isDead(end bool) bool {
	k := &r.look
	start := k.start
	if r.bug(BugJudgeAtAnswer) {
		start = r.now.Mono
	}
	if r.bug(BugSignsReadApart) {
		start = k.latest
	}
	if newest, ok := r.newestStamp(); ok && r.calibrated() &&
		r.lowerBound(r.sample, start) >= newest+int64(r.ttl())+r.slop() {
		return true
	}
	if newest, ok := r.newestBoottime(); ok && start >= newest+int64(r.ttl()) {
		return true
	}
	return end && r.isUnchanged(start)
}

// isYoung reports that the version itself is no ttl old, so that nothing else has
// to be read to know that its tenure is not dead.
func (r *register) isYoung() bool {
	k, c := &r.look, &r.cur
	ttl := int64(c.ttl)
	return c.state == VersionHeld && (c.sameBoot && k.start < c.boottime+ttl ||
		k.stamp != 0 && r.calibrated() && r.lowerBound(r.sample, k.start) < k.stamp+ttl+r.slop())
}

// ttl is how long the newest sign of life counts.
func (r *register) ttl() Duration {
	c := &r.cur
	switch {
	case c.result == readCorrupt:
		return max(r.cfg.TTL, CorruptMin)
	case c.state == VersionHeld:
		return max(c.ttl, r.look.sign.ttl) // they differ only where somebody broke the rules
	}
	return max(c.untilDead(), r.look.sign.ttl)
}

// calibrated reports whether there is a bound of the store's clock to judge by.
func (r *register) calibrated() bool {
	return r.cfg.Expiry == ExpiryCalibrated && r.sample.at != 0
}

// A release or a break ends the version below it: from then on nobody joins that
// or renews it. What its owners may still believe rests on its own signs of life,
// and those are judged as if it were held. An owner's renewal that was good asked
// for the version above after its beat was answered, so that beat was there before
// the end was:
//
//	holder   put b (under n) ── exists v(n+1): no, believes for a ttl from the put
//	breaker                                          create v(n+1) broken
//	taker                                            signs under n, a ttl old: free
//
// For the same reason the end's own stamp is a bound: a beat that lands after it
// renews nothing. Where a session may still keep the lease the stamp of its call is.

// signsOf is the version whose signs of life count.
func (r *register) signsOf() Epoch {
	if r.cur.isEnded() {
		return r.cur.n - 1
	}
	return r.cur.n
}

// isEnded reports that the version says that its tenure is over.
func (c *current) isEnded() bool { return c.state == VersionReleased || c.state == VersionBroken }

// hasSession reports that a session may keep the lease alive.
func (r *register) hasSession() bool { return r.cur.session != "" && !r.look.absent }

// needsEnded reports whether the version that was ended is still to be read: to be
// judged, or to tell people where the holder of a broken lease is.
func (r *register) needsEnded() bool {
	c := &r.cur
	wanted := c.isEnded() && c.ttl != 0 && !c.alone || c.state == VersionBroken && r.passive
	return wanted && c.n > 1 && !(r.ended.read && r.ended.epoch == c.n-1)
}

// endedRead takes in the version that was ended, as one more sign of life.
func (r *register) endedRead(ev *Event) {
	var v version
	c, good := &r.cur, false
	r.ended = seenBeat{epoch: c.n - 1}
	r.ended.take(r, ev, func(body []byte, b *beat) readResult {
		result := parseVersion(body, c.n-1, &v)
		good = result == readGood && v.state == VersionHeld && HolderID(v.tenure) == c.tenure
		b.nonce, b.boot, b.boottime = v.nonce, v.boot, v.boottime
		return result
	})
	r.ended.absent = !good
	if s := r.sight; good && c.state == VersionBroken {
		s.Host, s.PID = v.host.appendCut(s.Host, MaxText), v.pid.appendCut(s.PID, MaxText)
		s.Remote = string(v.owner) != string(v.tenure)
	}
}

// hasEnded reports that the version that was ended is known, and all beats under it.
// Without them the end alone is judged, as it is where there is no ttl: its holder
// asks now and then. A page that ends above that version may not show all.
func (r *register) hasEnded() bool {
	c, k, e := &r.cur, &r.look, &r.ended
	cut := !k.poll && k.more && k.lowest >= r.signsOf()
	return c.isEnded() && c.ttl != 0 && e.read && e.epoch == c.n-1 && !e.absent && !cut
}

// newestStamp is the store's stamp from which a ttl counts: that of the newest sign
// of life, or of the end if that is earlier; not ok where one of them has none.
func (r *register) newestStamp() (newest int64, ok bool) {
	newest, ok = r.newestSign()
	if end, told := r.endStamp(); told && (!ok || end < newest) {
		return end, true
	}
	return newest, ok
}

// endStamp is the stamp of a release or a break, or of the call that tells a session.
func (r *register) endStamp() (stamp int64, ok bool) {
	stamp = r.look.stamp
	if r.hasSession() && !r.bug(BugSessionWithoutCalls) {
		if stamp = 0; r.call.n == r.cur.n {
			stamp = r.call.stamp
		}
	}
	return stamp, r.cur.isEnded() && stamp != 0
}

// newestSign is the stamp of the newest sign of life.
func (r *register) newestSign() (newest int64, ok bool) {
	k := &r.look
	newest = k.stamp
	if r.cur.isEnded() {
		if newest = 0; r.hasEnded() {
			newest = r.ended.stamp
		}
	}
	ok = newest != 0
	for i := range k.beats {
		if b := &k.beats[i]; b.epoch == r.signsOf() && !b.absent && !(r.cur.isEnded() && r.bug(BugEndedBeatsMissed)) {
			newest, ok = max(newest, b.stamp), ok && b.stamp != 0
		}
	}
	if k.session && !k.absent {
		newest, ok = max(newest, k.sign.stamp), ok && k.sign.stamp != 0
	}
	return newest, ok
}

// newestBoottime is the newest sign of life by the clock of this boot; not ok if
// any was made elsewhere or was not read.
//
// A record carries the time at which it was emitted, and may land much later.
// Whoever renewed in between renewed under the version below. So the signs are
// those of all versions of the tenure, not of the newest alone:
//
//	holder     put b (under n) ── exists v(n+1): no, believes for a ttl
//	companion  create v(n+1) . . . . . . . . . . . . landed  (emitted before b)
//	taker                                                    v(n+1) is a ttl old
//
// For the same reason nothing counts from the boottime of a release or a break: it
// is no sign of life, and its emission is no bound of those that landed before it.
func (r *register) newestBoottime() (newest int64, ok bool) {
	k, c := &r.look, &r.cur
	newest, ok = r.boottime()
	if c.isEnded() && r.bug(BugSameBootFreed) {
		return c.boottime, c.sameBoot
	}
	if !ok || k.more && k.lowest >= c.origin && !r.bug(BugSameBootNewest) {
		return 0, false
	}
	of := r.signsOf()
	for i := range k.beats {
		b := &k.beats[i]
		if b.epoch > of || b.epoch < c.origin || b.epoch != of && r.bug(BugSameBootNewest) {
			continue
		}
		if !b.read || !b.absent && !b.sameBoot {
			return 0, false
		}
		newest = max(newest, b.boottime)
	}
	if k.session && !k.absent {
		if !k.sign.sameBoot {
			return 0, false
		}
		newest = max(newest, k.sign.boottime)
	}
	return newest, true
}

// boottime is when the version whose signs count was emitted, on this boot's clock.
func (r *register) boottime() (at int64, ok bool) {
	if r.cur.isEnded() {
		return r.ended.boottime, r.hasEnded() && r.ended.sameBoot
	}
	return r.cur.boottime, r.cur.sameBoot
}

// nextUnread is the next beat whose body the verdict needs, or nil.
func (r *register) nextUnread() *seenBeat {
	k, c := &r.look, &r.cur
	of := r.signsOf()
	lowest := of
	ttl := int64(r.ttl())
	made, sameBoot := r.boottime()
	bySameBoot := sameBoot && k.start >= made+ttl &&
		(!k.session || k.absent || k.sign.sameBoot && k.start >= k.sign.boottime+ttl)
	if bySameBoot || r.passive && sameBoot {
		lowest = c.origin
	}
	if _, ok := r.newestStamp(); !bySameBoot && !k.poll && ok && r.calibrated() {
		return nil // the stamps of the list are enough
	}
	for i := range k.beats {
		if b := &k.beats[i]; !b.read && b.epoch <= of && b.epoch >= lowest {
			return b
		}
	}
	return nil
}

// isUnchanged is the rule of last resort: all signs stood unchanged for a ttl of
// our own clock, from the end of the first look that showed them to the start of
// this one. So has a release or a break, with the call to its session, that stood
// for a ttl. It notes what this look shows.
func (r *register) isUnchanged(start int64) bool {
	signs, complete := r.print()
	end, told := r.endPrint()
	stood := complete && r.stood(&r.watch, signs, start)
	return told && r.stood(&r.endWatch, end, start) || stood
}

// stood reports whether what a look shows was there for a ttl before it.
func (r *register) stood(w *watch, print uint64, start int64) bool {
	if print != w.print {
		*w = watch{print, r.now.Mono}
		return false
	}
	return start-w.since >= int64(r.ttl())
}

// standing is what stands unchanged for the longest, of what this look shows. An end
// stands for good; signs that are new in this look may be of a session that goes on.
func (r *register) standing() (longest watch) {
	if print, complete := r.print(); complete && print == r.watch.print {
		longest = r.watch
	}
	renewed := longest.print == 0 || r.hasSession() && longest.since >= r.look.start
	if print, told := r.endPrint(); told && print == r.endWatch.print && (renewed || r.endWatch.since < longest.since) {
		longest = r.endWatch
	}
	return longest
}

// endPrint is a fingerprint of a release or a break; not told while its session is
// still to be called.
func (r *register) endPrint() (print uint64, told bool) {
	c := &r.cur
	print = mix(uint64(c.n), c.print)
	if r.call.n == c.n {
		print += mix(3, 1)
	} else if r.hasSession() {
		return 0, false
	}
	return max(print, 1), c.isEnded()
}

// print is a fingerprint of all signs of life by their nonces.
func (r *register) print() (print uint64, complete bool) {
	k, c := &r.look, &r.cur
	byStamp := r.bug(BugStampsAsNonces)
	of := r.signsOf()
	print = mix(uint64(of), c.print)
	if c.isEnded() {
		if !r.hasEnded() {
			return 0, false
		}
		print = mix(uint64(of), r.ended.print)
	}
	for i := range k.beats {
		b := &k.beats[i]
		switch {
		case b.epoch != of || b.absent:
		case byStamp:
			print += mix(1, uint64(b.stamp)) // any order: a list has another than a poll
		case !b.read:
			return 0, false
		default:
			print += mix(1, b.print)
		}
	}
	if k.session && !k.absent {
		print += mix(2, k.sign.print)
	}
	return max(print, 1), true // 0 is none
}

// deadAt is the earliest Mono at which what was seen can be dead, or unset.
func (r *register) deadAt() int64 {
	at := unset
	if r.cur.state == VersionHeld && r.cur.ttl == 0 {
		return at
	}
	soonest := func(instant int64) {
		if instant > r.look.start { // up to then the look itself has judged
			at = min(at, instant)
		}
	}
	ttl := int64(r.ttl())
	// Of signs that were not read, any can only be newer.
	if newest, all := r.newestStamp(); newest != 0 && r.calibrated() {
		reaches := r.sample.reaches(newest + ttl + r.slop())
		if all { // a sample that has come since was not judged by yet
			reaches = max(reaches, r.look.start+1)
		}
		soonest(reaches)
	}
	if newest, ok := r.newestBoottime(); ok {
		soonest(newest + ttl)
	} else if made, ok := r.boottime(); ok {
		soonest(made + ttl)
	}
	if w := r.standing(); w.print != 0 {
		soonest(w.since + ttl)
	}
	return at
}

// showLeft tells people what is left of the TTL, by whose clock.
func (r *register) showLeft(s *Sighting) {
	if c := &r.cur; c.result != readGood || c.state == VersionHeld && c.ttl == 0 || c.alone {
		return // not ours to tell; until it is released or broken; free
	}
	ttl := int64(r.ttl())
	most := ttl
	if r.cur.isEnded() {
		// It is free a ttl after the end, or after the call to its session, which was made
		// right after that and which an observer does not read. It decides nothing.
		if s.Left = Duration(min(ttl, s.ReleasedAt+ttl-r.now.Wall)); r.hasSession() && r.call.n != r.cur.n {
			most = int64(s.Left)
		}
	}
	if newest, ok := r.newestBoottime(); ok {
		s.Left = Duration(min(most, newest+ttl-r.now.Mono))
		return
	}
	if r.cur.sameBoot && r.isYoung() { // at least
		s.Left = Duration(r.cur.boottime + ttl - r.now.Mono)
		return
	}
	sample := better(r.sample, r.fresh)
	if newest, ok := r.newestStamp(); ok && sample.at != 0 && r.cfg.Expiry == ExpiryCalibrated {
		s.Left, s.StoreClock = Duration(min(most, newest+ttl-r.lowerBound(sample, r.now.Mono))), true
		// To somebody who only looks, and has no sample but the sign's own stamp, our
		// wall clock tells more. It decides nothing.
		if byWall := Duration(newest + ttl - r.now.Wall); r.passive && byWall < s.Left {
			s.Left, s.StoreClock = byWall, false
		}
	}
}

// needsCall reports whether a session may still keep alive what was released or
// broken: nobody can tell when it heard, unless it is called by its own chain.
func (r *register) needsCall() bool {
	if r.passive || !r.cur.isEnded() || !r.hasSession() || r.bug(BugSessionWithoutCalls) {
		return false
	}
	return r.call.n != r.cur.n || r.call.stamp == 0 && !r.look.called && r.cfg.Expiry == ExpiryCalibrated
}

// seekCall looks for the call that names this break, and makes it if there is none.
func (r *register) seekCall(limit Duration) {
	k := &r.look
	switch {
	case !k.called || k.after != "":
		if r.call.readOf != r.cur.n {
			r.call.readOf, r.call.next = r.cur.n, 0
		}
		if k.callNext = max(k.callNext, r.call.next); k.after == "" && r.call.next > 0 {
			k.after = callKey(r.cur.session, r.call.next-1)
		}
		a := r.ask(forCalls, ActionList, callPrefix(r.cur.session), limit)
		a.After, a.Count = k.after, lookEntries
	case len(k.calls) > 0:
		r.ask(forCall, ActionGet, k.calls[0], limit)
	default:
		r.body = appendCall(r.body[:0], &r.machine, r.cfg.Name, r.cur.n)
		r.write(forNewCall, ActionCreate, callKey(r.cur.session, k.callNext), limit)
	}
}

func (r *register) callsListed(ev *Event) {
	k := &r.look
	k.called, k.after = true, ""
	for i := range ev.Entries {
		key := ev.Entries[i].Key
		if n, ok := parseCallKey(r.cur.session, key); ok {
			k.calls = append(k.calls, string(key))
			k.callNext = max(k.callNext, n+1)
		}
	}
	if n := len(ev.Entries); ev.More && n > 0 {
		k.after = string(ev.Entries[n-1].Key)
	}
}

func (r *register) callRead(ev *Event) {
	k := &r.look
	read, _ := parseCallKey(r.cur.session, []byte(r.key))
	k.calls = k.calls[1:]
	var call beat
	r.call.next = read + 1
	if ev.Outcome == OutcomeYes && parseCall(ev.Body, &call) == readGood &&
		call.epoch == r.cur.n && text(call.name).equal(r.cfg.Name) {
		r.call = callSeen{n: r.cur.n, stamp: ev.Stamp}
		k.calls = k.calls[:0]
	}
}

func (r *register) callMade(ev *Event) {
	if ev.Outcome == OutcomeNo { // somebody else's call; the next one is as good
		r.look.callNext++
		return
	}
	r.call = callSeen{n: r.cur.n, readOf: r.cur.n, next: r.look.callNext}
	r.look.called = r.cfg.Expiry != ExpiryCalibrated // its stamp is still to be read
	r.look.callNext = 0
}
