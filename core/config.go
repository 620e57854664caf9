package core

// Config describes one machine. New validates it once and names every bad
// field; after that it never changes.
type Config struct {
	Machine  MachineKind
	Protocol Protocol

	// Name is what is leased; see CheckName for its rules.
	Name string
	// TTL is how long a lease lives without a renewal. It is published in the
	// record. 0 is DefaultTTL.
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

	// Holder is the tenure that a companion joins, or that a lease machine is
	// made to release without having acquired it (a printed lease). Otherwise "".
	Holder HolderID
	// Role says as whom a companion writes. 0 is RoleRemote.
	Role Role

	// Host, PID and TID are written into the record for people.
	Host string
	PID  string
	TID  uint64

	// Seed is fresh random for every machine, and not zero: the holder id and all jitter
	// come from it, and two machines with one seed would be one holder.
	Seed [16]byte
}
