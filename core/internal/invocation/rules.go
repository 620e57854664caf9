//go:build !mopslock_mutations

package invocation

import "github.com/mopslock/mopslock/core"

// Each rule here is one that core/PROTOCOL.md names a mutation for: the explorer leaves it
// out, by rules_mutated.go, and finds what then goes wrong.

// confirm looks once more: an earlier holder may have stored a result (PROTOCOL I1).
func (v *Invocation) confirm() {
	v.become(core.InvocationConfirming)
	v.askResult()
}

// deliveryVerb stores the first result, and no second over it (PROTOCOL I3).
func (v *Invocation) deliveryVerb() core.ActionKind {
	if v.creates() {
		return core.ActionCreateResult
	}
	return core.ActionPutResult
}

// isAnothers reports that another process does the work by now, or was told that it may:
// nothing more of ours is written at the shared address (PROTOCOL I4).
func (v *Invocation) isAnothers() bool {
	return v.lost == core.ReasonTaken || v.lost == core.ReasonBroken
}
