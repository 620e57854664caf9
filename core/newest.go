package core

// askNewest lists to find the newest version, from behind a key on.
func (r *register) askNewest(after string, limit Duration) {
	if after == "" { // what comes later stands before the first page
		r.paged = r.now.Mono
	}
	a := r.ask(forConfirm, ActionList, r.prefix, limit)
	a.After, a.Count = after, lookEntries
}

// newest is the newest version of a page, 0 if there is none at all. Not found: it
// stands behind its beats on a later page, after r.after.
func (r *register) newest(ev *Event) (n Epoch, found bool) {
	for i := range ev.Entries {
		n, beatOf, ok := parseRegisterKey(r.prefix, ev.Entries[i].Key)
		if ok && beatOf == nil {
			return n, true
		}
	}
	if last := len(ev.Entries) - 1; ev.More && last >= 0 {
		r.after = string(ev.Entries[last].Key)
		return 0, false
	}
	return 0, true
}

// lossBy is why a tenure is over that the version just read is not of, or ends;
// none while it goes on.
func (r *register) lossBy(tenure HolderID) Reason {
	c := &r.cur
	switch {
	case c.result != readGood || c.tenure != tenure:
		return ReasonTaken
	case c.state == VersionReleased:
		return ReasonReleased
	case c.state == VersionBroken:
		return ReasonBroken
	}
	return ReasonNone
}
