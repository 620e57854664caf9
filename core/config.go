package core

import "github.com/mopslock/mopslock/core/internal/octets"

// Config describes one machine. New validates it once and names every bad
// field; after that it never changes.
type Config struct {
	Machine  MachineKind
	Protocol Protocol

	// Name is what is leased; see CheckName for its rules.
	Name string
	// TTL is how long a lease lives without a renewal. It is published in the
	// record. 0 is DefaultTTL, or under strict DefaultStrictTTL; None, under strict,
	// is until it is released or broken.
	TTL Duration
	// Margin is what the holder gives up early. 0 is TTL / MarginShare.
	Margin Duration
	// AcquireMargin is the least time between a claim and its verification;
	// 0 leaves it to twice what the read and the write took. At most TTL/2.
	AcquireMargin Duration
	// FleetExpire is the TTL by which other clients on this name judge us
	// whatever our record says, as mops does. 0 is DefaultFleetExpire, None is
	// for names that no such client uses.
	FleetExpire Duration
	Renewal     Renewal // 0 is RenewalChecked
	Expiry      Expiry  // 0 is ExpiryWall
	// StampUnit is the resolution of the store's modification times; from
	// CoarseStamp on the TTL's floor is MinTTLCoarse.
	StampUnit Duration

	// Holder is the tenure that a companion joins, that a lease machine is made to
	// release without having acquired it (a printed lease), or the only one that a
	// breaker breaks; "" lets a breaker break any holder. Otherwise "".
	Holder HolderID
	// Role says as whom a companion writes. 0 is RoleRemote.
	Role Role

	// What follows up to Host is for strict.

	// StampSpread is how far the clocks of the store's front-ends may disagree
	// (K). 0 is DefaultSpread, None is a store with one clock.
	StampSpread Duration
	// Boot names this boot of this machine, and its time namespace; Mono must then
	// be its boot clock, and Wall this machine's wall clock. "" where there is no such
	// clock, where stamps are not of this machine's wall clock, and on every store where
	// a put that was given up can land later: a late beat on top of a newer one would
	// show an older time.
	Boot string
	// OnSession keeps the lease by the process's session, which each event tells
	// of; TTL and Margin are then the session's.
	OnSession bool
	// Epoch is the newest version of the tenure that is known: of a companion, and
	// of a printed lease.
	Epoch Epoch
	// Owner is the owner as which a machine speaks: of a printed lease the one that
	// acquired it, of a calibration the process. "" is a fresh one; who acquires is
	// the owner with the tenure's own id.
	Owner string
	// LastEpoch is the version by which this process released the name, alone, and
	// LastAt the Mono at which it was sent: as long as that is young, nobody needs
	// to look first. 0 is none.
	LastEpoch Epoch
	LastAt    int64
	// SeenPrint and SeenSince go on with an earlier machine's observation, by the
	// same clock: Print and Since of its Sighting. 0 is none. A host keeps what Wall was
	// then, too, and gives only what Instant.Emitted takes for this clock's.
	SeenPrint uint64
	SeenSince int64
	// Beside says that there is a lock.json under the name: it is read before a
	// claim and at each renewal, and a fresh foreign writer in it is yielded to.
	Beside bool
	// Why, of a breaker, is kept with the break. Now frees the name at once, the
	// one declared exception to NoOverlap.
	Why string
	Now bool
	// Label is shown to people: at most MaxLabel printable bytes.
	Label string

	// What follows up to Host is for an invocation.

	// MemoFailures keeps and heeds what failed work came to, where there is no result.
	MemoFailures bool
	// WithoutLease, of a remote, does the work even if its lease cannot be maintained,
	// or there is no Holder at all.
	WithoutLease bool
	// Creates says that the store honours create-if-absent: the first result wins.
	// Strict needs it anyway.
	Creates bool

	// Host, PID and TID are written into the record for people.
	Host string
	PID  string
	TID  uint64

	// Seed is fresh random for every machine, and not zero: the holder id and all jitter
	// come from it, and two machines with one seed would be one holder.
	Seed [16]byte
}

// CheckView says whether a capacity and a width can be a caller's view.
func CheckView(capacity, width uint32) error {
	if !IsView(capacity, width) {
		return &Error{ErrorEvent, "capacity must be from 1 to " + octets.UintText(MaxCapacity) +
			" and width from 1 to " + octets.UintText(MaxWidth)}
	}
	return nil
}

// IsView is CheckView without an error, short enough to be inlined.
func IsView(capacity, width uint32) bool {
	return capacity-1 < MaxCapacity && width-1 < MaxWidth // 0 less 1 is the most there is
}
