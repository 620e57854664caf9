package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// byBridge is a process that keeps the name by its register, and by lock.json for mops to see.
func byBridge(c *core.Config) {
	c.Protocol, c.FleetExpire = core.ProtocolBridge, core.TTLEndless
	c.TTL, c.Margin = core.TTL(bridgeTTL), core.Duration(bridgeTTL/10)
}

// bridgeTTL leaves an attempt at lock.json, a third of it at most, more than a tick.
const bridgeTTL = 12 * second

// bridges: two that keep the name by bridge, and release it.
func (k *strictMaker) bridges() *Scenario {
	sc := k.world("bridge", "2 acquirers by bridge, that release")
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, byBridge)), releases(k.acquirer("B", 101, false, byBridge))}
	sc.Horizon = 9
	return sc
}

// byMops is a process of before, which sees lock.json alone, and renews and releases without a look.
func byMops(c *core.Config) {
	c.Protocol, c.Expiry, c.Boot, c.StampSpread = core.ProtocolLastWriter, 0, "", 0
	c.TTL, c.Margin, c.FleetExpire, c.Renewal = core.TTL(bridgeTTL), core.Duration(bridgeTTL/10), core.TTLEndless, core.RenewalBlind
}

// bridgesBesideMops: two by bridge, and an old process beside them.
func (k *strictMaker) bridgesBesideMops() *Scenario {
	sc := k.bridges()
	sc.Name, sc.About = "strict-bridge-mops", "2 acquirers by bridge, that release, and an old one"
	sc.Mixed = true
	sc.Actors = append(sc.Actors, releases(k.acquirer("M", 100, false, byMops)))
	return sc
}

// mopsFirst: an old process holds the name when two by bridge come.
func (k *strictMaker) mopsFirst() *Scenario {
	sc := k.bridgesBesideMops()
	sc.Name = "strict-mops-first"
	m := releases(k.acquirer("M", 100, true, byMops))
	sc.Actors = []Actor{m, releases(k.acquirer("A", 99, false, byBridge)), releases(k.acquirer("B", 101, false, byBridge))}
	return sc
}

// bridgeCompanion: a companion keeps the lease of the first alive, and an old process comes.
func (k *strictMaker) bridgeCompanion() *Scenario {
	sc := k.bridges()
	sc.Name, sc.About = "strict-bridge-companion", "an acquirer by bridge, its companion, another, and an old process"
	sc.Mixed = true
	a := releases(k.acquirer("A", 99, true, byBridge))
	c := k.companionOf(a, 99, byBridge)
	c.Tell = append(c.Tell, Command{Event: about(core.EventLeave), Words: "C: leave", In: world.Held})
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, byBridge), c, k.acquirer("M", 100, false, byMops)}
	return sc
}

// bridgeBesideStrict: the one asks for bridge, the other for strict, and an old process comes.
func (k *strictMaker) bridgeBesideStrict() *Scenario {
	sc := k.bridgesBesideMops()
	sc.Name, sc.About = "strict-beside-bridge", "an acquirer by bridge, one by strict, and an old one"
	lasts := func(c *core.Config) { c.TTL, c.Margin = core.TTL(bridgeTTL), core.Duration(bridgeTTL/10) }
	sc.Actors[1] = releases(k.acquirer("B", 101, false, lasts))
	return sc
}
