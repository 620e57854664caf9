package host

import "time"

// longestNap is the longest pause of which a timer's millisecond is worth a nap: the
// wait of lastwriter between a put and its verification, which is twice what a request or two take.
const longestNap = 10 * time.Millisecond

// nap rings at the end of a short pause, before the timer does. One at a time: what
// is due before it ends has the timer.
func (k *loop) nap(pause time.Duration) {
	if pause <= 0 || pause > longestNap || k.host.nap == nil || !k.napping.CompareAndSwap(false, true) {
		return
	}
	k.io.Go(func() {
		k.host.nap(pause)
		k.napping.Store(false)
		k.ring()
	})
}
