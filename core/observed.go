package core

// Epoch numbers the versions of a name under strict, from 1 upwards. It never
// goes back. The first epoch of a tenure is its fencing token.
type Epoch uint64

// Entry is one object of a list.
type Entry struct {
	Key   []byte // the whole key, as in a request
	Stamp int64  // the store's modification time, ns since 1970
}

// Observed is a lease as one read of its record shows it. Instants are
// nanoseconds since 1970 by the wall clock of the process that wrote the record;
// 0 means "not said". Holder, Host and PID are other processes' text, cut to
// MaxHolder and MaxText bytes: escape them before you show them.
type Observed struct {
	State      Observation
	Holder     []byte
	Host       []byte // of the owner that wrote last; of a broken tenure empty if that was not read
	PID        []byte
	Remote     bool // the last write was a companion's
	TTL        Duration
	WrittenAt  int64
	AcquiredAt int64
	ReleasedAt int64
	// LookAt is the earliest Mono at which the tenure that was seen can be dead, or 0.
	RecheckAt int64

	// For strict only; Epoch is 0 under lastwriter, or if there is no version.
	Epoch Epoch
	Token Epoch
	// Companions are the ids of the tenure's owners without the first, with commas.
	Companions []byte
	Label      []byte
	Session    []byte
	Why        []byte // the reason given for the break
	By         []byte // the process that broke it: pid@host
	// Left is what is left of the TTL by the store's clock or the boot's, or 0 if
	// neither can tell. StoreClock says that it was the store's.
	Left       Duration
	StoreClock bool
	// Fingerprint is of all beats (PROTOCOL S5) that were read, and Since is the
	// Mono since when they stood unchanged. As Config.SeenFingerprint and SeenSince, they
	// let a later machine of the same boot continue this observation.
	Fingerprint uint64
	Since       int64

	// For a semaphore only; Capacity is 0 otherwise. Capacity and Width are those of
	// the last commit, Held is the weight of all permits together, Limit is the limit
	// in the store or 0.
	Capacity, Width uint32
	Held, Limit     uint64
	// Permits are the holders as the record has them, between the brackets; see
	// machines.EachPermit. Dead are those of their sessions that are known to be
	// dead, with commas.
	Permits []byte
	Dead    []byte
}
