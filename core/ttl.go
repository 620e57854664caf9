package core

// TTL is how long a lease lives without a renewal, as its caller asks for it: a Duration
// above 0, TTLDefault or TTLEndless.
type TTL Duration

const (
	// TTLDefault is the protocol's own TTL; see Under.
	TTLDefault TTL = 0
	// TTLEndless keeps a lease until it is released or broken; see MayBeEndless. As
	// FleetExpire it says that no client has a TTL of its own by which it judges us.
	TTLEndless TTL = -1
)

// TTLOf returns the TTL of a record, a handle or a flag, in which 0 is TTLEndless.
func TTLOf(d Duration) TTL {
	if d == 0 {
		return TTLEndless
	}
	return TTL(d)
}

// Duration is the inverse of TTLOf: 0 is without an end.
func (t TTL) Duration() Duration { return Duration(max(0, t)) }

// Under returns the TTL that a lease has under a protocol: that of the protocol for TTLDefault.
func (t TTL) Under(p Protocol) TTL {
	switch {
	case t != TTLDefault:
		return t
	case p == ProtocolStrict:
		return TTL(StrictTTL)
	}
	return TTL(LastWriterTTL)
}

// EndlessRule says whether a machine may have TTLEndless, or why it may not.
type EndlessRule uint8

const (
	// EndlessAllowed is of a strict lease with beats of its own, and of its companions.
	EndlessAllowed EndlessRule = iota
	// EndlessNever is of lastwriter, whose records always expire, and of a session.
	EndlessNever
	// EndlessWork is of an invocation: if its holder died, no other process could do the work.
	EndlessWork
	// EndlessOnSession is of leases and permits on a session: they have the session's TTL.
	EndlessOnSession
)

// MayBeEndless says whether a machine may have TTLEndless.
func MayBeEndless(kind MachineKind, p Protocol, onSession bool) EndlessRule {
	switch {
	case p != ProtocolStrict || kind == MachineSession:
		return EndlessNever
	case onSession:
		return EndlessOnSession
	case kind == MachineInvocation:
		return EndlessWork
	}
	return EndlessAllowed
}

// endlessRule says why the TTL may not be TTLEndless. It is EndlessAllowed for any other.
func (c *Config) endlessRule() EndlessRule {
	if c.TTL != TTLEndless {
		return EndlessAllowed
	}
	return MayBeEndless(c.Machine, c.Protocol, c.OnSession)
}

// validateTTL lists what is wrong with the length of the TTL, and reports whether the
// lease has an end. A default is set by now.
func (c *Config) validateTTL(f *faults) bool {
	if c.TTL == TTLEndless && c.endlessRule() != EndlessNever {
		return false
	}
	ttl, floor := Duration(c.TTL), c.LeastTTL()
	f.bound(ttl >= floor, "ttl", ttl, "at least ", floor, " on this store, and never 0 under lastwriter")
	f.bound(ttl <= MaxTTL, "ttl", ttl, "at most 720h (30 days)", noLimit, "")
	return true
}

// LeastTTL is the shortest TTL that the store's stamps allow.
func (c *Config) LeastTTL() Duration {
	if c.StampUnit >= CoarseStamp {
		return MinTTLCoarse
	}
	return MinTTL
}
