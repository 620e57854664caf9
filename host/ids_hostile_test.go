package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

// oddIDs are what somebody may have written for an id into a record: some are no
// ids by the core's rule, some only make keys that a store does not keep.
var oddIDs = []string{
	"..", ".", "../../x", "/etc/passwd", "a/b", `a\\b`, `a\u0000b`, `a\nb`, "..%2f", "x__0x2ey", "%2e%2e", "．．", "?prefix=..", "a#b",
	strings.Repeat("x", 201), strings.Repeat("x", 200),
}

// narrow is a host on a store that refuses as many keys as any of ours.
func (w *world) narrow(prefix string) (*party, store.Store) {
	w.Helper()
	s := cloud.New(memblob.OpenBucket(nil), &cloud.Options{Prefix: prefix, Refused: `"#%?`})
	h, err := New(s, &Options{Clock: &fakeClock{start: time.Now()}, Rand: newRand(1), Memory: "-"})
	w.ok(err)
	w.Cleanup(func() { w.ok(h.Close(background)) })
	return &party{Host: h, world: w}, s
}

func forgedLease(state, id string) string {
	return `{"v": 1, "kind": "lease", "n": 1, "state": "` + state + `", "tenure": "t", "origin": 1, "owner": "t", "owners": ["t"], "nonce": "x", ` +
		`"ttl_s": 60, "margin_s": 6, "session": "` + id + `", "alone": false, "boottime_ns": 0, "at": "2000-01-01T00:00:00.000000+00:00"}`
}

func forgedSemaphore(id string) string {
	return `{"v": 1, "kind": "semaphore", "n": 1, "state": "value", "tenure": "t", "origin": 1, "owner": "t", "owners": [], "nonce": "x", ` +
		`"ttl_s": 60, "margin_s": 6, "alone": false, "boottime_ns": 0, "at": "2000-01-01T00:00:00.000000+00:00", ` +
		`"capacity": 1, "width": 1, "permits": [{"id": "p", "session": "` + id + `"}]}`
}

// A record of others that names a session which no store can keep strands nobody: the
// lease, or the permit, is free a TTL later, or two.
func TestForgedSession(t *testing.T) {
	for i, id := range oddIDs {
		for state, record := range map[string]string{
			"held": forgedLease("held", id), "broken": forgedLease("broken", id), "released": forgedLease("released", id),
			"permit": forgedSemaphore(id),
		} {
			t.Run(fmt.Sprintf("%s/%d", state, i), func(t *testing.T) {
				bubble(t, func(w *world) {
					p, s := w.narrow("")
					w.ok(s.Put(background, versionKey("n", 1), []byte(record), ""))
					if state == "permit" {
						permit, err := p.AcquirePermit(w.limited(10*minute), "n", View{Capacity: 1, Width: 1}, nil)
						w.ok(err)
						w.ok(permit.Release(background))
						return
					}
					w.is(errOf(p.tryStrictly("n")), ErrRefused)
					w.sleep(4 * minute)
					p.free("n", strict)
				})
			})
		}
	}
}
