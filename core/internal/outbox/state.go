package outbox

import (
	"slices"

	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Snapshot writes the state.
func (o *Outbox) Snapshot(s *base.Snapshot) {
	for _, out := range o.outages {
		s.Int(int64(out.failed))
		s.Bools(out.told)
	}
	s.Uint(uint64(o.table.issued))
	s.Int(o.restUntil)
	for _, f := range o.table.inOrder() {
		s.Uint(uint64(f.id))
		s.Uint(uint64(f.OwnersID))
		s.Octet(uint8(f.Verb))
		s.Octet(uint8(f.lane))
		s.Int(f.Asked)
		s.Bools(f.Owner != nil, f.ended, f.queued != nil, f.overwrites)
		if q := f.queued; q != nil {
			s.Bools(q.rests, q.over)
			s.Int(q.At)
			s.Int(q.deadline)
			s.Text(q.action.Key)
			s.Bytes(q.action.Body)
		}
	}
	for lane := range lanes {
		s.Int(int64(o.busy[lane]))
		for _, q := range o.ready[lane] {
			s.Uint(uint64(q.id))
		}
	}
}

// ID is the request that waits.
func (q *Queued) ID() uint64 { return uint64(q.id) }

// Snapshot writes the ids of what is under way.
func (s *Sender) Snapshot(w *base.Snapshot) {
	for _, id := range s.flights {
		w.Uint(uint64(id))
	}
}

// Clone is a copy that sets alarms of its own, in which owner is the copy of each owner. It also tells
// the copy of each request that waits.
func (o *Outbox) Clone(alarms *alarms.Alarms, owner func(Owner) Owner) (twin Outbox, queued map[*Queued]*Queued) {
	twin, queued = *o, map[*Queued]*Queued{nil: nil}
	twin.Actions, twin.alarms = Actions{}, alarms
	copyOf := func(q *Queued) *Queued {
		if other, ok := queued[q]; ok {
			return other
		}
		other := *q
		other.Rings = &other
		queued[q] = &other
		return &other
	}
	twin.table.flights = slices.Clone(o.table.flights)
	for i := range twin.table.flights {
		f := &twin.table.flights[i]
		f.queued = copyOf(f.queued)
		if f.Owner != nil {
			f.Owner = owner(f.Owner)
		}
	}
	for lane := range o.ready {
		twin.ready[lane] = nil
		for _, q := range o.ready[lane] {
			twin.ready[lane] = append(twin.ready[lane], copyOf(q))
		}
	}
	return twin, queued
}
