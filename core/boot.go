package core

// Emitted returns when, on the clock that Mono is, a beat (PROTOCOL S5) was emitted that is
// read now and names our boot: the later of its boottime and its stamp. ok is true if the
// boottime is not in the future, and if the stamp of the write, moved from our wall clock
// to Mono, lies within BootTolerance of the boottime.
//
// The name of a boot proves nothing alone. Clones of one snapshot of a virtual machine
// have one boot id, but different boot clocks. So have two time namespaces if the later
// one got the number of one that is gone:
//
//	holder  put beat, boottime 1000 s . . . . . . believes until 1054 s of its clock
//	clone   its clock is an hour ahead: the beat lives, and looks an hour old
//
// An honest beat also fails after a slow write, or if the wall clock was set since then.
// That only takes one rule away: the other two judge, and a takeover waits for a TTL.
// On a directory, collection has no other rule: what fails stays until the next boot.
func (now Instant) Emitted(boottime, stamp int64) (at int64, ok bool) {
	stamped := stamp - (now.Wall - now.Mono)
	apart := Duration(stamped - boottime)
	return max(boottime, stamped), stamp > 0 && boottime <= now.Mono && -BootTolerance <= apart && apart <= BootTolerance
}
