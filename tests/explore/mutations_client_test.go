//go:build mopslock_mutations

package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// The worlds for what a client does between its claims, and for what comes from outside.

// blind takes every create for a put.
type blind struct{ blobs }

// Apply implements Store.
func (b blind) Apply(now int64, a *core.Action, _ int) (Store, core.Event) {
	put := *a
	if a.Kind == core.ActionCreate {
		put.Kind = core.ActionPut
	}
	next, reply := b.blobs.Apply(now, &put, 0)
	return blind{next.(blobs)}, reply
}

// throttling takes no create of the capability record.
type throttling struct{ blobs }

// Apply implements Store.
func (b throttling) Apply(now int64, a *core.Action, _ int) (Store, core.Event) {
	if a.Kind == core.ActionCreate && a.Key == capabilityKey {
		return b, core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeUnknown, Class: core.ClassThrottled}
	}
	next, reply := b.blobs.Apply(now, a, 0)
	return throttling{next.(blobs)}, reply
}

const capabilityKey = "_mopslock/store.json"

// auto is a claim whose process has to try its store.
func auto(c *core.Config) { c.Protocol, c.Expiry, c.OwnStore = 0, 0, false }

// blindStore: of four creates that race, three lose their answers. The durations are those with
// which lastwriter keeps what it promises.
func (k *mutantMaker) blindStore() *Scenario {
	change := func(c *core.Config) {
		auto(c)
		c.TTL, c.Margin, c.AcquireMargin, c.FleetExpire = core.TTL(40*second), core.Duration(4*second), core.Duration(8*second+200*millisecond), core.TTLEndless
	}
	sc := k.narrow("blind-store", 0, 3, 0, 4, k.acquirer("A", 99, true, change), flawless(late(k.acquirer("B", 101, false, change), 1)))
	sc.Store, sc.Tick, sc.Within, sc.Punctual = blind{newBlobs(strictUnit)}, 4*second, 1, true
	return sc
}

// throttledRecord: a fleet keeps the record throttled. A process that tries its store has the
// name all the same before it would give up, after 5 s.
func (k *mutantMaker) throttledRecord() *Scenario {
	sc := k.narrow("throttled-record", 0, 0, 0, 1, k.acquirer("A", 99, true, auto))
	store, _ := newBlobs(strictUnit).Apply(start, &core.Action{Kind: core.ActionPut, Key: capabilityKey, Body: []byte(`{"v": 1, "create": "honoured"}`)}, 0)
	sc.Store, sc.Tick, sc.Patience = throttling{store.(blobs)}, 600*millisecond, 4200*millisecond
	return sc
}

// besideItself: a process waits for a name that it has itself, and releases it. No time passes
// before it has the name again.
func (k *mutantMaker) besideItself() *Scenario {
	a := k.acquirer("A", 99, true, nil)
	a.Tell = append(a.Tell,
		Command{Event: begins(core.EventAcquire, another, k.config("A")), Words: asks("A") + ", once more", In: world.Held, Must: true},
		Command{Event: about(core.EventRelease), Words: "A: release " + leaseName, From: 1, Must: true},
	)
	sc := k.narrow("beside-itself", 0, 0, 0, 2, a)
	sc.Tick, sc.Patience = 20*millisecond, 20*millisecond
	return sc
}

// meanwhile is a store in which somebody does one thing, at an instant.
type meanwhile struct {
	blobs
	at   int64
	does *core.Action // nil: it is done
}

// Apply implements Store.
func (m meanwhile) Apply(now int64, a *core.Action, _ int) (Store, core.Event) {
	if m.does != nil && now >= m.at {
		next, _ := m.blobs.Apply(now, m.does, 0)
		m.blobs, m.does = next.(blobs), nil
	}
	next, reply := m.blobs.Apply(now, a, 0)
	m.blobs = next.(blobs)
	return m, reply
}

// AppendState implements Store.
func (m meanwhile) AppendState(dst []byte) []byte {
	if m.does != nil {
		dst = append(dst, 1)
	}
	return m.blobs.AppendState(dst)
}

// oldClient: one that knows no versions puts its lock.json beside a lease, and dies. Another
// takes the name when that has expired.
func (k *mutantMaker) oldClient() *Scenario {
	body := `{"writer_id": "old", "expire_s": 5, "written_at": "` + core.FormatStamp(start+strictTick) + `", "first_acquired_at": "", "released_at": ""}`
	b := k.acquirer("B", 101, false, func(c *core.Config) {
		*c = core.Config{Terms: core.Terms{
			Protocol: core.ProtocolLastWriter, Name: c.Name, TTL: c.TTL, FleetExpire: core.TTLEndless,
		}, OwnStore: true, Seed: c.Seed}
	})
	sc := k.narrow("old-client", 0, 0, 0, 0, k.acquirer("A", 99, true, nil), late(b, 3))
	does := core.Action{Kind: core.ActionPut, Key: leaseName + "/" + core.LockFile, Body: []byte(body)}
	sc.Store = meanwhile{newBlobs(strictUnit), sc.StoreWall + sc.Tick, &does}
	return sc
}

// toldLate: a process is paused until its session is dead, and is told to release what stands on
// that before it is woken.
func (k *mutantMaker) toldLate() *Scenario {
	return k.narrow("told-late", 1, 0, 0, 3, releases(k.onSession("A", 99, true)))
}
