package core

// This file is the schema: every event, action, answer, reason, state name and
// limit that crosses the border of the core, in the order and with the names
// that they have on the wire. The comment behind a constant is its wire name;
// internal/gen reads it and writes schema_gen.go. Names are for ever and
// numbers are never reused.

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
)

// Protocol says how a lease is kept in the store.
type Protocol uint8

// The protocols.
const (
	ProtocolLastWriter Protocol = 1 // lastwriter
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
)

// Role says as whom a Companion writes.
type Role uint8

// The roles.
const (
	RoleRemote Role = 1 // remote
	RoleOwner  Role = 2 // owner
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
	// waits until it is held or cancelled.
	Wait Duration
	// Brief, of release: the process is about to end, so a renewal of unknown
	// outcome is looked after once, a second later, and no longer.
	Brief bool
	// Request, of answer: the id of the request that is answered.
	Request RequestID
	// Outcome, of answer. To a get: yes with Body, no when absent. To a put: yes.
	Outcome Outcome
	// Class, of answer: why Outcome is unknown.
	Class Class
	// Stamp, of answer: the store's modification time of the object in
	// nanoseconds since 1970, or 0 where the store told none.
	Stamp int64
	// Body, of answer: the object, or its first MaxRecord+1 bytes.
	Body []byte
}

// ActionKind says what the host must do, or what it is told.
type ActionKind uint8

// The actions: requests, then notices, then the wake.
const (
	ActionGet ActionKind = 1 // get
	ActionPut ActionKind = 2 // put

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

	ActionWake ActionKind = 32 // wake
)

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
	ReasonHeld      Reason = 16 // held
	ReasonRaced     Reason = 17 // raced
	ReasonCancelled Reason = 18 // cancelled
	ReasonUnusable  Reason = 19 // unusable
	ReasonLimit     Reason = 20 // limit

	// Why a companion cannot maintain.
	ReasonAbsent        Reason = 32 // absent
	ReasonNoExpiry      Reason = 33 // no_expiry
	ReasonNeverAcquired Reason = 34 // never_acquired
	ReasonUnreadable    Reason = 35 // unreadable

	// What a warning is about.
	ReasonTTLDiffers   Reason = 48 // ttl_differs
	ReasonCorruptTaken Reason = 49 // corrupt_taken
)

// Action is one thing that the host is asked to do or is told. Fields beyond
// Kind are zero unless the kind below names them. Key, Body and Sight belong
// to the machine and stand until its next Step.
type Action struct {
	Kind ActionKind
	// Request, of get and put: to be given back with the answer.
	Request RequestID
	// Key, of get and put, and of warned{corrupt_taken}.
	Key string
	// Limit, of get and put: after so long the host gives the request up and
	// answers unknown; a put that has not begun to apply by then must not apply.
	Limit Duration
	// Type, of put: the content type.
	Type string
	// Body, of put.
	Body []byte
	// Reason, of refused, lost, cannot_maintain and warned.
	Reason Reason
	// Class, of refused{unreachable, unusable, limit} and cannot_maintain{unreadable}:
	// what the store said last.
	Class Class
	// At, Mono: of wake, when to send woke; of held, renewed and deadline (a
	// shorter TTL was seen on the name), the deadline after which the lease must
	// not be relied on.
	At int64
	// Wall, of held: the tenure's first_acquired_at, nanoseconds since 1970.
	Wall int64
	// Holder, of held: the tenure.
	Holder HolderID
	// Sight, of waiting, refused, lost and warned: the record last read, or nil.
	Sight *Sighting
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
	Host       []byte
	PID        []byte
	Remote     bool // the last write was a companion's
	TTL        Duration
	WrittenAt  int64
	AcquiredAt int64
	ReleasedAt int64
	// LookAt is the earliest Mono at which what was seen can be dead, or 0.
	LookAt int64
}

// LeaseState is where a Lease machine stands.
type LeaseState uint8

// The states of a Lease.
const (
	LeaseIdle      LeaseState = 1  // idle
	LeaseObserving LeaseState = 2  // observing
	LeaseWaiting   LeaseState = 3  // waiting
	LeaseClaiming  LeaseState = 4  // claiming
	LeaseVerifying LeaseState = 5  // verifying
	LeaseDoubtful  LeaseState = 6  // doubtful
	LeaseHeld      LeaseState = 7  // held
	LeaseReleasing LeaseState = 8  // releasing
	LeaseReleased  LeaseState = 9  // released
	LeaseRefused   LeaseState = 10 // refused
	LeaseLost      LeaseState = 11 // lost
)

// CompanionState is where a Companion machine stands.
type CompanionState uint8

// The states of a Companion.
const (
	CompanionIdle      CompanionState = 1  // idle
	CompanionJoining   CompanionState = 2  // joining
	CompanionReviving  CompanionState = 3  // reviving
	CompanionDoubtful  CompanionState = 4  // doubtful
	CompanionVerifying CompanionState = 5  // verifying
	CompanionJoined    CompanionState = 6  // joined
	CompanionLeaving   CompanionState = 7  // leaving
	CompanionLeft      CompanionState = 8  // left
	CompanionRefused   CompanionState = 9  // refused
	CompanionLost      CompanionState = 10 // lost
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
)

// Limits: a bound on everything. Relations between them are asserted below.
const (
	// Forever is a wait without limit.
	Forever Duration = -1
	// None switches FleetExpire off.
	None Duration = -1

	MaxRecord     = 64 << 10 // bytes of a record in the store
	MaxMessage    = 96 << 10 // bytes of one message, either direction
	MaxName       = 512      // bytes of a name
	MaxSegment    = 200      // bytes of one segment of a name
	MaxText       = 256      // bytes of Host and PID in a Config and in a Sighting
	MaxHolder     = 512      // bytes of Holder in a Config and in a Sighting
	MaxJSONDepth  = 32       // nesting read in a record
	MaxActions    = 6        // actions of one Step
	MaxErrorText  = 4 << 10  // bytes of an error's text in an answer
	MaxTTL        = 30 * 24 * hour
	MinTTL        = 50 * millisecond // on stores with fine stamps
	MinTTLCoarse  = 5 * second       // on stores whose stamps have whole seconds
	CoarseStamp   = second
	MaxWait       = 100 * 365 * 24 * hour
	MaxClockRange = 1 << 62 // |Mono| and |Wall|, ns: leaves room to add MaxTTL

	DefaultTTL         = 88 * second // mops' runner's expire
	DefaultFleetExpire = 88 * second
	MarginShare        = 10 // default margin: TTL / 10

	RequestLimit     = 10 * second       // of one request, and a third of what is left
	RequestFloor     = 5 * millisecond   // no request is given less
	FirstAnswerLimit = 5 * second        // a store silent for so long is unreachable
	PollFirst        = 200 * millisecond // a waiter's first poll; then x 1.5, +- 20 %
	PollCap          = 5 * second
	PollCapFloor     = 500 * millisecond
	ThrottledFirst   = 1 * second
	RetryFloor       = 10 * millisecond
	LaterLookMin     = 1 * second
	LaterLookWaits   = 10 // later look: this many times the wait
	RecheckFirst     = 1 * second
	CorruptMin       = 60 * second
	JoinAgainMin     = 1 * second // companion: a claim in progress is read again after it
	EmptyReads       = 5
	LostPuts         = 5                 // claims in a row that an ailing store did not take: given up
	SlowLooks        = 3                 // looks too slow to claim from: then claim all the same
	RewriteRounds    = 3                 // own claim found expired so often: given up
	TTLTolerance     = 100 * microsecond // expire_s that differs by more is warned of
	// Clock rates may differ by 1 part in RateInverse (rho).
	RateInverse = 100
)

// Relations between the limits; a broken one does not compile. As uint64, since
// an array of so many elements would not compile on 32 bits either.
const (
	_ = uint64(MaxMessage - MaxRecord - 16<<10) // a record fits an input with room to spare
	_ = uint64(16<<10 - MaxActions*(MaxHolder+2*MaxText+1<<10))
	_ = uint64(MinTTL/MarginShare - 2*MinTTL/RateInverse) // the default margin covers the rate bound
	_ = uint64(MinTTLCoarse - MinTTL)
	_ = uint64(PollCap - PollCapFloor)
	_ = uint64(MaxTTL - DefaultTTL)
)

// LockFile is the object that mops and we share, below the name.
const (
	LockFile     = "lock.json"
	LockFileType = "application/mops-lease"
	RemoteWriter = "remote"
)
