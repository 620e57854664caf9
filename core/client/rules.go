//go:build !mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/single"
)

// Each rule here is one that a mutation leaves out, in rules_mutated.go: TestMutations shows
// what then goes wrong.

// rules of a client.
type rules struct{ base.Mutant }

// newMachine makes a machine with a fresh seed, and not with the client's own: no two tenures have one id.
func (rules) newMachine(cfg core.Config, fresh, _ [16]byte) (base.Reporting, error) {
	cfg.Seed = fresh
	return single.New(cfg)
}

// inForce is the id of a session once its first beat has been taken, or "".
func (rules) inForce(id string, _ base.Reporting) string { return id }

// isLeaving: what is being left is handed out to nobody.
func (rules) isLeaving(leaves bool) bool { return leaves }

// capsBelief: after a call a claim is believed no longer than at that moment.
func (rules) capsBelief() bool { return true }

// livesOn: nothing that one tenure was believed by lives on in the next.
func (rules) livesOn(int64) int64 { return 0 }

// isChecking: whether a call is right is what the machine says, and not when it wants to be woken.
func (rules) isChecking(m base.Reporting, _ bool) bool { return m.IsChecking() }

// tellsSessionFirst: a session that is past its deadline is stepped before what stands on it.
func (rules) tellsSessionFirst() bool { return true }

// wakesWaiters: who waits here is told of a release here.
func (rules) wakesWaiters() bool { return true }
