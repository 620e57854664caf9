package servers

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// behind starts a server with a proxy before it.
func behind(t *testing.T, kind string) (*Server, *proxy.Proxy) {
	t.Helper()
	s := Need(t, kind)
	p, err := proxy.New(kind, s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for _, line := range s.Env(p.Address()) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	return s, p
}

// open opens a store behind a proxy, below a prefix.
func open(t *testing.T, s *Server, p *proxy.Proxy, prefix string) store.Store {
	t.Helper()
	opened, err := store.Open(t.Context(), s.Under(p.Address(), prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

// verbs are those of a store, on a key.
var verbs = []struct {
	op proxy.Op
	do func(context.Context, store.Store, string) error
}{
	{proxy.Get, func(ctx context.Context, s store.Store, key string) error {
		_, err := s.Get(ctx, key)
		return err
	}},
	{proxy.Put, func(ctx context.Context, s store.Store, key string) error {
		return s.Put(ctx, key, []byte(`{"by":"put"}`), "application/json")
	}},
	{proxy.Create, func(ctx context.Context, s store.Store, key string) error {
		return s.Create(ctx, key, []byte(`{"by":"create"}`), "application/json")
	}},
	{proxy.Exists, func(ctx context.Context, s store.Store, key string) error {
		_, err := s.Exists(ctx, key)
		return err
	}},
	{proxy.List, func(ctx context.Context, s store.Store, key string) error {
		_, _, err := s.List(ctx, key, "", 0)
		return err
	}},
	{proxy.Delete, func(ctx context.Context, s store.Store, key string) error {
		return s.Delete(ctx, key)
	}},
}

// TestOneRequestAVerb: on each cloud a verb is one request, of its own kind and about
// its own key; on S3 gocloud's delete is two.
func TestOneRequestAVerb(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			s := open(t, server, p, "a prefix")
			for _, v := range verbs {
				key := "n/" + string(v.op) + " me.json"
				if v.op != proxy.Create { // so that each has what it is about
					if err := s.Create(t.Context(), key, []byte(`{}`), "application/json"); err != nil {
						t.Fatal(err)
					}
				}
				p.Reset()
				p.Choose(func(r *proxy.Request) proxy.Fault {
					if r.Key != "a prefix/"+key {
						t.Errorf("%s: the proxy sees key %q", v.op, r.Key)
					}
					return proxy.None
				})
				if err := v.do(t.Context(), s, key); err != nil {
					t.Errorf("%s: %v", v.op, err)
				}
				p.Choose(nil)
				want := map[proxy.Op]int{v.op: 1}
				if v.op == proxy.Delete && kind == S3 {
					want[proxy.Exists] = 1
				}
				if got := p.Counts().Ops; !maps.Equal(got, want) {
					t.Errorf("%s: requests %v, want %v", v.op, got, want)
				}
			}
		})
	}
}

// isAnswered reports whether the store gave a definite answer.
func isAnswered(err error) bool {
	return err == nil || errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrExists)
}
