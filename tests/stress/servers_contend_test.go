//go:build linux || darwin

package stress

import (
	"slices"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/servers"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// TestServersContend is TestStorm on each real server, behind a network that hits
// one request in fifteen, with gusts mild enough for everybody to get turns. What
// is asked of the server about the lease is bounded: waiters poll, and nobody
// answers a fault with a storm of his own.
func TestServersContend(t *testing.T) {
	_, long := duration(t)
	eachServer(t, func(t *testing.T, s *server) {
		s.badWeather(t, 15)
		w := newWeather(t, s.place("contend"), climate{ttl: serverTTL, calm: 6 * time.Second, rest: 2 * time.Second, aimed: 5, fair: long})
		began := monotonic()
		w.blow(t)
		took := monotonic() - began
		tally := w.judge(t)
		if !t.Failed() && tally.increments < leastSlots/2 {
			t.Errorf("a calm day: %+v", tally)
		}
		if w.fair && slices.Min(tally.turns[:]) == 0 {
			t.Errorf("somebody got no turn in %v more than planned: %v", patience, tally.turns)
		}
		s.judgeTraffic(t, took, tally.tenures)
	})
}

// mostRequests is how many requests about a lease each process may send in a second,
// in the mean of a run. A waiter sends 3 in a poll interval, which grows from 0.2 s
// to an eighth of the TTL, less a fifth.
const mostRequests = 6

func (s *server) judgeTraffic(t *testing.T, took time.Duration, tenures int) {
	total, most := s.meter.counted(aboutLease)
	rate := float64(total) / stormers / took.Seconds()
	counts := s.proxy.Counts()
	figures(t, "%d requests (%v): %.1f about the lease for each of %d acquisitions, %.2f for each process and second, %d in the busiest second; faults %v; %d connections, %d at once",
		counts.Total(), s.meter, float64(total)/float64(max(1, tenures)), tenures, rate, most, counts.Faults, counts.Connections, counts.Peak)
	if rate > mostRequests {
		t.Errorf("%.1f requests about the lease for each process and second, %d at most", rate, mostRequests)
	}
}

// TestServersLastWriter is TestContend under lastwriter on a real server in the
// weather that it wants: some requests are slow, and the acquire margin covers two.
func TestServersLastWriter(t *testing.T) {
	d, long := duration(t)
	if long {
		d = 20 * time.Second
	}
	s := serversOf(t, servers.S3)[0]
	s.proxy.SetDelay(50 * time.Millisecond)
	s.proxy.Choose(s.meter.before(func(r *proxy.Request) proxy.Fault {
		if r.N%5 == 0 {
			return proxy.Delay
		}
		return proxy.None
	}))
	began := monotonic()
	c := contend(t, s.place("lastwriter"), d, 3*time.Second, []string{"--protocol", "lastwriter", "--acquire-margin", "1s", "--ttl", serverTTL.String()})
	took := monotonic() - began
	c.report(t)
	for _, status := range c.badStatus {
		t.Errorf("a run ended with status %s", status)
	}
	if c.overlaps > 0 {
		t.Errorf("%d of %d commands ran at the same time as another, the longest for %v", c.overlaps, len(c.intervals), c.longest)
	}
	c.mustBeFair(t)
	s.judgeTraffic(t, took, len(c.intervals))
}
