package core

import "math"

// timer names everything that can wake a machine. This is the whole list.
type timer uint8

const (
	timerDeadline timer = iota // self-fencing: past it the lease is lost, or contact is
	timerReach                 // a store that has not answered once by now is unreachable
	timerLimit                 // the caller's patience
	timerLook                  // the later look; under strict, a hint is heeded
	timerNext                  // what the state does next: poll, retry, verify, renew, check again
	timerCount
)

// unset is later than every instant that a host may tell (MaxClockRange).
const unset int64 = math.MaxInt64

// timers holds one instant (Mono) per timer.
type timers [timerCount]int64

func newTimers() (t timers) {
	for i := range t {
		t[i] = unset
	}
	return t
}

// earliest is the next instant at which any timer is due, or unset.
func (t *timers) earliest() int64 {
	first := unset
	for _, at := range t {
		first = min(first, at)
	}
	return first
}
