package core

// Emitted is when, on the clock that Mono is, a sign of life was emitted that is read
// now and names our boot. It is ok if the boottime is not in the future, and the stamp
// that the write left, moved from our wall clock to Mono, lies within BootTolerance of
// it. The later of the two counts.
//
// The name of a boot proves nothing alone. Clones of one snapshot of a virtual machine
// have one boot id and boot clocks that differ; so have two time namespaces, the later
// of which got the number of the one that is gone:
//
//	holder  put beat, boottime 1000 s . . . . . . believes until 1054 s of its clock
//	clone   its clock is an hour ahead: the beat lives, and looks an hour old
//
// An honest sign fails, too, after a slow write, or when the wall clock was set since.
// That only takes one rule away: the other two judge, and a take-over waits for a ttl.
// Collection has no other rule on a directory: there what fails stays until the next boot.
func (now Instant) Emitted(boottime, stamp int64) (at int64, ok bool) {
	stamped := stamp - (now.Wall - now.Mono)
	apart := Duration(stamped - boottime)
	return max(boottime, stamped), stamp > 0 && boottime <= now.Mono && -BootTolerance <= apart && apart <= BootTolerance
}
