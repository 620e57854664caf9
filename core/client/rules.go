//go:build !mopslock_mutations

package client

// Each rule here is one that a mutation leaves out, in rules_mutated.go: TestMutations shows
// what then goes wrong.

// fixes: after a call a claim is believed no longer than at that moment.
func (c *Client) fixes() bool { return true }

// tellsSessionFirst: a session that is past its deadline is stepped before what stands on it.
func (c *Client) tellsSessionFirst() bool { return true }

// nudges: who waits here is told of a release here.
func (c *Client) nudges() bool { return true }
