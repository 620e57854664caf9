package base

import "github.com/mopslock/mopslock/core"

// Direction is which way a request goes: a store may answer all reads and refuse each write,
// or the reverse.
type Direction uint8

const (
	Reads Direction = iota
	Writes
	Directions // how many there are
)

// DirectionOf is which way a request goes.
func DirectionOf(verb core.ActionKind) Direction {
	switch verb {
	case core.ActionGet, core.ActionExists, core.ActionList:
		return Reads
	}
	return Writes
}

// lookLimit is the least time that is left for a look at what became of a request which
// has used up all time itself.
const lookLimit = core.Second

// Reach is what a machine knows of its store. Its patience depends on that, and not on the
// request or the state that meets a failure (PROTOCOL T5). The zero value knows nothing.
type Reach struct {
	of     [Directions]reached
	within core.Duration // in which the first read must be answered; 0 is FirstAnswerLimit
}

// reached is what is known of one direction.
type reached struct {
	served bool       // it has answered once
	silent bool       // it has not answered since
	class  core.Class // of the last failure since then; none is no answer yet
	since  int64      // Mono: sent of the first request since then
	by     int64      // Mono at which patience with it is over, for those whose patience ends
}

// Expect begins the time in which the first read must be answered, unless one was.
func (r *Reach) Expect(now int64, within core.Duration) {
	if of := &r.of[Reads]; !of.served && !of.silent {
		r.within = within
		*of = reached{silent: true, since: now, by: now + int64(within)}
	}
}

// Rest ends that time, and what has failed is forgotten: nothing is wanted of the store.
func (r *Reach) Rest() {
	for d := range r.of {
		r.of[d] = reached{served: r.of[d].served}
	}
}

// Inherit takes over what another machine of the same caller knows.
func (r *Reach) Inherit(from *Reach) {
	for d := range r.of {
		if from.of[d].served && !r.of[d].served {
			r.of[d] = reached{served: true}
		}
	}
}

// Serve says that both directions have worked.
func (r *Reach) Serve() { *r = Reach{of: [Directions]reached{{served: true}, {served: true}}} }

// Note takes an answer to a request that was sent at a Mono.
func (r *Reach) Note(ev *core.Event, f Flight, now int64) {
	d := DirectionOf(f.Verb)
	of := &r.of[d]
	if ev.Outcome != core.OutcomeUnknown {
		// S3's HEAD of an object in a bucket that is not there is a no like any other.
		*of = reached{served: of.served || f.Verb != core.ActionExists || ev.Outcome == core.OutcomeYes}
		return
	}
	if !of.silent {
		of.silent, of.since = true, f.Sent
	}
	of.class = ev.Class
	if of.by = of.since + int64(r.limit(d)); of.by <= now {
		of.by = now + int64(lookLimit)
	}
}

func (r *Reach) limit(d Direction) core.Duration {
	if d == Reads && r.within != 0 && !r.of[Reads].served {
		return r.within
	}
	return core.FirstAnswerLimit
}

// ClearWrites says that what became of the writes is known, though they were not answered.
func (r *Reach) ClearWrites() { r.of[Writes] = reached{served: r.of[Writes].served} }

// HasServed reports whether the store has answered once in a direction.
func (r *Reach) HasServed(d Direction) bool { return r.of[d].served }

// IsSilent reports whether what was asked last in a direction has had no answer yet.
func (r *Reach) IsSilent(d Direction) bool { return r.of[d].silent }

// IsFailing reports whether the latest request of a direction has failed.
func (r *Reach) IsFailing() bool { return r.Class() != core.ClassNone }

// Class is that of the latest failure which no answer has followed, or none.
func (r *Reach) Class() core.Class {
	if c := r.of[Writes].class; c != core.ClassNone {
		return c
	}
	return r.of[Reads].class
}

// By is when patience ends, or Unset. Over: the caller waits no longer. Until a direction
// has worked it is bounded for everybody.
func (r *Reach) By(over bool) int64 {
	at := Unset
	for d := range r.of {
		if of := &r.of[d]; of.silent && (over || !of.served) {
			at = min(at, of.by)
		}
	}
	return at
}

// Ends is why a request that has failed is the last, or none: the store can never serve
// it, or patience with its direction is over.
func (r *Reach) Ends(d Direction, now int64, over bool) core.Reason {
	of := &r.of[d]
	switch {
	case !of.silent || of.served && !over:
		return core.ReasonNone
	case !of.served && of.class.Permanent(), now >= of.since+int64(r.limit(d)):
		return r.Reason(d)
	}
	return core.ReasonNone
}

// IsHopeless reports whether waiting cannot mend a failure of what has never worked.
func (r *Reach) IsHopeless() bool {
	for d := range r.of {
		if of := &r.of[d]; !of.served && of.class.Permanent() {
			return true
		}
	}
	return false
}

// Why is the reason to refuse at By.
func (r *Reach) Why(now int64, over bool) core.Reason {
	for _, d := range [...]Direction{Writes, Reads} {
		if of := &r.of[d]; of.silent && (over || !of.served) && now >= of.by {
			return r.Reason(d)
		}
	}
	return core.ReasonUnreachable
}

// Reason is why a direction is given up that has failed for too long. A store that refuses
// has answered.
func (r *Reach) Reason(d Direction) core.Reason {
	switch of := &r.of[d]; {
	case of.served:
		return core.ReasonLimit
	case of.class == core.ClassNone || of.class == core.ClassUnreachable || of.class == core.ClassThrottled:
		return core.ReasonUnreachable
	}
	return core.ReasonUnusable
}
