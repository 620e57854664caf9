package servers

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

const (
	// turns are what each of two hosts must get.
	turns = 8
	// oneIn so many requests is hit.
	oneIn = 6
)

// TestWeather has two hosts contend for one name, each behind weather of its own: both
// get their turns, never at the same time, and tokens grow from each to the next.
func TestWeather(t *testing.T) {
	var done sync.WaitGroup
	for i, kind := range Kinds {
		server := Need(t, kind)
		w := &walks{T: t, server: server}
		for j, terms := range []host.Terms{strictly, byLast} {
			c := &contest{terms: terms}
			for k := range c.leases {
				seed := uint64(100*i + 10*j + k + 1)
				one := w.open(tale{name: terms.Protocol.String()}, fmt.Sprintf("weather %d", seed))
				one.name = "contested/" + terms.Protocol.String()
				one.proxy.SetDelay(late)
				one.proxy.Choose(proxy.Weather(seed, oneIn))
				done.Go(func() {
					defer one.proxy.Close()
					if err := one.end(c.take(one, k)); err != nil {
						t.Errorf("%s: %v", one.title, err)
					}
					c := one.proxy.Counts()
					t.Logf("%s: %d requests, faults %v", one.title, c.Total(), c.Faults)
				})
			}
		}
		defer done.Wait() // before its server ends
	}
}

// contest is what two hosts hold of one name.
type contest struct {
	terms host.Terms

	mu     sync.Mutex
	leases [2]*host.Lease
	token  uint64
}

// take takes a host's turns.
func (c *contest) take(w *walk, me int) error {
	for range turns {
		lease, err := w.host.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: c.terms})
		if err != nil {
			return err
		}
		if err := c.enter(me, lease); err != nil {
			return err
		}
		select { // what a lease is for takes a while
		case <-lease.Done():
		case <-time.After(50 * time.Millisecond):
		}
		c.leave(me)
		// A release that the weather keeps from the store to the deadline is a loss.
		if err := lease.Release(w.ctx); err != nil && !errors.Is(err, &host.Error{Kind: host.Lost}) {
			return fmt.Errorf("release: %w", err)
		}
	}
	return nil
}

func (c *contest) enter(me int, lease *host.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := lease.FencingToken()
	if other := c.leases[1-me]; other != nil && other.Err() == nil && lease.Err() == nil {
		return fmt.Errorf("%s and %s both hold it", lease.Holder(), other.Holder())
	}
	if token != 0 && token <= c.token {
		return fmt.Errorf("token %d after %d", token, c.token)
	}
	c.leases[me], c.token = lease, token
	return nil
}

func (c *contest) leave(me int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases[me] = nil
}
