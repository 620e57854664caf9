//go:build mopslock_bugs

package explore

import "github.com/mopslock/mopslock/core"

// invocations makes the worlds of invocations with the same mistake.
func (k *buggedMaker) invocations() *invocationMaker {
	return &invocationMaker{seed: k.seed, make: k.make, protocol: core.ProtocolStrict}
}

// narrow is a world with few faults.
func (k *invocationMaker) narrow(name string, pauses int) *Scenario {
	sc := k.world(name, "made for one mistake")
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = pauses, 0, 0, 0, 0
	return sc
}

// storedMeanwhile: one looks, another stores the result and gives the lease back,
// and the first one gets it.
func (k *invocationMaker) storedMeanwhile() *Scenario {
	sc := k.narrow("stored-meanwhile", 0)
	sc.Actors = []Actor{works(k.orchestrator("A", 99, true), 0), works(k.orchestrator("B", 101, false), 0)}
	sc.Horizon = 1
	return sc
}

// brokenLoser: somebody breaks the lease while the work is done.
func (k *invocationMaker) brokenLoser() *Scenario {
	sc := k.narrow("broken-loser", 0)
	d := k.breaker()
	d.Tell[0].Must = true
	sc.Actors = []Actor{works(k.orchestrator("A", 99, true), 2), flawless(d)}
	sc.Horizon = 3
	return sc
}
