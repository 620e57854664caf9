// Package alarms keeps what is to be done at instants, in the order in which it is due.
package alarms

import (
	"container/heap"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Alarm is one instant at which something is to be done. It is embedded in what does it.
type Alarm struct {
	base.Shared
	At     int64     // Mono
	Rings  core.Part // what it is embedded in; nil before it was armed
	serial uint64
	index  int // in the heap, from 1; 0 outside
}

// IsArmed reports whether it will ring.
func (a *Alarm) IsArmed() bool { return a.index != 0 }

// WriteState writes when it rings, if it is armed.
func (a *Alarm) WriteState(w *core.StateWriter) {
	if w.Bool(a.IsArmed()); a.IsArmed() {
		w.Due(a.At)
	}
}

// Alarms are those that are armed; of two at one instant the one that was set first is first.
type Alarms struct {
	base.Shared
	all    queue
	serial uint64
}

// Arm sets an alarm, or moves it; at base.Unset it takes it away.
func (s *Alarms) Arm(a *Alarm, rings core.Part, at int64) {
	switch {
	case at == base.Unset:
		s.Disarm(a)
		return
	case a.IsArmed() && a.At == at:
		return
	}
	s.serial++
	a.At, a.serial, a.Rings = at, s.serial, rings
	if a.IsArmed() {
		heap.Fix(&s.all, a.index-1)
		return
	}
	heap.Push(&s.all, a)
}

// Disarm takes an alarm away, if it is armed.
func (s *Alarms) Disarm(a *Alarm) {
	if a.IsArmed() {
		heap.Remove(&s.all, a.index-1)
	}
}

// First is the alarm that rings first, or nil.
func (s *Alarms) First() *Alarm {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[0]
}

// IsDue reports whether one has rung by now.
func (s *Alarms) IsDue(now int64) bool { return len(s.all) > 0 && s.all[0].At <= now }

// WriteState writes what rings, in that order.
func (s *Alarms) WriteState(w *core.StateWriter) {
	all := slices.SortedFunc(slices.Values(s.all), func(a, b *Alarm) int {
		if a.isBefore(b) {
			return -1
		}
		return 1
	})
	w.Int(int64(len(all)))
	for _, a := range all {
		w.Part(a.Rings)
	}
}

// Detach gives s, which is a copy, the copies of the alarms. Those are in the copies of what
// they are embedded in.
func (s *Alarms) Detach(t core.Copies, of *Alarms) {
	s.all = slices.Clone(s.all)
	for i, a := range of.all {
		a.Rings.CopyIn(t)
		s.all[i] = t[a].(*Alarm)
	}
}

func (a *Alarm) isBefore(b *Alarm) bool {
	return a.At < b.At || a.At == b.At && a.serial < b.serial
}

// queue implements heap.Interface.
type queue []*Alarm

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].isBefore(q[j]) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i+1, j+1
}

func (q *queue) Push(a any) {
	*q = append(*q, a.(*Alarm))
	a.(*Alarm).index = len(*q)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last], a.index = nil, 0
	*q = (*q)[:last]
	return a
}
