package core

// This file is the schema: every event, action, answer, reason and limit that
// crosses the border of the core, in the order and with the names that they have
// on the wire. schema_states.go has the names of the states, and action.go what an
// action says. The comment behind a constant is its wire name; internal/gen reads it
// and writes schema_gen.go. A name never changes, and a number is never reused.

// Instant is one reading of the host's two clocks, in nanoseconds.
type Instant struct {
	// Mono never goes back and counts time that the machine spent suspended.
	// Its zero is the host's choice, and it means nothing to other processes.
	Mono int64
	// Wall is nanoseconds since 1970 in UTC. Machines stamp records with it, and
	// compare it with stamps. It may step in either direction.
	Wall int64
}

// RequestID numbers the requests of one machine, from 1 upwards.
type RequestID uint64

// HolderID identifies one tenure: a UUIDv4 made fresh for each claim, or, in a
// record that mops wrote, mops' writer_id. It is compared as text.
type HolderID string

// MachineKind says which machine a Config makes.
type MachineKind uint8

// The machines.
const (
	MachineLease     MachineKind = 1 // lease
	MachineCompanion MachineKind = 2 // companion
	// MachineSession is one heartbeat for all that a process holds.
	MachineSession MachineKind = 3 // session
	// MachineRevocation ends another holder's strict lease, once.
	MachineRevocation MachineKind = 4 // breaker
	// MachineInspection reads a strict lease, once, and takes no part.
	MachineInspection MachineKind = 5 // observer
	// MachineStoreClockSample takes one sample of the store's clock.
	MachineStoreClockSample MachineKind = 6 // calibration
	// MachineInvocation is one call of a piece of work: its result, or a lease and
	// the work itself.
	MachineInvocation MachineKind = 7 // invocation
	// MachineSemaphore does all that one process wants of a shared semaphore.
	MachineSemaphore MachineKind = 8 // semaphore
	// MachineBuckets is Buckets behind messages. It asks no store.
	MachineBuckets MachineKind = 9 // buckets
	// MachineClient is all that one process does with one store; see package client.
	MachineClient MachineKind = 10 // client
)

// Protocol says how a lease is kept in the store.
type Protocol uint8

// The protocols.
const (
	ProtocolLastWriter Protocol = 1 // lastwriter
	ProtocolStrict     Protocol = 2 // strict
	// ProtocolBridge is a strict tenure, and under it a claim of lock.json, which mops sees.
	ProtocolBridge Protocol = 3 // bridge
)

// HasRegister reports whether a lease has versions under its name, and so a fencing token.
func (p Protocol) HasRegister() bool { return p >= ProtocolStrict }

// Renewal says whether a renewal and a release read before they write.
type Renewal uint8

// The renewals.
const (
	RenewalChecked Renewal = 1 // checked
	RenewalBlind   Renewal = 2 // blind
)

// Expiry says by what rule another holder's lease becomes free.
type Expiry uint8

// The expiry rules.
const (
	// ExpiryWall: our wall clock has passed written_at + expire_s, or the record
	// stood unchanged for expire_s on our monotonic clock.
	ExpiryWall Expiry = 1 // wall
	// ExpiryObserved: only the second part of ExpiryWall.
	ExpiryObserved Expiry = 2 // observed
	// ExpiryCalibrated, of strict: the store's clock, of which answers give a
	// lower bound, has passed the newest beat (PROTOCOL S5) + ttl; or as ExpiryObserved.
	ExpiryCalibrated Expiry = 3 // calibrated
)

// Role is the role in which a Companion writes, or the side of an Invocation.
type Role uint8

// The roles.
const (
	// RoleRemote, of an invocation: a launcher started it, and it has a companion.
	RoleRemote Role = 1 // remote
	// RoleOwner, of an invocation: it wants the result, and has a lease.
	RoleOwner Role = 2 // owner
)

// EventKind says what happened.
type EventKind uint8

// The events.
const (
	EventAcquire   EventKind = 1 // acquire
	EventAccompany EventKind = 2 // accompany
	EventRelease   EventKind = 3 // release
	EventCancel    EventKind = 4 // cancel
	EventLeave     EventKind = 5 // leave
	EventAnswer    EventKind = 6 // answer
	EventChanged   EventKind = 7 // changed
	EventWoke      EventKind = 8 // woke
	// EventBegin starts a session, a revocation, an inspection, a sample of the store's clock or an invocation.
	EventBegin EventKind = 9 // begin
	// EventCalled tells a lease on a session what its session read: another process
	// has broken the name at Epoch.
	EventCalled EventKind = 10 // called
	// EventEnded tells an invocation that the work that it launched has ended.
	EventEnded EventKind = 11 // ended
	// EventLimit sets the limit that a semaphore keeps in the store.
	EventLimit EventKind = 12 // limit
	// EventDown tells buckets that a holder is gone: all that it held is free.
	EventDown EventKind = 13 // down

	// The commands that only a client has.

	// EventClose ends all claims, then the sessions, then what is done for tidiness.
	EventClose EventKind = 14 // close
	// EventResume renews a lease that another process acquired and printed.
	EventResume EventKind = 15 // resume
	// EventPermit asks for a permit of a semaphore.
	EventPermit EventKind = 16 // permit
	// EventInvoke asks for the result of a piece of work, or for the work itself.
	EventInvoke EventKind = 17 // invoke
	// EventRemote does a piece of work for an orchestrator.
	EventRemote EventKind = 18 // remote
	// EventLook reads a name once, for people; EventWatch at every change.
	EventLook  EventKind = 19 // look
	EventWatch EventKind = 20 // watch
	// EventBreak ends another holder's lease, once.
	EventBreak EventKind = 21 // break
)

// Outcome is the store's answer to a request. There are only these three.
type Outcome uint8

// The outcomes.
const (
	OutcomeYes     Outcome = 1 // yes
	OutcomeNo      Outcome = 2 // no
	OutcomeUnknown Outcome = 3 // unknown
)

// Class says why an outcome is unknown.
type Class uint8

// The classes.
const (
	ClassNone         Class = 0 // none
	ClassOther        Class = 1 // other
	ClassUnreachable  Class = 2 // unreachable
	ClassThrottled    Class = 3 // throttled
	ClassUnauthorized Class = 4 // unauthorized
	ClassNoSuchStore  Class = 5 // no_such_store
	ClassReadOnly     Class = 6 // read_only
	ClassFull         Class = 7 // full
	// ClassUnsupported: the store says that it has no such request. Only a client is told.
	ClassUnsupported Class = 8 // unsupported
)

// Permanent reports whether waiting cannot help: a person must change the
// credentials, the store's name or its disk.
func (c Class) Permanent() bool { return c >= ClassUnauthorized && c <= ClassFull }

// Event is what the host tells a machine. Fields beyond Kind are zero unless
// the kind below names them.
type Event struct {
	Kind EventKind
	// Wait, of acquire: how long to wait for the lease. 0 tries once, Forever
	// waits until it is held or cancelled. Of begin, to an invocation: the same for
	// the lease, or for the result of another.
	Wait Duration
	// Brief, of release: the process is about to end, so the machine checks a renewal
	// of unknown outcome only once, a second later.
	Brief bool
	// Request, of answer: the id of the request that is answered.
	Request RequestID
	// Outcome, of answer. To a get: yes with Body, no when absent. To a put: yes; to one
	// that overwrites also no.
	// Of ended: yes, or no if the work failed.
	Outcome Outcome
	// Result, of ended: the host has a result of the work to be stored.
	Result bool
	// Class, of answer: why Outcome is unknown.
	Class Class
	// Stamp, of answer: the store's modification time of the object in
	// nanoseconds since 1970, or 0 if the store gave none.
	Stamp int64
	// Entries, of answer to a list: the objects, in byte order of their keys.
	// More: others may follow them.
	Entries []Entry
	More    bool
	// Body, of answer: the object, or its first MaxRecord+1 bytes.
	Body []byte
	// Epoch, of called: the version that breaks the name.
	Epoch Epoch

	// Permit, of acquire, release, cancel and limit, to a semaphore: the host's number
	// for this permit or limit, from 1 and not used before. Release and cancel without
	// a number mean all permits.
	Permit uint64
	// Capacity and Width, of acquire: the caller's view, Capacity permits in each of
	// Width buckets. Weight is how many permits an acquire takes, or a release to
	// buckets gives back; 0 means one.
	Capacity, Width, Weight uint32
	// Spare, of acquire, to a semaphore: so many permits must stay free for callers
	// that spare fewer.
	Spare uint32
	// StoreLimit, of limit: no view counts for more than this. 0 removes the limit.
	StoreLimit uint64
	// Label, of acquire, to a semaphore, is shown to people: at most MaxLabel printable
	// bytes.
	Label []byte
	// Holder, of acquire, release and down, to buckets: whose permits they are.
	Holder []byte

	// Any event to a strict machine has what the host knows by now:

	// Session is the id of the process's session and SessionUntil the Mono until
	// which it is in force, for machines with Config.OnSession. It is "" while there
	// is none. A new id says that the session before it is dead; SessionEnd then
	// says why: unreachable or expired.
	Session      []byte
	SessionUntil int64
	SessionEnd   Reason
	// StoreStamp and StoreAt are the newest sample of the store's clock: at the
	// Mono StoreAt, after the sample was asked for, that clock showed StoreStamp or
	// later. 0 and 0 mean none.
	StoreStamp int64
	StoreAt    int64

	// Only a client is told the rest.

	// Claim, of every command but close: the host's number for what it asks about, from 1
	// and greater than all before it where the command begins something.
	Claim uint64
	// Key, of changed: the key that was watched. Of acquire, permit, invoke, watch: none;
	// their Body has what the host remembers under the name.
	Key []byte
	// RetryAfter, of answer: how long the store asks to be left alone.
	RetryAfter Duration
	// Terms, of a command that begins something: the name and what is asked of it. Their
	// message is that of a Config with nothing else.
	Terms *Terms
}

// ActionKind says what the host must do, or what the machine tells it.
type ActionKind uint8

// The actions: requests, then notices, then the wake.
const (
	ActionGet ActionKind = 1 // get
	ActionPut ActionKind = 2 // put
	// ActionCreate puts the object if there is none: yes, or no if there is one.
	ActionCreate ActionKind = 3 // create
	ActionExists ActionKind = 4 // exists
	// ActionList asks for the objects whose keys begin with Key and come after After.
	ActionList   ActionKind = 5 // list
	ActionDelete ActionKind = 6 // delete
	// ActionCreateResult and ActionPutResult are a create and a put of the work's
	// result, which the host has: its bytes never pass through the core.
	ActionCreateResult ActionKind = 7 // create_result
	ActionPutResult    ActionKind = 8 // put_result

	ActionWaiting        ActionKind = 16 // waiting
	ActionHeld           ActionKind = 17 // held
	ActionRenewed        ActionKind = 18 // renewed
	ActionRefused        ActionKind = 19 // refused
	ActionLost           ActionKind = 20 // lost
	ActionReleased       ActionKind = 21 // released
	ActionContactLost    ActionKind = 22 // contact_lost
	ActionCannotMaintain ActionKind = 23 // cannot_maintain
	ActionLeft           ActionKind = 24 // left
	ActionWarned         ActionKind = 25 // warned
	ActionDeadline       ActionKind = 26 // deadline
	// ActionAdopted: another owner of the tenure made a version; its Epoch is the
	// lease's from now on.
	ActionAdopted ActionKind = 27 // adopted
	// ActionCalled, of a session: another process broke the name Key at Epoch. The
	// host must tell the lease of that name on this session at once.
	ActionCalled ActionKind = 28 // called
	// ActionSampleStoreClock: a fresh sample of the store's clock would shorten a wait.
	ActionSampleStoreClock ActionKind = 29 // calibrate
	// ActionStoreClockSampled, of a MachineStoreClockSample: what the store's clock showed.
	ActionStoreClockSampled ActionKind = 30 // calibrated
	// ActionBroken, of a revocation: Epoch is the version that says so.
	ActionBroken ActionKind = 31 // broken

	ActionWake ActionKind = 32 // wake

	// ActionSeen, of an inspection: what it read.
	ActionSeen ActionKind = 33 // seen

	// ActionLaunch, of an invocation: begin the work now, and send ended when it has ended.
	ActionLaunch ActionKind = 34 // launch
	// ActionFound, of an invocation: the result is at Key, and stays there.
	ActionFound ActionKind = 35 // found
	// ActionAbsent, of an invocation: the work has ended and there is no result.
	ActionAbsent ActionKind = 36 // absent

	// ActionLimited, of a semaphore: the limit is in the store.
	ActionLimited ActionKind = 37 // limited
	// ActionGranted, of buckets: the holder has the permits.
	ActionGranted ActionKind = 38 // granted
	// ActionCounted, of buckets, ends each step: the counters after that step.
	ActionCounted ActionKind = 39 // counted

	// The actions that only a client has.

	// ActionMore: step again with woke before anything else.
	ActionMore ActionKind = 40 // more
	// ActionAbandon: nobody wants the answer to Request any more. It must be given all the same.
	ActionAbandon ActionKind = 41 // abandon
	// ActionWatch and ActionUnwatch: tell of changes of Key, and no longer.
	ActionWatch   ActionKind = 42 // watch
	ActionUnwatch ActionKind = 43 // unwatch
	// ActionRemember: keep Body under Key, a name, for the next process of this boot.
	// ActionForget: no longer.
	ActionRemember ActionKind = 44 // remember
	ActionForget   ActionKind = 45 // forget
	// ActionOutage: several reads in a row have failed, or several writes; ActionRecovered:
	// neither do any more.
	ActionOutage    ActionKind = 46 // outage
	ActionRecovered ActionKind = 47 // recovered
	// ActionTried: it was found out whether the store honours create-if-absent: Reason is
	// none or no_create, and Body what was seen, as text.
	ActionTried ActionKind = 48 // tried
	// ActionClosed: nothing is left to be done.
	ActionClosed ActionKind = 49 // closed
)

// IsRequest reports whether the host must ask the store and send an answer.
func (x ActionKind) IsRequest() bool { return x >= ActionGet && x <= ActionPutResult }

// Reason says why a notice was given.
type Reason uint8

// The reasons. The first five say why a lease was lost; every binding, the command
// line and the host spell them so.
const (
	ReasonNone        Reason = 0 // none
	ReasonTaken       Reason = 1 // taken
	ReasonBroken      Reason = 2 // broken
	ReasonReleased    Reason = 3 // released
	ReasonUnreachable Reason = 4 // unreachable
	ReasonExpired     Reason = 5 // expired

	// Why an acquire was refused (unreachable is also such a reason).
	// ReasonHeld: another holds it; to a revocation, another than the one to be broken.
	ReasonHeld      Reason = 16 // held
	ReasonRaced     Reason = 17 // raced
	ReasonCancelled Reason = 18 // cancelled
	ReasonUnusable  Reason = 19 // unusable
	ReasonLimit     Reason = 20 // limit
	// ReasonNewer: the record was written by a newer mopslock.
	ReasonNewer Reason = 21 // newer
	// ReasonKind: the name is in use for another kind of register.
	ReasonKind Reason = 22 // kind
	// ReasonVacant: there is nothing to break.
	ReasonVacant Reason = 23 // vacant
	// ReasonFull: the caller's view has no room for the weight.
	ReasonFull Reason = 24 // full
	// ReasonTooHeavy: the weight is more than capacity x width.
	ReasonTooHeavy Reason = 25 // too_heavy
	// ReasonCrowded: the record has no room for another holder.
	ReasonCrowded Reason = 26 // crowded
	// ReasonOutOfBuckets: a release of more than the holder holds.
	ReasonOutOfBuckets Reason = 27 // out_of_buckets

	// Why a companion cannot keep the lease alive.
	ReasonAbsent        Reason = 32 // absent
	ReasonNoExpiry      Reason = 33 // no_expiry
	ReasonNeverAcquired Reason = 34 // never_acquired
	ReasonUnreadable    Reason = 35 // unreadable

	// ReasonFailed, of absent: the work failed. The other reasons of absent are none
	// (the launcher ended well, and no companion goes on with the work), the reasons of
	// a loss, and unreachable or unusable: the store did not take the result.
	ReasonFailed Reason = 40 // failed
	// ReasonNoCreate, of refused: strict was asked for, and the store does not honour
	// create-if-absent; of warned: auto is lastwriter therefore.
	ReasonNoCreate Reason = 41 // no_create
	// ReasonNoSession, of refused: the store does not take a session's beat.
	ReasonNoSession Reason = 42 // no_session
	// ReasonTerms, of refused: the protocol by which the name is kept does not have what
	// was asked for; Body says what, as text.
	ReasonTerms Reason = 43 // terms

	// What a warning is about.
	ReasonTTLDiffers   Reason = 48 // ttl_differs
	ReasonCorruptTaken Reason = 49 // corrupt_taken
	// ReasonEmptied: somebody removed from the store what keeps a held name, or a session.
	ReasonEmptied Reason = 50 // emptied
	// ReasonMixed: an old client holds lock.json beside a strict lease.
	ReasonMixed Reason = 51 // mixed
)

// Origin says from whom a lease came that is held now.
type Origin uint8

// The origins.
const (
	// OriginFree: nobody held the name.
	OriginFree Origin = 1 // free
	// OriginHere: this process released it, OriginElsewhere another did.
	OriginHere      Origin = 2 // here
	OriginElsewhere Origin = 3 // elsewhere
	// OriginDead: its holder had released nothing.
	OriginDead Origin = 4 // dead
)

// Purpose says what a client's request is for, where a host tells people of that.
type Purpose uint8

// The purposes.
const (
	// PurposeRenewal: it keeps a claim or a session that is held.
	PurposeRenewal Purpose = 1 // renewal
	// PurposePoll: it looks again for who waits, watches, or awaits the end of work.
	PurposePoll Purpose = 2 // poll
	// PurposeCleanup: it removes what nobody needs, and nothing depends on it.
	PurposeCleanup Purpose = 3 // cleanup
	// PurposeProbe: it finds out what the store can do, or what its clock shows.
	PurposeProbe Purpose = 4 // probe
)

// Observation is the state of a lease as an inspection shows it.
type Observation uint8

// The observations.
const (
	ObservedVacant   Observation = 1 // vacant
	ObservedHeld     Observation = 2 // held
	ObservedStale    Observation = 3 // stale
	ObservedReleased Observation = 4 // released
	ObservedBroken   Observation = 5 // broken
	ObservedCorrupt  Observation = 6 // corrupt
)

// ErrorCode says which part of the contract a host broke.
type ErrorCode uint8

// The error codes. Each leaves the machine as it was.
const (
	ErrorConfig  ErrorCode = 1 // config
	ErrorClock   ErrorCode = 2 // clock
	ErrorEvent   ErrorCode = 3 // event
	ErrorRequest ErrorCode = 4 // request
	ErrorMessage ErrorCode = 5 // message
	ErrorHandle  ErrorCode = 6 // handle
	// ErrorTooHeavy: nothing is wrong with a permit but that its weight, and what it spares, are
	// more than its view, so that there is never room.
	ErrorTooHeavy ErrorCode = 7 // too_heavy
)
