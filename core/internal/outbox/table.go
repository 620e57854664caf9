package outbox

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/mopslock/mopslock/core"
)

// table has the flights at id % len, which is a power of two. A place with the id 0 is free.
type table struct {
	issued  core.RequestID
	flights []Flight
}

func (t *table) at(id core.RequestID) *Flight { return &t.flights[int(id)&(len(t.flights)-1)] }

// find is the flight of an id, or nil.
func (t *table) find(id core.RequestID) *Flight {
	if f := t.at(id); id != 0 && f.id == id {
		return f
	}
	return nil
}

// add gives a flight the next id whose place is free. The table grows before it is half full.
func (t *table) add(f *Flight) core.RequestID {
	used := 0
	for {
		t.issued++
		to := t.at(t.issued)
		if to.id == 0 {
			*to = *f
			to.id = t.issued
			return to.id
		}
		if used++; used > len(t.flights)/2 {
			t.grow()
		}
	}
}

func (t *table) grow() {
	old := t.flights
	t.flights = make([]Flight, 2*len(old))
	for i := range old {
		if old[i].id != 0 {
			*t.at(old[i].id) = old[i]
		}
	}
}

func (t *table) isEmpty() bool {
	return !slices.ContainsFunc(t.flights, func(f Flight) bool { return f.id != 0 })
}

// WriteState writes the flights in the order of their ids, wherever they stand.
func (t *table) WriteState(w *core.StateWriter) {
	if w.IsExact() {
		w.Request(t.issued)
	}
	var all []*Flight
	for i := range t.flights {
		if t.flights[i].id != 0 {
			all = append(all, &t.flights[i])
		}
	}
	slices.SortFunc(all, func(a, b *Flight) int { return cmp.Compare(a.id, b.id) })
	w.Int(int64(len(all)))
	for _, f := range all {
		f.WriteState(w)
	}
}

// Check is what is wrong with an answer, or "".
func (o *Outbox) Check(ev *core.Event) (core.ErrorCode, string) {
	f := o.table.find(ev.Request)
	switch {
	case f == nil || f.queued != nil:
		return core.ErrorRequest, "answer to request " + strconv.FormatUint(uint64(ev.Request), 10) + ", which is not under way"
	case ev.Outcome < core.OutcomeYes || ev.Outcome > core.OutcomeUnknown:
		return core.ErrorEvent, "answer without an outcome"
	case ev.Class > core.ClassUnsupported:
		return core.ErrorEvent, "answer of an unknown class"
	case ev.Outcome == core.OutcomeNo && (f.Verb == core.ActionPut && !f.overwrites || f.Verb == core.ActionPutResult || f.Verb == core.ActionList || f.Verb == core.ActionDelete):
		return core.ErrorEvent, "a " + f.Verb.String() + " cannot be answered no"
	case isOutOfRange(ev.Stamp) || slices.ContainsFunc(ev.Entries, func(e core.Entry) bool { return isOutOfRange(e.Stamp) }):
		return core.ErrorEvent, "answer with a stamp out of range"
	case len(ev.Entries) > core.MaxEntries:
		return core.ErrorEvent, "answer with more than 256 entries"
	case ev.RetryAfter < 0:
		return core.ErrorEvent, "answer with a negative retry_after"
	}
	return 0, ""
}

func isOutOfRange(stamp int64) bool { return stamp > core.MaxClockRange || stamp < -core.MaxClockRange }
