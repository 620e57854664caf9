package check

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// The names of the checkers.
const (
	EpochOnlyGrows    = "EpochOnlyGrows"
	OneHolderPerEpoch = "OneHolderPerEpoch"
	NoOverlap         = "NoOverlap"
	NoResurrection    = "NoResurrection"
	NoClobber         = "NoClobber"
	EventuallyHeld    = "EventuallyHeld"
	QuietWhenIdle     = "QuietWhenIdle"
	CallEndsBelief    = "CallEndsBelief"
	SessionFirst      = "SessionFirst"
)

// Violation is what a checker found: its name, and what happened, in words.
type Violation struct {
	Checker string
	Text    string
}

// Error is the name and the words.
func (v *Violation) Error() string { return v.Checker + ": " + v.Text }

func found(checker, format string, args ...any) *Violation {
	return &Violation{Checker: checker, Text: fmt.Sprintf(format, args...)}
}

// Claim is a lease as one owner relies on it.
type Claim struct {
	Actor  string // the owner's name, for people
	Name   string // what is leased
	Tenure string
	Epoch  core.Epoch // 0 where the protocol has none
	Token  core.Epoch
	// Until is the Mono of the actor's own clock before which it relies on it.
	Until int64
}

// Believes reports whether the claim is relied on at an instant of its own clock.
func (c *Claim) Believes(mono int64) bool { return mono < c.Until }

// Overlap is NoOverlap, of all claims that are relied on at one true instant.
func Overlap(claims []Claim) *Violation {
	for i := range claims {
		for j := range claims[:i] {
			a, b := &claims[j], &claims[i]
			if a.Name == b.Name && a.Tenure != b.Tenure {
				return found(NoOverlap, "%s and %s both hold %s", a.Actor, b.Actor, a.Name)
			}
		}
	}
	return nil
}

// Waiter is EventuallyHeld, asked of an actor that waited until all others had
// stopped and everything had expired.
func Waiter(actor, state string, held bool) *Violation {
	if held {
		return nil
	}
	return found(EventuallyHeld, "%s waits forever: all others have stopped, and it is %s", actor, state)
}

// Ledger remembers what happened to the names of one store. Its zero value is ready.
type Ledger struct {
	began    []began
	versions []version
	works    []work
	puts     []put
	permits  []Permit // that were given and are relied on: whose, which and on what session
}

// began is a tenure that was relied on.
type began struct {
	name, tenure string
	token        core.Epoch
	epochs       []core.Epoch
}

// version is the newest version of a name, and the tenures that have ended.
type version struct {
	name   string
	epoch  core.Epoch
	tenure string // "" when the newest is not held
	ended  []string
}

// Held reports whether a tenure was relied on, and with which token.
func (l *Ledger) Held(tenure string) (core.Epoch, bool) {
	for i := range l.began {
		if l.began[i].tenure == tenure {
			return l.began[i].token, true
		}
	}
	return 0, false
}

// InOrder reports whether both tenures were relied on, the first one before the second.
func (l *Ledger) InOrder(first, second string) bool {
	at := func(tenure string) int {
		return slices.IndexFunc(l.began, func(b began) bool { return b.tenure == tenure })
	}
	return at(first) >= 0 && at(first) < at(second)
}

// Tenures is how many tenures were relied on.
func (l *Ledger) Tenures() int { return len(l.began) }

// Began is told of each claim that is relied on from now on, and of each whose
// epoch has moved. Epochs of 0 are of protocols that have none.
func (l *Ledger) Began(c *Claim) *Violation {
	mine := -1
	for i := range l.began {
		b := &l.began[i]
		switch {
		case b.name != c.Name:
		case b.tenure == c.Tenure:
			mine = i
		case c.Epoch != 0 && slices.Contains(b.epochs, c.Epoch):
			return found(OneHolderPerEpoch, "%s holds %s at epoch %d, which another tenure held", c.Actor, c.Name, c.Epoch)
		}
	}
	if mine < 0 {
		if v := l.tokenGrows(c); v != nil {
			return v
		}
		mine = len(l.began)
		l.began = append(l.began, began{name: c.Name, tenure: c.Tenure, token: c.Token})
	}
	b := &l.began[mine]
	if b.token != c.Token {
		return found(EpochOnlyGrows, "the token of %s on %s was %d and is now %d", c.Actor, c.Name, b.token, c.Token)
	}
	if c.Epoch != 0 && !slices.Contains(b.epochs, c.Epoch) {
		b.epochs = append(slices.Clone(b.epochs), c.Epoch)
		slices.Sort(b.epochs)
	}
	return nil
}

func (l *Ledger) tokenGrows(c *Claim) *Violation {
	for i := range l.began {
		b := &l.began[i]
		if b.name == c.Name && c.Token != 0 && b.token >= c.Token {
			return found(EpochOnlyGrows, "%s holds %s with token %d after one with token %d", c.Actor, c.Name, c.Token, b.token)
		}
	}
	return nil
}

// Version is told of each version of a name that was made: its number, the newest
// that the store has by then, and the tenure that holds it, or "" for one that is
// released or broken. One below the newest is a late create that won what was
// collected long ago: it is not the value, and its maker must see so.
func (l *Ledger) Version(name string, epoch, newest core.Epoch, tenure string) *Violation {
	i := slices.IndexFunc(l.versions, func(v version) bool { return v.name == name })
	if i < 0 {
		l.versions = append(l.versions, version{name: name, epoch: epoch, tenure: tenure})
		return nil
	}
	v := &l.versions[i]
	switch {
	case newest < v.epoch || epoch == v.epoch:
		return found(EpochOnlyGrows, "%s: version %d is made, and the newest is %d, when it was %d before", name, epoch, newest, v.epoch)
	case epoch < newest:
		return nil
	}
	// A tenure that was never relied on was an attempt, and its maker may try again.
	if _, held := l.Held(v.tenure); held && v.tenure != tenure {
		v.ended = append(slices.Clone(v.ended), v.tenure)
	}
	v.epoch, v.tenure = epoch, tenure
	if tenure != "" && slices.Contains(v.ended, tenure) {
		return found(NoResurrection, "%s: version %d brings back a tenure that had ended", name, epoch)
	}
	return nil
}

// Clone is an independent copy.
func (l *Ledger) Clone() *Ledger {
	return &Ledger{began: slices.Clone(l.began), versions: slices.Clone(l.versions), works: slices.Clone(l.works), permits: l.permits, puts: l.puts}
}

// AppendState appends all that is remembered as canonical bytes.
func (l *Ledger) AppendState(dst []byte) []byte {
	text := func(s string) { dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...) }
	dst = binary.AppendUvarint(dst, uint64(len(l.began)))
	for i := range l.began {
		b := &l.began[i]
		text(b.name)
		text(b.tenure)
		dst = binary.AppendUvarint(dst, uint64(b.token))
		dst = binary.AppendUvarint(dst, uint64(len(b.epochs)))
		for _, e := range b.epochs {
			dst = binary.AppendUvarint(dst, uint64(e))
		}
	}
	for i := range l.versions {
		v := &l.versions[i]
		text(v.name)
		dst = binary.AppendUvarint(dst, uint64(v.epoch))
		text(v.tenure)
		dst = binary.AppendUvarint(dst, uint64(len(v.ended)))
		for _, e := range v.ended {
			text(e)
		}
	}
	for i := range l.works {
		w := &l.works[i]
		text(w.Actor)
		text(w.Tenure)
		dst = binary.AppendUvarint(dst, uint64(w.Epoch))
		idle := byte(0)
		if w.idle {
			idle = 1
		}
		dst = append(dst, idle)
	}
	for i := range l.puts {
		text(l.puts[i].key)
		text(l.puts[i].actor)
	}
	for i := range l.permits {
		p := &l.permits[i]
		text(p.Actor)
		text(p.Session)
		dst = binary.AppendUvarint(dst, p.Number)
	}
	return dst
}
