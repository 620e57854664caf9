package client

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// AppendState implements core.Machine.
func (c *Client) AppendState(dst []byte) []byte {
	s := base.Snapshot(append(dst, uint8(core.MachineClient)))
	s.Bools(c.more, c.closing, c.served, c.closed, c.store.warned, c.store.reached)
	c.rng.Snapshot(&s)
	s.Int(c.now.Mono)
	s.Int(c.now.Wall)
	s.Uint(c.last)
	s.Uint(c.sessionSerial)
	s.Octet(uint8(c.store.creates))
	s.Text(c.store.seen)
	s.Text(c.store.own)
	snapshotUnit(&s, c.store.asking)
	snapshotClaims(&s, c.store.waiting)
	s.Int(c.clock.stamp)
	s.Int(c.clock.at)
	s.Int(c.clock.begun)
	s.Text(c.clock.owner)
	snapshotUnit(&s, c.clock.unit)
	for _, u := range c.clock.askers {
		s.Uint(u.claim)
	}
	c.requests.snapshot(&s)
	for _, p := range c.placesInOrder() {
		p.snapshot(&s)
	}
	for _, cl := range c.inOrder() {
		cl.snapshot(&s)
	}
	for _, on := range c.sessions {
		on.snapshot(&s)
	}
	for _, e := range c.errands {
		s.Int(e.at)
		s.Text(e.action.Key)
	}
	s.Int(int64(c.tidying))
	for _, j := range c.todo {
		s.Octet(uint8(j.kind))
		s.Uint(uint64(j.epoch))
		s.Uint(j.permit)
		s.Bools(j.claim != nil)
		if j.claim != nil {
			s.Uint(j.claim.number)
		} else {
			snapshotUnit(&s, j.unit)
		}
	}
	return s
}

func (c *Client) placesInOrder() []*place {
	all := make([]*place, 0, len(c.places))
	for _, p := range c.places {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *place) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all
}

func snapshotClaims(s *base.Snapshot, all []*claim) {
	s.Int(int64(len(all)))
	for _, cl := range all {
		s.Uint(cl.number)
	}
}

func snapshotUnit(s *base.Snapshot, u *unit) {
	s.Bools(u != nil)
	if u == nil {
		return
	}
	s.Bools(u.gone, u.index != 0)
	if u.index != 0 {
		s.Int(u.at)
	}
	for _, id := range u.flights {
		s.Uint(uint64(id))
	}
	s.Bytes(u.machine.AppendState(nil))
}

func (r *requests) snapshot(s *base.Snapshot) {
	s.Bools(r.told)
	s.Uint(uint64(r.issued))
	s.Int(r.restUntil)
	s.Int(int64(r.failed))
	flights := append([]flight(nil), r.table...)
	slices.SortFunc(flights, func(a, b flight) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	for i := range flights {
		f := &flights[i]
		if f.id == 0 {
			continue
		}
		s.Uint(uint64(f.id))
		s.Uint(uint64(f.inner))
		s.Octet(uint8(f.verb))
		s.Octet(uint8(f.lane))
		s.Bools(f.unit != nil, f.errand, f.queued != nil)
		if q := f.queued; q != nil {
			s.Bools(q.rests, q.over)
			s.Int(q.at)
			s.Int(q.deadline)
			s.Text(q.action.Key)
			s.Bytes(q.action.Body)
		}
	}
	for lane := range laneKinds {
		s.Int(int64(r.busy[lane]))
		for _, q := range r.ready[lane] {
			s.Uint(uint64(q.id))
		}
	}
}

func (p *place) snapshot(s *base.Snapshot) {
	s.Text(p.name)
	snapshotClaims(s, p.claims)
	for _, of := range p.semaphores {
		of.snapshot(s)
	}
	s.Uint(uint64(p.last.epoch))
	s.Int(p.last.at)
	s.Int(p.last.looked)
	s.Bools(p.isListed)
	s.Uint(p.kept)
}

func (cl *claim) snapshot(s *base.Snapshot) {
	s.Uint(cl.number)
	s.Bools(cl.held, cl.waiting, cl.nudged, cl.missed, cl.stopping, cl.over, cl.asked != nil, cl.rest != nil)
	s.Octet(uint8(cl.protocol))
	s.Int(cl.looked)
	s.Uint(uint64(cl.epoch))
	s.Int(cl.at)
	s.Uint(cl.on)
	s.Int(cl.fixed)
	s.Int(int64(cl.calls))
	s.Int(int64(cl.seat))
	for _, w := range cl.watches {
		s.Text(w.key)
		s.Bools(w.begun)
	}
	if cl.handover != nil {
		cl.handover.snapshot(s)
	}
	if d := cl.delay; d != nil {
		s.Int(d.at)
		s.Bools(d.leaves, d.brief, d.index != 0)
	}
	if b := cl.asked; b != nil {
		s.Octet(uint8(b.kind))
		s.Octet(uint8(b.protocol))
		s.Int(int64(b.wait))
		s.Int(b.at)
		s.Bools(b.lockFile)
		s.Uint(b.printed)
		s.Int(b.since)
		s.Bytes(core.AppendConfig(nil, &b.terms))
	}
	cl.as.snapshot(s)
	if cl.rest != nil {
		s.Bytes(cl.rest.Wake().AppendState(nil))
		return
	}
	snapshotUnit(s, cl.unit)
}

func (on *session) snapshot(s *base.Snapshot) {
	s.Int(int64(on.ttl))
	s.Int(int64(on.margin))
	s.Uint(on.number)
	s.Text(on.id)
	s.Int(on.until)
	s.Bools(on.force, on.index != 0, on.call != nil && on.call.begun)
	if on.index != 0 {
		s.Int(on.at)
	}
	s.Uint(on.calls)
	s.Octet(uint8(on.end))
	snapshotUnit(s, on.unit)
}
