package client

import "github.com/mopslock/mopslock/core/internal/base"

// claimState is where a claim stands.
type claimState uint8

const (
	claimResolving  claimState = iota // how its name is kept is being found out
	claimAsking                       // it has a machine, and nothing is held
	claimWaiting                      // its machine has said that it waits for another's release
	claimHeld                         // its caller may rely on it until its deadline
	claimReleasing                    // its caller has given back what is held
	claimCancelling                   // its caller has given up, and nothing is held
	claimEnded                        // its end was told
)

// String is for a panic.
func (s claimState) String() string {
	return [...]string{"resolving", "asking", "waiting", "held", "releasing", "cancelling", "ended"}[s]
}

// claimEdges is every move that a claim can make. It is never written.
var claimEdges = [...]base.Edge[claimState]{
	{From: claimResolving, To: claimAsking, Why: "it is known how the name is kept"},
	{From: claimResolving, To: claimEnded, Why: "refused; cancelled"},
	{From: claimAsking, To: claimWaiting, Why: "another holds the name"},
	{From: claimAsking, To: claimHeld, Why: "held"},
	{From: claimAsking, To: claimCancelling, Why: "cancel, leave, release, or no session can be had"},
	{From: claimAsking, To: claimEnded, Why: "refused; seen; broken; limited; or what was to be released is"},
	{From: claimWaiting, To: claimAsking, Why: "work: its result, or its lease, is at hand"},
	{From: claimWaiting, To: claimHeld, Why: "held"},
	{From: claimWaiting, To: claimCancelling, Why: "cancel, leave, release, or no session can be had"},
	{From: claimWaiting, To: claimEnded, Why: "refused"},
	{From: claimHeld, To: claimAsking, Why: "work: its lease is lost, or given back, and it goes on"},
	{From: claimHeld, To: claimReleasing, Why: "release, leave; a printed lease was renewed"},
	{From: claimHeld, To: claimEnded, Why: "lost; a permit is given back"},
	{From: claimReleasing, To: claimCancelling, Why: "work: its lease is given back or lost"},
	{From: claimReleasing, To: claimEnded, Why: "released; left; lost"},
	{From: claimCancelling, To: claimEnded, Why: "refused; left"},
}

// become moves along an edge of the table, or stays.
func (s *claimState) become(to claimState) {
	if *s != to {
		base.CheckMove(claimEdges[:], *s, to)
		*s = to
	}
}

// isPending reports whether it has no machine of its own yet, and nothing of it is in the store.
func (s claimState) isPending() bool { return s == claimResolving }

// isHeld reports whether it is held as the store has it, also by a caller that has given it back.
func (s claimState) isHeld() bool { return s == claimHeld || s == claimReleasing }

// isStopping reports whether its caller has asked for its end.
func (s claimState) isStopping() bool { return s == claimReleasing || s == claimCancelling }

// isWaiting reports whether a release of the name by this process is news for it.
func (s claimState) isWaiting() bool { return s == claimWaiting }

// waits notes that its machine waits for another's release.
func (s *claimState) waits() {
	if *s == claimAsking {
		s.become(claimWaiting)
	}
}

// waitsNot notes that its machine does not, or not any more.
func (s *claimState) waitsNot() {
	if *s == claimWaiting {
		s.become(claimAsking)
	}
}

// stop notes that its caller has asked for its end.
func (s *claimState) stop() {
	switch {
	case *s == claimHeld:
		s.become(claimReleasing)
	case *s < claimHeld:
		s.become(claimCancelling)
	}
}

// hold notes that it is held.
func (s *claimState) hold() {
	if *s < claimHeld {
		s.become(claimHeld)
	}
}

// holdsNot notes that it is not held any more, and may be again.
func (s *claimState) holdsNot() {
	switch *s {
	case claimHeld:
		s.become(claimAsking)
	case claimReleasing:
		s.become(claimCancelling)
	}
}

// sessionState is where a session is.
type sessionState uint8

const (
	sessionVacant  sessionState = iota // nobody has wanted it in force yet, or the id before was lost
	sessionOpening                     // its first beat was not taken yet
	sessionInForce                     // claims stand on it
	sessionLeaving                     // what it has in the store is being removed; nobody gets it any more
	sessionGone                        // nothing is left of it
)

// String is for a panic.
func (s sessionState) String() string {
	return [...]string{"vacant", "opening", "in force", "leaving", "gone"}[s]
}

// sessionEdges is every move that a session can make. It is never written.
var sessionEdges = [...]base.Edge[sessionState]{
	{From: sessionVacant, To: sessionOpening, Why: "a claim wants it in force"},
	{From: sessionVacant, To: sessionGone, Why: "nobody stands on it any more"},
	{From: sessionOpening, To: sessionInForce, Why: "its first beat was taken"},
	{From: sessionOpening, To: sessionVacant, Why: "the store does not take its beat"},
	{From: sessionOpening, To: sessionLeaving, Why: "nobody has stood on it for a while; the client closes"},
	{From: sessionInForce, To: sessionVacant, Why: "lost"},
	{From: sessionInForce, To: sessionLeaving, Why: "nobody has stood on it for a while; the client closes"},
	{From: sessionOpening, To: sessionGone, Why: "the store does not take its beat, and nobody stands on it"},
	{From: sessionInForce, To: sessionGone, Why: "lost, and nobody stands on it"},
	{From: sessionLeaving, To: sessionGone, Why: "left, or lost"},
}

func (s *sessionState) become(to sessionState) {
	if *s != to {
		base.CheckMove(sessionEdges[:], *s, to)
		*s = to
	}
}
