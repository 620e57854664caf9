package base

import "math"

// timer names everything that can wake a machine. This is the whole list.
type timer uint8

const (
	TimerDeadline timer = iota // self-fencing: past it the lease is lost, or contact is
	TimerReach                 // a store that has not answered by now is given up
	TimerLimit                 // the caller's patience
	TimerExtra                 // beside what the state does: the later read; under strict, a hint; of a semaphore, more to tell
	TimerNext                  // what the state does next: poll, retry, verify, renew, check again
	timerCount
)

// Unset is later than every instant that a host may tell (MaxClockRange).
const Unset int64 = math.MaxInt64

// timers holds one instant (Mono) per timer.
type timers [timerCount]int64

func NewTimers() (t timers) {
	for i := range t {
		t[i] = Unset
	}
	return t
}

// Earliest is the next instant at which any timer is due, or unset.
func (t *timers) Earliest() int64 {
	first := Unset
	for _, at := range t {
		first = min(first, at)
	}
	return first
}
