package core

import (
	"strconv"
)

// Terms are what a command asks for, and what the machine of a claim is about.
type Terms struct {
	Protocol Protocol // of a command, 0 is auto

	// Name is what is leased; see CheckName for its rules.
	Name string
	// TTL is how long a lease lives without a renewal. It is published in the record.
	TTL TTL
	// Margin is what the holder gives up early. 0 means TTL / MarginShare.
	Margin Duration
	// AcquireMargin is the least time between a put and its verification, at most
	// TTL/2. 0 means only twice what the read and the write took.
	AcquireMargin Duration
	// FleetExpire is the TTL by which other clients on this name, such as mops,
	// judge us whatever our record says. 0 means DefaultFleetExpire. TTLEndless is for
	// names that no such client uses.
	FleetExpire TTL
	Renewal     Renewal // 0 is RenewalChecked
	Expiry      Expiry  // 0 is ExpiryWall, or under strict ExpiryCalibrated

	// Holder is the tenure that a companion joins, the tenure that a lease machine
	// releases without having acquired it (a printed lease), or the only tenure that
	// a revocation may end. A revocation with "" breaks any. In all other cases it is "".
	Holder HolderID
	// Role is the role in which a companion writes. 0 means RoleRemote.
	Role Role

	// The fields from here to Label are for strict.

	// StampSpread is how far the clocks of the store's front ends may disagree
	// (K). 0 means DefaultSpread; or OneClock.
	StampSpread Duration
	// OnSession leaves the lease to the process's session, of which each event
	// tells. TTL and Margin are then the session's.
	OnSession bool
	// Epoch, of a companion and of a printed lease, is the newest version of the
	// tenure that is known.
	Epoch Epoch
	// Owner is the id of the owner for which a machine acts: of a printed lease the
	// one that acquired it, of a sample of the store's clock the process. "" means a fresh id. A lease
	// that acquires has the tenure's own id.
	Owner string
	// Why, of a revocation, is stored with the break. Now frees the name at once; it is
	// a declared exception to exclusion (PROTOCOL S11.2).
	Why string
	Now bool
	// Label is shown to people: at most MaxLabel printable bytes.
	Label string

	// The others are for an invocation.

	// MemoFailures stores what failed work left, and takes it as found if there is no result.
	MemoFailures bool
	// WithoutLease lets a remote do the work even if its lease cannot be maintained,
	// or if it was given no Holder.
	WithoutLease bool
}

// Config describes one machine. New validates it once and names every bad
// field; after that it never changes.
type Config struct {
	Machine MachineKind
	Terms

	// StampUnit is the resolution of the store's modification times. From
	// CoarseStamp on, the least TTL is MinTTLCoarse.
	StampUnit Duration

	// The fields from here to Creates are for strict.

	// Boot names this boot of this machine, and its time namespace. Mono must then be
	// the boot clock, and Wall this machine's wall clock. It is "" if there is no such
	// clock, if the store's stamps are not of this machine's wall clock, or if a put that
	// was given up can land later in this store: a late beat on top of a newer one would
	// show an older time.
	Boot string
	// LastEpoch is the version by which this process released the name, alone, and
	// LastAt is the Mono at which that was sent. While that is recent, the machine
	// claims without an observation. 0 means none.
	LastEpoch Epoch
	LastAt    int64
	// SeenFingerprint and SeenSince continue an earlier machine's observation by the same
	// clock: they are Fingerprint and Since of its Observed. 0 means none. A host also keeps
	// the Wall of that time, and gives only what Instant.Emitted finds to be of this clock.
	SeenFingerprint uint64
	SeenSince       int64
	// LockFilePresent says that there is a lock.json under the name. The machine reads it
	// before a claim and at each renewal, and yields to a fresh foreign writer in it.
	LockFilePresent bool

	// Creates, of an invocation, says that the store supports create-if-absent: the first
	// result wins. Strict needs that anyway.
	Creates bool

	// The fields from here to Transfers are for a client.

	// OwnStore says that nothing stands between us and the store: a directory, memory.
	// Create-if-absent is then known to be honoured, and an empty list is the store's own
	// word. The machines of a client need it as well.
	OwnStore bool
	// NoCreate and NoList say that the store has no such verb.
	NoCreate, NoList bool
	// Probes says that create-if-absent is tried although it is OwnStore: a directory may lie on a file
	// system without it, and is told from another at its path by its capability record.
	Probes bool
	// Samples says that the store's stamps are of a clock that may be relied on.
	Samples bool
	// Watches says that the host can tell of changes of a key, Remembers that it can keep
	// a few bytes for the next process.
	Watches, Remembers bool
	// InFlight is how many requests may be under way at once, without transfers; 0 is 64.
	// Transfers is how many of these; 0 is 4.
	InFlight, Transfers uint64

	// Host, PID and TID are written into the record for people.
	Host string
	PID  string
	TID  uint64

	// Seed is fresh random bytes for every machine, and not zero. The holder id and all
	// jitter come from it: two machines with one seed would be one holder.
	Seed [16]byte `state:"exact: what was drawn from it is told apart by the actions alone"`
}

// CheckView returns an error if no caller can have this capacity and width as its view.
func CheckView(capacity, width uint32) error {
	if !IsView(capacity, width) {
		return &Error{ErrorEvent, "capacity must be from 1 to " + strconv.FormatUint(MaxCapacity, 10) +
			" and width from 1 to " + strconv.FormatUint(MaxWidth, 10)}
	}
	return nil
}

// IsView is CheckView without an error, short enough to be inlined.
func IsView(capacity, width uint32) bool {
	return capacity-1 < MaxCapacity && width-1 < MaxWidth // 0 - 1 is the greatest uint32
}
