// Package alarms keeps what is to be done at instants, in the order in which it is due.
package alarms

import (
	"container/heap"
	"slices"

	"github.com/mopslock/mopslock/core/internal/base"
)

// Alarm is one instant at which something is to be done. It is embedded in what does it.
type Alarm struct {
	At     int64 // Mono
	Rings  any   // what it is embedded in
	serial uint64
	index  int // in the heap, from 1; 0 outside
}

// IsArmed reports whether it will ring.
func (a *Alarm) IsArmed() bool { return a.index != 0 }

// Snapshot writes when it rings, if it is armed.
func (a *Alarm) Snapshot(s *base.Snapshot) {
	s.Bools(a.IsArmed())
	if a.IsArmed() {
		s.Int(a.At)
	}
}

// Alarms are those that are armed; of two at one instant the one that was set first is first.
type Alarms struct {
	all    queue
	serial uint64
}

// Arm sets an alarm, or moves it; at base.Unset it takes it away.
func (s *Alarms) Arm(a *Alarm, rings any, at int64) {
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

// InOrder lists them as they ring.
func (s *Alarms) InOrder() []*Alarm {
	all := slices.Clone(s.all)
	slices.SortFunc(all, func(a, b *Alarm) int {
		if a.isBefore(b) {
			return -1
		}
		return 1
	})
	return all
}

// Clone is a copy, in which twin is the copy of each alarm.
func (s *Alarms) Clone(twin func(*Alarm) *Alarm) Alarms {
	other := Alarms{all: make(queue, len(s.all)), serial: s.serial}
	for i, a := range s.all {
		other.all[i] = twin(a)
	}
	return other
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
