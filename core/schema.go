package core

// This file is the schema: every event, action, answer, reason and limit that
// crosses the border of the core, in the order and with the names that they have
// on the wire; schema_states.go has the names of the states. The comment behind a
// constant is its wire name; internal/gen reads it and writes schema_gen.go. Names
// are for ever and numbers are never reused.

// Instant is one reading of the host's two clocks, in nanoseconds.
type Instant struct {
	// Mono never goes back and counts time that the machine spent suspended.
	// Its zero is the host's choice, and it means nothing to other processes.
	Mono int64
	// Wall is nanoseconds since 1970 in UTC. It stamps and reads lock.json,
	// and may step in either direction.
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
	// MachineBreaker ends somebody's strict lease, once.
	MachineBreaker MachineKind = 4 // breaker
	// MachineObserver looks at a strict lease, once, and takes no part.
	MachineObserver MachineKind = 5 // observer
	// MachineCalibration takes one sample of the store's clock.
	MachineCalibration MachineKind = 6 // calibration
	// MachineInvocation is one call of a piece of work: its result, or a lease and
	// the work itself.
	MachineInvocation MachineKind = 7 // invocation
	// MachineSemaphore is all that one process does with a shared semaphore.
	MachineSemaphore MachineKind = 8 // semaphore
	// MachineBuckets is Buckets behind messages: it asks no store.
	MachineBuckets MachineKind = 9 // buckets
)

// Protocol says how a lease is kept in the store.
type Protocol uint8

// The protocols.
const (
	ProtocolLastWriter Protocol = 1 // lastwriter
	ProtocolStrict     Protocol = 2 // strict
)

// Renewal says whether a renewal and a release read before they write.
type Renewal uint8

// The renewals.
const (
	RenewalChecked Renewal = 1 // checked
	RenewalBlind   Renewal = 2 // blind
)

// Expiry says what frees another's lease.
type Expiry uint8

// The expiry rules.
const (
	// ExpiryWall: our wall clock has passed written_at + expire_s, or the record
	// stood unchanged for expire_s on our monotonic clock.
	ExpiryWall Expiry = 1 // wall
	// ExpiryObserved: only the second of these.
	ExpiryObserved Expiry = 2 // observed
	// ExpiryCalibrated, of strict: the store's clock, of which answers give a
	// lower bound, has passed the newest sign of life + ttl; or it was observed.
	ExpiryCalibrated Expiry = 3 // calibrated
)

// Role says as whom a Companion writes, and which side of an Invocation it is.
type Role uint8

// The roles.
const (
	// RoleRemote, of an invocation: what a launcher started, with a companion.
	RoleRemote Role = 1 // remote
	// RoleOwner, of an invocation: who wants the result, with a lease.
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
	// EventBegin starts a session, a breaker, an observer, a calibration or an invocation.
	EventBegin EventKind = 9 // begin
	// EventCalled tells a lease on a session what its session read: somebody has
	// broken the name at Epoch.
	EventCalled EventKind = 10 // called
	// EventEnded tells an invocation that the work that it had launched has ended.
	EventEnded EventKind = 11 // ended
	// EventLimit sets the limit that a semaphore keeps in the store.
	EventLimit EventKind = 12 // limit
	// EventDown tells buckets that a holder is gone, with all that it held.
	EventDown EventKind = 13 // down
)

// Outcome is what the store said to a request. There is no fourth.
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
)

// Permanent reports whether waiting cannot mend it: somebody must change
// credentials, the store's name or its disk.
func (c Class) Permanent() bool { return c >= ClassUnauthorized }

// Event is what the host tells a machine. Fields beyond Kind are zero unless
// the kind below names them.
type Event struct {
	Kind EventKind
	// Wait, of acquire: how long to wait for the lease; 0 tries once, Forever
	// waits until it is held or cancelled. Of begin, to an invocation: the same for
	// the result of another or the lease.
	Wait Duration
	// Brief, of release: the process is about to end, so a renewal of unknown
	// outcome is looked after once, a second later, and no longer.
	Brief bool
	// Request, of answer: the id of the request that is answered.
	Request RequestID
	// Outcome, of answer. To a get: yes with Body, no when absent. To a put: yes.
	// Of ended: yes, or no if the work failed.
	Outcome Outcome
	// Result, of ended: the host has what the work came to, to be stored.
	Result bool
	// Class, of answer: why Outcome is unknown.
	Class Class
	// Stamp, of answer: the store's modification time of the object in
	// nanoseconds since 1970, or 0 where the store told none.
	Stamp int64
	// Entries, of answer to a list: the objects, in byte order of their keys, and
	// More: there may be others behind them.
	Entries []Entry
	More    bool
	// Body, of answer: the object, or its first MaxRecord+1 bytes.
	Body []byte
	// Epoch, of called: the version that breaks the name.
	Epoch Epoch

	// Permit, of acquire, release, cancel and limit, to a semaphore: the host's number
	// for this permit or limit, from 1 and not used before. Release and cancel without
	// one are of all permits.
	Permit uint64
	// Capacity and Width, of acquire: the caller's view, Capacity permits in each of
	// Width buckets. Weight is how many permits this takes, 0 is one; also of
	// release, to buckets.
	Capacity, Width, Weight uint32
	// Spare, of acquire, to a semaphore: so many permits are left to those who spare
	// fewer.
	Spare uint32
	// StoreLimit, of limit: nobody's view counts for more. 0 removes it.
	StoreLimit uint64
	// Label, of acquire, to a semaphore, is shown to people: at most MaxLabel printable
	// bytes.
	Label []byte
	// Holder, of acquire, release and down, to buckets: whose permits they are.
	Holder []byte

	// What the host knows by now, of any event to a strict machine.

	// Session is the id of the process's session and SessionUntil the Mono until
	// which it is in force, for machines with Config.OnSession: "" while there is
	// none. Another id than before says that the one before is dead, and then
	// SessionEnd is why: unreachable or expired.
	Session      []byte
	SessionUntil int64
	SessionEnd   Reason
	// StoreStamp and StoreAt are the newest sample of the store's clock: at the
	// Mono StoreAt, and not before it was asked, that clock showed StoreStamp or
	// later. 0 and 0 is none.
	StoreStamp int64
	StoreAt    int64
}

// Epoch numbers the versions of a name under strict, from 1 upwards. It never
// goes back. The first epoch of a tenure is its fencing token.
type Epoch uint64

// Entry is one object of a list.
type Entry struct {
	Key   []byte // whole, as in a request
	Stamp int64  // the store's modification time, ns since 1970
}

// ActionKind says what the host must do, or what it is told.
type ActionKind uint8

// The actions: requests, then notices, then the wake.
const (
	ActionGet ActionKind = 1 // get
	ActionPut ActionKind = 2 // put
	// ActionCreate is put if there is none: yes, or no if there is one.
	ActionCreate ActionKind = 3 // create
	ActionExists ActionKind = 4 // exists
	// ActionList asks for the objects whose keys begin with Key and come after After.
	ActionList   ActionKind = 5 // list
	ActionDelete ActionKind = 6 // delete
	// ActionCreateResult and ActionPutResult are a create and a put of the result
	// that the host has of the work: its bytes never pass through the core.
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
	// ActionCalled, of a session: somebody broke the name Key at Epoch. The lease
	// of that name on this session must be told at once.
	ActionCalled ActionKind = 28 // called
	// ActionCalibrate: a fresh sample of the store's clock would shorten a wait.
	ActionCalibrate ActionKind = 29 // calibrate
	// ActionCalibrated, of a calibration: a sample of the store's clock.
	ActionCalibrated ActionKind = 30 // calibrated
	// ActionBroken, of a breaker: Epoch is the version that says so.
	ActionBroken ActionKind = 31 // broken

	ActionWake ActionKind = 32 // wake

	// ActionSeen, of an observer: what there is.
	ActionSeen ActionKind = 33 // seen

	// ActionLaunch, of an invocation: begin the work now, and tell when it has ended.
	ActionLaunch ActionKind = 34 // launch
	// ActionFound, of an invocation: the result is at Key, and stays there.
	ActionFound ActionKind = 35 // found
	// ActionAbsent, of an invocation: the work has ended and there is no result.
	ActionAbsent ActionKind = 36 // absent

	// ActionLimited, of a semaphore: the limit is in the store.
	ActionLimited ActionKind = 37 // limited
	// ActionGranted, of buckets: the permits are the holder's.
	ActionGranted ActionKind = 38 // granted
	// ActionCounted, of buckets, ends each step: the counters after it.
	ActionCounted ActionKind = 39 // counted
)

// IsRequest reports whether the host must ask the store, and answer.
func (x ActionKind) IsRequest() bool { return x >= ActionGet && x <= ActionPutResult }

// Reason says why a notice was given.
type Reason uint8

// The reasons. The first five are why a lease was lost, and are spelt so
// everywhere.
const (
	ReasonNone        Reason = 0 // none
	ReasonTaken       Reason = 1 // taken
	ReasonBroken      Reason = 2 // broken
	ReasonReleased    Reason = 3 // released
	ReasonUnreachable Reason = 4 // unreachable
	ReasonExpired     Reason = 5 // expired

	// Why an acquire was refused (unreachable is one of them too).
	// ReasonHeld: somebody else holds it; of a breaker, than the one it was to break.
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
	// ReasonFull: all permits of the caller's view are held.
	ReasonFull Reason = 24 // full
	// ReasonTooHeavy: the weight is more than capacity x width.
	ReasonTooHeavy Reason = 25 // too_heavy
	// ReasonCrowded: the record has no room for another holder.
	ReasonCrowded Reason = 26 // crowded
	// ReasonOutOfBuckets: a release of what the holder does not hold.
	ReasonOutOfBuckets Reason = 27 // out_of_buckets

	// Why a companion cannot maintain.
	ReasonAbsent        Reason = 32 // absent
	ReasonNoExpiry      Reason = 33 // no_expiry
	ReasonNeverAcquired Reason = 34 // never_acquired
	ReasonUnreadable    Reason = 35 // unreadable

	// ReasonFailed, of absent: the work failed. The others are none (it ended well,
	// and nobody goes on with it), lost reasons, and unreachable or unusable: the
	// store did not take its result.
	ReasonFailed Reason = 40 // failed

	// What a warning is about.
	ReasonTTLDiffers   Reason = 48 // ttl_differs
	ReasonCorruptTaken Reason = 49 // corrupt_taken
	// ReasonEmptied: the versions of a held name were removed from the store.
	ReasonEmptied Reason = 50 // emptied
	// ReasonMixed: an old client holds lock.json beside a strict lease.
	ReasonMixed Reason = 51 // mixed
)

// Action is one thing that the host is asked to do or is told. Fields beyond
// Kind are zero unless the kind below names them. Key, Body and Sight belong
// to the machine and stand until its next Step.
type Action struct {
	Kind ActionKind
	// Request, of every request: to be given back with the answer.
	Request RequestID
	// Key, of every request (of list, the prefix), of warned{corrupt_taken}, of
	// found, and of called, where it is the name.
	Key string
	// After, of list: only keys behind it; "" is all.
	After string
	// Count, of list: the most entries that are wanted.
	Count uint64
	// Limit, of every request: after so long the host gives the request up and
	// answers unknown; a write that has not begun to apply by then must not apply.
	Limit Duration
	// Type, of put and create, of a result too: the content type.
	Type string
	// Body, of put and create.
	Body []byte
	// Reason, of refused, lost, cannot_maintain, absent and warned.
	Reason Reason
	// Class, of refused{unreachable, unusable, limit}, cannot_maintain{unreadable} and
	// absent{unreachable, unusable}: what the store said last.
	Class Class
	// At, Mono: of wake, when to send woke; of held, renewed and deadline (a
	// shorter TTL was seen on the name), the deadline after which the lease must
	// not be relied on, Never for a lease without a TTL; of released, when the version of Epoch
	// was sent, if whoever comes next may take the name at once, or 0; of
	// calibrated, when the sample was taken.
	At int64
	// Wall, of held: the tenure's first_acquired_at, nanoseconds since 1970; of
	// calibrated: what the store's clock showed.
	Wall int64
	// Epoch, of held, adopted, released, called and broken.
	Epoch Epoch
	// Token, of held: the fencing token.
	Token Epoch
	// Holder, of held: the tenure, or the session's id.
	Holder HolderID
	// Session, of held: the lease stands on this session, and may be relied on as
	// long as it is in force, whatever At says. "" is none.
	Session string
	// Sight, of waiting, refused, lost, warned and seen: what was last read, or nil.
	Sight *Sighting
	// Permit, of waiting, held, refused, lost, released and limited, of a semaphore:
	// the host's number for what this is about.
	Permit uint64
	// Total, of held and of granted: the permits held on the name, with this; of
	// counted: those held. Body, of counted, has the first MaxCounters counters as
	// text, [4,1], and Count says how many there are.
	Total uint64
}

// Observation is what somebody who does not take part sees of a lease.
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

// Sighting is a lease as one read of its record shows it. Instants are wall
// clock, in nanoseconds since 1970, by the clock of whoever wrote the record;
// 0 is "not said". Holder, Host and PID are somebody else's text, cut to
// MaxHolder and MaxText bytes: escape them before they are shown.
type Sighting struct {
	State      Observation
	Holder     []byte
	Host       []byte // of whoever of the tenure wrote last; of a broken one empty where that was not read
	PID        []byte
	Remote     bool // the last write was a companion's
	TTL        Duration
	WrittenAt  int64
	AcquiredAt int64
	ReleasedAt int64
	// LookAt is the earliest Mono at which what was seen can be dead, or 0.
	LookAt int64

	// Under strict; Epoch is 0 otherwise, or where there is no version.
	Epoch Epoch
	Token Epoch
	// Companions are the ids of the tenure's owners but the first, with commas.
	Companions []byte
	Label      []byte
	Session    []byte
	Why        []byte // it was broken
	By         []byte // who broke it: pid@host
	// Left is what is left of the TTL by the store's clock or the boot's, 0 where
	// neither tells; StoreClock says that it was the store's.
	Left       Duration
	StoreClock bool
	// Print is a fingerprint of all signs of life that were read, and Since the
	// Mono since when they stood unchanged: what Config.SeenPrint and SeenSince of
	// a later machine of the same boot go on from.
	Print uint64
	Since int64

	// Of a semaphore; Capacity is 0 otherwise. Capacity and Width are those of the
	// last commit, Held is what all permits weigh together, Limit is that kept in the
	// store or 0.
	Capacity, Width uint32
	Held, Limit     uint64
	// Permits are the holders as they stand in the record, between the brackets; see
	// EachPermit. Dead are the sessions among theirs that are known to be dead, with
	// commas.
	Permits []byte
	Dead    []byte
}

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
)
