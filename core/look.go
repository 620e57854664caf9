package core

// A look is how somebody judges a name: reads that belong together and count as
// made when the first of them was sent (PROTOCOL S4.1).
//
//	taker    list ─────────── get v ── get beat                 create v(n+1)
//	holder         put beat . . . . . . . . answered, exists: no
//	               ▲ after the list: the look does not show it, and judging by a
//	                 later clock than the list's would call its owner dead

// lookEntries is how many entries a look's list asks for: the newest version and
// its beats stand first.
const lookEntries = 64

// look is the look in progress.
type look struct {
	poll     bool  // it began with exists v(n+1), not with a list
	listed   bool  // the newest version is known
	more     bool  // there are entries behind the page
	session  bool  // the session's beat was read
	lock     bool  // lock.json was read
	start    int64 // Mono: sent of its first read
	latest   int64 // Mono: sent of its latest read
	n        Epoch
	lowest   Epoch // of the page
	stamp    int64
	after    string // the page's last key, while there are more
	beats    []seenBeat
	sign     seenBeat // the session's beat
	absent   bool     // there is no session any more
	called   bool     // the calls were listed
	callNext uint64   // the first K that is not taken
	calls    []string // keys that are still to be read
	lockHeld bool
}

// seenBeat is one sign of life.
type seenBeat struct {
	key      string
	epoch    Epoch
	stamp    int64
	read     bool
	absent   bool
	sameBoot bool
	boottime int64
	ttl      Duration
	print    uint64
}

// outlook is what a look comes to.
type outlook uint8

const (
	looking outlook = iota // a read is under way
	lookFailed
	foundFree
	foundHeld
	foundUnfit // a newer mopslock's, or of another kind
)

// startLook begins a look that finds the newest version.
func (r *register) startLook(limit Duration) {
	r.beginLook()
	r.askList(limit)
}

// startPoll begins a look at the version that is known: a waiter's, of
// GET-class requests alone.
func (r *register) startPoll(limit Duration) {
	r.beginLook()
	r.look.poll = true
	r.ask(forNext, ActionExists, r.keyAbove(), limit)
}

// follow goes on with a poll that found a newer version: the one above is read. It
// may be superseded in its turn, which a create above it shows; what was proven to
// be the newest lies below both, so the proof is as good for them.
func (r *register) follow(sent int64, limit Duration) {
	r.beginLook()
	k := &r.look
	k.poll, k.listed, k.more, k.start, k.n, k.lowest = true, true, true, sent, r.cur.n+1, r.cur.n+1
	r.ask(forVersion, ActionGet, versionKey(r.prefix, k.n), limit)
}

func (r *register) beginLook() {
	r.look = look{start: r.now.Mono, latest: r.now.Mono, beats: r.look.beats[:0], calls: r.look.calls[:0]}
	r.sample = better(r.sample, r.fresh) // from before this look began
	r.fresh = clockSample{}
}

func (r *register) askList(limit Duration) {
	a := r.ask(forList, ActionList, r.prefix, limit)
	a.After, a.Count = r.look.after, lookEntries
}

// lookAnswer takes the answer to a look's read and goes on with the look.
func (r *register) lookAnswer(ev *Event, f flight, limit Duration) outlook {
	if ev.Outcome == OutcomeUnknown && !r.bug(BugUnknownIsNo) || ev.Outcome == OutcomeUnknown && f.verb != ActionExists {
		r.class = ev.Class
		return lookFailed
	}
	r.learn(ev)
	k := &r.look
	k.latest = f.sent
	switch r.doing {
	case forList:
		r.listed(ev)
	case forNext:
		switch {
		case !r.proven(f.sent):
			r.startLook(limit)
			return looking
		case ev.Outcome == OutcomeYes:
			r.follow(f.sent, limit)
			return looking
		}
		r.basis = f.sent
		r.polled()
	case forVersion:
		switch {
		case ev.Outcome == OutcomeYes:
		case k.poll: // collected since, or more has come: only a list can tell
			r.startLook(limit)
			return looking
		default: // listed, and not there: somebody empties the prefix this moment
			r.class = ClassOther
			return lookFailed
		}
		r.readVersion(ev.Body, k.n, max(k.stamp, ev.Stamp))
		k.stamp = r.cur.stamp
		switch {
		case !k.poll:
		case hasMoreOwners(r.cur.owners): // only a list shows the beats of all
			r.startLook(limit)
			return looking
		default:
			r.polled()
		}
	case forEnded:
		r.endedRead(ev)
	case forSession:
		k.session, k.absent = true, ev.Outcome == OutcomeNo
		k.sign.take(r, ev, parseSessionBeat)
	case forBeat:
		r.nextUnread().take(r, ev, parseBeat)
	case forLock:
		r.lockSeen(ev)
	case forCalls:
		r.callsListed(ev)
	case forCall:
		r.callRead(ev)
	case forNewCall:
		r.callMade(ev)
	}
	return r.advance(limit)
}

// listed takes a page: versions newest first, each with its beats before it.
func (r *register) listed(ev *Event) {
	k := &r.look
	k.after, k.more = "", ev.More
	for i := range ev.Entries {
		e := &ev.Entries[i]
		n, owner, ok := parseRegisterKey(r.prefix, e.Key)
		switch {
		case !ok:
		case owner != nil:
			k.beats = append(k.beats, seenBeat{key: string(e.Key), epoch: n, stamp: e.Stamp})
		case !k.listed:
			k.listed, k.n, k.stamp = true, n, e.Stamp
		}
		if ok {
			k.lowest = n
		}
	}
	switch {
	case k.listed:
		r.basis = k.start
		if r.cur.n == k.n {
			r.cur.stamp = k.stamp
		}
	case ev.More && len(ev.Entries) > 0:
		k.after = string(ev.Entries[len(ev.Entries)-1].Key)
	default:
		k.listed, k.beats = true, k.beats[:0] // there is no version
		r.basis = k.start
	}
}

// polled lists the beats that there can be: each owner's own.
func (r *register) polled() {
	k := &r.look
	// Beats under the tenure's earlier versions are found by a list alone.
	of := r.signsOf()
	k.listed, k.more, k.lowest, k.n, k.stamp = true, of != r.cur.origin, of, r.cur.n, r.cur.stamp
	if r.cur.state != VersionValue && r.cur.ttl != 0 {
		eachOwner(r.cur.owners, func(id string) {
			k.beats = append(k.beats, seenBeat{key: beatKey(r.prefix, of, id), epoch: of})
		})
	}
}

// take reads a sign's body into it.
func (b *seenBeat) take(r *register, ev *Event, parse func([]byte, *beat) readResult) {
	b.read = true
	if b.absent = ev.Outcome == OutcomeNo; b.absent {
		return
	}
	var body beat
	b.stamp = max(b.stamp, ev.Stamp)
	b.print = fingerprint(ev.Body)
	if parse(ev.Body, &body) == readGood {
		b.print = fingerprint(body.nonce)
		b.boottime, b.sameBoot = r.emitted(body.boot, body.boottime, b.stamp)
		b.ttl = body.ttl
	}
}

// advance asks for the next thing that the outlook needs, or answers it.
func (r *register) advance(limit Duration) outlook {
	k, c := &r.look, &r.cur
	switch {
	case !k.listed:
		r.askList(limit)
		return looking
	case k.n != 0 && (c.n != k.n || r.sight == nil || r.sight.Epoch != c.n):
		// A version that we only made, or remember, was not read.
		r.ask(forVersion, ActionGet, versionKey(r.prefix, k.n), limit)
		return looking
	case r.cfg.Beside && !k.lock:
		r.ask(forLock, ActionGet, r.cfg.Name+"/"+LockFile, limit)
		return looking
	case k.lockHeld:
		return r.decide(foundHeld)
	case k.n == 0:
		r.cur = current{}
		return r.decide(foundFree)
	case c.result == readNewer || c.result == readOther:
		return r.decide(foundUnfit)
	case r.cfg.Machine == MachineBreaker && (c.state != VersionHeld || r.cfg.Now): // nothing is to be judged
		return foundHeld
	case c.state == VersionValue: // its holders are judged one by one
		return foundHeld
	case r.needsEnded():
		r.ask(forEnded, ActionGet, versionKey(r.prefix, c.n-1), limit)
		return looking
	case c.alone && (c.state == VersionReleased || c.state == VersionBroken),
		c.state == VersionBroken && r.bug(BugBrokenFreesNow), c.state == VersionReleased && r.bug(BugReleasedFreesNow):
		return r.decide(foundFree)
	case c.state == VersionHeld && c.ttl == 0, !r.passive && r.isYoung():
		return r.decide(foundHeld)
	case c.session != "" && !k.session:
		r.ask(forSession, ActionGet, sessionKey(c.session), limit)
		return looking
	}
	if r.isDead(false) {
		return r.decide(foundFree)
	}
	if next := r.nextUnread(); next != nil {
		r.ask(forBeat, ActionGet, next.key, limit)
		return looking
	}
	if r.isDead(true) {
		return r.decide(foundFree)
	}
	if r.needsCall() {
		r.seekCall(limit)
		return looking
	}
	return r.decide(foundHeld)
}

// decide ends the look.
func (r *register) decide(v outlook) outlook {
	if s := r.sight; s != nil && r.cur.n != 0 && !r.look.lockHeld {
		w := r.standing()
		if w.print == 0 { // not all was read: what an earlier look saw may still stand
			w = r.watch
		}
		s.LookAt, s.Print, s.Since, s.Left, s.StoreClock = 0, w.print, w.since, 0, false
		if at := r.deadAt(); v == foundHeld && at != unset {
			s.LookAt = at
		}
		r.showLeft(s)
		if v == foundFree && s.State == ObservedHeld {
			s.State = ObservedStale
		}
	}
	return v
}

// lockSeen judges the lock.json of an old client, which never looks at versions:
// while it holds the name by its own rules we do not claim it.
func (r *register) lockSeen(ev *Event) {
	r.look.lock = true
	if ev.Outcome != OutcomeYes {
		return
	}
	var rec record
	parseRecord(ev.Body, &rec)
	if rec.state != recordLive || rec.writtenAt+int64(rec.expire) < r.now.Wall {
		return
	}
	r.look.lockHeld = true
	if r.sight == nil {
		r.sight = new(Sighting)
	}
	*r.sight = Sighting{}
	rec.show(r.sight, ObservedHeld)
	r.sight.LookAt = r.in(Duration(rec.writtenAt + int64(rec.expire) - r.now.Wall))
}
