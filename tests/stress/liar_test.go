//go:build linux

package stress

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// liarShares are how many of a hundred answers are wrong.
var liarShares = []int{20, 45}

// TestLiar is TestStorm, and TestOrchestratorRestarted, on a store that answers wrongly: 200 and
// a web page, the list of another bucket, 404 from a portal. Package proxy has a table of all of
// them; each means that nothing is known. Half of the processes use the command.
//
//	liar      LIST: 200, nothing     PUT: 200, a page    GET: another's body
//	A, B, C          no vacant name        not held yet        not free
//
// No wrong answer lets two in, brings a token back, or loses a result; when the store tells the
// truth again, all of them come to their end.
func TestLiar(t *testing.T) {
	short := duration(t) < 20*time.Second
	for _, kind := range servers.Kinds {
		server := servers.Need(t, kind)
		for what, play := range map[string]func(*testing.T, *liar, string){"lease": lieOfLease, "permits": lieOfPermits, "jobs": lieOfJobs} {
			for _, share := range liarShares {
				switch {
				case kind != servers.S3 && what != "lease": // one story of each cloud, and all of one
					continue
				case short && (share > 20) != (kind == servers.S3): // half of them
					continue
				}
				t.Run(fmt.Sprintf("%s %s %d%%", kind, what, share), func(t *testing.T) {
					t.Parallel()
					play(t, lying(t, server, share), fmt.Sprint(what, share))
				})
			}
		}
	}
}

func lieOfLease(t *testing.T, l *liar, path string)   { l.storm(path, 6, host.View{}).play(t) }
func lieOfPermits(t *testing.T, l *liar, path string) { l.storm(path, 6, aView).play(t) }

func lieOfJobs(t *testing.T, l *liar, path string) {
	over := make(chan struct{})
	go l.tell(t, over)
	j := &jobs{URL: l.server.Under(l.Address(), path), Protocol: "strict", TTL: onServers.TTL.Duration(), Again: []int{workFailed, unreachable, leaseLost}, Once: true}
	j.play(t, func() { close(over) })
}

func (l *liar) storm(path string, workers int, view host.View) *storm {
	return &storm{
		workers: workers, calm: onServers.TTL.Duration(), kills: 50, command: true, trouble: l.tell,
		env: l.server.Env(l.Address()), direct: l.server.Under(l.server.Address, path),
		climate: climate{URL: l.server.Under(l.Address(), path), Terms: onServers, View: view, Pace: onServers.TTL.Duration() / 50},
	}
}

// liar is a server behind a proxy that lies.
type liar struct {
	*proxy.Proxy

	server *servers.Server
	choose func(*proxy.Request) proxy.Fault
}

// lying puts a liar before a server. As long as nobody calls tell, it tells the truth.
func lying(t *testing.T, server *servers.Server, share int) *liar {
	before, err := proxy.New(server.Kind, server.Address)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Cleanup(func() {
		counts, wrong := before.Counts(), 0
		for _, n := range counts.Faults {
			wrong += n
		}
		figures(t, "%s, seed %d: %d of %d answers were wrong, of %d kinds", server.Kind, seed, wrong, counts.Total(), len(counts.Faults))
		before.Close()
	})
	return &liar{before, server, proxy.Liar(seed, share)}
}

// tell answers wrongly until over.
func (l *liar) tell(_ *testing.T, over <-chan struct{}) {
	l.Choose(l.choose)
	<-over
	l.Choose(nil)
}
