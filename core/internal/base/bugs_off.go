//go:build !mopslock_bugs

package base

// Deliberate has no bug to switch on: the mistakes that the explorer is shown
// exist only in builds with the tag mopslock_bugs (bugs_on.go).
type Deliberate struct{}

// Bug is false, always, and what it guards is not compiled.
func (Deliberate) Bug(Bug) bool { return false }
