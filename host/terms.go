package host

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host/store"
)

// Terms are what a caller may say about a lease. The zero value is good.
// All processes on one name should use one TTL: under lastwriter a holder renews for the
// shortest TTL that it has seen on the name, and mops judges all holders by its own.
type Terms struct {
	// Protocol is how the lease is kept. 0 is auto: lastwriter if the name has a lock.json,
	// since an old client would not see a strict lease; otherwise strict if the store honours
	// create-if-absent; otherwise lastwriter. Whenever auto is lastwriter the Host logs a
	// warning. core.ProtocolStrict on a store that does not honour create-if-absent is an
	// *Error of Kind Incompatible.
	Protocol core.Protocol
	// TTL is how long the lease lives without a renewal; 0 is 60 s under strict
	// and 88 s under lastwriter. Between 50 ms (5 s on stores whose stamps have
	// whole seconds) and 30 days. core.TTLEndless, under strict only and not on a
	// session, is until it is released or broken.
	TTL core.TTL
	// Margin is how much earlier than the TTL the holder gives up; 0 is TTL/10. It
	// must be below TTL/2.
	Margin time.Duration

	// Session, under strict, keeps the lease by this Host's session of the same
	// TTL and Margin: one heartbeat for all leases on it, however many. Such
	// a lease does not notice that its versions were removed from the store.
	Session bool
	// Label is shown to people, under strict: at most 128 printable bytes.
	Label string
	// StampSpread, under strict, is how far the clocks of the store's front-ends
	// may disagree; 0 is 1 s, core.OneClock a store with one clock.
	StampSpread time.Duration

	// AcquireMargin, under lastwriter, is the least time between a put and its
	// verification; 0 is twice what the read and the write took, and
	// core.ContendedMargin at least after waiting for another. At most TTL/2.
	AcquireMargin time.Duration
	// FleetExpire, under lastwriter, is the TTL by which others on this name judge us
	// whatever our record says, as mops does; 0 is 88 s, core.TTLEndless is for names
	// without mops.
	FleetExpire core.TTL
	// Renewal, under lastwriter, is core.RenewalChecked (also for 0) or core.RenewalBlind.
	Renewal core.Renewal
	// Expiry says which clocks may call another's lease dead. 0 is
	// core.ExpiryWall under lastwriter, and under strict core.ExpiryCalibrated if the
	// store's clock can be relied on; core.ExpiryObserved trusts our own alone.
	Expiry core.Expiry
}

// config returns the Config of a lease's or a companion's machine under a protocol
// that is settled.
func (h *Host) config(kind core.MachineKind, name string, protocol core.Protocol, t *Terms) (core.Config, error) {
	if err := h.checkKeys(name, protocol); err != nil {
		return core.Config{}, err
	}
	cfg, err := h.machineConfig(kind, protocol)
	if err != nil {
		return cfg, err
	}
	cfg.Name, cfg.TTL, cfg.Margin, cfg.Expiry = name, t.TTL.Under(protocol), t.Margin, t.Expiry
	if kind == core.MachineInvocation {
		cfg.Role = core.RoleOwner // a remote says so itself
	}
	if protocol == core.ProtocolStrict {
		h.configStrict(&cfg, t)
		return cfg, nil
	}
	cfg.AcquireMargin, cfg.FleetExpire, cfg.Renewal = t.AcquireMargin, t.FleetExpire, t.Renewal
	if t.Session {
		return cfg, badTerms("session: only strict has sessions; ask for strict")
	}
	return cfg, nil
}

func (h *Host) configStrict(cfg *core.Config, t *Terms) {
	cfg.StampSpread, cfg.Label, cfg.OwnStore = t.StampSpread, t.Label, h.isOurOwn()
	cfg.OnSession = t.Session && cfg.Machine != core.MachineCompanion
	h.judge(cfg)
}

// checkTerms refuses terms that no protocol asked for accepts, before any request. Terms
// that only one of two accepts are judged when the protocol is known.
func (h *Host) checkTerms(kind core.MachineKind, name string, t *Terms) (err error) {
	for _, protocol := range []core.Protocol{core.ProtocolLastWriter, core.ProtocolStrict} {
		if t.Protocol != 0 && t.Protocol != protocol {
			continue
		}
		var cfg core.Config
		if cfg, err = h.config(kind, name, protocol, t); err == nil {
			_, err = machines.New(cfg)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// judge says by which clocks a strict machine may call another's lease dead. A
// store whose stamps are of a clock that can be set gives no sample: one
// step of that clock by a TTL would kill every lease on it.
func (h *Host) judge(cfg *core.Config) {
	cfg.Boot = h.boot
	if cfg.Expiry == 0 {
		cfg.Expiry = core.ExpiryCalibrated
	}
	if cfg.Expiry == core.ExpiryCalibrated && !h.samplesStoreClock {
		cfg.Expiry = core.ExpiryObserved
	}
}

// machineConfig returns what the Configs of all machines have in common.
func (h *Host) machineConfig(kind core.MachineKind, protocol core.Protocol) (core.Config, error) {
	cfg := core.Config{
		Machine: kind, Terms: core.Terms{Protocol: protocol}, StampUnit: h.store.StampUnit(), Host: h.origin.host, PID: h.origin.pid,
		TID: uint64(os.Getpid()),
	}
	if _, err := io.ReadFull(h.rand, cfg.Seed[:]); err != nil {
		return cfg, fmt.Errorf("mopslock: host: no randomness for a holder id: %w", err)
	}
	return cfg, nil
}

// checkKeys asks a store that cannot keep every key, before the first request.
func (h *Host) checkKeys(name string, protocol core.Protocol) error {
	if core.CheckName(name) != nil { // the machine explains better why a name is refused
		return nil
	}
	if protocol == core.ProtocolStrict {
		return h.checkKey(longestKey(name))
	}
	return h.checkKey(recordKey(name))
}

func (h *Host) checkKey(key string) error {
	if checker, ok := h.store.(store.KeyChecker); ok {
		return checker.CheckKey(key)
	}
	return nil
}

func badTerms(text string) error { return &core.Error{Code: core.ErrorConfig, Text: text} }
