package world

import (
	"reflect"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// TestQueueIsInOrder: the earliest comes first, and of one instant what was put in first.
func TestQueueIsInOrder(t *testing.T) {
	c := NewChance(1, 1)
	var q Queue
	count, last, lastAt := 0, 0, int64(0)
	for i := range 100_000 {
		if c.Below(2) == 0 {
			at := q.Now + c.UpTo([]int64{0, 1, 1000}[c.Below(3)])
			q.At(at, func() {
				if q.Now != at || at < lastAt || at == lastAt && i < last {
					t.Fatalf("%d, put in for %d, came at %d after %d at %d", i, at, q.Now, last, lastAt)
				}
				count, last, lastAt = count+1, i, at
			})
		} else if do := q.Next(); do != nil {
			do()
		}
	}
	if count < 40_000 {
		t.Errorf("only %d came", count)
	}
}

// TestStoresAgree: the stores answer the same, to any requests; the one that is a map says no stamp
// of what it does not read.
func TestStoresAgree(t *testing.T) {
	c := NewChance(1, 1)
	keys := []string{"m/a", "n/lock.json", "n/_mopslock/1/v", "n/_mopslock/2/v", "n/_mopslock/2/b", "_mopslock/store.json"}
	verbs := []core.ActionKind{core.ActionGet, core.ActionExists, core.ActionCreate, core.ActionPut, core.ActionDelete, core.ActionList}
	blobs, store, objects := NewBlobs(int64(time.Second)), NewStore(time.Second, 0), Objects{}
	outcomes := map[core.Outcome]int{}
	for now := range int64(20_000) {
		a := &core.Action{Kind: Pick(c, verbs...), Key: Pick(c, keys...), Request: core.RequestID(now), Body: []byte{byte(now)}}
		if a.Kind == core.ActionList {
			a.Key, a.Count, a.After = "n/_mopslock/", 1+c.Below(3), Pick(c, "", keys[2], keys[3])
		}
		var want core.Event
		now *= int64(time.Second) / 10
		blobs, want = blobs.Apply(Epoch+now, a)
		if got := store.Apply(now, a, 0, 0); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s of %s: %+v and %+v", a.Kind, a.Key, want, got)
		}
		if a.Kind != core.ActionGet {
			want.Stamp = 0
		}
		stamp := Epoch + now
		if got := objects.Apply(stamp-stamp%int64(time.Second), a); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s of %s: %+v and %+v", a.Kind, a.Key, want, got)
		}
		outcomes[want.Outcome]++
	}
	if outcomes[core.OutcomeNo] < 1000 || outcomes[core.OutcomeYes] < 1000 {
		t.Errorf("they answer %v", outcomes)
	}
}

// TestStaleReads show what was there before, and never what was not.
func TestStaleReads(t *testing.T) {
	s := NewStore(0, 10)
	put := func(now int64, body string) {
		s.Apply(now, &core.Action{Kind: core.ActionPut, Key: "k", Body: []byte(body)}, 0, 0)
	}
	put(100, "a")
	put(105, "b")
	s.Apply(110, &core.Action{Kind: core.ActionDelete, Key: "k"}, 0, 0)
	for lag, want := range map[int64]string{0: "", 1: "", 2: "", 3: "b", 7: "b", 8: "a", 12: "a"} {
		got := s.Apply(112, &core.Action{Kind: core.ActionGet, Key: "k"}, 0, lag)
		if string(got.Body) != want || got.Outcome == core.OutcomeYes != (want != "") {
			t.Errorf("%d ago: %v %q, want %q", lag, got.Outcome, got.Body, want)
		}
	}
}
