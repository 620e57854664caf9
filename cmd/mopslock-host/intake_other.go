//go:build !unix

package main

import "time"

// lingering is how long a pipe must have been silent to count as empty where a Read
// that waits cannot be ended.
const lingering = time.Second

// stop waits until run has ended, or has nothing to read. It reports whether no more
// will come.
func (i *intake) stop(patience <-chan time.Time) bool {
	ticker := time.NewTicker(lingering)
	defer ticker.Stop()
	begun := i.taken.Load()
	for before := begun; ; before = i.taken.Load() {
		select {
		case <-i.done:
			return true
		case <-patience:
			return false
		case <-ticker.C:
		}
		now := i.taken.Load()
		if now-begun >= mostLeft || now == before && !i.busy.Load() {
			return false
		}
	}
}

// drain does nothing: run has read all there was.
func (i *intake) drain() {}
