package host

import (
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// Status is a lease or a semaphore as one read of its record shows it to a caller that
// takes no part. Holder, Host and PID are another process's text.
type Status struct {
	Name     string
	Protocol core.Protocol
	State    core.Observation
	// Holder is the tenure's id; "" when vacant or corrupt.
	Holder string
	// Host and PID are of the process of the tenure that wrote last, the holder or a
	// companion, also for a broken lease; "" if its version was collected or not read.
	Host string
	PID  string
	// Companion: the last write was a companion's.
	Companion bool
	TTL       time.Duration
	// Acquired, Written and Released are by the writers' clocks; zero if not said.
	Acquired time.Time
	Written  time.Time
	Released time.Time
	// Age is how long ago the last write was, and Left what is left of the TTL,
	// by this machine's wall clock against the writer's; Left is negative once
	// it is over. Under strict Left is by the store's clock, or by that of the boot
	// that the holder and this process share, and 0 if neither is known.
	Age  time.Duration
	Left time.Duration
	// Clock is by which clock Left is: "store" or "local".
	Clock string

	// Under strict; Epoch is 0 otherwise, and if there is no version.
	Epoch uint64
	Token uint64
	// Companions are the ids of the other owners.
	Companions []string
	Label      string
	// Session is the id of the session that the lease stands on, or "".
	Session string
	// Why and By are of a break: the reason that was given, and pid@host.
	Why string
	By  string

	// Of a semaphore; Capacity is 0 otherwise. State is held or vacant then.
	// Capacity and Width are the view of the caller that was let in last, Held is what all
	// permits weigh together, and Limit is the one that is kept in the store, or 0.
	Capacity int
	Width    int
	Held     uint64
	Limit    uint64
	// Holders are who holds permits, one for each; who takes part sees as many as
	// 2 KiB have room for.
	Holders []PermitHolder
}

// PermitHolder is one permit of a semaphore as its record shows it. Host, PID and
// Label are somebody else's text.
type PermitHolder struct {
	ID      string
	Session string
	Weight  uint64
	Host    string
	PID     string
	Label   string
	// Stale: its session is dead, so the next caller that needs the room frees it.
	Stale bool
}

// IsSemaphore reports whether the name is a semaphore's.
func (s *Status) IsSemaphore() bool { return s.Capacity != 0 }

// Most is how much of a semaphore may be held by the view of the caller that was let in
// last: capacity x width, or the store's limit if that is less.
func (s *Status) Most() uint64 {
	most := uint64(s.Capacity) * uint64(s.Width)
	if s.Limit != 0 {
		most = min(most, s.Limit)
	}
	return most
}

func newStatus(name string, protocol core.Protocol, s *core.Observed, now core.Instant) Status {
	if s.Epoch == 0 && protocol.HasRegister() && s.State != core.ObservedVacant && s.Capacity == 0 {
		protocol = core.ProtocolLastWriter // an old client's record, beside
	}
	status := Status{
		Name: name, Protocol: protocol, State: s.State,
		Holder: string(s.Holder), Host: string(s.Host), PID: string(s.PID),
		Companion: s.Remote, TTL: s.TTL, Clock: "local",
		Acquired: wallTime(s.AcquiredAt), Written: wallTime(s.WrittenAt), Released: wallTime(s.ReleasedAt),
	}
	if s.WrittenAt != 0 {
		status.Age = time.Duration(now.Wall - s.WrittenAt)
		status.Left = min(s.TTL, s.TTL-status.Age) // dated in the future, it still dies a TTL after we saw it
	}
	if s.ReleasedAt != 0 {
		status.Age, status.Left = time.Duration(now.Wall-s.ReleasedAt), 0
	}
	if s.Epoch != 0 || protocol == core.ProtocolStrict {
		status.addStrict(s)
	}
	return status
}

// addStrict adds what only strict has. What is left of the TTL is by a clock
// that holder and notHeld have in common, or not said.
func (status *Status) addStrict(s *core.Observed) {
	status.Epoch, status.Token, status.Left = uint64(s.Epoch), uint64(s.Token), s.Left
	status.Label, status.Session = string(s.Label), string(s.Session)
	status.Why, status.By = string(s.Why), string(s.By)
	if len(s.Companions) > 0 {
		status.Companions = strings.Split(string(s.Companions), ",")
	}
	if s.StoreClock {
		status.Clock = "store"
	}
	if s.Capacity != 0 {
		status.addSemaphore(s)
	}
}

// addSemaphore adds what only a semaphore has. It has no TTL: each holder hangs on a
// session of its own.
func (status *Status) addSemaphore(s *core.Observed) {
	status.Capacity, status.Width, status.Held, status.Limit = int(s.Capacity), int(s.Width), s.Held, s.Limit
	dead := strings.Split(string(s.Dead), ",")
	machines.EachPermit(s.Permits, func(p machines.Permit) {
		status.Holders = append(status.Holders, PermitHolder{
			ID: string(p.ID), Session: p.Session, Weight: p.Weight, Host: p.Host, PID: p.PID, Label: p.Label,
			Stale: slices.Contains(dead, p.Session),
		})
	})
}

func wallTime(wall int64) time.Time {
	if wall == 0 {
		return time.Time{}
	}
	return time.Unix(0, wall).UTC()
}
