//go:build !mopslock_bugs

package core

// deliberate has no bug to switch on: the mistakes that the explorer is shown
// exist only in builds with the tag mopslock_bugs (bugs_on.go).
type deliberate struct{}

// bug is false, always, and what it guards is not compiled.
func (deliberate) bug(Bug) bool { return false }
