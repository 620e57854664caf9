package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// Tenure is one claim as an owner of it, a Lease or a Companion, knows it: whom
// it writes for, the record that it last wrote, what the last read showed, and
// the arithmetic of deadlines.
type Tenure struct {
	base.Machine
	HolderID     core.HolderID
	remote       bool  // writes writer_name "remote"
	count        int64 // write_count of the last record written
	firstWritten int64 // Wall
	acquired     int64 // Wall, first_acquired_at; 0 until verified

	Body     []byte // the record last written
	closing  bool   // it carries released_at
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

	seen     lockfile.Record // decode scratch: refers to the body of the event in progress
	Observed core.Observed
}

func newTenure(cfg core.Config) (Tenure, error) {
	m, err := base.New(cfg)
	if err != nil {
		return Tenure{}, err
	}
	k := Tenure{Machine: m, HolderID: m.Cfg.Holder, Shortest: m.Cfg.TTL.Duration(), CompanionAt: base.Unset}
	if k.HolderID == "" {
		k.HolderID = base.SeedUUID(cfg.Seed)
	} else {
		k.remote = m.Cfg.Role == core.RoleRemote
	}
	if f := m.Cfg.FleetExpire; f != core.TTLEndless {
		k.Shortest = min(k.Shortest, f.Duration())
	}
	return k, nil
}

// span is how long after its stamp a write may be relied on. TTL - margin is
// our own rule. 0.9 E is for the others on this name, who may judge us by the
// shortest TTL of any of us (E) whatever our record says.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (k *Tenure) span() core.Duration {
	return min(k.Cfg.TTL.Duration()-k.Cfg.Margin, k.Shortest/10*9)
}

// interval is the time from one write's stamp to the next renewal, spread
// downwards only as far as keeps renewals from coming early.
func (k *Tenure) interval() core.Duration {
	e := k.Shortest / 3
	return k.RNG.Between(e/6*5, e)
}

// claimLimit shortens the limit of a put that claims what was read free. With
// an acquire margin everybody else who saw the name free and puts in time
// verifies after readStart + margin: a put of ours that has landed by then is
// seen by him. A later one would overwrite a verified lease.
func (k *Tenure) claimLimit(limit core.Duration, readStart int64) core.Duration {
	if left := k.Cfg.AcquireMargin + k.Until(readStart); left > core.RequestFloor {
		return min(limit, left)
	}
	return limit
}

// read asks for the record.
func (k *Tenure) read(limit core.Duration) {
	k.Send(core.ActionGet, limit)
}

// write stamps a record with this Step's clocks and puts it. Durations count
// from here, never from the answer: the store may apply it at once.
func (k *Tenure) write(limit core.Duration) { k.put(limit, false) }

// writeReleased puts the record with released_at.
func (k *Tenure) writeReleased(limit core.Duration) { k.put(limit, true) }

func (k *Tenure) put(limit core.Duration, closing bool) {
	k.count++
	if k.firstWritten == 0 {
		k.firstWritten = k.Now.Wall
	}
	own := lockfile.Own{
		Holder: k.HolderID, WrittenAt: k.Now.Wall, FirstWrittenAt: k.firstWritten, AcquiredAt: k.acquired,
		TTL: k.Cfg.TTL.Duration(), Count: k.count, Host: k.Cfg.Host, PID: k.Cfg.PID, TID: k.Cfg.TID, Remote: k.remote,
	}
	if closing {
		own.WrittenAt, own.ReleasedAt = 0, k.Now.Wall
	}
	k.Body = lockfile.Append(k.Body[:0], &own)
	k.closing, k.wroteAt, k.sent = closing, k.Now.Wall, k.Now.Mono
	a := k.Send(core.ActionPut, limit)
	a.Type, a.Body = core.LockFileType, k.Body
}

// doubt notes a put that nobody knows the fate of.
func (k *Tenure) doubt() {
	k.Doubts++
	k.doubtAt = k.Now.Mono
}

// settle notes that the last put, thought unknown, was seen to have landed.
func (k *Tenure) settle() {
	if k.Doubts > 0 {
		k.Doubts--
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
func (k *Tenure) find(ev *core.Event) lockFileVerdict {
	k.Class = ev.Class
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		return foundUnknown
	case ev.Outcome == core.OutcomeNo:
		k.Observed.State = 0 // there is nothing to show
		return foundNothing
	case len(k.Body) > 0 && string(ev.Body) == string(k.Body):
		if k.closing {
			return foundReleased
		}
		return foundPut
	}
	lockfile.Parse(ev.Body, &k.seen)
	return k.findParsed()
}

func (k *Tenure) findParsed() lockFileVerdict {
	r := &k.seen
	ours := r.Writer.Equal(string(k.HolderID))
	switch {
	case r.State == lockfile.Empty || r.State == lockfile.Corrupt:
		return foundUnreadable
	case !ours:
		if r.State == lockfile.Live {
			k.seeExpire(r.Expire)
		}
		k.note(k.observe())
		return foundOther
	case r.State == lockfile.Released:
		k.note(core.ObservedReleased)
		return foundReleased
	}
	k.seeExpire(r.Expire)
	if r.Count == k.count && r.WrittenAt == microseconds(k.wroteAt) && !k.closing {
		return foundPut
	}
	if r.Remote {
		k.CompanionAt = k.Now.Mono
	}
	return foundOurs
}

// seeExpire notes a TTL that is in use on this name. Nothing may shrink ours
// below what any store can keep up with.
func (k *Tenure) seeExpire(expire core.Duration) {
	if diff := expire - k.Cfg.TTL.Duration(); (diff > core.TTLTolerance || diff < -core.TTLTolerance) && !k.Warned {
		k.Warned = true
		k.note(k.observe())
		a := k.Emit(core.ActionWarned)
		a.Reason, a.Key, a.Observed = core.ReasonTTLDiffers, k.Key, &k.Observed
	}
	k.Shortest = min(k.Shortest, max(expire, k.Cfg.LeastTTL()))
}

// fresh is mops' test, inclusive, with the record's own TTL.
func (k *Tenure) fresh() bool {
	return k.seen.WrittenAt+int64(k.seen.Expire) >= k.Now.Wall
}

// ownFresh reports whether the record last written is young on both clocks:
// others judge it by wall clocks, which ours may have been stepped away from.
func (k *Tenure) ownFresh() bool {
	ttl := int64(k.Cfg.TTL)
	return k.Now.Wall <= k.wroteAt+ttl && k.Now.Mono <= k.sent+ttl
}

// observe is what a bystander would call the record in seen.
func (k *Tenure) observe() core.Observation {
	switch {
	case k.seen.State == lockfile.Released:
		return core.ObservedReleased
	case k.seen.State != lockfile.Live:
		return core.ObservedCorrupt
	case k.fresh():
		return core.ObservedHeld
	}
	return core.ObservedStale
}

// note copies what was seen, since seen itself ends with the event.
func (k *Tenure) note(state core.Observation) { k.seen.Show(&k.Observed, state) }

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
// stamped at k.good.
func (k *Tenure) scheduleRenewal() {
	k.Timers[base.TimerDeadline] = k.good + int64(k.span())
	k.Timers[base.TimerNext] = k.good + int64(k.interval())
}

// hold tells the caller that it holds the tenure by a write that was stamped at a Mono.
func (k *Tenure) hold(good int64) {
	k.good, k.Failing, k.Retries = good, false, 0
	k.scheduleRenewal()
	a := k.Emit(core.ActionHeld)
	a.At, a.Wall, a.Holder = k.Timers[base.TimerDeadline], k.acquired, k.HolderID
}

// renewed notes that the put stamped at k.sent is known to have landed in time.
func (k *Tenure) renewed() {
	k.good, k.Failing, k.Retries, k.Class = k.sent, false, 0, core.ClassNone
	k.scheduleRenewal()
	k.Emit(core.ActionRenewed).At = k.Timers[base.TimerDeadline]
}

// renew begins a renewal: read first, unless told to be blind.
func (k *Tenure) renew() {
	limit := k.RequestLimit(k.Timers[base.TimerDeadline])
	if k.Cfg.Renewal == core.RenewalBlind {
		k.write(limit)
		return
	}
	k.read(limit)
}

// renewal takes the answer to a renewal's get or put onwards. It returns why the lease
// is lost, or none. It has expired if a shorter TTL was seen on the name, and the deadline
// is behind us.
func (k *Tenure) renewal(ev *core.Event, f base.Flight) core.Reason {
	if f.Verb == core.ActionPut {
		k.renewalWritten(ev)
		return core.ReasonNone
	}
	before := k.Doubts
	switch k.find(ev) {
	case foundOther:
		return core.ReasonTaken
	case foundReleased:
		return core.ReasonReleased
	case foundUnknown, foundUnreadable:
		k.renewalFailed()
		return core.ReasonNone
	case foundPut:
		// Read back, an unknown put turns out good. It counts from its own stamp,
		// and another so soon would come early.
		if before > 0 && k.good != k.sent {
			k.settle()
			k.renewed()
			return core.ReasonNone
		}
	}
	if k.refit() {
		return core.ReasonExpired
	}
	k.write(k.RequestLimit(k.Timers[base.TimerDeadline]))
	return core.ReasonNone
}

// refit moves the deadline to what the shortest TTL seen by now allows, and
// reports whether it is behind us.
func (k *Tenure) refit() bool {
	deadline := k.good + int64(k.span())
	if deadline != k.Timers[base.TimerDeadline] {
		k.Timers[base.TimerDeadline] = deadline
		k.Emit(core.ActionDeadline).At = deadline
	}
	return k.Due(base.TimerDeadline)
}

func (k *Tenure) renewalWritten(ev *core.Event) {
	if ev.Outcome == core.OutcomeYes {
		k.renewed()
		return
	}
	k.Class = ev.Class
	k.doubt()
	k.renewalFailed()
}

// renewalFailed: one error never drops a lease; only the deadline does.
func (k *Tenure) renewalFailed() {
	k.Failing = true
	k.Later(k.Timers[base.TimerDeadline])
}
