package core

// The canonical bytes of strict's machines, and their copies. Everything that an
// explorer must tell apart is here, and nothing that changes without a meaning.

func (s *snapshot) text(v string) { s.int(int64(len(v))); *s = append(*s, v...) }

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

func (s *snapshot) texts(all []string) {
	s.int(int64(len(all)))
	for _, v := range all {
		s.text(v)
	}
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
		r.sight.snapshot(s)
	}
	s.int(int64(r.retries))
	s.octet(uint8(r.class))
}

func (o *owner) snapshot(s *snapshot) {
	o.register.snapshot(s)
	s.uint(o.seq)
	s.int(o.putSent)
	s.int(o.asked)
	s.int(o.selfAt)
	s.text(o.beatKey)
	s.text(o.selfKey)
	s.text(o.standOn)
	s.int(o.own)
	s.int(o.quiet)
}

func (c *claim) snapshot(s *snapshot) {
	v := &c.v
	s.uint(uint64(v.n))
	s.uint(uint64(v.origin))
	s.octet(uint8(v.state))
	s.text(string(v.tenure))
	s.text(v.owner)
	s.text(v.owners)
	s.uint(v.nonce.a)
	s.uint(v.nonce.b)
	s.int(int64(v.ttl))
	s.int(int64(v.margin))
	s.text(v.session)
	s.bools(v.alone, c.guess)
	s.uint(uint64(c.below))
	s.text(v.why)
	s.text(v.by)
	s.text(v.label)
	s.int(int64(c.n))
	for i := range c.n {
		s.uint(c.tried[i].nonce.a)
		s.uint(c.tried[i].nonce.b)
		s.int(c.tried[i].sent)
	}
	s.int(c.since)
	s.int(c.doubt)
	s.int(c.basis)
}

// AppendState implements Machine.
func (l *StrictLease) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineLease))
	s.octet(uint8(l.state))
	l.owner.snapshot(&s)
	s.text(string(l.holder))
	s.bools(l.lastTry, l.answered, l.wants, l.checking, l.moved, l.claim != nil)
	s.bools(l.sampling, l.again)
	s.uint(uint64(l.calledAt))
	s.uint(uint64(l.waitedAt))
	s.int(int64(l.polls))
	s.int(int64(l.races))
	s.int(int64(l.lateWins))
	s.uint(l.told)
	if l.claim != nil {
		l.claim.snapshot(&s)
	}
	s.octet(uint8(l.ending))
	s.uint(uint64(l.closing))
	return s
}

// AppendState implements Machine.
func (c *StrictCompanion) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineCompanion))
	s.octet(uint8(c.state))
	c.owner.snapshot(&s)
	s.text(string(c.tenure))
	s.bools(c.rejoin)
	s.int(c.joinBy)
	c.claim.snapshot(&s)
	s.int(int64(c.leaves))
	return s
}

// AppendState implements Machine.
func (s *Session) AppendState(dst []byte) []byte {
	w := snapshot(dst)
	w.octet(uint8(MachineSession))
	w.octet(uint8(s.state))
	s.machine.snapshot(&w)
	w.text(s.key)
	w.bytes(s.body)
	w.uint(s.call)
	w.text(s.callKey)
	w.int(s.putSent)
	w.octet(uint8(s.doing))
	w.int(int64(s.retries))
	w.octet(uint8(s.class))
	w.bools(s.failing)
	w.int(s.quiet)
	w.texts(s.calls)
	return w
}

// detach gives a copied register buffers of its own.
func (r *register) detach() {
	r.out = nil
	r.body = append([]byte(nil), r.body...)
	r.look.beats = append([]seenBeat(nil), r.look.beats...)
	r.look.calls = append([]string(nil), r.look.calls...)
	if r.sight != nil {
		twin := *r.sight
		twin.detach()
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

// Clone implements Machine.
func (l *StrictLease) Clone() Machine {
	twin := *l
	twin.detach()
	if l.claim != nil {
		c := *l.claim
		twin.claim = &c
	}
	return &twin
}

// Clone implements Machine.
func (c *StrictCompanion) Clone() Machine {
	twin := *c
	twin.detach()
	return &twin
}

// Clone implements Machine.
func (s *Session) Clone() Machine {
	twin := *s
	twin.out = nil
	twin.body = append([]byte(nil), s.body...)
	twin.calls = append([]string(nil), s.calls...)
	return &twin
}
