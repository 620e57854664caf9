package core

func (v *value) snapshot(s *snapshot) {
	s.uint(uint64(v.capacity))
	s.uint(uint64(v.width))
	s.uint(v.limit)
	s.int(int64(len(v.permits)))
	for i := range v.permits {
		p := &v.permits[i]
		s.text(p.id)
		s.text(p.session)
		s.uint(p.weight)
		s.text(p.host)
		s.text(p.pid)
		s.text(p.label)
	}
}

func (t roster) snapshot(s *snapshot) {
	s.int(int64(len(t)))
	for i := range t {
		seen := &t[i]
		s.text(seen.id)
		seen.sign.snapshot(s)
		s.uint(seen.watch.print)
		s.int(seen.watch.since)
		s.bools(seen.read, seen.asked, seen.dead)
	}
}
