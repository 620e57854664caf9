//go:build !mopslock_mutations

package resolve

// Each rule here is one that a mutation leaves out, in rules_mutated.go.

// countsLost: a create without an answer is no winner, and no word that one exists.
func (p *Prober) countsLost() bool { return false }

// goesAside: a throttled record is left alone, and an object of our own is created instead.
func (p *Prober) goesAside() bool { return true }
