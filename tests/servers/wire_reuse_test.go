package servers

import (
	"fmt"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// TestConnectionsAreReused: whatever a verb comes to, its answer is read to the end,
// and the connection serves the next one.
func TestConnectionsAreReused(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			s := open(t, server, p, "reuse")
			for i := range 200 {
				// Of one and the same key: in time each verb is told yes and no.
				v := verbs[i%len(verbs)]
				if i/len(verbs)%2 == 1 {
					v = verbs[len(verbs)-1-i%len(verbs)]
				}
				if err := v.do(t.Context(), s, "n/key.json"); !isAnswered(err) {
					t.Fatalf("%d, %s: %v", i, v.op, err)
				}
			}
			if c := p.Counts(); c.Connections != 1 {
				t.Errorf("%d requests made %d connections, want 1", c.Total(), c.Connections)
			}
			crowd(t, p, s)
		})
	}
}

// crowd has many ask at once, again and again.
func crowd(t *testing.T, p *proxy.Proxy, s store.Store) {
	const callers, times = 64, 8
	p.Reset()
	var meet, done sync.WaitGroup
	meet.Add(callers)
	p.Choose(func(r *proxy.Request) proxy.Fault {
		// The first of each waits for all: from then on there are so many connections.
		if r.N < callers {
			meet.Done()
			meet.Wait()
		}
		return proxy.None
	})
	for i := range callers {
		done.Go(func() {
			for range times {
				if _, err := s.Exists(t.Context(), fmt.Sprintf("n/%d", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	c := p.Counts()
	if c.Total() != callers*times || c.Peak != callers || c.Connections > callers {
		t.Errorf("%d requests, %d at once, made %d connections", c.Total(), c.Peak, c.Connections)
	}
}
