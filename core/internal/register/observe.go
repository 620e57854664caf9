package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// An observation is how a machine judges a name: reads that belong together and count
// as made when the first of them was sent (PROTOCOL S4.1).
//
//	taker    list ─────────── get v ── get beat                 create v(n+1)
//	holder         put beat . . . . . . . . answered, exists: no
//	               ▲ after the list: the observation does not show it, and judging
//	                 by a later clock than the list's would call its owner dead

// ObservationEntries is how many entries an observation's list asks for: the newest
// version and its beats stand first.
const ObservationEntries = 64

// Observation is the one in progress.
type Observation struct {
	poll        bool  // it began with exists v(n+1), not with a list
	Listed      bool  // the newest version is known
	More        bool  // there are entries behind the page
	session     bool  // the session's beat was read
	lock        bool  // lock.json was read
	Start       int64 // Mono: sent of its first read
	Latest      int64 // Mono: sent of its latest read
	N           core.Epoch
	Lowest      core.Epoch // of the page
	Stamp       int64
	after       string // the page's last key, while there are more
	beats       []Beat
	sessionBeat Beat
	absent      bool     // there is no session any more
	called      bool     // the calls were listed
	callNext    uint64   // the first K that is not taken
	calls       []string // keys that are still to be read
	LockHeld    bool
}

// Beat is what an observation knows of one beat.
type Beat struct {
	key         string
	epoch       core.Epoch
	Stamp       int64
	read        bool
	Absent      bool
	SameBoot    bool
	boottime    int64
	ttl         core.Duration
	fingerprint uint64
}

// Verdict is what an observation comes to.
type Verdict uint8

const (
	Undecided Verdict = iota // a read is under way
	Unanswered
	Free
	Held
	Unfit // a newer mopslock's, or of another kind
)

// StartObservation begins an observation that finds the newest version.
func (r *Register) StartObservation(limit core.Duration) {
	r.beginObservation()
	r.AskList(limit)
}

// StartPoll begins an observation of the version that is known: a waiter's, of
// GET-class requests alone.
func (r *Register) StartPoll(limit core.Duration) {
	r.beginObservation()
	r.Observation.poll = true
	r.Ask(ForNext, core.ActionExists, r.KeyAbove(), limit)
}

// ObserveAbove goes on with a poll that found a newer version: the one above is read. It
// may be superseded in its turn, which a create above it shows. The version that
// was confirmed as the newest lies below both, so the confirmation holds for them as well.
func (r *Register) ObserveAbove(sent int64, limit core.Duration) {
	r.beginObservation()
	obs := &r.Observation
	obs.poll, obs.Listed, obs.More, obs.Start, obs.N, obs.Lowest = true, true, true, sent, r.Cur.N+1, r.Cur.N+1
	r.Ask(ForVersion, core.ActionGet, VersionKey(r.Prefix, obs.N), limit)
}

func (r *Register) beginObservation() {
	r.Observation = Observation{Start: r.Now.Mono, Latest: r.Now.Mono, beats: r.Observation.beats[:0], calls: r.Observation.calls[:0]}
	r.TakeSample() // from before this observation began
}

func (r *Register) AskList(limit core.Duration) {
	a := r.Ask(ForList, core.ActionList, r.Prefix, limit)
	a.After, a.Count = r.Observation.after, ObservationEntries
}

// ObservationAnswer takes the answer to a read and goes on with the observation.
func (r *Register) ObservationAnswer(ev *core.Event, f base.Flight, limit core.Duration) Verdict {
	if ev.Outcome == core.OutcomeUnknown {
		r.Class = ev.Class
		return Unanswered
	}
	r.Learn(ev)
	obs := &r.Observation
	obs.Latest = f.Sent
	switch r.Doing {
	case ForList:
		r.Listed(ev)
	case ForNext:
		switch {
		case !r.IsNewestConfirmed(f.Sent):
			r.StartObservation(limit)
			return Undecided
		case ev.Outcome == core.OutcomeYes:
			r.ObserveAbove(f.Sent, limit)
			return Undecided
		}
		r.NewestConfirmedAt = f.Sent
		r.scheduleBeatReads()
	case ForVersion:
		switch {
		case ev.Outcome == core.OutcomeYes:
		case obs.poll: // collected since, or more has come: only a list can tell
			r.StartObservation(limit)
			return Undecided
		default: // listed, and not there: the prefix is being emptied this moment
			r.Class = core.ClassOther
			return Unanswered
		}
		r.ReadVersion(ev.Body, obs.N, max(obs.Stamp, ev.Stamp))
		obs.Stamp = r.Cur.Stamp
		switch {
		case !obs.poll:
		case HasMoreOwners(r.Cur.Owners): // only a list shows the beats of all
			r.StartObservation(limit)
			return Undecided
		default:
			r.scheduleBeatReads()
		}
	case ForEnded:
		r.EndedRead(ev)
	case ForSession:
		obs.session, obs.absent = true, ev.Outcome == core.OutcomeNo
		obs.sessionBeat.take(r, ev, parseSessionBeat)
	case ForBeat:
		r.nextUnread().take(r, ev, parseBeat)
	case ForLock:
		r.LockSeen(ev)
	case ForCalls:
		r.CallsListed(ev)
	case ForCall:
		r.CallRead(ev)
	case ForNewCall:
		r.CallMade(ev)
	}
	return r.advance(limit)
}

// Listed takes a page: versions newest first, each with its beats before it.
func (r *Register) Listed(ev *core.Event) {
	obs := &r.Observation
	obs.after, obs.More = "", ev.More
	for i := range ev.Entries {
		e := &ev.Entries[i]
		n, owner, ok := ParseRegisterKey(r.Prefix, e.Key)
		switch {
		case !ok:
		case owner != nil:
			obs.beats = append(obs.beats, Beat{key: string(e.Key), epoch: n, Stamp: e.Stamp})
		case !obs.Listed:
			obs.Listed, obs.N, obs.Stamp = true, n, e.Stamp
		}
		if ok {
			obs.Lowest = n
		}
	}
	switch {
	case obs.Listed:
		r.NewestConfirmedAt = obs.Start
		if r.Cur.N == obs.N {
			r.Cur.Stamp = obs.Stamp
		}
	case ev.More && len(ev.Entries) > 0:
		obs.after = string(ev.Entries[len(ev.Entries)-1].Key)
	default:
		obs.Listed, obs.beats = true, obs.beats[:0] // there is no version
		r.NewestConfirmedAt = obs.Start
	}
}

// scheduleBeatReads lists the beats that there can be: each owner's own.
func (r *Register) scheduleBeatReads() {
	obs := &r.Observation
	// Beats under the tenure's earlier versions are found by a list alone.
	of := r.beatsOf()
	obs.Listed, obs.More, obs.Lowest, obs.N, obs.Stamp = true, of != r.Cur.Origin, of, r.Cur.N, r.Cur.Stamp
	if r.Cur.State != core.VersionValue && r.Cur.TTL != 0 {
		eachOwner(r.Cur.Owners, func(id string) {
			obs.beats = append(obs.beats, Beat{key: BeatKey(r.Prefix, of, id), epoch: of})
		})
	}
}

// take reads a beat's body into it.
func (b *Beat) take(r *Register, ev *core.Event, parse func([]byte, *BeatRecord) ReadResult) {
	b.read = true
	if b.Absent = ev.Outcome == core.OutcomeNo; b.Absent {
		return
	}
	var body BeatRecord
	b.Stamp = max(b.Stamp, ev.Stamp)
	b.fingerprint = base.Fingerprint(ev.Body)
	if parse(ev.Body, &body) == ReadGood {
		b.fingerprint = base.Fingerprint(body.nonce)
		b.boottime, b.SameBoot = r.emitted(body.boot, body.boottime, b.Stamp)
		b.ttl = body.ttl
	}
}

// advance asks for the next thing that the verdict needs, or gives it.
func (r *Register) advance(limit core.Duration) Verdict {
	obs, c := &r.Observation, &r.Cur
	switch {
	case !obs.Listed:
		r.AskList(limit)
		return Undecided
	case obs.N != 0 && (c.N != obs.N || r.Observed == nil || r.Observed.Epoch != c.N):
		// A version that we only made, or remember, was not read.
		r.Ask(ForVersion, core.ActionGet, VersionKey(r.Prefix, obs.N), limit)
		return Undecided
	case r.Cfg.LockFilePresent && !obs.lock:
		r.Ask(ForLock, core.ActionGet, r.Cfg.Name+"/"+core.LockFile, limit)
		return Undecided
	case obs.LockHeld:
		return r.decide(Held)
	case obs.N == 0:
		r.Cur = Current{}
		return r.decide(Free)
	case c.Result == ReadNewer || c.Result == ReadOther:
		return r.decide(Unfit)
	case r.Cfg.Machine == core.MachineRevocation && (c.State != core.VersionHeld || r.Cfg.Now): // nothing is to be judged
		return Held
	case c.State == core.VersionValue: // its holders are judged one by one
		return Held
	case r.needsEnded():
		r.Ask(ForEnded, core.ActionGet, VersionKey(r.Prefix, c.N-1), limit)
		return Undecided
	case r.freesAtOnce():
		return r.decide(Free)
	case c.State == core.VersionHeld && c.TTL == 0, !r.ReadOnly && r.isYoung():
		return r.decide(Held)
	case c.Session != "" && !obs.session:
		r.Ask(ForSession, core.ActionGet, SessionKey(c.Session), limit)
		return Undecided
	}
	if r.isDead(r.tenureLife()) {
		return r.decide(Free)
	}
	if next := r.nextUnread(); next != nil {
		r.Ask(ForBeat, core.ActionGet, next.key, limit)
		return Undecided
	}
	r.noteUnchanged()
	if r.isDead(r.wholeTenureLife()) {
		return r.decide(Free)
	}
	if r.needsCall() {
		r.SeekCall(limit)
		return Undecided
	}
	return r.decide(Held)
}

// needsEnded reports whether the version that was ended is still to be read: to be
// judged, or to tell people where the holder of a broken lease is.
func (r *Register) needsEnded() bool {
	c := &r.Cur
	wanted := c.isEnded() && c.TTL != 0 && !c.alone || c.State == core.VersionBroken && r.ReadOnly
	return wanted && c.N > 1 && !(r.Ended.read && r.Ended.epoch == c.N-1)
}

// EndedRead takes in the version that was ended, as one more beat.
func (r *Register) EndedRead(ev *core.Event) {
	var v Version
	c, good := &r.Cur, false
	r.Ended = Beat{epoch: c.N - 1}
	r.Ended.take(r, ev, func(body []byte, b *BeatRecord) ReadResult {
		result := ParseVersion(body, c.N-1, &v)
		good = result == ReadGood && v.State == core.VersionHeld && core.HolderID(v.Tenure) == c.Tenure
		b.nonce, b.boot, b.boottime = v.Nonce, v.boot, v.boottime
		return result
	})
	r.Ended.Absent = !good
	if s := r.Observed; good && c.State == core.VersionBroken {
		s.Host, s.PID = v.host.AppendCut(s.Host, core.MaxText), v.pid.AppendCut(s.PID, core.MaxText)
		s.Remote = string(v.owner) != string(v.Tenure)
	}
}

// nextUnread is the next beat whose body the verdict needs, or nil.
func (r *Register) nextUnread() *Beat {
	obs, c := &r.Observation, &r.Cur
	of := r.beatsOf()
	lowest := of
	ttl := int64(r.ttl())
	made, sameBoot := r.boottime()
	bySameBoot := sameBoot && obs.Start >= made+ttl &&
		(!obs.session || obs.absent || obs.sessionBeat.SameBoot && obs.Start >= obs.sessionBeat.boottime+ttl)
	if bySameBoot || r.ReadOnly && sameBoot {
		lowest = c.Origin
	}
	if _, ok := r.newestStamp(); !bySameBoot && !obs.poll && ok && r.hasStoreClock() {
		return nil // the stamps of the list are enough
	}
	for i := range obs.beats {
		if b := &obs.beats[i]; !b.read && b.epoch <= of && b.epoch >= lowest {
			return b
		}
	}
	return nil
}

// decide ends the observation.
func (r *Register) decide(v Verdict) Verdict {
	if s := r.Observed; s != nil && r.Cur.N != 0 && !r.Observation.LockHeld {
		w := r.standing()
		if w.Fingerprint == 0 { // not all was read: what an earlier observation saw may still stand
			w = r.Unchanged
		}
		s.RecheckAt, s.Fingerprint, s.Since, s.Left, s.StoreClock = 0, w.Fingerprint, w.Since, 0, false
		if at := r.DeadAt(); v == Held && at != base.Unset {
			s.RecheckAt = at
		}
		r.showLeft(s)
		if v == Free && s.State == core.ObservedHeld {
			s.State = core.ObservedStale
		}
	}
	return v
}

// LockSeen judges the lock.json of an old client, which never looks at versions:
// while it holds the name by its own rules we do not claim it.
func (r *Register) LockSeen(ev *core.Event) {
	r.Observation.lock = true
	if ev.Outcome != core.OutcomeYes {
		return
	}
	var rec lockfile.Record
	lockfile.Parse(ev.Body, &rec)
	if rec.State != lockfile.Live || rec.WrittenAt+int64(rec.Expire) < r.Now.Wall {
		return
	}
	r.Observation.LockHeld = true
	if r.Observed == nil {
		r.Observed = new(core.Observed)
	}
	*r.Observed = core.Observed{}
	rec.Show(r.Observed, core.ObservedHeld)
	r.Observed.RecheckAt = r.In(core.Duration(rec.WrittenAt + int64(rec.Expire) - r.Now.Wall))
}

// AskNewest lists to find the newest version, from behind a key on.
func (r *Register) AskNewest(after string, limit core.Duration) {
	if after == "" { // what comes later stands before the first page
		r.Paged = r.Now.Mono
	}
	a := r.Ask(ForConfirm, core.ActionList, r.Prefix, limit)
	a.After, a.Count = after, ObservationEntries
}

// Newest is the newest version of a page, 0 if there is none at all. Not found: it
// stands behind its beats on a later page, after r.after.
func (r *Register) Newest(ev *core.Event) (n core.Epoch, found bool) {
	for i := range ev.Entries {
		n, beatOf, ok := ParseRegisterKey(r.Prefix, ev.Entries[i].Key)
		if ok && beatOf == nil {
			return n, true
		}
	}
	if last := len(ev.Entries) - 1; ev.More && last >= 0 {
		r.After = string(ev.Entries[last].Key)
		return 0, false
	}
	return 0, true
}

// LeavesOut reports whether a list does not show the newest version that is known: it is no
// list of this name, or somebody has emptied the prefix.
func (r *Register) LeavesOut(ev *core.Event) bool {
	if ev.Outcome == core.OutcomeUnknown || r.Doing != ForList && r.Doing != ForConfirm {
		return false
	}
	n, found := r.Newest(ev)
	return found && n < r.Cur.N
}

// NoteDenial notes of a get whether it says that the version is absent which the list of this
// observation has shown: it was removed this moment, or the store answers wrongly.
func (r *Register) NoteDenial(ev *core.Event) {
	if r.Doing == ForVersion {
		r.denied = ev.Outcome == core.OutcomeNo && !r.Observation.poll
	}
}

// Denies reports whether the answer that was just noted is such a get.
func (r *Register) Denies() bool { return r.denied && r.Doing == ForVersion }

// IsDenied reports whether an answer is a list after which the version was denied: until it is read
// such a list says nothing of the store.
func (r *Register) IsDenied() bool { return r.denied && r.Doing == ForList }

// LossBy is why a tenure is over that the version just read is not of, or ends;
// none while it goes on.
func (r *Register) LossBy(tenure core.HolderID) core.Reason {
	c := &r.Cur
	switch {
	case c.Result != ReadGood || c.Tenure != tenure:
		return core.ReasonTaken
	case c.State == core.VersionReleased:
		return core.ReasonReleased
	case c.State == core.VersionBroken:
		return core.ReasonBroken
	}
	return core.ReasonNone
}
