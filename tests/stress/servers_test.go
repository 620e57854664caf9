//go:build linux || darwin

package stress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/servers"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// serverTTL is the least where stamps are of whole seconds.
const serverTTL = 5 * time.Second

// server is a real server, which is reached through a proxy.
type server struct {
	*servers.Server
	proxy *proxy.Proxy
	meter *meter
}

// eachServer starts a server of each kind, and runs a test against all of them at
// the same time.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	for _, s := range serversOf(t, servers.Kinds...) {
		t.Run(s.Kind, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// serversOf starts servers. What this process needs for them is in its environment
// until the test and its parallel parts have ended.
func serversOf(t *testing.T, kinds ...string) (all []*server) {
	t.Helper()
	for _, kind := range kinds {
		s := &server{Server: servers.Need(t, kind), meter: &meter{}}
		before, err := proxy.New(kind, s.Address)
		if err != nil {
			t.Fatal(err)
		}
		s.proxy = before
		t.Cleanup(func() { s.proxy.Close() })
		s.proxy.Choose(s.meter.before(nil))
		all = append(all, s)
	}
	return all
}

// place is below a prefix, through the proxy.
func (s *server) place(prefix string) place {
	address := s.proxy.Address()
	return place{url: s.Under(address, prefix), env: s.Env(address), direct: s.Under(s.Address, prefix)}
}

// badWeather hits one request in oneIn with any of the proxy's faults.
func (s *server) badWeather(t *testing.T, oneIn int) {
	seed := rand.Uint64() //nolint:gosec // no secret
	figures(t, "weather of seed %d, one request in %d", seed, oneIn)
	s.proxy.SetDelay(300 * time.Millisecond)
	s.proxy.Choose(s.meter.before(proxy.Weather(seed, oneIn)))
}

// meter counts what comes to a proxy, by what it is about, and in which second.
type meter struct {
	mu      sync.Mutex
	about   map[string]map[proxy.Op]int
	seconds map[string]map[int64]int
}

// before counts before the weather has its way; nil is good weather.
func (m *meter) before(weather func(*proxy.Request) proxy.Fault) func(*proxy.Request) proxy.Fault {
	return func(r *proxy.Request) proxy.Fault {
		m.count(r)
		if weather == nil {
			return proxy.None
		}
		return weather(r)
	}
}

// What requests are about.
const (
	aboutFence = "guarded object"
	aboutLease = "lease"
)

func (m *meter) count(r *proxy.Request) {
	about := aboutLease
	if strings.Contains(r.Key, "/_fence/") {
		about = aboutFence
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.about[about] == nil {
		if m.about == nil {
			m.about, m.seconds = map[string]map[proxy.Op]int{}, map[string]map[int64]int{}
		}
		m.about[about], m.seconds[about] = map[proxy.Op]int{}, map[int64]int{}
	}
	m.about[about][r.Op]++
	m.seconds[about][int64(monotonic()/time.Second)]++
}

// counted is how many requests were about something: in all, and in the second
// that had most.
func (m *meter) counted(about string) (total, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.about[about] {
		total += n
	}
	for _, n := range m.seconds[about] {
		most = max(most, n)
	}
	return total, most
}

// String is the requests by what they were about, and by verb.
func (m *meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, about := range slices.Sorted(maps.Keys(m.about)) {
		var verbs []string
		for _, op := range slices.Sorted(maps.Keys(m.about[about])) {
			verbs = append(verbs, fmt.Sprintf("%s %d", op, m.about[about][op]))
		}
		parts = append(parts, about+": "+strings.Join(verbs, ", "))
	}
	return strings.Join(parts, "; ")
}
