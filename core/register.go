package core

// register is one name under strict as a machine knows it: the newest version
// that it has read, the proof that it is the newest, and what judging takes.
type register struct {
	machine
	prefix  string // of every key below the name
	owner   string // as whom we write
	passive bool   // it takes no part: nothing is written

	cur   current
	basis int64 // Mono: sent of the latest request that proved cur.n the newest, or unset

	look  look
	ended seenBeat // the version below cur, which cur has ended, as a sign of life
	watch watch    // of unchanged signs, by the observed rule
	// endWatch is of a release or a break that stands unchanged.
	endWatch watch
	call     callSeen    // the call for cur, once it was found
	sample   clockSample // of the store's clock, for the look at hand
	fresh    clockSample // what this look's own answers add, for later ones
	toldAt   int64       // Mono of the newest sample that the host has told, 0 for none
	session  sessionView
	doing    purpose  // of the request in flight
	after    string   // the last key of a list that is read on
	paged    int64    // Mono: sent of that list's first page
	value    *value   // of a semaphore: what cur says
	garbage  *garbage // superseded versions that are being collected, or nil
	above    string   // key of the version above aboveOf, which is asked for again and again
	aboveOf  Epoch

	body    []byte
	sight   *Sighting // nil until something was seen
	retries int
	class   Class // of the last unknown answer
	failing bool  // a renewal has failed since the last good one
}

// current is a version as it was read, or made; n 0 is that there is none.
type current struct {
	n, origin   Epoch
	state       VersionState // 0: it cannot be read
	result      readResult
	tenure      HolderID
	owners      string // as it stands between the brackets
	session     string
	label       string
	ttl, margin Duration // ttl 0 is until released or broken
	alone       bool
	sameBoot    bool   // it was emitted by our clock,
	boottime    int64  // at this Mono
	print       uint64 // of its nonce, or of what cannot be read
	stamp       int64  // the store's; 0 is not known
}

// purpose says what the request in flight is for.
type purpose uint8

const (
	forNothing    purpose = iota
	forList               // newest version and its beats
	forVersion            // body of the newest
	forNext               // is there a newer one
	forEnded              // the version that it has ended
	forSession            // its session's beat
	forBeat               // body of a beat
	forLock               // lock.json beside it
	forCalls              // calls to its session
	forCall               // one of them
	forNewCall            // ours
	forSelf               // is the version that we stand on still there
	forBeating            // our own beat
	forCreate             // a version of ours
	forReadBack           // is the version there ours
	forConfirm            // is our version, won late, the newest
	forHint               // is there a newer one, as the host was told
	forGarbage            // superseded versions
	forGarbageAge         // how old they are
	forDelete             // one of them
)

// clockSample says that at the Mono at the store's clock showed stamp or later.
type clockSample struct{ stamp, at int64 }

// sessionView is the process's session as the latest event told of it.
type sessionView struct {
	id    string
	until int64 // Mono
	end   Reason
}

// callSeen is the call that tells a session that its lease at epoch n was broken.
type callSeen struct {
	n     Epoch
	stamp int64 // 0: not known yet
	// Those before K next were read by earlier looks at version readOf, and are of
	// others.
	readOf Epoch
	next   uint64
}

// newRegister makes what all strict machines of a name are built on.
func newRegister(cfg Config) (register, error) {
	m, err := newMachine(cfg)
	if err != nil {
		return register{}, err
	}
	r := register{machine: m, prefix: registerPrefix(cfg.Name), basis: unset}
	r.owner = m.cfg.Owner
	if r.owner == "" {
		r.owner = string(seedUUID(cfg.Seed))
	}
	r.watch = watch{m.cfg.SeenPrint, m.cfg.SeenSince}
	r.endWatch = r.watch // the print says of which it is
	return r, nil
}

// hear takes in what every event to a strict machine may carry.
func (r *register) hear(ev *Event) {
	if r.cfg.OnSession {
		if string(ev.Session) != r.session.id {
			r.session.id = string(ev.Session)
		}
		r.session.until, r.session.end = ev.SessionUntil, ev.SessionEnd
	}
	if ev.StoreAt != 0 && ev.StoreAt <= r.now.Mono {
		r.fresh = better(r.fresh, clockSample{ev.StoreStamp, ev.StoreAt})
		r.toldAt = ev.StoreAt
	}
}

// inForce reports whether the process's session may be relied on now.
func (r *register) inForce() bool {
	return r.session.id != "" && (r.now.Mono < r.session.until || r.bug(BugSessionNotInForce))
}

// ask sends a request for a purpose.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (r *register) ask(why purpose, verb ActionKind, key string, limit Duration) *Action {
	r.doing, r.key = why, key
	return r.send(verb, limit)
}

// keyAbove is the key of the version above cur.
func (r *register) keyAbove() string {
	if r.above == "" || r.aboveOf != r.cur.n {
		r.above, r.aboveOf = versionKey(r.prefix, r.cur.n+1), r.cur.n
	}
	return r.above
}

// write sends a put or a create of the record that stands in body.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (r *register) write(why purpose, verb ActionKind, key string, limit Duration) {
	a := r.ask(why, verb, key, limit)
	a.Type, a.Body = RegisterType, r.body
}

// create sends one version; what became of it is told by its nonce.
func (r *register) create(v *ownVersion, limit Duration) {
	r.body = appendVersion(r.body[:0], &r.machine, v)
	r.createBody(v, limit)
}

// createBody sends the version whose record stands in body.
func (r *register) createBody(v *ownVersion, limit Duration) {
	r.write(forCreate, ActionCreate, versionKey(r.prefix, v.n), limit)
}

// successor is the version that follows cur with all that a version copies.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (r *register) successor(state VersionState) ownVersion {
	c := &r.cur
	return ownVersion{
		n: c.n + 1, origin: c.origin, state: state, tenure: c.tenure, owner: r.owner, owners: c.owners,
		nonce: newNonce(&r.rng), ttl: c.ttl, margin: c.margin, session: c.session, label: c.label,
	}
}

// made notes that a version of ours is in the store.
func (r *register) made(v *ownVersion, sent int64) {
	r.cur = current{
		n: v.n, origin: v.origin, state: v.state, tenure: v.tenure, owners: v.owners, session: v.session, label: v.label,
		ttl: v.ttl, margin: v.margin, alone: v.alone, boottime: sent,
		print: v.nonce.a,
	}
	r.basis = sent
}

// read takes in the body of version n.
func (r *register) readVersion(body []byte, n Epoch, stamp int64) {
	var v version
	c := current{n: n, stamp: stamp}
	c.result = parseVersion(body, n, &v)
	switch {
	case r.passive && v.semaphore && c.result == readGood:
		r.value = &value{} // whoever only looks takes what there is
	case !r.passive && (v.semaphore && r.value == nil || v.lease && r.value != nil):
		c.result = readOther
	}
	c.print = fingerprint(body)
	if c.result == readGood {
		c.origin, c.state, c.tenure = v.origin, v.state, HolderID(v.tenure)
		c.owners, c.session, c.alone = string(v.owners), string(v.session), v.alone
		c.label = string(v.label.appendCut(nil, MaxLabel))
		c.ttl, c.margin, c.print = v.ttl, v.margin, fingerprint(v.nonce)
		c.boottime, c.sameBoot = r.emitted(v.boot, v.boottime, stamp)
		if v.semaphore {
			r.value.take(&v)
		}
	}
	r.cur, r.ended = c, seenBeat{}
	r.see(&v)
	if r.passive && c.state == VersionValue {
		r.sight.Permits = append(r.sight.Permits, v.permits...)
	}
}

// emitted is Instant.Emitted of a sign; not ok if that names another boot.
func (r *register) emitted(boot []byte, boottime, stamp int64) (at int64, ok bool) {
	switch {
	case r.cfg.Boot == "" || string(boot) != r.cfg.Boot:
		return boottime, false
	case r.bug(BugBootClockUnchecked):
		return boottime, true
	}
	return r.now.Emitted(boottime, stamp)
}

// see copies what a version says to people.
func (r *register) see(v *version) {
	if r.sight == nil {
		r.sight = new(Sighting)
	}
	s, c := r.sight, &r.cur
	*s = Sighting{
		State: ObservedCorrupt, Epoch: c.n, Token: c.origin, TTL: c.ttl, WrittenAt: v.wall,
		Holder: append(s.Holder[:0], v.tenure...), Host: v.host.appendCut(s.Host[:0], MaxText),
		PID: v.pid.appendCut(s.PID[:0], MaxText), Label: v.label.appendCut(s.Label[:0], MaxLabel),
		Session: append(s.Session[:0], v.session...), Why: v.why.appendCut(s.Why[:0], MaxWhy),
		By: v.by.appendCut(s.By[:0], MaxText), Companions: s.Companions[:0], Permits: s.Permits[:0],
	}
	eachOwner(c.owners, func(id string) {
		if id != string(c.tenure) && len(s.Companions)+len(id) < MaxHolder {
			if len(s.Companions) > 0 {
				s.Companions = append(s.Companions, ',')
			}
			s.Companions = append(s.Companions, id...)
		}
	})
	switch {
	case c.state == VersionReleased:
		s.State, s.ReleasedAt = ObservedReleased, v.wall
	case c.state == VersionBroken:
		s.State, s.ReleasedAt = ObservedBroken, v.wall
		s.Host, s.PID = s.Host[:0], s.PID[:0] // of the process that broke it, which By names
	case c.state == VersionHeld:
		s.State, s.Remote = ObservedHeld, string(v.owner) != string(v.tenure)
		if c.n == c.origin {
			s.AcquiredAt = v.wall
		}
	}
}

// proven reports whether a request that was sent at the Mono sent and answered
// now, and said that there is nothing above cur, may be believed: within the
// window nobody can have collected what was made above it meanwhile.
//
//	us       exists v(n+1) . . . . . . . . . . . . . . . . . . . . . no
//	others        v(n+1) v(n+2) v(n+3) v(n+4)   ten minutes   v(n+1) collected
func (r *register) proven(sent int64) bool {
	if r.bug(BugPollAsBasis) {
		return true
	}
	return r.basis != unset && r.now.Mono-r.basis <= int64(BasisWindow) && sent >= r.basis
}

// slop is how far a stamp and the store's clock, read elsewhere, may be apart.
func (r *register) slop() int64 {
	if r.bug(BugSlopShort) {
		return 0
	}
	return int64(r.cfg.StampUnit) + int64(max(0, r.cfg.StampSpread))
}

// lowerBound is what the store's clock showed at the Mono t at least.
func (r *register) lowerBound(s clockSample, t int64) int64 {
	if r.bug(BugOldCalibration) {
		return s.stamp + (t - s.at)
	}
	gone := t - s.at
	return s.stamp + gone - gone/RateInverse - 1
}

// reaches is the earliest Mono at which lowerBound is at least stamp.
func (s clockSample) reaches(stamp int64) int64 {
	left := stamp - s.stamp
	if left <= 0 {
		return s.at
	}
	return s.at + left + left/(RateInverse-1) + 2
}

// better is the sample that bounds the store's clock more closely.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func better(a, b clockSample) clockSample {
	switch {
	case a.at == 0:
		return b
	case b.at == 0 || a.stamp+(max(a.at, b.at)-a.at) >= b.stamp+(max(a.at, b.at)-b.at):
		return a
	}
	return b
}

// learn notes what an answer tells of the store's clock: it was past this stamp.
func (r *register) learn(ev *Event) {
	newest := ev.Stamp
	for i := range ev.Entries {
		newest = max(newest, ev.Entries[i].Stamp)
	}
	if newest != 0 && r.now.Mono != 0 {
		r.fresh = better(r.fresh, clockSample{newest, r.now.Mono})
	}
}

// later spaces the next attempt at whatever the state is about.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (r *register) later(deadline int64) {
	r.timers[timerNext] = r.in(r.retryDelay(r.retries, r.class, deadline))
	r.retries++
}

// untilDead is the ttl of cur wherever a rule adds one.
func (c *current) untilDead() Duration {
	if c.ttl == 0 {
		return EndlessGrace
	}
	return c.ttl
}
