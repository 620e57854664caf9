package core

// The second half of the schema: the states of each machine, by the names that
// answers use.

// LeaseState is the state of a Lease machine.
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

// CompanionState is the state of a Companion machine.
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

// InvocationState is the state of an Invocation machine.
type InvocationState uint8

// The states of an Invocation.
const (
	InvocationIdle       InvocationState = 1  // idle
	InvocationChecking   InvocationState = 2  // checking
	InvocationAcquiring  InvocationState = 3  // acquiring
	InvocationWaiting    InvocationState = 4  // waiting
	InvocationJoining    InvocationState = 5  // joining
	InvocationConfirming InvocationState = 6  // confirming
	InvocationLaunched   InvocationState = 7  // launched
	InvocationDelivering InvocationState = 8  // delivering
	InvocationSettling   InvocationState = 9  // settling
	InvocationAwaiting   InvocationState = 10 // awaiting
	InvocationReleasing  InvocationState = 11 // releasing
	InvocationDone       InvocationState = 12 // done
	InvocationRefused    InvocationState = 13 // refused
)

// SemaphoreState is the state of a Semaphore machine.
type SemaphoreState uint8

// The states of a Semaphore.
const (
	SemaphoreIdle       SemaphoreState = 1 // idle
	SemaphoreObserving  SemaphoreState = 2 // observing
	SemaphoreCommitting SemaphoreState = 3 // committing
	SemaphoreDoubtful   SemaphoreState = 4 // doubtful
	SemaphoreWaiting    SemaphoreState = 5 // waiting
	SemaphoreClosed     SemaphoreState = 6 // closed
)

// BucketsState is the state of a Buckets machine: it has only one.
type BucketsState uint8

// The state of a Buckets machine.
const (
	BucketsReady BucketsState = 1 // ready
)

// SessionState is the state of a Session machine.
type SessionState uint8

// The states of a Session.
const (
	SessionIdle    SessionState = 1 // idle
	SessionOpening SessionState = 2 // opening
	SessionInForce SessionState = 3 // in_force
	SessionClosing SessionState = 4 // closing
	SessionClosed  SessionState = 5 // closed
	SessionLost    SessionState = 6 // lost
)

// TaskState is the state of a machine that does one thing and ends: a Revocation,
// an Inspection or a StoreClockSample.
type TaskState uint8

// The states of a task.
const (
	TaskIdle    TaskState = 1 // idle
	TaskWorking TaskState = 2 // working
	TaskDone    TaskState = 3 // done
	TaskRefused TaskState = 4 // refused
)

// VersionState is the state that a version of a register records.
type VersionState uint8

// The states of a version.
const (
	VersionHeld     VersionState = 1 // held
	VersionReleased VersionState = 2 // released
	VersionBroken   VersionState = 3 // broken
	// VersionValue is a version of a semaphore.
	VersionValue VersionState = 4 // value
)

// ClientState is the state of a client.
type ClientState uint8

// The states of a client.
const (
	ClientOpen    ClientState = 1 // open
	ClientClosing ClientState = 2 // closing
	ClientClosed  ClientState = 3 // closed
)
