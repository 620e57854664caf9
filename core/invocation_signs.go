package core

// A launcher may end while what it started goes on and keeps the lease alive by a
// companion. signs is how long one is believed to be at work: until is a TTL after
// its last sign of life that was seen, or a moment after the launcher's end, or
// after the last companion left.
type signs struct {
	until int64 // Mono
	asked int64 // Mono at which the round's look for the result was sent
	at    int64 // Mono of the round of reads that is under way
	n     Epoch // the version that it reads
	left  []byte
	now   uint64 // the print that it has come to
	seen  uint64 // that of the last round; 0 is none
}

// readSigns looks for a companion, by one round of reads. We hold the lease and
// renew it meanwhile; only the others' writes count.
func (v *Invocation) readSigns() {
	v.signs.at, v.signs.now = v.now.Mono, 0
	if l, ok := v.inner.(*Lease); ok {
		if at := l.companionAt; at != unset { // seen by a renewal, which wrote over it
			v.signOfLife(at)
		}
		v.ask(forTenure, ActionGet, v.cfg.Name+"/"+LockFile, RequestLimit)
		return
	}
	v.ask(forTenure, ActionList, registerPrefix(v.cfg.Name), RequestLimit).Count = lookEntries
}

// signRead takes a round of reads onwards.
func (v *Invocation) signRead(ev *Event, f flight) {
	switch {
	case v.doing == forTenure && f.verb == ActionGet:
		v.lockSeen(ev)
	case v.doing == forTenure:
		v.newestSeen(ev)
	case v.doing == forOwners:
		v.ownersSeen(ev)
	default:
		v.signs.now = mix(v.signs.now, fingerprint(ev.Body))
		v.nextCompanion()
	}
}

// lockSeen: a companion's write shows in lock.json until we renew over it.
func (v *Invocation) lockSeen(ev *Event) {
	var r record
	parseRecord(ev.Body, &r)
	ours := r.writer.equal(string(v.holder))
	switch {
	case ev.Outcome == OutcomeYes && r.state == recordReleased && ours:
		v.isGone(ReasonReleased)
		return
	case ev.Outcome == OutcomeYes && r.state == recordLive && !ours:
		v.isGone(ReasonTaken)
		return
	case ev.Outcome == OutcomeYes && r.state == recordLive && r.remote:
		v.signs.now = max(1, mix(fingerprint(ev.Body), uint64(r.count)))
	}
	v.roundOver()
}

// isGone: what we read shows before the lease does that it is not ours any more.
// Nobody is to take a launcher for failed that was ended by that.
func (v *Invocation) isGone(why Reason) {
	if v.lost == ReasonNone {
		v.lost = why
		v.emit(ActionLost).Reason = why
		v.forget()
	}
	v.check()
}

// newestSeen: the first key of the list is the newest version's, or a beat's beside it.
func (v *Invocation) newestSeen(ev *Event) {
	for i := range ev.Entries {
		if n, _, ok := parseRegisterKey(registerPrefix(v.cfg.Name), ev.Entries[i].Key); ok {
			v.signs.n = n
			v.ask(forOwners, ActionGet, versionKey(registerPrefix(v.cfg.Name), n), RequestLimit)
			return
		}
	}
	v.roundOver()
}

// ownersSeen reads the beats of all owners but us: our id is the tenure's own.
func (v *Invocation) ownersSeen(ev *Event) {
	var found version
	switch {
	case ev.Outcome != OutcomeYes || parseVersion(ev.Body, v.signs.n, &found) != readGood:
		v.roundOver() // the lease will say what that is
		return
	case found.state == VersionBroken && string(found.tenure) == string(v.holder):
		v.isGone(ReasonBroken)
		return
	case found.state == VersionReleased && string(found.tenure) == string(v.holder):
		v.isGone(ReasonReleased)
		return
	case string(found.tenure) != string(v.holder):
		v.isGone(ReasonTaken)
		return
	}
	v.signs.left = append(v.signs.left[:0], found.owners...)
	v.nextCompanion()
}

func (v *Invocation) nextCompanion() {
	for len(v.signs.left) > 0 {
		id, rest, _ := nextOwner(v.signs.left) // a good list, as parseVersion saw
		owner := string(id)
		v.signs.left = append(v.signs.left[:0], rest...)
		if owner != string(v.holder) {
			v.signs.now = max(1, mix(v.signs.now, uint64(v.signs.n)))
			v.ask(forCompanion, ActionGet, beatKey(registerPrefix(v.cfg.Name), v.signs.n, owner), RequestLimit)
			return
		}
	}
	v.roundOver()
}

// roundOver waits on while a companion is at work, and else ends without a result.
func (v *Invocation) roundOver() {
	s := &v.signs
	strict := v.cfg.Protocol == ProtocolStrict
	if v.lost != ReasonNone {
		v.check()
		return
	}
	if v.failed {
		v.absent(ReasonFailed)
		return
	}
	switch {
	case s.now != 0 && s.now != s.seen:
		v.signOfLife(s.at)
	case s.now == 0 && s.seen != 0 && strict: // it has said that it leaves
		s.until = min(s.until, v.in(LaunchGrace))
	}
	s.seen = s.now
	if s.asked >= s.until { // the look for the result came after the last who could have stored it
		v.absent(ReasonNone)
		return
	}
	v.become(InvocationAwaiting)
	v.timers[timerNext] = min(v.in(min(v.pause(), v.cfg.TTL/3)), max(s.until, v.now.Mono))
}

func (v *Invocation) signOfLife(at int64) {
	v.signs.until = max(v.signs.until, at+int64(v.cfg.TTL))
}
