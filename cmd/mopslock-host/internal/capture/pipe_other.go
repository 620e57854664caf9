//go:build !unix

package capture

import "time"

// lingering is how long a pipe must be silent to count as empty, since a Read that waits cannot be
// ended here.
const lingering = time.Second

// stop waits until run has ended, or has nothing to read. It reports whether run has ended.
func (p *Pipe) stop(patience <-chan time.Time) bool {
	ticker := time.NewTicker(lingering)
	defer ticker.Stop()
	begun := p.taken.Load()
	for before := begun; ; before = p.taken.Load() {
		select {
		case <-p.done:
			return true
		case <-patience:
			return false
		case <-ticker.C:
		}
		now := p.taken.Load()
		if now-begun >= mostLeft || now == before && !p.busy.Load() {
			return false
		}
	}
}

// drain does nothing: run has read all there was.
func (p *Pipe) drain() {}
