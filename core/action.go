package core

// Action is one thing that the host must do or is told. Fields beyond Kind are
// zero unless the kind below names them. Key, Body and Observed belong to the
// machine, and are valid until its next Step.
type Action struct {
	Kind ActionKind
	// Request, of every request: its id, which the answer must repeat.
	Request RequestID
	// Key, of every request (of list, the prefix), of warned{corrupt_taken, emptied}, of
	// found, and of called, where it is the name.
	Key string
	// After, of list: only keys behind it are wanted; "" means all.
	After string
	// Count, of list: the most entries that are wanted; of outage and recovered: how many
	// requests have failed in a row.
	Count uint64
	// Limit, of every request: after so long the host gives the request up and
	// answers unknown. A write that has not begun to apply by then must not apply.
	Limit Duration
	// Type, of put and create, also of a result: the content type.
	Type string
	// Body, of put and create.
	Body []byte
	// Overwrites, of put: the object was there. If not even the directory is there any more
	// in which it was, the store makes none, and answers no. A store without directories
	// puts, and answers yes.
	Overwrites bool
	// Reason, of refused, lost, cannot_maintain, absent and warned.
	Reason Reason
	// Class, of refused{unreachable, unusable, limit}, cannot_maintain{unreadable} and
	// absent{unreachable, unusable}: the class of the store's last answer, also of outage.
	Class Class
	// At, Mono: of wake, when to send woke; of held, renewed and deadline (a shorter
	// TTL was seen on the name), the deadline after which no caller may rely on the
	// lease, or Never for a lease without a TTL; of released, when the version of Epoch
	// was sent if the next holder may take the name at once, otherwise 0; of calibrated,
	// when the sample was taken.
	At int64
	// Wall, nanoseconds since 1970: of held, the tenure's first_acquired_at; of
	// calibrated, the time that the store's clock showed.
	Wall int64
	// Epoch, of held, adopted, released, called and broken.
	Epoch Epoch
	// Token, of held: the fencing token.
	Token Epoch
	// Holder, of held: the tenure, or the session's id.
	Holder HolderID
	// Session, of held: the lease is on this session, and a caller may rely on it
	// while the session is in force, whatever At says. "" means none.
	Session string
	// Observed, of waiting, refused, lost, warned and seen: what was last read, or nil.
	Observed *Observed
	// Permit, of waiting, held, refused, lost, released and limited, of a semaphore:
	// the host's number for the permit or the limit that the action is about.
	Permit uint64
	// Total, of held and of granted: the permits held on the name, these included; of
	// counted: the permits held. Body, of counted, has the first MaxCounters counters
	// as text, such as [4,1], and Count says how many counters there are.
	Total uint64

	// Only a client says the rest.

	// Claim is the host's number of the claim that the action is about; of a request, for
	// which claim it is. 0 is none: it is about a session, or about all.
	Claim uint64
	// Protocol, of held: how the claim is kept; of refused, if it was settled.
	Protocol Protocol
	// On, of held and deadline: the number of the session on which the claim stands, until
	// whose deadline it may be relied on too. Of a session's own held, renewed, lost and
	// left, whose Claim is 0: its number, which is told once for all that stand on it.
	On uint64
	// Origin, of a lease's held, and Took, how long the name was nobody's, or 0 if nobody
	// can tell. Took, of recovered: since the first failure of the row.
	Origin Origin
	Took   Duration
	// Verb, of outage: the request that has failed last.
	Verb ActionKind
	// TTL, of a session's held.
	TTL TTL
	// Purpose, of a request, if it has one of these.
	Purpose Purpose
}
