package core

// show copies a record into a sighting, whose buffers are used again. A record
// has 64 KiB, and one Step can show its sighting twice: texts are cut, so that
// whatever somebody wrote there fits an answer.
func (r *record) show(s *Sighting, state Observation) {
	s.State, s.Remote, s.TTL = state, r.remote, r.expire
	s.WrittenAt, s.AcquiredAt, s.ReleasedAt, s.LookAt = r.writtenAt, r.acquiredAt, r.releasedAt, 0
	s.Holder = r.writer.appendCut(s.Holder[:0], MaxHolder)
	s.Host = r.host.appendCut(s.Host[:0], MaxText)
	s.PID = r.pid.appendCut(s.PID[:0], MaxText)
}
