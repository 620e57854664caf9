package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
	"github.com/mopslock/mopslock/core/internal/resolve"
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
	own := core.Config{
		Machine: core.MachineClient, StampUnit: cfg.StampUnit, StampSpread: cfg.StampSpread, Boot: cfg.Boot,
		OwnStore: cfg.OwnStore, NoCreate: cfg.NoCreate, NoList: cfg.NoList, Samples: cfg.Samples,
		Watches: cfg.Watches, Remembers: cfg.Remembers, InFlight: cfg.InFlight, Transfers: cfg.Transfers,
		Host: cfg.Host, PID: cfg.PID, TID: cfg.TID, Seed: cfg.Seed,
	}
	require(*cfg == own, "a client has no protocol, name or terms: each command has its own")
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

// config is the Config of a machine under a protocol, without a seed.
func (c *Client) config(kind core.MachineKind, protocol core.Protocol, t *core.Config) core.Config {
	cfg := *t
	cfg.Machine, cfg.Protocol = kind, protocol
	cfg.StampUnit, cfg.Host, cfg.PID, cfg.TID = c.cfg.StampUnit, c.cfg.Host, c.cfg.PID, c.cfg.TID
	cfg.TTL = t.TTL.Under(protocol)
	if protocol != core.ProtocolStrict {
		cfg.StampSpread, cfg.Label, cfg.Boot = 0, "", ""
		return cfg
	}
	cfg.AcquireMargin, cfg.FleetExpire, cfg.Renewal = 0, 0, 0
	cfg.Boot, cfg.OwnStore = c.cfg.Boot, c.cfg.OwnStore
	if cfg.StampSpread == 0 {
		cfg.StampSpread = c.cfg.StampSpread
	}
	// A store whose stamps are of a clock that can be set gives no sample: one step of
	// that clock by a TTL would kill every lease on it.
	if cfg.Expiry == 0 {
		cfg.Expiry = core.ExpiryCalibrated
	}
	if cfg.Expiry == core.ExpiryCalibrated && !c.cfg.Samples {
		cfg.Expiry = core.ExpiryObserved
	}
	return cfg.WithDefaults() // so that claims of one TTL share a session whether or not they name the margin
}

// check is what a command asks for, or what is wrong with it.
func (c *Client) check(now core.Instant, ev *core.Event) (*pending, error) {
	t := ev.Terms
	b := &pending{kind: ev.Kind, terms: *t, query: resolve.Query{Protocol: t.Protocol}, wait: ev.Wait, at: now.Mono}
	own := core.Config{
		Protocol: t.Protocol, Name: t.Name, TTL: t.TTL, Margin: t.Margin, AcquireMargin: t.AcquireMargin, FleetExpire: t.FleetExpire,
		Renewal: t.Renewal, Expiry: t.Expiry, Holder: t.Holder, Role: t.Role, StampSpread: t.StampSpread, OnSession: t.OnSession,
		Epoch: t.Epoch, Owner: t.Owner, Why: t.Why, Now: t.Now, Label: t.Label, MemoFailures: t.MemoFailures, WithoutLease: t.WithoutLease,
	}
	if *t != own {
		return nil, &core.Error{Code: core.ErrorConfig, Text: ev.Kind.String() + ": terms have what only the client's own Config may have"}
	}
	if err := c.parseCommand(b, ev); err != nil {
		return nil, err
	}
	b.printed, b.since = recall(&c.cfg, now, ev.Body)
	return b, b.validate(c)
}

// parseCommand says which machine a command asks for, and in which role.
func (c *Client) parseCommand(b *pending, ev *core.Event) error {
	switch ev.Kind {
	case core.EventAcquire:
		b.machine, b.as, b.query.Use = core.MachineLease, leaseRole{}, resolve.Lease
	case core.EventRelease:
		b.machine, b.as = core.MachineLease, leaseRole{}
		b.fillJoinTerms()
		if b.terms.Holder == "" {
			return &core.Error{Code: core.ErrorConfig, Text: "holder: a release needs the tenure that it releases"}
		}
	case core.EventAccompany:
		b.machine, b.as = core.MachineCompanion, joinRole{}
		b.fillJoinTerms()
	case core.EventResume:
		b.machine, b.as = core.MachineCompanion, &renewRole{}
		b.fillJoinTerms()
	case core.EventPermit, core.EventLimit:
		return c.parsePermit(b, ev)
	case core.EventInvoke, core.EventRemote:
		return c.parseWork(b, ev)
	default:
		return c.parseInspect(b, ev)
	}
	return nil
}

// fillJoinTerms fills in the terms of a claim on a lease that exists, which has its own session:
// a strict one has an epoch.
func (b *pending) fillJoinTerms() {
	b.terms.OnSession = false
	switch {
	case b.query.Protocol != 0:
	case b.terms.Epoch != 0:
		b.query.Protocol = core.ProtocolStrict
	default:
		b.query.Protocol = core.ProtocolLastWriter
	}
}

// validate refuses terms that no protocol asked for accepts, before any request. Terms that
// only one of two accept are judged when the protocol is known.
func (b *pending) validate(c *Client) (err error) {
	for _, protocol := range [...]core.Protocol{core.ProtocolLastWriter, core.ProtocolStrict} {
		if b.query.Protocol != 0 && b.query.Protocol != protocol {
			continue
		}
		cfg := c.config(b.machine, protocol, &b.terms)
		cfg.Seed[0] = 1 // each machine gets its own
		cfg = cfg.WithDefaults()
		if err = cfg.Validate(); err == nil {
			return nil
		}
	}
	if b.query.Protocol > core.ProtocolStrict {
		return &core.Error{Code: core.ErrorConfig, Text: "protocol: must be strict, lastwriter, or none for auto"}
	}
	return err
}
