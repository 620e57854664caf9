package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// A permit hangs on the session of its process: it is dead when that is, and not
// before. A session has one beat, so it is judged by that alone, by the same three
// rules as a lease, and once dead it is dead forever (PROTOCOL N5): what was judged is
// remembered.

// seenSession is a session of others as we know it.
type seenSession struct {
	ID        string
	Beat      Beat
	unchanged base.Unchanged // since when its nonce stood unchanged
	read      bool           // at least once
	Asked     bool           // in this observation
	Dead      bool
}

// SessionTable is what is known of the sessions whose permits stand in a value.
type SessionTable []seenSession

// Find is the session of this id, or nil.
func (t SessionTable) Find(id string) *seenSession {
	for i := range t {
		if t[i].ID == id {
			return &t[i]
		}
	}
	return nil
}

// IsDead reports whether a session is known to be dead.
func (t SessionTable) IsDead(id string) bool {
	seen := t.Find(id)
	return seen != nil && seen.Dead
}

// Cover makes the table that of the sessions of a value, but for ours.
func (t SessionTable) Cover(v *Value, ours string) SessionTable {
	var all SessionTable
	for i := range v.Permits {
		id := v.Permits[i].Session
		if id == ours || all.Find(id) != nil {
			continue
		}
		if seen := t.Find(id); seen != nil {
			all = append(all, *seen)
			continue
		}
		all = append(all, seenSession{ID: id})
	}
	return all
}

// NewObservation forgets what the observation before asked.
func (t SessionTable) NewObservation() {
	for i := range t {
		t[i].Asked = false
	}
}

// DueSession is a session that this observation should ask about: it can be dead by now.
// The one that is longest overdue comes first; nil where none is, or enough were asked.
func (r *Register) DueSession(t SessionTable, most int) (due *seenSession) {
	asked, earliest := 0, r.Now.Mono
	for i := range t {
		s := &t[i]
		if s.Asked {
			asked++
			continue
		}
		if at := r.sessionDeadAt(s); at <= earliest {
			due, earliest = s, at
		}
	}
	if asked >= most {
		return nil
	}
	return due
}

// NextDeath is the earliest Mono at which a session that is not known to be dead can
// be, or unset.
func (r *Register) NextDeath(t SessionTable) int64 {
	at := base.Unset
	for i := range t {
		at = min(at, r.sessionDeadAt(&t[i]))
	}
	return at
}

// sessionDeadAt is the earliest Mono at which an observation can find the session dead:
// unset when it was found so, or what is over at once when it was never read.
func (r *Register) sessionDeadAt(s *seenSession) int64 {
	switch {
	case s.Dead:
		return base.Unset
	case !s.read:
		return -core.MaxClockRange
	}
	return r.canBeDeadAt(r.sessionLife(s), -core.MaxClockRange)
}

// SessionRead judges a session by its beat, as of the start of the observation.
//
// There is no beat: a session is named only after its first beat was put, so it was
// closed, or is so long dead that it was collected.
//
//	holder   put beat (good) ── create v(n), names it
//	taker                             list ── get v(n) ── get beat: no: closed since
func (r *Register) SessionRead(s *seenSession, ev *core.Event) {
	known := s.read
	s.read = true
	s.Beat.Stamp = 0 // of the beat before
	s.Beat.SameBoot, s.Beat.ttl = false, 0
	s.Beat.take(r, ev, parseSessionBeat)
	if !known || s.unchanged.Fingerprint != s.Beat.fingerprint {
		s.unchanged = base.Unchanged{Fingerprint: s.Beat.fingerprint, Since: r.Now.Mono}
	}
	s.Dead = s.Beat.Absent || r.isDead(r.sessionLife(s))
}

// AppendDead appends the ids of the dead, with commas.
func (t SessionTable) AppendDead(dst []byte) []byte {
	for i := range t {
		if t[i].Dead {
			if len(dst) > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, t[i].ID...)
		}
	}
	return dst
}
