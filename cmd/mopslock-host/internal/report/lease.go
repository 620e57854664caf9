package report

import (
	"cmp"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// Lease is a lease as status, ls and watch print it with --json.
type Lease struct {
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	State      string   `json:"state"`
	Epoch      uint64   `json:"epoch"`
	Token      uint64   `json:"token"`
	Holder     string   `json:"holder"`
	Host       string   `json:"host"`
	PID        *uint64  `json:"pid"` // null: no number, or unknown
	Label      string   `json:"label"`
	Companions []string `json:"companions"`
	TTL        float64  `json:"ttl_s"`
	Age        float64  `json:"age_s"`
	Left       float64  `json:"left_s"`
	Clock      string   `json:"clock"`
	By         string   `json:"by,omitempty"` // who broke it
	Why        string   `json:"why,omitempty"`
}

// StatusJSON returns what --json prints of a lease or a semaphore.
func StatusJSON(s *host.Status) any {
	if s.IsSemaphore() {
		return newSemaphore(s)
	}
	return NewLease(s)
}

// NewLease returns the report of a lease.
func NewLease(s *host.Status) Lease {
	return Lease{
		Name: s.Name, Protocol: s.Protocol.String(), State: s.State.String(), Epoch: s.Epoch, Token: s.Token,
		Holder: s.Holder, Host: s.Host, PID: pidNumber(s.PID), Label: s.Label, Companions: companions(s),
		TTL: max(0, s.TTL).Seconds(), Age: Seconds(s.Age), Left: Seconds(leftOf(s)),
		Clock: cmp.Or(s.Clock, "local"), By: s.By, Why: s.Why,
	}
}

// pidNumber is a process id as a number, if JSON can carry it. Under lastwriter a record may have
// any text there.
func pidNumber(text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return nil
	}
	return &n
}

// leftOf is what is left of the TTL of a held lease, if that is known.
func leftOf(s *host.Status) time.Duration {
	if s.State != core.ObservedHeld {
		return 0
	}
	return max(0, s.Left)
}

// companions are the ids of the companions. A lock.json names only its last writer, by host and
// process.
func companions(s *host.Status) []string {
	if s.Protocol != core.ProtocolStrict && s.Companion {
		return []string{s.Host + ":" + s.PID}
	}
	return append([]string{}, s.Companions...)
}
