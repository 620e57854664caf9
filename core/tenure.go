package core

// tenure is one claim as an owner of it, a Lease or a Companion, knows it: whom
// it writes for, the record that it last wrote, what the last read showed, and
// the arithmetic of deadlines.
type tenure struct {
	machine
	holder       HolderID
	remote       bool  // writes writer_name "remote"
	count        int64 // write_count of the last record written
	firstWritten int64 // Wall
	acquired     int64 // Wall, first_acquired_at; 0 until verified

	body     []byte // the record last written
	closing  bool   // it carries released_at
	wroteAt  int64  // Wall at which it was stamped
	sent     int64  // Mono at which it was stamped
	good     int64  // Mono stamp of the last write known to have landed in time
	shortest Duration
	warned   bool // that TTLs differ

	// doubts counts puts of unknown outcome that were not seen to have landed:
	// any of them can still land. doubtAt is the Mono of the latest.
	doubts  int
	doubtAt int64

	failing bool // a renewal has failed since the last good one
	retries int
	class   Class // of the last unknown answer
	putSaid Class // of the last unknown answer to a put, which a read does not mend

	// companionAt is the Mono of the last read that showed a companion's write on
	// top of ours, or unset.
	companionAt int64

	seen  record // decode scratch: refers to the body of the event in progress
	sight Sighting
}

func newTenure(cfg Config) (tenure, error) {
	m, err := newMachine(cfg)
	if err != nil {
		return tenure{}, err
	}
	k := tenure{machine: m, holder: m.cfg.Holder, shortest: m.cfg.TTL, companionAt: unset}
	if k.holder == "" {
		k.holder = seedUUID(cfg.Seed)
	} else {
		k.remote = m.cfg.Role == RoleRemote
	}
	if f := m.cfg.FleetExpire; f != None {
		k.shortest = min(k.shortest, f)
	}
	return k, nil
}

// span is how long after its stamp a write may be relied on. TTL - margin is
// our own rule. 0.9 E is for the others on this name, who may judge us by the
// shortest TTL of any of us (E) whatever our record says.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (k *tenure) span() Duration {
	return min(k.cfg.TTL-k.cfg.Margin, k.shortest/10*9)
}

// interval is the time from one write's stamp to the next renewal, spread
// downwards only as far as keeps renewals from coming early.
func (k *tenure) interval() Duration {
	e := k.shortest / 3
	return k.rng.between(e/6*5, e)
}

// claimLimit shortens the limit of a put that claims what was read free. With
// an acquire margin everybody else who saw the name free and puts in time
// verifies after readStart + margin: a put of ours that has landed by then is
// seen by him. A later one would overwrite a verified lease.
func (k *tenure) claimLimit(limit Duration, readStart int64) Duration {
	if left := k.cfg.AcquireMargin + k.until(readStart); left > RequestFloor {
		return min(limit, left)
	}
	return limit
}

// read asks for the record.
func (k *tenure) read(limit Duration) {
	k.send(ActionGet, limit)
}

// write stamps a record with this Step's clocks and puts it. Durations count
// from here, never from the answer: the store may apply it at once.
func (k *tenure) write(limit Duration) { k.put(limit, false) }

// writeReleased puts the record with released_at.
func (k *tenure) writeReleased(limit Duration) { k.put(limit, true) }

func (k *tenure) put(limit Duration, closing bool) {
	k.count++
	if k.firstWritten == 0 {
		k.firstWritten = k.now.Wall
	}
	own := ownRecord{
		holder: k.holder, writtenAt: k.now.Wall, firstWrittenAt: k.firstWritten, acquiredAt: k.acquired,
		ttl: k.cfg.TTL, count: k.count, host: k.cfg.Host, pid: k.cfg.PID, tid: k.cfg.TID, remote: k.remote,
	}
	if closing {
		own.writtenAt, own.releasedAt = 0, k.now.Wall
	}
	k.body = appendRecord(k.body[:0], &own)
	k.closing, k.wroteAt, k.sent = closing, k.now.Wall, k.now.Mono
	a := k.send(ActionPut, limit)
	a.Type, a.Body = LockFileType, k.body
}

// doubt notes a put that nobody knows the fate of.
func (k *tenure) doubt() {
	k.doubts++
	k.doubtAt = k.now.Mono
}

// settle notes that the last put, thought unknown, was seen to have landed.
func (k *tenure) settle() {
	if k.doubts > 0 {
		k.doubts--
	}
}

// finding is what a read shows to a machine that has written.
type finding uint8

const (
	foundUnknown    finding = iota // no answer
	foundUnreadable                // corrupt or empty
	foundNothing                   // absent
	foundPut                       // exactly the record last written
	foundOurs                      // our tenure's, by an owner's other write
	foundReleased                  // our tenure's, released
	foundOther                     // another writer's, in any state
)

// find reads the answer to a get. Comparing bytes first makes the usual
// renewal free of parsing; a store that rewrites JSON only costs the parse.
func (k *tenure) find(ev *Event) finding {
	k.class = ev.Class
	switch {
	case ev.Outcome == OutcomeUnknown:
		return foundUnknown
	case ev.Outcome == OutcomeNo:
		k.sight.State = 0 // there is nothing to show
		return foundNothing
	case len(k.body) > 0 && string(ev.Body) == string(k.body):
		if k.closing {
			return foundReleased
		}
		return foundPut
	}
	parseRecord(ev.Body, &k.seen)
	return k.findParsed()
}

func (k *tenure) findParsed() finding {
	r := &k.seen
	ours := r.writer.equal(string(k.holder))
	switch {
	case r.state == recordEmpty || r.state == recordCorrupt:
		return foundUnreadable
	case !ours:
		if r.state == recordLive {
			k.seeExpire(r.expire)
		}
		k.note(k.observe())
		return foundOther
	case r.state == recordReleased:
		k.note(ObservedReleased)
		return foundReleased
	}
	k.seeExpire(r.expire)
	if r.count == k.count && r.writtenAt == microseconds(k.wroteAt) && !k.closing {
		return foundPut
	}
	if r.remote {
		k.companionAt = k.now.Mono
	}
	return foundOurs
}

// seeExpire notes a TTL that is in use on this name. Nothing may shrink ours
// below what any store can keep up with.
func (k *tenure) seeExpire(expire Duration) {
	if diff := expire - k.cfg.TTL; (diff > TTLTolerance || diff < -TTLTolerance) && !k.warned {
		k.warned = true
		k.note(k.observe())
		a := k.emit(ActionWarned)
		a.Reason, a.Key, a.Sight = ReasonTTLDiffers, k.key, &k.sight
	}
	k.shortest = min(k.shortest, max(expire, k.cfg.LeastTTL()))
}

// fresh is mops' test, inclusive, with the record's own TTL.
func (k *tenure) fresh() bool {
	return k.seen.writtenAt+int64(k.seen.expire) >= k.now.Wall
}

// ownFresh reports whether the record last written is young on both clocks:
// others judge it by wall clocks, which ours may have been stepped away from.
func (k *tenure) ownFresh() bool {
	ttl := int64(k.cfg.TTL)
	return k.now.Wall <= k.wroteAt+ttl && k.now.Mono <= k.sent+ttl
}

// observe is what a bystander would call the record in seen.
func (k *tenure) observe() Observation {
	switch {
	case k.seen.state == recordReleased:
		return ObservedReleased
	case k.seen.state != recordLive:
		return ObservedCorrupt
	case k.fresh():
		return ObservedHeld
	}
	return ObservedStale
}

// note copies what was seen, since seen itself ends with the event.
func (k *tenure) note(state Observation) { k.seen.show(&k.sight, state) }

// later spaces the next attempt at whatever the state is about.
func (k *tenure) later(deadline int64) {
	k.timers[timerNext] = k.in(k.retryDelay(k.retries, k.class, deadline))
	k.retries++
}

// microseconds is an instant as a record can hold it.
func microseconds(wall int64) int64 {
	const micro = int64(microsecond)
	floor := wall / micro
	if wall%micro < 0 {
		floor--
	}
	return floor * micro
}

// scheduleRenewal sets both timers of a lease whose last good write was
// stamped at k.good.
func (k *tenure) scheduleRenewal() {
	k.timers[timerDeadline] = k.good + int64(k.span())
	k.timers[timerNext] = k.good + int64(k.interval())
}

// renewed notes that the put stamped at k.sent is known to have landed in time.
func (k *tenure) renewed() {
	k.good, k.failing, k.retries, k.class = k.sent, false, 0, ClassNone
	k.scheduleRenewal()
	k.emit(ActionRenewed).At = k.timers[timerDeadline]
}

// renew begins a renewal: read first, unless told to be blind.
func (k *tenure) renew() {
	limit := k.requestLimit(k.timers[timerDeadline])
	if k.cfg.Renewal == RenewalBlind {
		k.write(limit)
		return
	}
	k.read(limit)
}

// verdict is what an answer means for somebody who believes.
type verdict uint8

const (
	believe verdict = iota
	lostTaken
	lostReleased
	overdue // a shorter TTL was seen on the name, and the deadline is behind us
)

// renewal takes the answer to a renewal's get or put onwards.
func (k *tenure) renewal(ev *Event, f flight) verdict {
	if f.verb == ActionPut {
		k.renewalWritten(ev)
		return believe
	}
	before := k.doubts
	switch k.find(ev) {
	case foundOther:
		return lostTaken
	case foundReleased:
		return lostReleased
	case foundUnknown, foundUnreadable:
		k.renewalFailed()
		return believe
	case foundPut:
		// Read back, an unknown put turns out good. It counts from its own stamp,
		// and another so soon would come early.
		if before > 0 && k.good != k.sent {
			k.settle()
			k.renewed()
			return believe
		}
	}
	if k.refit() {
		return overdue
	}
	k.write(k.requestLimit(k.timers[timerDeadline]))
	return believe
}

// refit moves the deadline to what the shortest TTL seen by now allows, and
// reports whether it is behind us.
func (k *tenure) refit() bool {
	deadline := k.good + int64(k.span())
	if deadline != k.timers[timerDeadline] {
		k.timers[timerDeadline] = deadline
		k.emit(ActionDeadline).At = deadline
	}
	return k.due(timerDeadline)
}

func (k *tenure) renewalWritten(ev *Event) {
	if ev.Outcome == OutcomeYes {
		k.renewed()
		return
	}
	k.class = ev.Class
	k.doubt()
	k.renewalFailed()
}

// renewalFailed: one error never drops a lease; only the deadline does.
func (k *tenure) renewalFailed() {
	k.failing = true
	k.later(k.timers[timerDeadline])
}
