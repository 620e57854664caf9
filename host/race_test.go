//go:build race

package host

import (
	"sync"
	"testing"
	"time"
)

const raceDetector = true

// TestTimersAtOnce: the race detector survives timers that are due at one instant, at
// whose channels somebody looks. Were it not for inBubble, it ended the process.
func TestTimersAtOnce(t *testing.T) {
	for range 4 {
		inBubble(t, func(*testing.T) {
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range 500 {
						one, other := time.NewTimer(time.Second), time.NewTimer(time.Second)
						time.AfterFunc(time.Second, func() {})
						<-one.C
						select {
						case <-other.C:
						default:
						}
						other.Stop()
					}
				})
			}
			all.Wait()
		})
	}
}
