package machines

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
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
	checkEdges(t, "lease", lastwriter.LeaseEdges[:], seen)
	checkEdges(t, "companion", lastwriter.CompanionEdges[:], seen)
	checkEdges(t, "strict_lease", strict.LeaseEdges[:], seen)
	checkEdges(t, "strict_companion", strict.CompanionEdges[:], seen)
	checkEdges(t, "semaphore", semaphore.SemaphoreEdges[:], seen)
	checkEdges(t, "session", strict.SessionEdges[:], seen)
	checkEdges(t, "invocation", invocation.InvocationEdges[:], seen)
	checkEdges(t, "task", strict.TaskEdges[:], seen)
}

// checkEdges: a Step may go along two edges, through a state that it does not
// stay in; so what was seen must be one edge or two, and each edge must be seen,
// by itself or as half of a move that nothing else explains. An edge that only a
// mutation takes is never seen.
func checkEdges[S interface {
	~uint8
	String() string
}](t *testing.T, machine string, edges []base.Edge[S], seen map[string]bool) {
	name := func(from, to S) string { return machine + " " + from.String() + " -> " + to.String() }
	allowed, halves := map[string]bool{}, map[string]bool{}
	for _, a := range edges {
		for _, b := range edges {
			if direct := slices.ContainsFunc(edges, func(c base.Edge[S]) bool { return c.From == a.From && c.To == b.To }); a.To == b.From &&
				!direct && seen[name(a.From, b.To)] {
				halves[name(a.From, a.To)], halves[name(b.From, b.To)] = true, true
			}
		}
	}
	for i, a := range edges {
		whole := seen[name(a.From, a.To)]
		if strings.HasPrefix(a.Why, "never ") {
			if whole {
				t.Errorf("seen: %s (%s)", name(a.From, a.To), a.Why)
			}
		} else if !whole && !halves[name(a.From, a.To)] {
			t.Errorf("never seen: %s (%s)", name(a.From, a.To), a.Why)
		}
		if slices.ContainsFunc(edges[:i], func(b base.Edge[S]) bool { return a.From == b.From && a.To == b.To }) {
			t.Errorf("twice in the table: %s", name(a.From, a.To))
		}
		allowed[name(a.From, a.To)] = true
		for _, b := range edges {
			if b.From == a.To {
				allowed[name(a.From, b.To)] = true
			}
		}
	}
	for move := range seen {
		if strings.HasPrefix(move, machine+" ") && !allowed[move] {
			t.Errorf("not in the table: %s", move)
		}
	}
}
