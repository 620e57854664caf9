package check

import (
	"slices"
	"strings"
)

// The names of the checkers of semaphores.
const (
	PermitsWithinCapacity = "PermitsWithinCapacity"
	NothingLeaks          = "NothingLeaks"
)

// Permit is a permit as the process that asked for it sees it: wanted or given,
// and neither released nor lost nor refused.
type Permit struct {
	Actor   string
	Name    string
	Number  uint64 // the process's own
	Session string // "" while none is in force
	Weight  uint64
	Most    uint64 // its process's view: so much may be held with it
	// Until is the Mono of the actor's own clock before which it may be relied on.
	Until int64
	Told  bool // that it is held
}

// same reports whether it is one and the same permit on one and the same session.
func (p *Permit) same(q *Permit) bool {
	return p.Actor == q.Actor && p.Number == q.Number && p.Session == q.Session && p.Name == q.Name
}

// Granted reports whether a permit was seen to be given before.
func (l *Ledger) Granted(p *Permit) bool {
	return slices.ContainsFunc(l.permits, func(g Permit) bool { return g.same(p) })
}

// Grant is PermitsWithinCapacity, told of a permit that may be relied on from now
// on, because it was committed or its process was told so, with all others that are
// relied on. Others' views do not matter: with this one no more may be held than its
// own process said.
func (l *Ledger) Grant(p *Permit, believed []Permit) *Violation {
	held := p.Weight
	for i := range believed {
		if q := &believed[i]; q.Name == p.Name && !q.same(p) {
			held += q.Weight
		}
	}
	if held > p.Most {
		return found(PermitsWithinCapacity, "%s is given permit %d of %s: %d are held with it, and its view is %d",
			p.Actor, p.Number, p.Name, held, p.Most)
	}
	known := Permit{Actor: p.Actor, Name: p.Name, Number: p.Number, Session: p.Session}
	at, there := slices.BinarySearchFunc(l.permits, known, beside)
	if !there {
		l.permits = slices.Insert(slices.Clone(l.permits), at, known)
	}
	return nil
}

// beside orders what the ledger knows.
func beside(a, b Permit) int {
	if by := strings.Compare(a.Actor+a.Session, b.Actor+b.Session); by != 0 {
		return by
	}
	return int(a.Number) - int(b.Number)
}

// Keep forgets permits that were given and are not relied on any more.
func (l *Ledger) Keep(believed []Permit) {
	l.permits = slices.DeleteFunc(slices.Clone(l.permits), func(g Permit) bool {
		return !slices.ContainsFunc(believed, func(p Permit) bool { return p.same(&g) })
	})
}

// Newcomer is NothingLeaks, asked of an actor that came when all others had died or
// given everything back, and time had passed.
func Newcomer(actor, state string, held bool) *Violation {
	if held {
		return nil
	}
	return found(NothingLeaks, "%s wants all, and no other holds anything: it is %s forever", actor, state)
}
