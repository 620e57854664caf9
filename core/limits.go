package core

import "github.com/mopslock/mopslock/core/internal/jsontext"

// Limits: a bound on everything. Relations between them are asserted below.
const (
	// Forever is a wait without limit.
	Forever Duration = -1
	// OneClock is the StampSpread of a store with one clock.
	OneClock Duration = -1
	// Never is the deadline of a lease without a TTL.
	Never int64 = 1<<63 - 1

	MaxRecord        = 64 << 10          // bytes of a record in the store
	MaxMessage       = 96 << 10          // bytes of one message, either direction
	MaxName          = 512               // bytes of a name
	MaxSegment       = 200               // bytes of one segment of a name
	MaxText          = 256               // bytes of Host and PID, in a Config and in an Observed
	MaxHolder        = 512               // bytes of Holder, in a Config and in an Observed
	MaxJSONDepth     = jsontext.MaxDepth // nesting read in a record
	MaxActions       = 8                 // actions of one Step
	MaxClientActions = 64                // actions of one Step of a client
	MaxErrorText     = 4 << 10           // bytes of an error's text in an answer
	MaxTTL           = 30 * 24 * hour
	MinTTL           = 50 * millisecond // on stores with fine stamps
	MinTTLCoarse     = 5 * Second       // on stores whose stamps have whole seconds
	CoarseStamp      = Second
	MaxWait          = 100 * 365 * 24 * hour
	MaxClockRange    = jsontext.MaxInstant // |Mono| and |Wall|, ns: leaves room to add MaxTTL

	LastWriterTTL      = 88 * Second // mops' runner's expire
	StrictTTL          = 60 * Second
	DefaultFleetExpire = 88 * Second
	MarginShare        = 10 // default margin: TTL / 10

	RequestLimit     = 10 * Second       // of one request, which also has at most a third of what is left
	RequestFloor     = 5 * millisecond   // no request is given less
	FirstAnswerLimit = 5 * Second        // a store silent for so long is unreachable
	PollFirst        = 200 * millisecond // a waiter's first poll; then x 1.5, +- 20 %
	PollCap          = 5 * Second
	PollCapFloor     = 500 * millisecond
	ThrottledFirst   = 1 * Second
	RetryFloor       = 10 * millisecond
	LaterReadMin     = 1 * Second
	LaterReadWaits   = 10 // the later read comes after this many times the wait
	RecheckFirst     = 1 * Second
	CorruptMin       = 60 * Second
	JoinAgainMin     = 1 * Second // a companion reads an attempt in progress again after it
	EmptyReads       = 5
	LostPuts         = 5                 // a machine gives up after so many attempts in a row whose put the store did not take
	SlowReads        = 3                 // after so many observations too slow to claim from, a machine claims all the same
	RewriteRounds    = 3                 // a machine gives up after it found its own put expired so often
	ContendedMargin  = 50 * millisecond  // least time from a contended put to its verification: longer than a busy machine holds a process up
	TTLTolerance     = 100 * Microsecond // an expire_s that differs by more gives a warning

	// Strict.
	MaxLabel      = 128              // bytes of a label
	MaxWhy        = 512              // bytes of why a lease was broken
	MaxExt        = 1 << 10          // bytes of a record's ext
	MaxOwners     = 64               // owners of one tenure
	MaxEntries    = 256              // entries of one list's answer
	DefaultSpread = 1 * Second       // K: how far a store's front-ends may disagree
	KeepVersions  = 3                // versions that are never collected
	LeastKeep     = 10 * 60 * Second // how long a superseded version is kept at least (G)
	NewestWindow  = LeastKeep / 2    // how long a proof that a version is the newest holds
	CollectLimit  = 5 * Second       // a lease that was released collects no longer
	EndlessPoll   = 20 * Second      // how often a holder without a TTL asks for a newer version
	HintEach      = 1 * Second       // a holder follows at most one hint in this time
	EndlessGrace  = 60 * Second      // replaces a ttl of 0 where a rule adds a ttl
	DoubtLimit    = 60 * Second      // a machine gives up an attempt of unknown fate after it
	SampleLimit   = 2 * Second       // a caller that tries once waits no longer for a sample
	SampleEach    = 60 * Second      // a process takes at most one sample in this time
	BootTolerance = 2 * Second       // within which a beat's boottime and its stamp must agree
	MaxCreates    = 4                // creates of one version whose fate is unknown at once

	// An invocation.
	InvokeFirst  = 1 * Second       // from one attempt to the next; then x 2, +- 20 %
	InvokeCap    = 22 * Second      // mops' own, of lastwriter; PollCap under strict
	LaunchGrace  = 5 * Second       // a companion must follow a launcher that ended within it
	ResultLimit  = 24 * hour        // of one transfer; the host ends one that makes no progress
	DeliverLimit = 10 * 60 * Second // a result that the store does not take is given up after it, or after a longer TTL

	// A semaphore, and buckets.
	MaxCapacity         = 1 << 20 // permits of a bucket
	MaxWidth            = 1 << 16 // buckets
	MaxCounters         = 4096    // counters that are shown
	MaxPermits          = 1500    // in a record; its 64 KiB may hold fewer
	MaxAsked            = 1024    // permits and limits of one machine, asked for and held
	BeatsPerObservation = 16      // sessions about which one observation asks
	MaxShown            = 2 << 10 // bytes of the holders that a participant shows

	// Clock rates may differ by 1 part in RateInverse (rho).
	RateInverse = 100
)

// observedBytes bounds the texts of an Observed. One Step shows two Observeds at most.
const observedBytes = 3*MaxHolder + 3*MaxText + MaxLabel + MaxWhy + MaxShown

// Relations between the limits: a broken one does not compile. They are uint64
// because arrays of so many elements would not compile on 32 bits either.
const (
	_ = uint64(MaxMessage - MaxRecord - 24<<10)           // a record fits an input with room to spare
	_ = uint64(24<<10 - 2*observedBytes - MaxActions<<10) // so does the answer to a step
	_ = uint64(LeastKeep/2 - NewestWindow)
	_ = uint64(KeepVersions - 2)
	_ = uint64(MinTTL/MarginShare - 2*MinTTL/RateInverse) // the default margin covers the rate bound
	_ = uint64(MinTTLCoarse - MinTTL)
	_ = uint64(PollCap - PollCapFloor)
	_ = uint64(MaxTTL - LastWriterTTL)
)
