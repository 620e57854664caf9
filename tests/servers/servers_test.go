//go:build unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/azblob"
	"github.com/mopslock/mopslock/host/store/capability"
	_ "github.com/mopslock/mopslock/host/store/gs"
	_ "github.com/mopslock/mopslock/host/store/s3"
	"github.com/mopslock/mopslock/host/store/storetest"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// patience ends a test that hangs; it does not judge speed.
const patience = 2 * time.Minute

// running are the servers of all tests, one of each kind, started by the first test that
// needs it. prefixes keeps what tests write on them apart, also with -count.
var (
	running  = map[string]*Server{}
	prefixes atomic.Int64
)

func TestMain(m *testing.M) {
	status := m.Run()
	for kind, s := range running {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, kind, err)
			status = 1
		}
	}
	os.Exit(status)
}

// on runs a test on each kind of server, behind a proxy of its own. The environment is
// the proxy's.
func on(t *testing.T, test func(*testing.T, *Server, *proxy.Proxy)) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			s := use(t, kind)
			test(t, s, behind(t, s))
		})
	}
}

// use is the server of a kind. If that is not installed, the test is skipped, or fails
// where servers are required.
func use(t *testing.T, kind string) *Server {
	t.Helper()
	if s := running[kind]; s != nil {
		return s
	}
	s, err := Start(kind)
	switch {
	case errors.Is(err, ErrNotInstalled) && !Required():
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	running[kind] = s
	return s
}

// behind puts a proxy before a server, and into the environment: from here on a GCS store
// that is opened reaches the server by this proxy.
func behind(t *testing.T, s *Server) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(s.Kind, s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for _, line := range s.Env(p.Address()) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	return p
}

// fresh is a prefix that nothing has used.
func fresh(word string) string { return fmt.Sprintf("%s %d", word, prefixes.Add(1)) }

// open opens a store, and closes it in the end.
func open(t *testing.T, url string) store.Store {
	t.Helper()
	opened, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

// TestConformance: each cloud's protocol keeps what every store promises. The test goes
// straight to the server: a proxy holds bodies whole.
func TestConformance(t *testing.T) {
	on(t, func(t *testing.T, s *Server, _ *proxy.Proxy) {
		for _, line := range s.Env(s.Address) {
			name, value, _ := strings.Cut(line, "=")
			t.Setenv(name, value)
		}
		storetest.Run(t, func(t *testing.T) store.Store { return open(t, s.Under(s.Address, fresh("conformance"))) })
	})
}

// TestDoctor: create-if-absent holds on each server, so the doctor advises strict. It finds
// nothing bad, and leaves nothing but the capability record.
func TestDoctor(t *testing.T) {
	on(t, func(t *testing.T, s *Server, p *proxy.Proxy) {
		opened := open(t, s.Under(p.Address(), fresh("doctor")))
		r, err := doctor.Examine(t.Context(), opened, &doctor.Options{Rounds: 30, Tries: 20})
		if err != nil || !r.Strict() || r.Create.Rounds != 30 || r.Create.MostWinners != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		for _, found := range r.Findings {
			if found.Bad {
				t.Errorf("%+v", found)
			}
		}
		if r.Stamps.Samples == 0 || !r.Clock.Known || r.Stamps.Spread > doctor.Seconds(core.DefaultSpread) || r.Advice.TTLFloor < doctor.Seconds(core.MinTTLCoarse) {
			t.Errorf("%+v %+v %+v", r.Stamps, r.Clock, r.Advice)
		}
		page, _, err := opened.List(t.Context(), "", "", 0)
		if err != nil || len(page) != 1 || page[0].Key != capability.Key {
			t.Errorf("%v, left %v", err, page)
		}
	})
}
