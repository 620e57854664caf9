package explore

import (
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// servers is how many copies Riak keeps (n_val); a quorum is two of them.
const servers = 3

// riak is one key on three servers. A read with pr=quorum and a write with
// pw=quorum reach all three, or, as a fault, all but one. Without siblings the
// last write wins; with them values that were written without knowledge of each
// other stand side by side. As all drafts write after having read nothing, no
// write knows of any other.
type riak struct {
	siblings bool
	copies   [servers]riakCopy
}

// riakCopy is what one server has: values in order, and how many writes it saw.
type riakCopy struct {
	values  string // with a space between
	version int    // of the write or deletion that it saw last
}

func newRiak(siblings bool) *riak { return &riak{siblings: siblings} }

// Choices implements Store: all servers, or one of them is away.
func (r *riak) Choices(*core.Action, bool) int { return 1 + servers }

// Odd says what a choice is.
func (r *riak) Odd(choice int) string {
	return "server " + string(rune('0'+choice)) + " is unavailable during the request"
}

// Apply implements Store.
func (r *riak) Apply(_ int64, a *core.Action, choice int) (Store, core.Event) {
	reply := core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeYes}
	next := *r
	version := 0
	for _, c := range r.copies {
		version = max(version, c.version)
	}
	for i := range next.copies {
		c := &next.copies[i]
		switch {
		case i == choice-1: // away
		case a.Kind == core.ActionDelete:
			// The copy is gone and so is all memory of it: that is the peril.
			*c = riakCopy{}
		case a.Kind == core.ActionPut && r.siblings && c.values != "":
			*c = riakCopy{joinSiblings(c.values, string(a.Body)), version + 1}
		case a.Kind == core.ActionPut:
			*c = riakCopy{string(a.Body), version + 1}
		}
	}
	if a.Kind == core.ActionGet {
		seen := next.read(choice)
		if seen == "" {
			reply.Outcome = core.OutcomeNo
		}
		reply.Body = []byte(seen)
	}
	return &next, reply
}

// read is what the servers that answer have between them: the newest, or with
// siblings all of it.
func (r *riak) read(away int) string {
	var seen riakCopy
	for i, c := range r.copies {
		switch {
		case i == away-1 || c.values == "":
		case r.siblings && seen.values != "":
			seen = riakCopy{joinSiblings(seen.values, c.values), max(seen.version, c.version)}
		case c.version > seen.version:
			seen = c
		}
	}
	return seen.values
}

func joinSiblings(a, b string) string {
	all := append(strings.Fields(a), strings.Fields(b)...)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// AppendState implements Store.
func (r *riak) AppendState(dst []byte) []byte {
	for _, c := range r.copies {
		dst = append(append(dst, c.values...), 0, byte(c.version))
	}
	return dst
}
