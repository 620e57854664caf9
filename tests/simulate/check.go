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

// kept is how many of the newest versions are never deleted.
const kept = 2

// checker checks what it is told by the invariants, in true time and for many names. So is the
// Until of what it is told. It is a pure function of that.
type checker struct {
	overlap  bool // tenures may overlap, which is only counted
	overlaps int  // pairs of tenures that were relied on at once where that may be
	names    map[string]*register
	found    *Violation // the first
}

// register is what is known of a name.
type register struct {
	beliefs   []check.Claim // one of each actor that relies on it
	permits   []check.Permit
	ledger    check.Ledger
	newest    core.Epoch
	tenure    string // of the newest version, or ""
	overlaps  map[[2]string]bool
	forfeited map[string]bool // tenures to which nothing is promised any more
}

func newChecker(overlap bool) *checker {
	return &checker{overlap: overlap, names: map[string]*register{}}
}

// take takes what another checker says.
func (c *checker) take(at int64, v *check.Violation, who string) {
	if v != nil {
		c.fail(at, v.Checker, "%s: %s", who, v.Text)
	}
}

func (c *checker) fail(at int64, invariant, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...), At: time.Duration(at)}
	}
}

func (c *checker) register(name string) *register {
	r := c.names[name]
	if r == nil {
		r = &register{overlaps: map[[2]string]bool{}, forfeited: map[string]bool{}}
		c.names[name] = r
	}
	return r
}

// believes: a claim is relied on from now until its Until.
func (c *checker) believes(at int64, claim check.Claim) {
	r := c.register(claim.Name)
	mine, lasting := -1, r.beliefs[:0]
	for _, b := range r.beliefs {
		switch {
		case b.Actor == claim.Actor:
			mine = len(lasting)
		case b.Until <= at:
			continue // its deadline has passed, whether it has heard of that or not
		case claim.Until > at && b.Tenure != claim.Tenure:
			c.overlapping(at, r, &claim, &b)
		}
		lasting = append(lasting, b)
	}
	r.beliefs = lasting
	if mine < 0 {
		mine = len(lasting)
		r.beliefs = append(r.beliefs, check.Claim{})
	}
	b := &r.beliefs[mine]
	if b.Epoch > claim.Epoch {
		c.fail(at, check.EpochOnlyGrows, "%s goes from version %d of %s back to %d", claim.Actor, b.Epoch, claim.Name, claim.Epoch)
	}
	if b.Tenure != claim.Tenure || b.Epoch != claim.Epoch {
		c.take(at, r.ledger.Began(&claim), claim.Actor)
	}
	*b = claim
}

// stops: an actor does not rely on a name any more. It need not be said after its Until.
func (c *checker) stops(claim *check.Claim) {
	r := c.register(claim.Name)
	r.beliefs = slices.DeleteFunc(r.beliefs, func(b check.Claim) bool { return b.Actor == claim.Actor })
}

func (c *checker) overlapping(at int64, r *register, claim, b *check.Claim) {
	if !c.overlap && !r.forfeited[b.Tenure] && !r.forfeited[claim.Tenure] {
		v := check.Overlap([]check.Claim{*b, *claim})
		c.fail(at, v.Checker, "%s: %s until %v, %s until %v", v.Text, b.Tenure, time.Duration(b.Until), claim.Tenure, time.Duration(claim.Until))
		return
	}
	if pair := [2]string{min(b.Tenure, claim.Tenure), max(b.Tenure, claim.Tenure)}; !r.overlaps[pair] {
		r.overlaps[pair] = true
		c.overlaps++
	}
}

// version takes one that an actor makes in the store, with the tenure that holds it or none.
// One that forfeits frees the name at once: a break with now. One below the newest fills the gap
// that a collected one left; no machine may count it, which believes checks.
func (c *checker) version(at int64, claim *check.Claim, forfeits bool) {
	r, epoch := c.register(claim.Name), claim.Epoch
	if epoch <= r.newest {
		return
	}
	if epoch > r.newest+1 {
		c.fail(at, check.EpochOnlyGrows, "version %d of %s was made behind version %d", epoch, claim.Name, r.newest)
	}
	r.newest = epoch
	if forfeits {
		r.forfeited[r.tenure] = true
	}
	r.tenure = claim.Tenure
	c.take(at, r.ledger.Version(claim.Name, epoch, r.newest, claim.Tenure), claim.Actor)
}

// overwritten: an actor has put over a version, or over another's beat beside it.
func (c *checker) overwritten(at int64, claim *check.Claim) {
	c.fail(at, check.NoClobber, "%s put over what is not its own at version %d of %s", claim.Actor, claim.Epoch, claim.Name)
}

// deleted: an actor has deleted a version.
func (c *checker) deleted(at int64, claim *check.Claim) {
	if newest := c.register(claim.Name).newest; claim.Epoch+kept > newest {
		c.fail(at, check.NoClobber, "%s deleted version %d of %s, and %d is the newest", claim.Actor, claim.Epoch, claim.Name, newest)
	}
}

// permit takes what a process knows of one that it wants or holds, and may rely on until its
// Until if it was told or is granted. A process that is told of one that did not stand in the
// store is given it now.
func (c *checker) permit(at int64, p check.Permit) {
	r := c.register(p.Name)
	c.permitEnds(&p)
	r.permits = append(r.permits, p)
	if p.Told && p.Until > at && !r.ledger.Granted(&p) {
		c.take(at, r.ledger.Grant(&p, r.relied(at)), p.Actor)
	}
}

// permitEnds: it may not be relied on any more.
func (c *checker) permitEnds(p *check.Permit) {
	r := c.register(p.Name)
	r.permits = slices.DeleteFunc(r.permits, func(q check.Permit) bool { return q.Actor == p.Actor && q.Number == p.Number })
}

// relied are the permits that are relied on at an instant. It forgets the others.
func (r *register) relied(at int64) (believed []check.Permit) {
	for i := range r.permits {
		if p := &r.permits[i]; p.Until > at && (p.Told || r.ledger.Granted(p)) {
			believed = append(believed, *p)
		}
	}
	r.ledger.Keep(believed)
	return believed
}

// brings: a permit of a session and a label stands in a version that was just made, under a
// limit if that is not 0.
func (c *checker) brings(at int64, name, session, label string, limit uint64) {
	r := c.register(name)
	for _, p := range r.permits {
		if label != p.Actor+"."+strconv.FormatUint(p.Number, 10) || p.Session != session || p.Until <= at || r.ledger.Granted(&p) {
			continue
		}
		if limit != 0 {
			p.Most = min(p.Most, limit)
		}
		c.take(at, r.ledger.Grant(&p, r.relied(at)), label)
	}
}
