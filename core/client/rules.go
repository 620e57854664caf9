//go:build !mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/single"
)

// Each rule here is one that a mutation leaves out, in rules_mutated.go: TestMutations shows
// what then goes wrong.

// newMachine makes a machine with a seed of its own: no two tenures have one id.
func (c *Client) newMachine(cfg core.Config) (base.Reporting, error) {
	cfg.Seed = c.seed()
	return single.New(cfg)
}

// inForce is the id of a session once its first beat has been taken, or "".
func (c *Client) inForce(s *session) string { return s.id }

// isLeaving: what is being left is handed out to nobody.
func (c *Client) isLeaving(s *session) bool { return s.state == sessionLeaving }

// capsBelief: after a call a claim is believed no longer than at that moment.
func (c *Client) capsBelief() bool { return true }

// newBelief: nothing that one tenure was believed by lives on in the next.
func (c *Client) newBelief(cl *claim, b belief) { cl.belief = b }

// isChecking: whether a call is right is what the machine says, and not when it wants to be woken.
func (c *Client) isChecking(_ *claim, u *unit) bool { return u.machine.IsChecking() }

// tellsSessionFirst: a session that is past its deadline is stepped before what stands on it.
func (c *Client) tellsSessionFirst() bool { return true }

// yields: auto falls back on lastwriter only where no strict tenure can live.
func (c *Client) yields() bool { return c.canStrict() }

// wakesWaiters: who waits here is told of a release here.
func (c *Client) wakesWaiters() bool { return true }
