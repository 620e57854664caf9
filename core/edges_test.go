package core

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestEdges: the scripts and the table together make every move that the edge
// tables allow, and no other.
func TestEdges(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range stories(t) {
		maps.Copy(seen, play(t, path).edges)
	}
	tables, _ := explored()
	for _, tb := range tables {
		maps.Copy(seen, tb.world.edges)
	}
	checkEdges(t, "lease", leaseEdges[:], seen)
	checkEdges(t, "companion", companionEdges[:], seen)
	checkEdges(t, "strict_lease", strictLeaseEdges[:], seen)
	checkEdges(t, "strict_companion", strictCompanionEdges[:], seen)
	checkEdges(t, "semaphore", semaphoreEdges[:], seen)
	checkEdges(t, "session", sessionEdges[:], seen)
	checkEdges(t, "invocation", invocationEdges[:], seen)
	checkEdges(t, "task", taskEdges[:], seen)
}

// checkEdges: a Step may go along two edges, through a state that it does not
// stay in; so what was seen must be one edge or two, and each edge must be seen,
// by itself or as half of a move that nothing else explains. An edge that only a
// deliberate bug takes is never seen.
func checkEdges[S interface {
	~uint8
	String() string
}](t *testing.T, machine string, edges []edge[S], seen map[string]bool) {
	name := func(from, to S) string { return machine + " " + from.String() + " -> " + to.String() }
	allowed, halves := map[string]bool{}, map[string]bool{}
	for _, a := range edges {
		for _, b := range edges {
			if direct := slices.ContainsFunc(edges, func(c edge[S]) bool { return c.from == a.from && c.to == b.to }); a.to == b.from &&
				!direct && seen[name(a.from, b.to)] {
				halves[name(a.from, a.to)], halves[name(b.from, b.to)] = true, true
			}
		}
	}
	for i, a := range edges {
		whole := seen[name(a.from, a.to)]
		if strings.HasPrefix(a.why, "never ") {
			if whole {
				t.Errorf("seen: %s (%s)", name(a.from, a.to), a.why)
			}
		} else if !whole && !halves[name(a.from, a.to)] {
			t.Errorf("never seen: %s (%s)", name(a.from, a.to), a.why)
		}
		if slices.ContainsFunc(edges[:i], func(b edge[S]) bool { return a.from == b.from && a.to == b.to }) {
			t.Errorf("twice in the table: %s", name(a.from, a.to))
		}
		allowed[name(a.from, a.to)] = true
		for _, b := range edges {
			if b.from == a.to {
				allowed[name(a.from, b.to)] = true
			}
		}
	}
	for move := range seen {
		if strings.HasPrefix(move, machine+" ") && !allowed[move] {
			t.Errorf("not in the table: %s", move)
		}
	}
}
