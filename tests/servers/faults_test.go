package servers

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// told is what our stores make of a request that a fault befalls, by verb in the order
// of verbs: ok, absent, exists or a class; applied is whether the server did what a write asked.
//
// The rule is: whoever may have been heard says unknown. The one "exists" that is not
// somebody else's is OwnSuccess's (and Duplicated's), on the store's word: that is why
// the core reads back.
var told = []struct {
	fault   proxy.Fault
	by      string // get put create exists list delete
	applied bool
	but     map[string]string // by kind, where its protocol makes a difference
}{
	{fault: proxy.Delay, by: "ok ok ok ok ok ok", applied: true},
	{fault: proxy.CutBefore, by: "unreachable unreachable unreachable unreachable unreachable unreachable"},
	{fault: proxy.CutRequest, by: "unreachable unreachable unreachable unreachable unreachable unreachable"},
	{fault: proxy.CutAfter, by: "unreachable unreachable unreachable unreachable unreachable unreachable", applied: true},
	{
		fault: proxy.CutAnswer, by: "unreachable unreachable unreachable unreachable unreachable unreachable", applied: true,
		but: map[string]string{GCS: "unreachable unreachable unreachable unreachable unreachable ok"}, // it had said 200
	},
	{fault: proxy.Conflict, by: "other other other other other other"},
	{fault: proxy.OwnSuccess, by: "ok other exists ok ok ok", applied: true},
	{fault: proxy.Throttled, by: "throttled throttled throttled throttled throttled throttled"},
	{fault: proxy.Broken, by: "other other other other other other"},
	{fault: proxy.Busy, by: "throttled throttled throttled throttled throttled throttled"},
	{
		// Each cloud sends a sum of what it has.
		fault: proxy.Truncated, by: "other ok ok ok other ok", applied: true,
		but: map[string]string{GCS: "other other other other other ok", Azure: "unreachable ok ok ok other ok"},
	},
	{fault: proxy.Duplicated, by: "ok ok exists ok ok ok", applied: true},
}

// TestFaultsOnVerbs: what befalls one request of each verb on each server, what the
// store says then, what the server has done, and that nobody sends anything again.
func TestFaultsOnVerbs(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			direct := open(t, server, p, "faults") // while nothing is chosen
			for _, row := range told {
				want := row.by
				if other := row.but[kind]; other != "" {
					want = other
				}
				for i, said := range strings.Fields(want) {
					t.Run(row.fault.String()+"_"+string(verbs[i].op), func(t *testing.T) {
						onVerb(t, server, p, direct, row.fault, i, said, row.applied)
					})
				}
			}
		})
	}
}

func onVerb(t *testing.T, server *Server, p *proxy.Proxy, direct store.Store, fault proxy.Fault, i int, said string, applied bool) {
	v := verbs[i]
	key := "n/" + fault.String() + "/" + string(v.op)
	if v.op != proxy.Create {
		if err := direct.Create(t.Context(), key, []byte(`{"by":"before"}`), "application/json"); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, server, p, "faults") // whose connection is new
	p.Reset()
	hit := false
	p.Choose(func(r *proxy.Request) proxy.Fault {
		if hit || r.Op != v.op { // S3 asks before it deletes
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
	requests := 1
	if v.op == proxy.Delete && server.Kind == S3 {
		requests = 2
	}
	if n := p.Counts().Total(); n != requests {
		t.Errorf("%d requests, want %d", n, requests)
	}
	if writes := v.op == proxy.Put || v.op == proxy.Create || v.op == proxy.Delete; !writes {
		return
	}
	if got := isApplied(t, direct, v.op, key); got != applied {
		t.Errorf("applied: %v, want %v", got, applied)
	}
}

// TestStaleConnection: where a connection that served before breaks without a word,
// Go's own HTTP client sends a read again, once on a new one. A write it never does: that
// may have been applied.
func TestStaleConnection(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			for _, fault := range []proxy.Fault{proxy.CutBefore, proxy.CutRequest, proxy.CutAfter} {
				for _, v := range verbs {
					s := open(t, server, p, fault.String())
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
					err := v.do(t.Context(), s, "n/"+string(v.op))
					p.Choose(nil)
					reads := v.op == proxy.Get || v.op == proxy.Exists || v.op == proxy.List ||
						v.op == proxy.Delete && kind == S3 // which asks first
					n := p.Counts().Total()
					switch {
					case reads && (!isAnswered(err) || n < 2), !reads && (answer(err) != "unreachable" || n != 1):
						t.Errorf("%v, %s: %d requests, %v", fault, v.op, n, err)
					}
				}
			}
		})
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

// isApplied looks whether a write has been done.
func isApplied(t *testing.T, s store.Store, op proxy.Op, key string) bool {
	object, err := s.Get(t.Context(), key)
	switch op {
	case proxy.Put:
		return bytes.Contains(object.Body, []byte("put"))
	case proxy.Create:
		return bytes.Contains(object.Body, []byte("create"))
	}
	return errors.Is(err, store.ErrAbsent)
}
