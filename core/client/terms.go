package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
)

const maxSlots = 1 << 16

// checkConfig lists what is wrong with a client's own Config.
func checkConfig(cfg *core.Config) error {
	text := ""
	require := func(ok bool, rule string) {
		switch {
		case ok:
		case text == "":
			text = rule
		default:
			text += "; " + rule
		}
	}
	require(cfg.Terms == (core.Terms{StampSpread: cfg.StampSpread}) && cfg.LastEpoch == 0 && cfg.LastAt == 0 && cfg.SeenFingerprint == 0 &&
		cfg.SeenSince == 0 && !cfg.LockFilePresent && !cfg.Creates, "a client has no protocol, name or terms: each command has its own")
	require(cfg.Seed != [16]byte{}, "seed: must be 16 fresh random bytes for each machine")
	require(octets.IsText(cfg.Host, core.MaxText), "host: at most 256 bytes of UTF-8")
	require(octets.IsText(cfg.PID, core.MaxText), "pid: at most 256 bytes of UTF-8")
	require(core.IsID(cfg.Boot), "boot: printable ASCII without quotes, slashes and backslashes")
	require(cfg.StampUnit >= 0, "stamp unit: not negative")
	require(cfg.StampSpread >= core.OneClock, "stamp spread: not negative")
	require(cfg.InFlight <= maxSlots && cfg.Transfers <= maxSlots, "in_flight, transfers: at most 65536")
	require(cfg.InFlight != 1, "in_flight: at least 2, of which one is for what keeps a claim")
	if text != "" {
		return &core.Error{Code: core.ErrorConfig, Text: text}
	}
	return nil
}

// machineConfig is the Config of a client's machine under a protocol, without a seed.
func machineConfig(own *core.Config, kind core.MachineKind, protocol core.Protocol, t *core.Terms) core.Config {
	cfg := core.Config{Terms: *t}
	cfg.Machine, cfg.Protocol = kind, protocol
	cfg.StampUnit, cfg.Host, cfg.PID, cfg.TID = own.StampUnit, own.Host, own.PID, own.TID
	cfg.TTL = t.TTL.Under(protocol)
	if !protocol.HasRegister() {
		cfg.StampSpread, cfg.Label, cfg.Boot = 0, "", ""
		return cfg
	}
	if protocol == core.ProtocolBridge {
		cfg.OnSession = false // nothing of ours may stay behind a session that lives on
	} else {
		cfg.AcquireMargin, cfg.FleetExpire, cfg.Renewal = 0, 0, 0
	}
	cfg.Boot, cfg.OwnStore = own.Boot, own.OwnStore
	if cfg.StampSpread == 0 {
		cfg.StampSpread = own.StampSpread
	}
	// A store whose stamps are of a clock that can be set gives no sample: one step of
	// that clock by a TTL would kill every lease on it.
	if cfg.Expiry == 0 || cfg.Expiry == core.ExpiryWall && protocol == core.ProtocolBridge { // by which lock.json is judged
		cfg.Expiry = core.ExpiryCalibrated
	}
	if cfg.Expiry == core.ExpiryCalibrated && !own.Samples {
		cfg.Expiry = core.ExpiryObserved
	}
	return cfg.WithDefaults() // so that claims of one TTL share a session whether or not they name the margin
}

// isCommand reports whether an event is about a claim.
func isCommand(kind core.EventKind) bool {
	switch kind {
	case core.EventAcquire, core.EventAccompany, core.EventResume, core.EventPermit, core.EventLimit, core.EventInvoke,
		core.EventRemote, core.EventLook, core.EventWatch, core.EventBreak,
		core.EventRelease, core.EventCancel, core.EventLeave, core.EventEnded:
		return true
	}
	return false
}

// begins reports whether an event begins a claim. A release does that only with terms.
func begins(ev *core.Event) bool {
	switch ev.Kind {
	case core.EventCancel, core.EventLeave, core.EventEnded:
		return false
	case core.EventRelease:
		return ev.Terms != nil
	}
	return isCommand(ev.Kind)
}

// canStrict reports whether the store has all requests that strict needs.
func canStrict(own *core.Config) bool { return !own.NoCreate && !own.NoList }
