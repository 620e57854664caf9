// Package register is one name under strict: the chain of its versions and their beats,
// the keys and records that these are kept in, the observation that finds the newest
// version, and the rule by which a tenure or a session is dead. It claims nothing and holds
// nothing: the machines of packages strict and semaphore stand on it.
package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Register is one name under strict as a machine knows it: the newest version
// that it has read, when that was confirmed as the newest, and what judging takes.
type Register struct {
	base.Machine
	Prefix        string // of every key below the name
	ParticipantID string // as whom we write
	ReadOnly      bool   // it observes for people: nothing is written

	Cur               Current
	NewestConfirmedAt int64 // Mono: sent of the latest request that confirmed cur.n as the newest, or unset

	Observation Observation
	denied      bool           // the latest read of a version that a list has shown says that it is absent
	Ended       Beat           // the version below cur, which cur has ended, as a beat
	Unchanged   base.Unchanged // which beats stand unchanged, by the observed rule
	// EndUnchanged is the same of a release or a break.
	EndUnchanged base.Unchanged
	Call         CallSeen         // the call for cur, once it was found
	Sample       StoreClockSample // of the store's clock, for the observation at hand
	Fresh        StoreClockSample // what this observation's own answers add, for later ones
	ToldAt       int64            // Mono of the newest sample that the host has told, 0 for none
	Session      SessionView
	Doing        Purpose  // of the request in flight
	After        string   // the last key of a list that is read on
	Paged        int64    // Mono: sent of that list's first page
	Value        *Value   // of a semaphore: what cur says
	Garbage      *Garbage // superseded versions that are being collected, or nil
	Above        string   // key of the version above aboveOf, which is asked for again and again
	AboveOf      core.Epoch

	Body     []byte         `state:"scratch: it is written anew before it is sent"`
	Observed *core.Observed `state:"exact: what a Step reads of it follows from what was read"` // nil until something was seen
}

// Current is a version as it was read, or made; n 0 is that there is none.
type Current struct {
	N, Origin   core.Epoch
	State       core.VersionState // 0: it cannot be read
	Result      ReadResult
	Tenure      core.HolderID
	Owners      string // as it stands between the brackets
	Session     string
	Label       string
	ext         string        // of a lease, as it stands
	TTL, Margin core.Duration // ttl 0 is until released or broken
	alone       bool
	SameBoot    bool   // it was emitted by our clock,
	Boottime    int64  // at this Mono
	Fingerprint uint64 // of its nonce, or of what cannot be read
	Stamp       int64  // the store's; 0 is not known
}

// Purpose says what the request in flight is for.
type Purpose uint8

const (
	ForNothing      Purpose = iota
	ForList                 // newest version and its beats
	ForVersion              // body of the newest
	ForNext                 // is there a newer one
	ForEnded                // the version that it has ended
	ForSession              // its session's beat
	ForBeat                 // body of a beat
	ForLock                 // the name's lock.json
	ForCalls                // calls to its session
	ForCall                 // one of them
	ForNewCall              // ours
	ForSelf                 // is the version that we stand on still there
	ForBeating              // our own beat
	ForCreate               // a version of ours
	ForReadBack             // is the version there ours
	ForConfirm              // is our version, won late, the newest
	ForHint                 // is there a newer one, as the host was told
	ForGarbage              // superseded versions
	ForGarbageAge           // how old they are
	ForDelete               // one of them
	ForGarbageClock         // what the store's clock shows
)

// SessionView is the process's session as the latest event told of it.
type SessionView struct {
	ID    string
	Until int64 // Mono
	End   core.Reason
}

// CallSeen is the call that tells a session that its lease at epoch n was broken.
type CallSeen struct {
	N     core.Epoch
	stamp int64 // 0: not known yet
	// Those before K next were read by earlier observations of version readOf, and are
	// of others.
	readOf core.Epoch
	next   uint64
}

// New makes what all strict machines of a name are built on.
func New(cfg core.Config) (Register, error) {
	m, err := base.New(cfg)
	if err != nil {
		return Register{}, err
	}
	r := Register{Machine: m, Prefix: RegisterPrefix(cfg.Name), NewestConfirmedAt: base.Unset}
	r.ParticipantID = m.Cfg.Owner
	if r.ParticipantID == "" {
		r.ParticipantID = string(base.SeedUUID(cfg.Seed))
	}
	r.Unchanged = base.Unchanged{Fingerprint: m.Cfg.SeenFingerprint, Since: m.Cfg.SeenSince}
	r.EndUnchanged = r.Unchanged // the fingerprint says of which it is
	return r, nil
}

// ApplyHostState takes in what every event to a strict machine may carry.
func (r *Register) ApplyHostState(ev *core.Event) {
	if r.Cfg.OnSession {
		if string(ev.Session) != r.Session.ID {
			r.Session.ID = string(ev.Session)
		}
		r.Session.Until, r.Session.End = ev.SessionUntil, ev.SessionEnd
	}
	if ev.StoreAt != 0 && ev.StoreAt <= r.Now.Mono {
		r.Fresh = better(r.Fresh, StoreClockSample{ev.StoreStamp, ev.StoreAt})
		r.ToldAt = ev.StoreAt
	}
}

// Ask sends a request for a purpose.
func (r *Register) Ask(why Purpose, verb core.ActionKind, key string, limit core.Duration) *core.Action {
	r.Doing, r.Key = why, key
	return r.Send(verb, limit)
}

// KeyAbove is the key of the version above cur.
func (r *Register) KeyAbove() string {
	if r.Above == "" || r.AboveOf != r.Cur.N {
		r.Above, r.AboveOf = VersionKey(r.Prefix, r.Cur.N+1), r.Cur.N
	}
	return r.Above
}

// Write sends a put or a create of the record that stands in body.
func (r *Register) Write(why Purpose, verb core.ActionKind, key string, limit core.Duration) *core.Action {
	a := r.Ask(why, verb, key, limit)
	a.Type, a.Body = core.RegisterType, r.Body
	return a
}

// Create sends one version; what became of it is told by its nonce.
func (r *Register) Create(v *OwnVersion, limit core.Duration) {
	r.Body = AppendVersion(r.Body[:0], &r.Machine, v)
	r.CreateBody(v, limit)
}

// CreateBody sends the version whose record stands in body.
func (r *Register) CreateBody(v *OwnVersion, limit core.Duration) {
	r.Write(ForCreate, core.ActionCreate, VersionKey(r.Prefix, v.N), limit)
}

// Successor is the version that follows cur with all that a version copies.
func (r *Register) Successor(state core.VersionState) OwnVersion {
	c := &r.Cur
	return OwnVersion{
		N: c.N + 1, Origin: c.Origin, State: state, Tenure: c.Tenure, Owner: r.ParticipantID, Owners: c.Owners,
		Nonce: NewNonce(&r.RNG), TTL: c.TTL, Margin: c.Margin, Session: c.Session, Label: c.Label,
		Ext: c.ext,
	}
}

// SetCurrent notes that a version of ours is in the store.
func (r *Register) SetCurrent(v *OwnVersion, sent int64) {
	r.Cur = Current{
		N: v.N, Origin: v.Origin, State: v.State, Tenure: v.Tenure, Owners: v.Owners, Session: v.Session, Label: v.Label,
		ext: v.Ext, TTL: v.TTL, Margin: v.Margin, alone: v.Alone, Boottime: sent,
		Fingerprint: v.Nonce.A,
	}
	r.NewestConfirmedAt = sent
}

// read takes in the body of version n.
func (r *Register) ReadVersion(body []byte, n core.Epoch, stamp int64) {
	var v Version
	c := Current{N: n, Stamp: stamp}
	c.Result = ParseVersion(body, n, &v)
	switch {
	case r.ReadOnly && v.semaphore && c.Result == ReadGood:
		r.Value = &Value{} // a reader takes what there is
	case !r.ReadOnly && (v.semaphore && r.Value == nil || v.Lease && r.Value != nil):
		c.Result = ReadOther
	}
	c.Fingerprint = base.Fingerprint(body)
	if c.Result == ReadGood {
		c.Origin, c.State, c.Tenure = v.origin, v.State, core.HolderID(v.Tenure)
		c.Owners, c.Session, c.alone = string(v.Owners), string(v.session), v.alone
		c.Label = string(v.label.AppendCut(nil, core.MaxLabel))
		c.TTL, c.Margin, c.Fingerprint = v.ttl, v.margin, base.Fingerprint(v.Nonce)
		c.Boottime, c.SameBoot = r.emitted(v.boot, v.boottime, stamp)
		if v.semaphore {
			r.Value.Take(&v)
		} else {
			c.ext = string(v.ext)
		}
	}
	r.Cur, r.Ended = c, Beat{}
	r.see(&v)
	if r.ReadOnly && c.State == core.VersionValue {
		r.Observed.Permits = append(r.Observed.Permits, v.permits...)
	}
}

// emitted is when a beat was emitted, on this boot's clock; not ok if that names another
// boot, or cannot be.
func (r *Register) emitted(boot []byte, boottime, stamp int64) (at int64, ok bool) {
	if r.Cfg.Boot == "" || string(boot) != r.Cfg.Boot {
		return boottime, false
	}
	return r.checkedBoottime(boottime, stamp)
}

// IsNewestConfirmed reports whether a request that was sent at the Mono sent and
// answered now, and said that there is nothing above cur, may be believed: within the
// window no process can have collected what was made above it meanwhile.
//
//	us       exists v(n+1) . . . . . . . . . . . . . . . . . . . . . no
//	others        v(n+1) v(n+2) v(n+3) v(n+4)   ten minutes   v(n+1) collected
func (r *Register) IsNewestConfirmed(sent int64) bool {
	return r.IsConfirmedLately() && sent >= r.NewestConfirmedAt
}

// untilDead is the ttl of cur wherever a rule adds one.
func (c *Current) untilDead() core.Duration {
	if c.TTL == 0 {
		return core.EndlessGrace
	}
	return c.TTL
}
