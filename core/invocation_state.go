package core

// AppendState implements Machine.
func (v *Invocation) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineInvocation))
	s.octet(uint8(v.state))
	v.machine.snapshot(&s)
	s.bools(v.inner != nil, v.lastTry, v.failed, v.stale, v.quits, v.warned)
	s.int(v.innerWake)
	s.uint(v.before)
	s.octet(uint8(v.doing))
	s.int(int64(v.polls))
	s.int(int64(v.retries))
	s.octet(uint8(v.class))
	s.uint(v.told)
	s.uint(v.watch.print)
	s.int(v.watch.since)
	s.uint(v.ended.print)
	s.int(v.ended.since)
	s.sighting(&v.sight)
	s.text(string(v.holder))
	s.octet(uint8(v.lost))
	s.octet(uint8(v.after))
	s.octet(uint8(v.refusal))
	s.uint(uint64(v.cfg.LastEpoch)) // 0 from the first attempt on
	s.int(v.tryBy)
	s.int(v.signs.until)
	s.int(v.signs.asked)
	s.int(v.signs.at)
	s.uint(uint64(v.signs.n))
	s.bytes(v.signs.left)
	s.uint(v.signs.now)
	s.uint(v.signs.seen)
	if v.inner != nil {
		return v.inner.AppendState(s)
	}
	return s
}

// Clone implements Machine.
func (v *Invocation) Clone() Machine {
	twin := *v
	twin.out, twin.bodies, twin.event = nil, nil, Event{}
	detachSighting(&twin.sight)
	twin.signs.left = append([]byte(nil), v.signs.left...)
	if v.inner != nil {
		twin.inner = v.inner.Clone().(part)
	}
	return &twin
}
