package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Span is a stretch of true time; To is the first moment that is not in it.
type Span struct{ From, To time.Duration }

// Hold is a stretch of time for which an actor relied on a name without a break.
type Hold struct {
	Actor     string
	Machine   string // of the actor, as traces and violations name it
	Companion bool
	Name      string
	Tenure    string
	Span
	// Overlaps are when another tenure of the name was also relied on.
	Overlaps []Span

	rank int // of the actor among all
}

// holds keeps who held what when. A nil one keeps nothing.
type holds struct {
	all  []Hold
	open map[*unit]int // into all; its To is the deadline
}

func newHolds() *holds { return &holds{open: map[*unit]int{}} }

// believes: u relies on its name from at until then. A deadline that has passed
// ends a hold, noticed or not, and what comes after is another hold.
func (h *holds) believes(u *unit, at, until int64) {
	if h == nil || u.slot == nil {
		return
	}
	now, to := time.Duration(at), time.Duration(until)
	if i, ok := h.open[u]; ok {
		if mine := &h.all[i]; mine.To >= now && mine.Tenure == u.claim.Tenure {
			mine.To = max(to, now)
			return
		}
		h.stops(u, at)
	}
	if to <= now {
		return
	}
	hold := Hold{
		Machine: u.label, Companion: u.what == whatCompanion, Name: u.name, Tenure: u.claim.Tenure, Span: Span{now, to},
	}
	hold.Actor, hold.rank = actorOf(u)
	h.open[u] = len(h.all)
	h.all = append(h.all, hold)
}

// stops: u does not rely on its name any more.
func (h *holds) stops(u *unit, at int64) {
	if h == nil {
		return
	}
	if i, ok := h.open[u]; ok {
		h.all[i].To = min(h.all[i].To, time.Duration(at))
		delete(h.open, u)
	}
}

// actorOf names the keeper of a machine: a process, and which of its actors if it
// has several.
func actorOf(u *unit) (actor string, rank int) {
	const most = 1 << 20 // actors of a process
	p := u.process
	actor, rank = "process "+strconv.Itoa(p.number), p.number*most
	if len(p.slots) > 1 {
		i := slices.Index(p.slots, u.slot)
		actor, rank = actor+", actor "+strconv.Itoa(i+1), rank+i+1
	}
	return actor, rank
}

// told is all that was held, by when it began. An actor that relied on a name when the
// run was stopped would have gone on until its deadline, or end if that is sooner.
func (h *holds) told(end time.Duration) []Hold {
	if h == nil {
		return nil
	}
	for _, i := range h.open {
		h.all[i].To = max(h.all[i].From, min(h.all[i].To, end))
	}
	all := slices.DeleteFunc(slices.Clone(h.all), func(hold Hold) bool { return hold.From == hold.To })
	slices.SortStableFunc(all, func(a, b Hold) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.rank, b.rank)) })
	markOverlaps(all)
	return all
}

// markOverlaps wants them sorted by From.
func markOverlaps(all []Hold) {
	lasting := map[string][]int{} // by name: those that may overlap with what is to come
	for i := range all {
		mine := &all[i]
		kept := lasting[mine.Name][:0]
		for _, j := range lasting[mine.Name] {
			other := &all[j]
			if other.To <= mine.From {
				continue
			}
			kept = append(kept, j)
			if other.Tenure != mine.Tenure {
				both := Span{mine.From, min(mine.To, other.To)}
				mine.Overlaps = append(mine.Overlaps, both)
				other.Overlaps = append(other.Overlaps, both)
			}
		}
		lasting[mine.Name] = append(kept, i)
	}
	for i := range all {
		all[i].Overlaps = union(all[i].Overlaps)
	}
}

// union joins spans that touch.
func union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && s.From <= joined[n-1].To {
			joined[n-1].To = max(joined[n-1].To, s.To)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}
