package core

// Three rules say that a tenure is dead (PROTOCOL 1.4 and 1.12), each on one
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

// newestStamp is the store's stamp of the newest sign of life; not ok where one
// of them has none.
func (r *register) newestStamp() (newest int64, ok bool) {
	k, c := &r.look, &r.cur
	newest, ok = k.stamp, k.stamp != 0
	if c.state != VersionHeld && c.result == readGood {
		if c.session != "" && !k.absent && !r.bug(BugSessionWithoutCalls) {
			newest, ok = r.call.stamp, r.call.stamp != 0
		}
		return newest, ok
	}
	for i := range k.beats {
		if b := &k.beats[i]; b.epoch == c.n && !b.absent {
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
// For the same reason a release or a break does not count from its own boottime.
// And where a session has to be called, nothing tells on this clock when it heard.
func (r *register) newestBoottime() (newest int64, ok bool) {
	k, c := &r.look, &r.cur
	freed := c.state != VersionHeld
	if !c.sameBoot || freed && c.session != "" && !k.absent {
		return 0, false
	}
	if freed && r.bug(BugSameBootFreed) {
		return c.boottime, true
	}
	if k.more && k.lowest >= c.origin && !r.bug(BugSameBootNewest) {
		return 0, false
	}
	newest = c.boottime
	for i := range k.beats {
		b := &k.beats[i]
		if b.epoch > c.n || b.epoch < c.origin || b.epoch != c.n && r.bug(BugSameBootNewest) {
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

// nextUnread is the next beat whose body the verdict needs, or nil.
func (r *register) nextUnread() *seenBeat {
	k, c := &r.look, &r.cur
	lowest := c.n
	ttl := int64(r.ttl())
	bySameBoot := c.sameBoot && k.start >= c.boottime+ttl &&
		(!k.session || k.absent || k.sign.sameBoot && k.start >= k.sign.boottime+ttl)
	if bySameBoot || r.passive && c.sameBoot {
		lowest = c.origin
	}
	if _, ok := r.newestStamp(); !bySameBoot && !k.poll && ok && r.calibrated() {
		return nil // the stamps of the list are enough
	}
	for i := range k.beats {
		if b := &k.beats[i]; !b.read && b.epoch <= c.n && b.epoch >= lowest {
			return b
		}
	}
	return nil
}

// isUnchanged is the rule of last resort: all signs stood unchanged for a ttl of
// our own clock, from the end of the first look that showed them to the start of
// this one. It notes what this look shows.
func (r *register) isUnchanged(start int64) bool {
	print, complete := r.print()
	if !complete {
		return false
	}
	if print != r.watch.print {
		r.watch = watch{print, r.now.Mono}
		return false
	}
	return start-r.watch.since >= int64(r.ttl())
}

// print is a fingerprint of all signs of life by their nonces.
func (r *register) print() (print uint64, complete bool) {
	k, c := &r.look, &r.cur
	byStamp := r.bug(BugStampsAsNonces)
	print = mix(uint64(c.n), c.print)
	for i := range k.beats {
		b := &k.beats[i]
		switch {
		case b.epoch != c.n || b.absent:
		case byStamp:
			print += mix(1, uint64(b.stamp)) // any order: a list has another than a poll
		case !b.read:
			return 0, false
		default:
			print += mix(1, b.print)
		}
	}
	if k.session && !k.absent && c.state == VersionHeld {
		print += mix(2, k.sign.print)
	}
	if r.call.n == c.n {
		print += mix(3, 1)
	}
	return max(print, 1), true // 0 is none
}

// mix spreads two numbers over one (FNV-1a by words).
func mix(a, b uint64) uint64 {
	h := (uint64(fnvOffset) ^ a) * fnvPrime
	h = (h ^ b>>32) * fnvPrime
	return (h ^ b) * fnvPrime
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
	} else if r.cur.sameBoot {
		soonest(r.cur.boottime + ttl)
	}
	if print, complete := r.print(); complete && print == r.watch.print {
		soonest(r.watch.since + ttl)
	}
	return at
}

// showLeft tells people what is left of the TTL, by whose clock.
func (r *register) showLeft(s *Sighting) {
	if c := &r.cur; c.result != readGood || c.state == VersionHeld && c.ttl == 0 || c.alone {
		return // not ours to tell; until it is released or broken; free
	}
	ttl := int64(r.ttl())
	if newest, ok := r.newestBoottime(); ok {
		s.Left = Duration(min(ttl, newest+ttl-r.now.Mono))
		return
	}
	if r.cur.sameBoot && r.isYoung() { // at least
		s.Left = Duration(r.cur.boottime + ttl - r.now.Mono)
		return
	}
	sample := better(r.sample, r.fresh)
	if newest, ok := r.newestStamp(); ok && sample.at != 0 && r.cfg.Expiry == ExpiryCalibrated {
		s.Left, s.StoreClock = Duration(min(ttl, newest+ttl-r.lowerBound(sample, r.now.Mono))), true
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
	k, c := &r.look, &r.cur
	if r.passive || c.session == "" || k.absent || c.result != readGood || c.state == VersionHeld || r.bug(BugSessionWithoutCalls) {
		return false
	}
	return r.call.n != c.n || r.call.stamp == 0 && !k.called && r.cfg.Expiry == ExpiryCalibrated
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
		r.body = r.appendCall(r.body[:0], r.cfg.Name, r.cur.n)
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
