//go:build !mopslock_mutations

package base

// Mutant is what a build with mutations adds to a machine (mutations.go). A product's has
// nothing.
type Mutant struct{}
