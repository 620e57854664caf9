package client

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// errand is one request for tidiness, whose outcome does not matter: sent after a while,
// or when the client closes.
type errand struct {
	alarm
	action core.Action
}

// errand deletes an object after a while.
func (c *Client) errand(key string, after core.Duration) {
	e := &errand{action: core.Action{Kind: core.ActionDelete, Key: key, Limit: tidyLimit}}
	c.errands = append(c.errands, e)
	c.arm(&e.alarm, e, c.now.Mono+int64(after))
}

// ring implements ringer.
func (e *errand) ring(c *Client) {
	c.errands = without(c.errands, e)
	c.tidying++
	c.request(flight{verb: e.action.Kind, lane: laneUsual, errand: true}, &e.action, 0)
}

// close asks every claim to end: what is held is released, what waits is cancelled,
// companions leave.
func (c *Client) close() {
	if c.closing {
		return
	}
	c.closing = true
	for _, cl := range c.inOrder() {
		c.post(job{claim: cl, kind: core.EventClose})
	}
	for _, p := range c.placesInOrder() {
		for _, s := range p.semaphores {
			c.post(job{unit: s.unit, kind: core.EventLeave})
		}
	}
}

// inOrder lists the claims by their numbers.
func (c *Client) inOrder() []*claim {
	all := make([]*claim, 0, len(c.claims))
	for _, cl := range c.claims {
		all = append(all, cl)
	}
	slices.SortFunc(all, func(a, b *claim) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return all
}

// stopClaim ends a claim of a client that closes.
func (c *Client) stopClaim(cl *claim) {
	switch kind := cl.as.stop(); {
	case cl.over:
	case cl.asked != nil:
		c.refuse(cl, core.ReasonCancelled, core.ClassNone)
	case kind != 0:
		cl.as.command(c, cl, order{kind: kind, brief: true})
	}
}

// isAtEnd reports whether there is a step of closing to be taken.
func (c *Client) isAtEnd() bool {
	if !c.closing || c.closed || len(c.claims) > 0 || c.semaphores > 0 || len(c.todo) > 0 {
		return false
	}
	if !c.served {
		return true
	}
	for _, s := range c.sessions {
		if s.unit != nil {
			return false
		}
	}
	return c.tidying == 0 && len(c.errands) == 0
}

// end takes the next step of closing: the sessions, which must outlive every release on
// them, and what was put off; then the end.
func (c *Client) end() {
	if c.served {
		c.closed = true
		c.emit(core.ActionClosed)
		return
	}
	c.served = true
	for _, s := range c.sessions {
		if s.unit != nil {
			c.post(job{unit: s.unit, kind: core.EventLeave})
		}
	}
	if u := c.clock.unit; u != nil {
		c.clock.unit = nil
		c.drop(u)
	}
	if u := c.store.asking; u != nil {
		c.store.asking = nil
		c.drop(u)
	}
	c.sweepTried(0)
	if c.clock.owner != "" {
		c.errand(core.StoreClockPrefix+c.clock.owner, 0)
	}
	for _, e := range c.errands {
		c.arm(&e.alarm, e, c.now.Mono)
	}
}

func (c *Client) uuid() string { return string(base.SeedUUID(c.seed())) }
