package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// Tenure is one claim as an owner of it, a Lease or a Companion, knows it: the holder
// that it writes for, the record that it last wrote, what the last read showed, and
// the arithmetic of deadlines.
type Tenure struct {
	base.Machine
	HolderID     core.HolderID
	remote       bool       // writes writer_name "remote"
	count        int64      // write_count of the last record written
	firstWritten int64      // Wall
	acquired     int64      // Wall, first_acquired_at; 0 until verified
	Epoch        core.Epoch // of a bridge: the token of the tenure above it, which its records carry; or 0

	Body     []byte // the record last written
	closing  bool   // it carries released_at
	there    bool   // a record of the tenure is in the store, by a read or the answer to a put
	wroteAt  int64  // Wall at which it was stamped
	sent     int64  // Mono at which it was stamped
	good     int64  // Mono stamp of the last write known to have landed in time
	Shortest core.Duration
	Warned   bool // that TTLs differ

	// Doubts counts puts of unknown outcome that were not seen to have landed:
	// any of them can still land. doubtAt is the Mono of the latest.
	Doubts  int
	doubtAt int64

	putSaid core.Class // of the last unknown answer to a put, which a read does not mend

	// CompanionAt is the Mono of the last read that showed a companion's write on
	// top of ours, or unset.
	CompanionAt int64

	seen     lockfile.Record `state:"scratch: it refers to the body of the event in progress"`
	Observed core.Observed   `state:"exact: what a Step reads of it follows from what was read"`
	// SeenEpoch is that of the record in Observed, which a bridge has, or 0.
	SeenEpoch core.Epoch `state:"exact: what a Step reads of it follows from what was read"`
}

func newTenure(cfg core.Config) (Tenure, error) {
	m, err := base.New(cfg)
	if err != nil {
		return Tenure{}, err
	}
	t := Tenure{Machine: m, HolderID: m.Cfg.Holder, Shortest: m.Cfg.TTL.Duration(), CompanionAt: base.Unset}
	if t.HolderID == "" {
		t.HolderID = base.SeedUUID(cfg.Seed)
	} else {
		t.remote = m.Cfg.Role == core.RoleRemote
	}
	if f := m.Cfg.FleetExpire; f != core.TTLEndless {
		t.Shortest = min(t.Shortest, f.Duration())
	}
	return t, nil
}

// span is how long after its stamp a write may be relied on. TTL - margin is
// our own rule. 0.9 E is for the others on this name, which may judge us by the
// shortest TTL of any of us (E) whatever our record says.
func (t *Tenure) span() core.Duration {
	return min(t.Cfg.TTL.Duration()-t.Cfg.Margin, t.Shortest/10*9)
}

// interval is the time from one write's stamp to the next renewal, spread
// downwards only as far as keeps renewals from coming early.
func (t *Tenure) interval() core.Duration {
	e := t.Shortest / 3
	return t.RNG.Between(e/6*5, e)
}

// attemptLimit shortens the limit of a put that claims what was read free. With
// an acquire margin every other machine that saw the name free and puts in time
// verifies after readStart + margin: it sees a put of ours that has landed by then.
// A later one would overwrite a verified lease.
func (t *Tenure) attemptLimit(limit core.Duration, readStart int64) core.Duration {
	if left := t.Cfg.AcquireMargin + t.Until(readStart); left > core.RequestFloor {
		return min(limit, left)
	}
	return limit
}

// read asks for the record.
func (t *Tenure) read(limit core.Duration) {
	t.Send(core.ActionGet, limit)
}

// write stamps a record with this Step's clocks and puts it. Durations count
// from here, never from the answer: the store may apply it at once.
func (t *Tenure) write(limit core.Duration) { t.put(limit, false) }

// writeReleased puts the record with released_at.
func (t *Tenure) writeReleased(limit core.Duration) { t.put(limit, true) }

func (t *Tenure) put(limit core.Duration, closing bool) {
	t.count++
	if t.firstWritten == 0 {
		t.firstWritten = t.Now.Wall
	}
	own := lockfile.Own{
		Holder: t.HolderID, WrittenAt: t.Now.Wall, FirstWrittenAt: t.firstWritten, AcquiredAt: t.acquired,
		TTL: t.Cfg.TTL.Duration(), Count: t.count, Host: t.Cfg.Host, PID: t.Cfg.PID, TID: t.Cfg.TID, Remote: t.remote, Epoch: t.Epoch,
	}
	if closing {
		own.WrittenAt, own.ReleasedAt = 0, t.Now.Wall
	}
	t.Body = lockfile.Append(t.Body[:0], &own)
	t.closing, t.wroteAt, t.sent = closing, t.Now.Wall, t.Now.Mono
	a := t.Send(core.ActionPut, limit)
	a.Type, a.Body = core.LockFileType, t.Body
	if t.there {
		t.Overwrite(a)
	}
}

// doubt notes a put of unknown fate.
func (t *Tenure) doubt() {
	t.Doubts++
	t.doubtAt = t.Now.Mono
}

// settle notes that the last put, thought unknown, was seen to have landed.
func (t *Tenure) settle() {
	if t.Doubts > 0 {
		t.Doubts--
	}
}

// lockFileVerdict is what a read shows to a machine that has written.
type lockFileVerdict uint8

const (
	foundUnknown    lockFileVerdict = iota // no answer
	foundUnreadable                        // corrupt or empty
	foundNothing                           // absent
	foundPut                               // exactly the record last written
	foundOurs                              // our tenure's, by an owner's other write
	foundReleased                          // our tenure's, released
	foundOther                             // another writer's, in any state
)

// find reads the answer to a get. Comparing bytes first makes the usual
// renewal free of parsing; a store that rewrites JSON only costs the parse.
func (t *Tenure) find(ev *core.Event) lockFileVerdict {
	t.Class = ev.Class
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		return foundUnknown
	case ev.Outcome == core.OutcomeNo:
		t.Observed.State = 0 // there is nothing to show
		return foundNothing
	case len(t.Body) > 0 && string(ev.Body) == string(t.Body):
		t.there = true
		if t.closing {
			return foundReleased
		}
		return foundPut
	}
	lockfile.Parse(ev.Body, &t.seen)
	return t.findParsed()
}

func (t *Tenure) findParsed() lockFileVerdict {
	r := &t.seen
	ours := r.Writer.Equal(string(t.HolderID))
	switch {
	case r.State == lockfile.Empty || r.State == lockfile.Corrupt:
		return foundUnreadable
	case !ours:
		if r.State == lockfile.Live {
			t.seeExpire(r.Expire)
		}
		t.note(t.observe())
		return foundOther
	case r.State == lockfile.Released:
		t.note(core.ObservedReleased)
		return foundReleased
	}
	t.there = true
	t.seeExpire(r.Expire)
	if r.Count == t.count && r.WrittenAt == microseconds(t.wroteAt) && !t.closing {
		return foundPut
	}
	if r.Remote {
		t.CompanionAt = t.Now.Mono
	}
	return foundOurs
}

// seeExpire notes a TTL that is in use on this name. Nothing may shrink ours
// below what any store can keep up with.
func (t *Tenure) seeExpire(expire core.Duration) {
	if diff := expire - t.Cfg.TTL.Duration(); (diff > core.TTLTolerance || diff < -core.TTLTolerance) && !t.Warned {
		t.Warned = true
		t.note(t.observe())
		a := t.Emit(core.ActionWarned)
		a.Reason, a.Key, a.Observed = core.ReasonTTLDiffers, t.Key, &t.Observed
	}
	t.Shortest = min(t.Shortest, max(expire, t.Cfg.LeastTTL()))
}

// fresh is mops' test, inclusive, with the record's own TTL.
func (t *Tenure) fresh() bool {
	return t.seen.WrittenAt+int64(t.seen.Expire) >= t.Now.Wall
}

// ownFresh reports whether the record last written is young on both clocks:
// others judge it by wall clocks, which ours may have been stepped away from.
func (t *Tenure) ownFresh() bool {
	ttl := int64(t.Cfg.TTL)
	return t.Now.Wall <= t.wroteAt+ttl && t.Now.Mono <= t.sent+ttl
}

// observe is what a bystander would call the record in seen.
func (t *Tenure) observe() core.Observation {
	switch {
	case t.seen.State == lockfile.Released:
		return core.ObservedReleased
	case t.seen.State != lockfile.Live:
		return core.ObservedCorrupt
	case t.fresh():
		return core.ObservedHeld
	}
	return core.ObservedStale
}

// note copies what was seen, since seen itself ends with the event.
func (t *Tenure) note(state core.Observation) {
	t.seen.Show(&t.Observed, state)
	t.SeenEpoch = t.seen.Epoch
}

// microseconds is an instant as a record can hold it.
func microseconds(wall int64) int64 {
	const micro = int64(core.Microsecond)
	floor := wall / micro
	if wall%micro < 0 {
		floor--
	}
	return floor * micro
}

// scheduleRenewal sets both timers of a lease whose last good write was
// stamped at t.good.
func (t *Tenure) scheduleRenewal() {
	t.Timers[base.TimerDeadline] = t.good + int64(t.span())
	t.Timers[base.TimerNext] = t.good + int64(t.interval())
}

// hold tells the caller that it holds the tenure by a write that was stamped at a Mono.
func (t *Tenure) hold(good int64) {
	t.good, t.Failing, t.Retries = good, false, 0
	t.scheduleRenewal()
	a := t.Emit(core.ActionHeld)
	a.At, a.Wall, a.Holder = t.Timers[base.TimerDeadline], t.acquired, t.HolderID
}

// renewed notes that the put stamped at t.sent is known to have landed in time.
func (t *Tenure) renewed() {
	t.good, t.Failing, t.Retries, t.Class = t.sent, false, 0, core.ClassNone
	t.scheduleRenewal()
	t.Emit(core.ActionRenewed).At = t.Timers[base.TimerDeadline]
}

// renew begins a renewal: read first, unless told to be blind.
func (t *Tenure) renew() {
	limit := t.RequestLimit(t.Timers[base.TimerDeadline])
	if t.Cfg.Renewal == core.RenewalBlind {
		t.write(limit)
		return
	}
	t.read(limit)
}

// renewal takes the answer to a renewal's get or put onwards. It returns why the lease
// is lost, or none. It has expired if a shorter TTL was seen on the name, and the deadline
// is behind us.
func (t *Tenure) renewal(ev *core.Event, f base.Flight) core.Reason {
	if f.Verb == core.ActionPut {
		return t.renewalWritten(ev)
	}
	before := t.Doubts
	switch t.find(ev) {
	case foundOther:
		return core.ReasonTaken
	case foundReleased:
		return core.ReasonReleased
	case foundUnknown, foundUnreadable:
		t.renewalFailed()
		return core.ReasonNone
	case foundPut:
		// Read back, an unknown put turns out good. It counts from its own stamp,
		// and another so soon would come early.
		if before > 0 && t.good != t.sent {
			t.settle()
			t.renewed()
			return core.ReasonNone
		}
	}
	if t.refit() {
		return core.ReasonExpired
	}
	t.write(t.RequestLimit(t.Timers[base.TimerDeadline]))
	return core.ReasonNone
}

// refit moves the deadline to what the shortest TTL seen by now allows, and
// reports whether it is behind us.
func (t *Tenure) refit() bool {
	deadline := t.good + int64(t.span())
	if deadline != t.Timers[base.TimerDeadline] {
		t.Timers[base.TimerDeadline] = deadline
		t.Emit(core.ActionDeadline).At = deadline
	}
	return t.Due(base.TimerDeadline)
}

func (t *Tenure) renewalWritten(ev *core.Event) core.Reason {
	switch ev.Outcome {
	case core.OutcomeYes:
		t.renewed()
		return core.ReasonNone
	case core.OutcomeNo:
		a := t.Emit(core.ActionWarned)
		a.Reason, a.Key = core.ReasonEmptied, t.Key
		return core.ReasonTaken
	}
	t.Class = ev.Class
	t.doubt()
	t.renewalFailed()
	return core.ReasonNone
}

// renewalFailed: one error never drops a lease; only the deadline does.
func (t *Tenure) renewalFailed() {
	t.Failing = true
	t.Later(t.Timers[base.TimerDeadline])
}
