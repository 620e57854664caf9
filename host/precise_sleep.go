package host

import "time"

// longestSleep is the longest pause for which a timer's millisecond is worth a precise
// sleep: the wait of lastwriter between a put and its verification is twice what a
// request or two take.
const longestSleep = 10 * time.Millisecond

// preciseSleep notifies the loop at the end of a short pause, before the timer does. There
// is one at a time: what is due before it ends has the timer.
func (l *loop) preciseSleep(pause time.Duration) {
	if pause <= 0 || pause > longestSleep || l.host.preciseSleep == nil || !l.sleeping.CompareAndSwap(false, true) {
		return
	}
	l.io.Go(func() {
		l.host.preciseSleep(pause)
		l.sleeping.Store(false)
		l.notify()
	})
}
