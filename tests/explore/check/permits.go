package check

import (
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
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

// Desk watches one semaphore: what it says of each permit, and what it sends. Its
// zero value is ready, and Copy is independent.
type Desk struct {
	open []uint64 // numbers of permits that were asked for and have not ended
	held []uint64 // those of them that are held
}

// Copy is an independent copy.
func (d *Desk) Copy() Desk { return Desk{slices.Clone(d.open), slices.Clone(d.held)} }

// AppendState appends all that is remembered as canonical bytes.
func (d *Desk) AppendState(dst []byte) []byte {
	for _, list := range [][]uint64{d.open, d.held} {
		dst = append(dst, byte(len(list)))
		for _, n := range list {
			dst = append(dst, byte(n), byte(n>>8), byte(n>>16))
		}
	}
	return dst
}

// Asked tells of a permit, or a limit, that is asked for.
func (d *Desk) Asked(number uint64) { d.open = append(d.open, number) }

// Watch looks at the actions of one Step, in their order.
func (d *Desk) Watch(m core.Stepper, name string, actions []core.Action) *Violation {
	wake := false
	for i := range actions {
		a := &actions[i]
		v := d.sent(a, name)
		if a.Permit != 0 {
			v = d.said(a)
		}
		if v != nil {
			return v
		}
		wake = wake || a.Kind == core.ActionWake
	}
	if !m.Idle() {
		return nil
	}
	if len(d.open) > 0 {
		return found(QuietWhenIdle, "a semaphore that waits for nothing, %s, has not said what became of permit %d", m, d.open[0])
	}
	if wake {
		return found(QuietWhenIdle, "a semaphore that waits for nothing, %s, wants to be woken", m)
	}
	return nil
}

// said takes one notice of a permit.
func (d *Desk) said(a *core.Action) *Violation {
	at, held := slices.Index(d.open, a.Permit), slices.Index(d.held, a.Permit)
	switch {
	case at < 0:
		return found(NoResurrection, "a semaphore says %s of permit %d, which has ended", a.Kind, a.Permit)
	case a.Kind == core.ActionHeld && held < 0:
		d.held = append(d.held, a.Permit)
		return nil
	case held >= 0 && a.Kind != core.ActionLost && a.Kind != core.ActionReleased:
		return found(NoResurrection, "a semaphore says %s of permit %d, which is held", a.Kind, a.Permit)
	case a.Kind == core.ActionWaiting:
		return nil
	}
	d.open = slices.Delete(d.open, at, at+1)
	if held >= 0 {
		d.held = slices.Delete(d.held, held, held+1)
	}
	return nil
}

// sent takes one request: a semaphore creates versions of its name, and deletes old ones.
func (d *Desk) sent(a *core.Action, name string) *Violation {
	own := strings.HasPrefix(a.Key, name+"/")
	switch {
	case a.Kind == core.ActionPut,
		a.Kind == core.ActionCreate && (!own || !strings.HasSuffix(a.Key, "/v")),
		a.Kind == core.ActionDelete && !own:
		return found(NoClobber, "a semaphore sends %s of %s, which is not its own", a.Kind, a.Key)
	}
	return nil
}
