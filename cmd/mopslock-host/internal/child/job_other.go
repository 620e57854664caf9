//go:build !linux && !darwin && !windows

package child

// job is none: the command's own process is all that is known of it.
type job struct{}

func newJob(int, bool) job { return job{} }
func (job) kill() bool     { return false }
func (job) close()         {}
