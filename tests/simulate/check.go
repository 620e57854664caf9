package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// Contract is the invariant between machines and their host: a machine refuses
// nothing that a host may tell it.
const Contract = "Contract"

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant string        `json:"invariant"` // by its name in package check, or Contract
	Text      string        `json:"text"`
	At        time.Duration `json:"at_ns"` // true time
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %v: %s", v.Invariant, v.At, v.Text)
}

// FactKind says what is observed.
type FactKind uint8

// The facts.
const (
	// FactBelieves: Claim is relied on from At until Until.
	FactBelieves FactKind = iota + 1
	// FactStops: Claim's actor does not rely on it any more. It need not be said of
	// one whose Until has passed.
	FactStops
	// FactVersion: a version of a name was created in the store; Claim has its
	// name, epoch and tenure, and State says held, released or broken.
	FactVersion
	// FactOverwritten: Claim's actor has put over version Epoch, or over another's
	// object.
	FactOverwritten
	// FactDeleted: Claim's actor has deleted version Epoch.
	FactDeleted
	// FactPermit: Permit is wanted or held, and may be relied on from At until Until if
	// it was told or is granted.
	FactPermit
	// FactPermitEnds: it may not be relied on any more.
	FactPermitEnds
	// FactBrings: Permit, of which Session and Label are known, stands in a version that
	// was made in the store under the limit Limit.
	FactBrings
)

// Fact is one thing that is observed. At and Until are true time, in nanoseconds,
// and the Until of the Claim is not used: it is by the actor's own clock.
type Fact struct {
	Kind  FactKind
	At    int64
	Until int64
	Claim check.Claim
	State string
	// Forfeits: the version frees the name at once, by a break with now, and nothing is
	// promised to the tenure before it any more.
	Forfeits bool

	Permit check.Permit
	Label  string
	Limit  uint64
}

// Rules say what is promised.
type Rules struct {
	Overlaps bool       // they may happen, and are only counted
	Keep     core.Epoch // this number of the newest versions is never deleted
}

// belief is one machine that relies on a name.
type belief struct {
	claim check.Claim
	until int64 // true time
}

// register is what is known of a name.
type register struct {
	beliefs  []belief
	ledger   check.Ledger
	newest   core.Epoch
	overlaps map[[2]string]bool
	permits  []permitBelief

	tenure    string // of the newest version, or ""
	forfeited map[string]bool
}

// permitBelief is a permit that a process relies on, or will if it is granted.
type permitBelief struct {
	check.Permit
	until int64 // true time
}

// Checker checks what it observes by the invariants, in true time and for many
// names. It is a pure function of its facts.
type Checker struct {
	rules    Rules
	names    map[string]*register
	overlaps int
	found    *Violation
}

// NewChecker makes a checker that has seen nothing.
func NewChecker(rules Rules) *Checker {
	return &Checker{rules: rules, names: map[string]*register{}}
}

// Verdict is the first violation, or nil.
func (c *Checker) Verdict() *Violation { return c.found }

// Overlaps counts pairs of tenures that were relied on at once where the rules let it pass.
func (c *Checker) Overlaps() int { return c.overlaps }

// Found takes what another checker says.
func (c *Checker) Found(at int64, v *check.Violation, who string) {
	if v != nil {
		c.fail(at, v.Checker, "%s: %s", who, v.Text)
	}
}

func (c *Checker) fail(at int64, invariant, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...), At: time.Duration(at)}
	}
}

func (c *Checker) register(name string) *register {
	r := c.names[name]
	if r == nil {
		r = &register{overlaps: map[[2]string]bool{}, forfeited: map[string]bool{}}
		c.names[name] = r
	}
	return r
}

// Observe takes the next fact.
func (c *Checker) Observe(f Fact) {
	r := c.register(f.Claim.Name)
	switch f.Kind {
	case FactBelieves:
		c.believes(&f, r)
	case FactStops:
		r.beliefs = slices.DeleteFunc(r.beliefs, func(b belief) bool { return b.claim.Actor == f.Claim.Actor })
	case FactVersion:
		c.version(&f, r)
	case FactOverwritten:
		c.fail(f.At, check.NoClobber, "%s put over what is not its own at version %d of %s", f.Claim.Actor, f.Claim.Epoch, f.Claim.Name)
	case FactPermit:
		c.permit(&f, r)
	case FactPermitEnds:
		r.permits = slices.DeleteFunc(r.permits, func(b permitBelief) bool { return b.is(&f.Permit) })
	case FactBrings:
		c.brings(&f, r)
	case FactDeleted:
		if f.Claim.Epoch+c.rules.Keep > r.newest {
			c.fail(f.At, check.NoClobber, "%s deleted version %d of %s, and %d is the newest",
				f.Claim.Actor, f.Claim.Epoch, f.Claim.Name, r.newest)
		}
	}
}

// version takes one that was made in the store. One below the newest fills the
// gap that a collected one left; no machine may count it, which believes checks.
func (c *Checker) version(f *Fact, r *register) {
	epoch, tenure := f.Claim.Epoch, f.Claim.Tenure
	if epoch <= r.newest {
		return
	}
	if epoch > r.newest+1 {
		c.fail(f.At, check.EpochOnlyGrows, "version %d of %s was made behind version %d", epoch, f.Claim.Name, r.newest)
	}
	r.newest = epoch
	if f.Forfeits {
		r.forfeited[r.tenure] = true
	}
	if f.State != "held" {
		tenure = ""
	}
	r.tenure = tenure
	c.Found(f.At, r.ledger.Version(f.Claim.Name, epoch, r.newest, tenure), f.Claim.Actor)
}

func (c *Checker) believes(f *Fact, r *register) {
	mine, kept := -1, r.beliefs[:0]
	for _, b := range r.beliefs {
		switch {
		case b.claim.Actor == f.Claim.Actor:
			mine = len(kept)
		case b.until <= f.At:
			continue // its deadline has passed, whether it has heard of that or not
		case f.Until > f.At && b.claim.Tenure != f.Claim.Tenure:
			c.overlap(f, r, &b)
		}
		kept = append(kept, b)
	}
	r.beliefs = kept
	if mine < 0 {
		mine = len(kept)
		r.beliefs = append(r.beliefs, belief{})
	}
	b := &r.beliefs[mine]
	if b.claim.Epoch > f.Claim.Epoch {
		c.fail(f.At, check.EpochOnlyGrows, "%s goes from version %d of %s back to %d",
			f.Claim.Actor, b.claim.Epoch, f.Claim.Name, f.Claim.Epoch)
	}
	if b.claim.Tenure != f.Claim.Tenure || b.claim.Epoch != f.Claim.Epoch {
		c.Found(f.At, r.ledger.Began(&f.Claim), f.Claim.Actor)
	}
	b.claim, b.until = f.Claim, f.Until
}

func (c *Checker) overlap(f *Fact, r *register, b *belief) {
	if !c.rules.Overlaps && !r.forfeited[b.claim.Tenure] && !r.forfeited[f.Claim.Tenure] {
		v := check.Overlap([]check.Claim{b.claim, f.Claim})
		c.fail(f.At, v.Checker, "%s: %s until %v, %s until %v", v.Text,
			b.claim.Tenure, time.Duration(b.until), f.Claim.Tenure, time.Duration(f.Until))
		return
	}
	pair := [2]string{b.claim.Tenure, f.Claim.Tenure}
	if pair[0] > pair[1] {
		pair[0], pair[1] = pair[1], pair[0]
	}
	if !r.overlaps[pair] {
		r.overlaps[pair] = true
		c.overlaps++
	}
}

// is reports whether it is a process's permit of that number.
func (b *permitBelief) is(p *check.Permit) bool { return b.Actor == p.Actor && b.Number == p.Number }

// relied are the permits that are relied on at an instant. It forgets the others.
func (r *register) relied(at int64) (believed []check.Permit) {
	for i := range r.permits {
		if b := &r.permits[i]; b.until > at && (b.Told || r.ledger.Granted(&b.Permit)) {
			believed = append(believed, b.Permit)
		}
	}
	r.ledger.Keep(believed)
	return believed
}

// permit takes what a process knows of a permit. A process that is told of one that did
// not stand in the store is given it now.
func (c *Checker) permit(f *Fact, r *register) {
	i := slices.IndexFunc(r.permits, func(b permitBelief) bool { return b.is(&f.Permit) })
	if i < 0 {
		i = len(r.permits)
		r.permits = append(r.permits, permitBelief{})
	}
	r.permits[i] = permitBelief{f.Permit, f.Until}
	if f.Permit.Told && f.Until > f.At && !r.ledger.Granted(&f.Permit) {
		c.Found(f.At, r.ledger.Grant(&f.Permit, r.relied(f.At)), f.Claim.Actor)
	}
}

// brings takes a permit that stands in a version that was just made.
func (c *Checker) brings(f *Fact, r *register) {
	for i := range r.permits {
		b := &r.permits[i]
		if f.Label != b.Actor+"."+strconv.FormatUint(b.Number, 10) || b.Session != f.Permit.Session || b.until <= f.At || r.ledger.Granted(&b.Permit) {
			continue
		}
		p := b.Permit
		if f.Limit != 0 {
			p.Most = min(p.Most, f.Limit)
		}
		c.Found(f.At, r.ledger.Grant(&p, r.relied(f.At)), f.Label)
	}
}
