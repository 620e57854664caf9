package core

func (c *current) snapshot(s *snapshot) {
	s.uint(uint64(c.n))
	s.uint(uint64(c.origin))
	s.octet(uint8(c.state))
	s.octet(uint8(c.result))
	s.text(string(c.tenure))
	s.text(c.owners)
	s.text(c.session)
	s.text(c.label)
	s.int(int64(c.ttl))
	s.int(int64(c.margin))
	s.bools(c.alone, c.sameBoot)
	s.int(c.boottime)
	s.uint(c.print)
	s.int(c.stamp)
}

func (b *seenBeat) snapshot(s *snapshot) {
	s.text(b.key)
	s.uint(uint64(b.epoch))
	s.int(b.stamp)
	s.bools(b.read, b.absent, b.sameBoot)
	s.int(b.boottime)
	s.int(int64(b.ttl))
	s.uint(b.print)
}

func (k *look) snapshot(s *snapshot) {
	s.bools(k.poll, k.listed, k.more, k.session, k.lock, k.absent, k.called)
	s.bools(k.lockHeld)
	s.int(k.start)
	s.int(k.latest)
	s.uint(uint64(k.n))
	s.uint(uint64(k.lowest))
	s.int(k.stamp)
	s.text(k.after)
	s.int(int64(len(k.beats)))
	for i := range k.beats {
		k.beats[i].snapshot(s)
	}
	k.sign.snapshot(s)
	s.uint(k.callNext)
	s.texts(k.calls)
}

func (r *register) snapshot(s *snapshot) {
	r.machine.snapshot(s)
	r.cur.snapshot(s)
	s.text(r.owner)
	s.text(r.key)
	s.int(r.basis)
	r.look.snapshot(s)
	s.uint(r.watch.print)
	s.int(r.watch.since)
	s.uint(r.endWatch.print)
	s.int(r.endWatch.since)
	r.ended.snapshot(s)
	s.uint(uint64(r.call.n))
	s.int(r.call.stamp)
	s.uint(uint64(r.call.readOf))
	s.uint(r.call.next)
	s.int(r.sample.stamp)
	s.int(r.sample.at)
	s.int(r.fresh.stamp)
	s.int(r.fresh.at)
	s.int(r.toldAt)
	s.text(r.after)
	s.int(r.paged)
	s.text(r.above)
	s.uint(uint64(r.aboveOf))
	s.text(r.session.id)
	s.int(r.session.until)
	s.octet(uint8(r.session.end))
	s.octet(uint8(r.doing))
	s.bytes(r.body)
	s.bools(r.sight != nil, r.failing, r.passive, r.garbage != nil, r.value != nil)
	if r.value != nil {
		r.value.snapshot(s)
	}
	if g := r.garbage; g != nil {
		s.text(g.after)
		s.int(g.above)
		s.text(g.oldest)
		s.texts(g.keys)
		s.int(int64(g.pages))
		s.uint(uint64(g.lowest))
		s.uint(uint64(g.skip))
		s.int(int64(g.left))
	}
	if r.sight != nil {
		s.sighting(r.sight)
	}
	s.int(int64(r.retries))
	s.octet(uint8(r.class))
}

// detach gives a copied register buffers of its own.
func (r *register) detach() {
	r.out = nil
	r.body = append([]byte(nil), r.body...)
	r.look.beats = append([]seenBeat(nil), r.look.beats...)
	r.look.calls = append([]string(nil), r.look.calls...)
	if r.sight != nil {
		twin := *r.sight
		detachSighting(&twin)
		r.sight = &twin
	}
	if r.value != nil {
		twin := copyOf(r.value)
		r.value = &twin
	}
	if r.garbage != nil {
		twin := *r.garbage
		twin.keys = append([]string(nil), r.garbage.keys...)
		r.garbage = &twin
	}
}
