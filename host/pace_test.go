package host

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// TestNoObjectTwiceASecond: where a store takes one write a second to an object, as GCS
// does, ours are not overwritten more often, at the shortest TTL that there is on clouds:
// leases by themselves, on a session, with a companion, that are given back and taken
// again, and permits. What is created is never overwritten, and what lastwriter does
// with a lock.json is mops' protocol.
func TestNoObjectTwiceASecond(t *testing.T) {
	bubble(t, func(w *world) {
		p, companion, other := w.host(), w.host(), w.host()
		hosts := []*actor{p, companion, other}
		for _, p := range hosts {
			p.store.unit = time.Second
		}
		short := Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(core.MinTTLCoarse)}
		onSession := short
		onSession.Session = true
		acquire := func(p *actor, name string, terms Terms) *Lease {
			l := p.hold(name, terms)
			return l
		}
		alone := acquire(p, "alone", short)
		_ = companion.joins(alone.Handle())
		for _, name := range []string{"a", "b", "c"} {
			acquire(p, name, onSession)
		}
		for range 40 {
			p.release(acquire(p, "again", short))
			other.release(acquire(other, "again", onSession))
			p.giveBack(p.permit("permits", six, PermitOptions{Terms: Terms{TTL: core.TTL(core.MinTTLCoarse)}}))
			w.sleep(7 * time.Second)
		}
		w.ok(alone.Err())
		last := map[string]time.Time{}
		again := 0
		for _, p := range hosts {
			for _, c := range p.store.puts() {
				if at, written := last[c.key]; written {
					again++
					if gap := c.at.Sub(at); gap < time.Second {
						w.Errorf("%s: put again after %v", c.key, gap)
					}
				}
				last[c.key] = c.at
			}
		}
		if again < 500 {
			w.Errorf("%d puts of what was put before", again)
		}
	})
}
