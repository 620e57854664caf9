package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/lockfile"
	"github.com/mopslock/mopslock/core/internal/register"
)

// A launcher may end while what it started goes on and keeps the lease alive by a
// companion. beats says how long one is believed to be at work: until is a TTL after
// its last beat that was seen, or a moment after the launcher's end, or after the last
// companion left. Under lastwriter a companion's write is its beat.
type beats struct {
	until int64      // Mono
	asked int64      // Mono at which the round's question for the result was sent
	at    int64      // Mono of the round of reads that is under way
	n     core.Epoch // the version that it reads
	left  []byte
	now   uint64 // the fingerprint that it has come to
	seen  uint64 // that of the last round; 0 is none
}

// readBeats looks for a companion, by one round of reads. We hold the lease and
// renew it meanwhile; only the others' writes count.
func (v *Invocation) readBeats() {
	v.beats.at, v.beats.now = v.Now.Mono, 0
	if l, ok := v.Inner.(*lastwriter.Lease); ok {
		if at := l.CompanionAt; at != base.Unset { // seen by a renewal, which wrote over it
			v.beatSeen(at)
		}
		v.ask(forTenure, core.ActionGet, v.Cfg.Name+"/"+core.LockFile, core.RequestLimit)
		return
	}
	v.ask(forTenure, core.ActionList, register.RegisterPrefix(v.Cfg.Name), core.RequestLimit).Count = register.ObservationEntries
}

// beatsRead takes a round of reads onwards.
func (v *Invocation) beatsRead(ev *core.Event, f base.Flight) {
	switch {
	case v.doing == forTenure && f.Verb == core.ActionGet:
		v.lockSeen(ev)
	case v.doing == forTenure:
		v.newestSeen(ev)
	case v.doing == forOwners:
		v.ownersSeen(ev)
	default:
		v.beats.now = base.Mix(v.beats.now, base.Fingerprint(ev.Body))
		v.nextCompanion()
	}
}

// lockSeen: a companion's write shows in lock.json until we renew over it.
func (v *Invocation) lockSeen(ev *core.Event) {
	var r lockfile.Record
	lockfile.Parse(ev.Body, &r)
	ours := r.Writer.Equal(string(v.Holder))
	switch {
	case ev.Outcome == core.OutcomeYes && r.State == lockfile.Released && ours:
		v.isGone(core.ReasonReleased)
		return
	case ev.Outcome == core.OutcomeYes && r.State == lockfile.Live && !ours:
		v.isGone(core.ReasonTaken)
		return
	case ev.Outcome == core.OutcomeYes && r.State == lockfile.Live && r.Remote:
		v.beats.now = max(1, base.Mix(base.Fingerprint(ev.Body), uint64(r.Count)))
	}
	v.roundOver()
}

// isGone: what we read shows before the lease does that it is not ours any more.
// A launcher that was ended by that is not to be taken for failed.
func (v *Invocation) isGone(why core.Reason) {
	if v.lost == core.ReasonNone {
		v.lost = why
		v.Emit(core.ActionLost).Reason = why
		v.forget()
	}
	v.check()
}

// newestSeen: the first key of the list is the newest version's, or a beat's under it.
func (v *Invocation) newestSeen(ev *core.Event) {
	for i := range ev.Entries {
		if n, _, ok := register.ParseRegisterKey(register.RegisterPrefix(v.Cfg.Name), ev.Entries[i].Key); ok {
			v.beats.n = n
			v.ask(forOwners, core.ActionGet, register.VersionKey(register.RegisterPrefix(v.Cfg.Name), n), core.RequestLimit)
			return
		}
	}
	v.roundOver()
}

// ownersSeen reads the beats of all owners but us: our id is the tenure's own.
func (v *Invocation) ownersSeen(ev *core.Event) {
	var found register.Version
	switch {
	case ev.Outcome != core.OutcomeYes || register.ParseVersion(ev.Body, v.beats.n, &found) != register.ReadGood:
		v.roundOver() // the lease will say what that is
		return
	case found.State == core.VersionBroken && string(found.Tenure) == string(v.Holder):
		v.isGone(core.ReasonBroken)
		return
	case found.State == core.VersionReleased && string(found.Tenure) == string(v.Holder):
		v.isGone(core.ReasonReleased)
		return
	case string(found.Tenure) != string(v.Holder):
		v.isGone(core.ReasonTaken)
		return
	}
	v.beats.left = append(v.beats.left[:0], found.Owners...)
	v.nextCompanion()
}

func (v *Invocation) nextCompanion() {
	for len(v.beats.left) > 0 {
		id, rest, _ := register.NextOwner(v.beats.left) // a good list, as parseVersion saw
		owner := string(id)
		v.beats.left = append(v.beats.left[:0], rest...)
		if owner != string(v.Holder) {
			v.beats.now = max(1, base.Mix(v.beats.now, uint64(v.beats.n)))
			v.ask(forCompanion, core.ActionGet, register.BeatKey(register.RegisterPrefix(v.Cfg.Name), v.beats.n, owner), core.RequestLimit)
			return
		}
	}
	v.roundOver()
}

// roundOver waits on while a companion is at work, and otherwise ends without a result.
func (v *Invocation) roundOver() {
	s := &v.beats
	hasRegister := v.Cfg.Protocol.HasRegister()
	if v.lost != core.ReasonNone {
		v.check()
		return
	}
	if v.failed {
		v.absent(core.ReasonFailed)
		return
	}
	switch {
	case s.now != 0 && s.now != s.seen:
		v.beatSeen(s.at)
	case s.now == 0 && s.seen != 0 && hasRegister: // it has said that it leaves
		s.until = min(s.until, v.In(core.LaunchGrace))
	}
	s.seen = s.now
	if s.asked >= s.until { // the result was looked for after the last that could have stored it
		v.absent(core.ReasonNone)
		return
	}
	v.become(core.InvocationAwaiting)
	v.Timers[base.TimerNext] = min(v.In(min(v.pause(), v.Cfg.TTL.Duration()/3)), max(s.until, v.Now.Mono))
}

func (v *Invocation) beatSeen(at int64) {
	v.beats.until = max(v.beats.until, at+int64(v.Cfg.TTL))
}
