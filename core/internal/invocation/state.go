package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// AppendState implements Machine.
func (v *Invocation) AppendState(dst []byte) []byte {
	s := base.Snapshot(dst)
	s.Octet(uint8(core.MachineInvocation))
	s.Octet(uint8(v.state))
	v.Machine.Snapshot(&s)
	s.Bools(v.Inner != nil, v.lastTry, v.failed, v.stale, v.quits, v.warned, v.unstored)
	s.Int(v.InnerWake)
	s.Uint(v.before)
	s.Octet(uint8(v.doing))
	s.Int(int64(v.polls))
	s.Int(int64(v.Retries))
	s.Octet(uint8(v.Class))
	s.Uint(v.told)
	s.Uint(v.unchanged.Fingerprint)
	s.Int(v.unchanged.Since)
	s.Uint(v.endUnchanged.Fingerprint)
	s.Int(v.endUnchanged.Since)
	s.Observed(&v.observed)
	s.Text(string(v.Holder))
	s.Octet(uint8(v.lost))
	s.Octet(uint8(v.turned))
	s.Octet(uint8(v.after))
	s.Octet(uint8(v.refusal))
	s.Uint(uint64(v.Cfg.LastEpoch)) // 0 from the first attempt on
	s.Int(v.tryBy)
	s.Int(v.beats.until)
	s.Int(v.beats.asked)
	s.Int(v.beats.at)
	s.Uint(uint64(v.beats.n))
	s.Bytes(v.beats.left)
	s.Uint(v.beats.now)
	s.Uint(v.beats.seen)
	if v.Inner != nil {
		return v.Inner.AppendState(s)
	}
	return s
}

// Clone implements Machine.
func (v *Invocation) Clone() core.Machine {
	twin := *v
	twin.Out, twin.bodies, twin.event = nil, nil, core.Event{}
	base.DetachObserved(&twin.observed)
	twin.beats.left = append([]byte(nil), v.beats.left...)
	if v.Inner != nil {
		twin.Inner = v.Inner.Clone().(part)
	}
	return &twin
}
