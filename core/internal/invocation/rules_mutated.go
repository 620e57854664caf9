//go:build mopslock_mutations

package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

func (v *Invocation) confirm() {
	v.become(core.InvocationConfirming)
	if v.Has(base.NoSecondLook) {
		v.launch()
		return
	}
	v.askResult()
}

func (v *Invocation) deliveryVerb() core.ActionKind {
	if v.creates() && !v.Has(base.ResultOverwrites) {
		return core.ActionCreateResult
	}
	return core.ActionPutResult
}

func (v *Invocation) isAnothers() bool {
	return !v.Has(base.LoserDelivers) && (v.lost == core.ReasonTaken || v.lost == core.ReasonBroken)
}
