package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// TestInFlight: a host has no more requests under way than it was told, and uses all of
// those, however many leases it is asked for at once; and no more connections.
func TestInFlight(t *testing.T) {
	const most, leases = 4, 40
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			h, err := host.Open(t.Context(), server.Under(p.Address(), "flight"), &host.Options{InFlight: most, Memory: "-"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), walkLimit)
			defer cancel()
			var (
				meet, done sync.WaitGroup
				lists      atomic.Int64
			)
			meet.Add(most)
			p.Choose(func(r *proxy.Request) proxy.Fault {
				// Each lease is looked for by one: the first of them wait for each other.
				if r.Op == proxy.List && lists.Add(1) <= most {
					meet.Done()
					meet.Wait()
				}
				return proxy.None
			})
			for i := range leases {
				done.Go(func() {
					lease, err := h.Acquire(ctx, fmt.Sprintf("n/%d", i), &host.AcquireOptions{Terms: strictly})
					if err == nil {
						err = lease.Release(ctx)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			if err := h.Close(ctx); err != nil {
				t.Error(err)
			}
			if c := p.Counts(); c.Peak != most || c.Connections > 2*most {
				t.Errorf("%d requests at once by %d connections, want %d", c.Peak, c.Connections, most)
			}
		})
	}
}

// TestSilence: what a server that has stopped does not answer ends at its own limit, and
// is asked again; the holder gives up at his deadline, and whoever waits goes on when it
// answers again.
func TestSilence(t *testing.T) {
	var done sync.WaitGroup
	for _, kind := range Kinds {
		server := Need(t, kind)
		w := &walks{T: t, server: server, other: openHost(t, server.Under(server.Address, "walks"))}
		one := w.open(tale{name: "silence"}, "until it is lost")
		done.Go(func() {
			defer one.proxy.Close()
			if err := one.end(silenced(one)); err != nil {
				t.Errorf("%s: %v", one.title, err)
			}
		})
		defer done.Wait() // before its server ends
	}
}

func silenced(w *walk) error {
	lease, err := w.host.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: strictly})
	if err != nil {
		return err
	}
	waiting, next := make(chan bool, 1), make(chan error, 1)
	go func() {
		after, err := w.other.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: strictly, OnWaiting: func(host.Status) {
			select {
			case waiting <- true:
			default:
			}
		}})
		if err == nil && after.FencingToken() <= lease.FencingToken() {
			err = fmt.Errorf("token %d after %d", after.FencingToken(), lease.FencingToken())
		}
		if err == nil {
			err = after.Release(w.ctx)
		}
		next <- err
	}()
	select {
	case <-waiting:
	case err := <-next:
		return err
	}
	w.proxy.Reset()
	if err := w.server.Silence(); err != nil {
		return err
	}
	<-lease.Done()
	beats := w.proxy.Counts().Ops[proxy.Put]
	if err := w.server.Resume(); err != nil {
		return err
	}
	if err := lease.Err(); !errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable}) {
		return fmt.Errorf("ended as %w", err)
	}
	if beats < 2 { // the first has hung, and was given up
		return fmt.Errorf("%d beats were tried", beats)
	}
	return <-next
}
