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
	Actor  string
	Name   string
	Tenure string
	Span
	Overlaps []Span // when another tenure of the name was also relied on

	process, slot int // the actor's place among all
}

// holds keeps who held what when. A nil one keeps nothing.
type holds struct {
	all  []Hold
	open map[*unit]int // into all; its To is the deadline
}

// believes: u relies on its name from now until then. A deadline that has passed
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
	p := u.process
	hold := Hold{Actor: p.String(), Name: u.name, Tenure: u.claim.Tenure, Span: Span{now, to}, process: p.number}
	if len(p.slots) > 1 {
		hold.slot = slices.Index(p.slots, u.slot) + 1
		hold.Actor += ", actor " + strconv.Itoa(hold.slot)
	}
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
	slices.SortStableFunc(all, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.process, b.process), cmp.Compare(a.slot, b.slot))
	})
	lasting := map[string][]int{} // by name: those that may overlap with what is to come
	for i := range all {
		mine := &all[i]
		left := lasting[mine.Name][:0]
		for _, j := range lasting[mine.Name] {
			other := &all[j]
			if other.To <= mine.From {
				continue
			}
			left = append(left, j)
			if other.Tenure != mine.Tenure {
				both := Span{mine.From, min(mine.To, other.To)}
				mine.overlap(both)
				other.overlap(both)
			}
		}
		lasting[mine.Name] = append(left, i)
	}
	return all
}

// overlap adds a span that begins no sooner than those before it, and joins spans that touch.
func (h *Hold) overlap(both Span) {
	if n := len(h.Overlaps); n > 0 && both.From <= h.Overlaps[n-1].To {
		h.Overlaps[n-1].To = max(h.Overlaps[n-1].To, both.To)
		return
	}
	h.Overlaps = append(h.Overlaps, both)
}
