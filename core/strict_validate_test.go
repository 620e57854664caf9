package core

import (
	"strings"
	"testing"
	"time"
)

func strictConfig(change func(*Config)) Config {
	cfg := Config{Machine: MachineLease, Protocol: ProtocolStrict, Name: "n", Seed: [16]byte{1}}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

type strictRule struct {
	name   string
	change func(*Config)
	want   string
}

// strictRules is each rule that only strict has, at its edge, with its words.
func strictRules() []strictRule {
	const ids = "holder, owner and boot: printable ASCII without quotes, slashes and backslashes"
	return []strictRule{
		{"zero", nil, ""},
		{"ttl none", func(c *Config) { c.TTL = None }, ""},
		{"ttl none on a session", func(c *Config) { c.TTL, c.OnSession = None, true }, "ttl: a lease on a session has the session's, so it cannot be without one"},
		{"ttl below none", func(c *Config) { c.TTL, c.Margin = -2, 1 }, "ttl -2ns: at least 50ms on this store, and never 0 under lastwriter"},
		{"ttl coarse", func(c *Config) { c.TTL, c.StampUnit = 5*time.Second-1, time.Second }, "ttl 4.999999999s: at least 5s on this store, and never 0 under lastwriter"},
		{"margin", func(c *Config) { c.TTL, c.Margin = 101*time.Second, 2*time.Second-1 }, "margin 1.999999999s: at least 2s, by which clocks whose rates differ by 1 % can drift apart within the ttl"},
		{"expiry observed", func(c *Config) { c.Expiry = ExpiryObserved }, ""},
		{"expiry wall", func(c *Config) { c.Expiry = ExpiryWall }, "expiry: must be calibrated or observed"},
		{"blind", func(c *Config) { c.Renewal = RenewalBlind }, "renewal: must be checked under strict"},
		{"companion on a session", func(c *Config) { c.Machine, c.Holder, c.Epoch, c.OnSession = MachineCompanion, "h", 1, true }, "session: only a lease and permits stand on one"},
		{"companion", func(c *Config) { c.Machine, c.Holder, c.Epoch = MachineCompanion, "h", 1 }, ""},
		{"companion of nobody", func(c *Config) { c.Machine = MachineCompanion }, "holder: a companion needs the tenure that it joins"},
		{"companion without an epoch", func(c *Config) { c.Machine, c.Holder = MachineCompanion, "h" }, "epoch: whoever comes back to a tenure needs one that it had"},
		{"printed without an epoch", func(c *Config) { c.Holder = "h" }, "epoch: whoever comes back to a tenure needs one that it had"},
		{"label most", func(c *Config) { c.Label = strings.Repeat("l", 128) }, ""},
		{"label long", func(c *Config) { c.Label = strings.Repeat("l", 129) }, "label: at most 128 printable bytes"},
		{"label of two lines", func(c *Config) { c.Label = "a\nb" }, "label: at most 128 printable bytes"},
		{"label bytes", func(c *Config) { c.Label = "\xff" }, "label: at most 128 printable bytes"},
		{"breaker", func(c *Config) { c.Machine, c.Why = MachineBreaker, strings.Repeat("w", 512) }, ""},
		{"why missing", func(c *Config) { c.Machine = MachineBreaker }, "why: a break needs a reason"},
		{"why long", func(c *Config) { c.Machine, c.Why = MachineBreaker, strings.Repeat("w", 513) }, "why: at most 512 printable bytes"},
		{"holder quoted", func(c *Config) { c.Holder, c.Epoch = `a"b`, 1 }, ids},
		{"holder with a space", func(c *Config) { c.Holder, c.Epoch = "a b", 1 }, ids},
		{"holder of another alphabet", func(c *Config) { c.Holder, c.Epoch = "caf\u00e9", 1 }, ids},
		{"holder most", func(c *Config) { c.Holder, c.Epoch = HolderID(strings.Repeat("h", 200)), 1 }, ""},
		{"holder long", func(c *Config) { c.Holder, c.Epoch = HolderID(strings.Repeat("h", 201)), 1 }, ids},
		{"owner", func(c *Config) { c.Owner = "a\\b" }, ids},
		{"boot", func(c *Config) { c.Boot = "a/b" }, ids},
		{"spread none", func(c *Config) { c.StampSpread = None }, ""},
		{"spread", func(c *Config) { c.StampSpread = -2 }, "stamp spread -2ns: not negative"},
		{"session", func(c *Config) { c.Machine, c.Name = MachineSession, "" }, ""},
		{"calibration", func(c *Config) { c.Machine, c.Name = MachineCalibration, "" }, ""},
		{"observer", func(c *Config) { c.Machine, c.Name = MachineObserver, "" }, `name "": must not be empty`},
		{"invocation", func(c *Config) { c.Machine, c.Role, c.OnSession = MachineInvocation, RoleOwner, true }, ""},
		{"invocation of a tenure", func(c *Config) { c.Machine, c.Role, c.Holder, c.Epoch = MachineInvocation, RoleOwner, "h", 1 }, "holder: who invokes makes its own"},
		{
			"invocation without expiry", func(c *Config) { c.Machine, c.Role, c.TTL = MachineInvocation, RoleOwner, None },
			"ttl: work whose lease has no expiry would strand everybody if it died",
		},
		{"remote of nobody", func(c *Config) { c.Machine, c.Role = MachineInvocation, RoleRemote }, "holder: a companion needs the tenure that it joins"},
		{"remote without a lease", func(c *Config) { c.Machine, c.Role, c.WithoutLease = MachineInvocation, RoleRemote, true }, ""},
		{"no such machine", func(c *Config) { c.Machine = MachineBuckets + 1 }, "machine: no such machine"},
	}
}

// TestStrictConfigRules: each rule with its words.
func TestStrictConfigRules(t *testing.T) {
	for _, c := range strictRules() {
		t.Run(c.name, func(t *testing.T) { checkRule(t, strictConfig(c.change), c.want) })
	}
}

// TestOnlyStrictHasIt: under lastwriter the other machines and sessions are refused.
func TestOnlyStrictHasIt(t *testing.T) {
	for machine := MachineSession; machine <= MachineCalibration; machine++ {
		checkRule(t, goodConfig(func(c *Config) { c.Machine = machine }), "machine: only strict has it")
	}
	checkRule(t, goodConfig(func(c *Config) { c.OnSession = true }), "session: only strict has sessions")
	checkRule(t, goodConfig(func(c *Config) { c.Expiry = ExpiryCalibrated }), "expiry: must be wall or observed")
	checkRule(t, goodConfig(func(c *Config) { c.TTL = None }), "ttl -1ns: at least 50ms on this store, and never 0 under lastwriter")
	checkRule(t, strictConfig(func(c *Config) { c.Machine, c.Name, c.TTL = MachineSession, "", None }), "ttl -1ns: at least 50ms on this store, and never 0 under lastwriter")
}
