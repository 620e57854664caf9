package client

import "github.com/mopslock/mopslock/core/internal/base"

// alarm is one instant at which something is to be done. It is embedded in what does it.
type alarm struct {
	at     int64 // Mono
	serial uint64
	index  int // in the heap, from 1; 0 outside
	rings  any // what it is embedded in
}

// alarms is a heap by instant; of two at one instant the one that was set first is first.
type alarms struct {
	all    []*alarm
	serial uint64
}

func (s *alarms) before(i, j int) bool {
	a, b := s.all[i], s.all[j]
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}

func (s *alarms) swap(i, j int) {
	s.all[i], s.all[j] = s.all[j], s.all[i]
	s.all[i].index, s.all[j].index = i+1, j+1
}

// arm sets an alarm, or moves it; at base.Unset it takes it away.
func (s *alarms) arm(a *alarm, rings any, at int64) {
	if at == base.Unset {
		s.disarm(a)
		return
	}
	if a.index != 0 && a.at == at {
		return
	}
	s.serial++
	a.at, a.serial, a.rings = at, s.serial, rings
	if a.index == 0 {
		s.all = append(s.all, a)
		a.index = len(s.all)
	}
	s.fix(a.index - 1)
}

func (s *alarms) disarm(a *alarm) {
	if a.index == 0 {
		return
	}
	i, last := a.index-1, len(s.all)-1
	s.swap(i, last)
	s.all[last] = nil
	s.all = s.all[:last]
	a.index = 0
	if i < last {
		s.fix(i)
	}
}

// fix moves an entry up or down to where it belongs.
func (s *alarms) fix(i int) {
	for i > 0 && s.before(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.all); child++ {
			if s.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

// first is the alarm that rings first, or nil.
func (s *alarms) first() *alarm {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[0]
}

// isDue reports whether one has rung by now.
func (s *alarms) isDue(now int64) bool { return len(s.all) > 0 && s.all[0].at <= now }

// snapshot writes when it rings, if it is armed.
func (a *alarm) snapshot(s *base.Snapshot) {
	s.Bools(a.index != 0)
	if a.index != 0 {
		s.Int(a.at)
	}
}
