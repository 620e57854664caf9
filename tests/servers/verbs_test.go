//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

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

// told is what our stores say of a request that a fault hits, by verb in the order of
// verbs: ok, absent, exists or a class; applied is whether the server did what a write asked.
//
// The rule: where the server may have got the request, the outcome is unknown. OwnSuccess
// and Duplicated give the only "exists" that is of our own object, and the store itself says
// it: that is why the core reads back.
var told = []struct {
	fault   proxy.Fault
	by      string // get put create exists list delete; one word is for all
	applied bool
	but     map[string]string // by kind, where its protocol makes a difference
}{
	{fault: proxy.None, by: "ok", applied: true},
	{fault: proxy.Delay, by: "ok", applied: true},
	{fault: proxy.CutBefore, by: "unreachable"},
	{fault: proxy.CutRequest, by: "unreachable"},
	{fault: proxy.CutAfter, by: "unreachable", applied: true},
	{fault: proxy.CutAnswer, by: "unreachable", applied: true},
	{fault: proxy.Conflict, by: "other"},
	{fault: proxy.OwnSuccess, by: "ok other exists ok ok ok", applied: true},
	{fault: proxy.Throttled, by: "throttled"},
	{fault: proxy.Broken, by: "other"},
	{fault: proxy.Busy, by: "throttled"},
	{
		// Each cloud sends a checksum of what it has, and GCS answers each verb by a document.
		fault: proxy.Truncated, by: "other ok ok ok unreachable ok", applied: true,
		but: map[string]string{GCS: "other unreachable", Azure: "unreachable ok ok ok unreachable ok"},
	},
	{fault: proxy.Duplicated, by: "ok ok exists ok ok ok", applied: true},
}

// TestFaultsOnVerbs: a verb is one request, of its own kind and about its own key. Under every fault the store says what is known of the request, and nothing
// is sent again.
func TestFaultsOnVerbs(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		prefix := fresh("faults")
		direct := open(t, server.Under(p.Address(), prefix)) // used only while no fault is chosen
		for _, row := range told {
			words := strings.Fields(row.by)
			if other := row.but[server.Kind]; other != "" {
				words = strings.Fields(other)
			}
			for i, v := range verbs {
				t.Run(row.fault.String()+"_"+string(v.op), func(t *testing.T) {
					s := open(t, server.Under(p.Address(), prefix)) // whose connection is new
					onVerb(t, server, p, direct, s, row.fault, i, words[min(i, len(words)-1)], row.applied)
				})
			}
		}
	})
}

func onVerb(t *testing.T, server *Server, p *proxy.Proxy, direct, s store.Store, fault proxy.Fault, i int, said string, applied bool) {
	v := verbs[i]
	key := "n/" + fault.String() + "/" + string(v.op) + " me"
	if v.op != proxy.Create {
		if err := direct.Create(t.Context(), key, []byte(`{"by":"before"}`), "application/json"); err != nil {
			t.Fatal(err)
		}
	}
	p.Reset()
	hit := false
	p.Choose(func(r *proxy.Request) proxy.Fault {
		if !strings.HasSuffix(r.Key, "/"+key) {
			t.Errorf("the proxy sees key %q", r.Key)
		}
		if hit {
			return proxy.None
		}
		hit = true
		return fault
	})
	err := v.do(t.Context(), s, key)
	p.Choose(nil)
	if got := answer(err); got != said {
		t.Errorf("%s, want %s: %v", got, said, err)
	}
	if c := p.Counts(); c.Total() != 1 || c.Ops[v.op] != 1 {
		t.Errorf("requests %v, want 1", c.Ops)
	}
	if writes := v.op == proxy.Put || v.op == proxy.Create || v.op == proxy.Delete; writes && isApplied(t, direct, v.op, key) != applied {
		t.Errorf("applied: %v, want %v", !applied, applied)
	}
}

// answer is a store's error in a word.
func answer(err error) string {
	var failed *store.Error
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrAbsent):
		return "absent"
	case errors.Is(err, store.ErrExists):
		return "exists"
	case errors.As(err, &failed):
		return failed.Class.String()
	}
	return err.Error()
}

// TestLiesOnVerbs: what is not the service's own word is unknown, whether or not the service
// got the request.
func TestLiesOnVerbs(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		s := open(t, server.Under(p.Address(), fresh("lies")))
		const key = "n/lies"
		for _, lie := range proxy.Lies() {
			for _, sent := range []proxy.Fault{0, proxy.Sent} {
				for _, v := range verbs {
					if err := s.Put(t.Context(), key, []byte(`{"by":"put"}`), "application/json"); err != nil {
						t.Fatal(err)
					}
					p.Choose(func(*proxy.Request) proxy.Fault { return lie | sent })
					word := answer(v.do(t.Context(), s, key))
					p.Choose(nil)
					if believed := word == "ok" || word == "absent" || word == "exists"; believed != hasMark(server.Kind, lie, v.op) {
						t.Errorf("%v, %s: %s; it means %s", lie|sent, v.op, word, lie.Means())
					}
				}
			}
		}
	})
}

// hasMark reports whether a lie cannot be told from the truth: S3 and GCS say 204 after a
// delete, and with S3 and Azure some true heads say it all.
func hasMark(kind string, lie proxy.Fault, op proxy.Op) bool {
	switch lie {
	case proxy.Nothing204:
		return op == proxy.Delete && kind != Azure
	case proxy.Blank, proxy.Swapped:
		return op != proxy.Get && op != proxy.List && kind != GCS
	}
	return false
}

// isApplied looks whether a write has been done.
func isApplied(t *testing.T, s store.Store, op proxy.Op, key string) bool {
	object, err := s.Get(t.Context(), key)
	if op == proxy.Delete {
		return errors.Is(err, store.ErrAbsent)
	}
	return bytes.Contains(object.Body, []byte(op))
}

// TestStaleConnection: if a connection that served before breaks without an answer, Go's
// own HTTP client sends a read again, once, on a new one. It never sends a write again: the
// server may have applied it.
func TestStaleConnection(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		prefix := fresh("stale")
		for _, fault := range []proxy.Fault{proxy.CutBefore, proxy.CutRequest, proxy.CutAfter} {
			for _, v := range verbs {
				s := open(t, server.Under(p.Address(), prefix))
				if _, err := s.Exists(t.Context(), "warm"); err != nil {
					t.Fatal(err)
				}
				p.Reset()
				p.Choose(func(r *proxy.Request) proxy.Fault {
					if r.N == 0 {
						return fault
					}
					return proxy.None
				})
				err := v.do(t.Context(), s, "n/"+fault.String()+string(v.op))
				p.Choose(nil)
				reads := v.op == proxy.Get || v.op == proxy.Exists || v.op == proxy.List
				word, n := answer(err), p.Counts().Total()
				if reads && (word != "ok" && word != "absent" || n < 2) || !reads && (word != "unreachable" || n != 1) {
					t.Errorf("%v, %s: %d requests, %v", fault, v.op, n, err)
				}
			}
		}
	})
}

// TestConnectionsAreReused: a verb reads its answer to the end, good or bad, so that the
// connection serves the next verb.
func TestConnectionsAreReused(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		s := open(t, server.Under(p.Address(), fresh("reuse")))
		for _, round := range []string{"012345", "543210", "234501"} { // each verb is told yes, and no
			for _, i := range round {
				v := verbs[i-'0']
				if word := answer(v.do(t.Context(), s, "n/key.json")); word != "ok" && word != "absent" && word != "exists" {
					t.Fatalf("%s: %s", v.op, word)
				}
			}
		}
		if c := p.Counts(); c.Connections != 1 {
			t.Errorf("%d requests made %d connections, want 1", c.Total(), c.Connections)
		}
	})
}

// troubles are what can be wrong with a store, and the class that every verb of every
// store gives it.
var troubles = []struct {
	name  string
	class string
	// begin makes the trouble and returns the store's URL; the trouble is undone when the test ends.
	begin func(t *testing.T, s *Server, p *proxy.Proxy) string
	but   map[string]string // by kind and verb, where a service cannot tell
}{
	{"wrong_key", "unauthorized", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		if s.Kind == GCS {
			t.Skip("this server asks for no key; see package gs for what GCS says")
		}
		t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
		t.Setenv("AZURE_STORAGE_KEY", "YW5vdGhlcg==")
		return s.Under(p.Address(), "n")
	}, nil},
	{"no_bucket", "no_such_store", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		u, err := url.Parse(s.Under(p.Address(), "n"))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = "nobodys"
		return u.String()
	}, map[string]string{
		// The answer to a HEAD has no text that tells a missing bucket from a missing object.
		// The write that follows does tell.
		"s3 exists": "ok",
		// GCS' SDK drops the error's text of a get, and this server sends it for a write only;
		// for GCS' own texts see package gs.
		"gs get": "absent", "gs exists": "ok", "gs delete": "ok",
	}},
	{"nobody_listens", "unreachable", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		p.Down()
		undo(t, p.Up)
		return s.Under(p.Address(), "n")
	}, nil},
	{"silent", "unreachable", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		undo(t, s.Resume)
		if err := s.Silence(); err != nil {
			t.Fatal(err)
		}
		return s.Under(p.Address(), "n")
	}, nil},
}

func undo(t *testing.T, f func() error) {
	t.Cleanup(func() {
		if err := f(); err != nil {
			t.Error(err)
		}
	})
}

// TestClassesAreAlike: the same trouble has the same class on every cloud, in every
// verb, and nothing secret in its text. The table told has the classes of refusals.
func TestClassesAreAlike(t *testing.T) {
	on(t, func(t *testing.T, server *Server, p *proxy.Proxy) {
		for _, trouble := range troubles {
			t.Run(trouble.name, func(t *testing.T) {
				s := open(t, trouble.begin(t, server, p))
				for _, v := range verbs {
					limit := patience
					if trouble.name == "silent" { // only this ends it
						limit = 100 * time.Millisecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					err := v.do(ctx, s, "n/k")
					cancel()
					want := trouble.class
					if other, ok := trouble.but[server.Kind+" "+string(v.op)]; ok {
						want = other
					}
					if got := answer(err); got != want {
						t.Errorf("%s: %s, want %s: %v", v.op, got, want, err)
					} else if text := fmt.Sprint(err); strings.Contains(text, "another") || strings.Contains(text, "\n") {
						t.Errorf("%s: text %q", v.op, text)
					}
				}
			})
		}
	})
}
