package core

// A permit hangs on the session of its process: it is dead when that is, and not
// before. A session has one sign of life, its beat, so it is judged by that alone,
// by the same three rules as a lease, and once dead it is dead for ever
// (PROTOCOL N5): what was judged is remembered.

// seenSession is a session of others as we know it.
type seenSession struct {
	id    string
	sign  seenBeat
	watch watch // since when its nonce stood unchanged
	read  bool  // at least once
	asked bool  // in this look
	dead  bool
}

// roster is what is known of the sessions whose permits stand in a value.
type roster []seenSession

// find is the session of this id, or nil.
func (t roster) find(id string) *seenSession {
	for i := range t {
		if t[i].id == id {
			return &t[i]
		}
	}
	return nil
}

// isDead reports whether a session is known to be dead.
func (t roster) isDead(id string) bool {
	seen := t.find(id)
	return seen != nil && seen.dead
}

// cover makes the roster that of the sessions of a value, but for ours.
func (t roster) cover(v *value, ours string) roster {
	var all roster
	for i := range v.permits {
		id := v.permits[i].session
		if id == ours || all.find(id) != nil {
			continue
		}
		if seen := t.find(id); seen != nil {
			all = append(all, *seen)
			continue
		}
		all = append(all, seenSession{id: id})
	}
	return all
}

// newLook forgets what the look before asked.
func (t roster) newLook() {
	for i := range t {
		t[i].asked = false
	}
}

// due is a session that this look should ask about: it can be dead by now. The one
// that is longest overdue comes first; nil where none is, or enough were asked.
func (r *register) dueSession(t roster, most int) (due *seenSession) {
	asked, earliest := 0, r.now.Mono
	for i := range t {
		s := &t[i]
		if s.asked {
			asked++
			continue
		}
		if at := r.sessionDeadAt(s); at <= earliest {
			due, earliest = s, at
		}
	}
	if asked >= most {
		return nil
	}
	return due
}

// nextDeath is the earliest Mono at which a session that is not known to be dead can
// be, or unset.
func (r *register) nextDeath(t roster) int64 {
	at := unset
	for i := range t {
		at = min(at, r.sessionDeadAt(&t[i]))
	}
	return at
}

// sessionTTL is how long a beat counts. A beat that cannot be read counts for as long
// as a corrupt record.
func (r *register) sessionTTL(s *seenSession) int64 {
	if s.sign.ttl == 0 {
		return int64(max(r.cfg.TTL, CorruptMin))
	}
	if r.bug(BugPermitFreedEarly) {
		return int64(s.sign.ttl) / 2
	}
	return int64(s.sign.ttl)
}

// sessionDeadAt is the earliest Mono at which a look can find the session dead: unset
// when it was found so, or what is over at once when it was never read.
func (r *register) sessionDeadAt(s *seenSession) int64 {
	switch {
	case s.dead:
		return unset
	case !s.read:
		return -MaxClockRange
	}
	ttl := r.sessionTTL(s)
	at := s.watch.since + ttl
	if s.sign.sameBoot {
		at = min(at, s.sign.boottime+ttl)
	}
	if r.calibrated() && s.sign.stamp != 0 {
		at = min(at, r.sample.reaches(s.sign.stamp+ttl+r.slop()))
	}
	return at
}

// sessionRead judges a session by its beat, as of the start of the look.
//
// There is no beat: whoever names a session has put its first beat before, so it was
// closed, or is so long dead that it was collected.
//
//	holder   put beat (good) ── create v(n), names it
//	taker                             list ── get v(n) ── get beat: no: closed since
func (r *register) sessionRead(s *seenSession, ev *Event) {
	k := &r.look
	known := s.read
	s.read = true
	s.sign.stamp = 0 // of the beat before
	s.sign.sameBoot, s.sign.ttl = false, 0
	s.sign.take(r, ev, parseSessionBeat)
	start := k.start
	if r.bug(BugJudgeAtAnswer) {
		start = r.now.Mono
	}
	if !known || s.watch.print != s.sign.print {
		s.watch = watch{s.sign.print, r.now.Mono}
	}
	ttl := r.sessionTTL(s)
	s.dead = s.sign.absent ||
		s.sign.sameBoot && start >= s.sign.boottime+ttl ||
		r.calibrated() && s.sign.stamp != 0 && r.lowerBound(r.sample, start) >= s.sign.stamp+ttl+r.slop() ||
		start-s.watch.since >= ttl
}

// appendDead appends the ids of the dead, with commas.
func (t roster) appendDead(dst []byte) []byte {
	for i := range t {
		if t[i].dead {
			if len(dst) > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, t[i].id...)
		}
	}
	return dst
}
