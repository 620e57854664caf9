package machines

import (
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func strictConfig(change func(*core.Config)) core.Config {
	cfg := core.Config{Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolStrict, Name: "n"}, Seed: [16]byte{1}}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

type strictRule struct {
	name   string
	change func(*core.Config)
	want   string
}

// strictRules is each rule that only strict has, at its edge, with its words.
func strictRules() []strictRule {
	const ids = "holder, owner and boot: printable ASCII without quotes, slashes and backslashes"
	return []strictRule{
		{"zero", nil, ""},
		{"ttl none", func(c *core.Config) { c.TTL = core.TTLEndless }, ""},
		{"ttl none on a session", func(c *core.Config) { c.TTL, c.OnSession = core.TTLEndless, true }, "ttl: a lease on a session has the session's, so it cannot be without one"},
		{"ttl below none", func(c *core.Config) { c.TTL, c.Margin = -2, 1 }, "ttl -2ns: at least 50ms on this store, and never 0 under lastwriter"},
		{"ttl coarse", func(c *core.Config) { c.TTL, c.StampUnit = core.TTL(5*time.Second-1), time.Second }, "ttl 4.999999999s: at least 5s on this store, and never 0 under lastwriter"},
		{"margin", func(c *core.Config) { c.TTL, c.Margin = core.TTL(101*time.Second), 2*time.Second-1 }, "margin 1.999999999s: at least 2s, by which clocks whose rates differ by 1 % can drift apart within the ttl"},
		{"expiry observed", func(c *core.Config) { c.Expiry = core.ExpiryObserved }, ""},
		{"expiry wall", func(c *core.Config) { c.Expiry = core.ExpiryWall }, "expiry: must be calibrated or observed"},
		{"blind", func(c *core.Config) { c.Renewal = core.RenewalBlind }, "renewal: must be checked under strict"},
		{"companion on a session", func(c *core.Config) { c.Machine, c.Holder, c.Epoch, c.OnSession = core.MachineCompanion, "h", 1, true }, "session: only a lease and permits stand on one"},
		{"companion", func(c *core.Config) { c.Machine, c.Holder, c.Epoch = core.MachineCompanion, "h", 1 }, ""},
		{"companion of nobody", func(c *core.Config) { c.Machine = core.MachineCompanion }, "holder: a companion needs the tenure that it joins"},
		{"companion without an epoch", func(c *core.Config) { c.Machine, c.Holder = core.MachineCompanion, "h" }, "epoch: whoever comes back to a tenure needs one that it had"},
		{"printed without an epoch", func(c *core.Config) { c.Holder = "h" }, "epoch: whoever comes back to a tenure needs one that it had"},
		{"label most", func(c *core.Config) { c.Label = strings.Repeat("l", 128) }, ""},
		{"label long", func(c *core.Config) { c.Label = strings.Repeat("l", 129) }, "label: at most 128 printable bytes"},
		{"label of two lines", func(c *core.Config) { c.Label = "a\nb" }, "label: at most 128 printable bytes"},
		{"label bytes", func(c *core.Config) { c.Label = "\xff" }, "label: at most 128 printable bytes"},
		{"breaker", func(c *core.Config) { c.Machine, c.Why = core.MachineRevocation, strings.Repeat("w", 512) }, ""},
		{"why missing", func(c *core.Config) { c.Machine = core.MachineRevocation }, "why: a break needs a reason"},
		{"why long", func(c *core.Config) { c.Machine, c.Why = core.MachineRevocation, strings.Repeat("w", 513) }, "why: at most 512 printable bytes"},
		{"holder quoted", func(c *core.Config) { c.Holder, c.Epoch = `a"b`, 1 }, ids},
		{"holder with a space", func(c *core.Config) { c.Holder, c.Epoch = "a b", 1 }, ids},
		{"holder of another alphabet", func(c *core.Config) { c.Holder, c.Epoch = "caf\u00e9", 1 }, ids},
		{"holder most", func(c *core.Config) { c.Holder, c.Epoch = core.HolderID(strings.Repeat("h", 200)), 1 }, ""},
		{"holder long", func(c *core.Config) { c.Holder, c.Epoch = core.HolderID(strings.Repeat("h", 201)), 1 }, ids},
		{"owner", func(c *core.Config) { c.Owner = "a\\b" }, ids},
		{"boot", func(c *core.Config) { c.Boot = "a/b" }, ids},
		{"spread none", func(c *core.Config) { c.StampSpread = core.OneClock }, ""},
		{"spread", func(c *core.Config) { c.StampSpread = -2 }, "stamp spread -2ns: not negative"},
		{"session", func(c *core.Config) { c.Machine, c.Name = core.MachineSession, "" }, ""},
		{"calibration", func(c *core.Config) { c.Machine, c.Name = core.MachineStoreClockSample, "" }, ""},
		{"observer", func(c *core.Config) { c.Machine, c.Name = core.MachineInspection, "" }, `name "": must not be empty`},
		{"invocation", func(c *core.Config) { c.Machine, c.Role, c.OnSession = core.MachineInvocation, core.RoleOwner, true }, ""},
		{"invocation of a tenure", func(c *core.Config) {
			c.Machine, c.Role, c.Holder, c.Epoch = core.MachineInvocation, core.RoleOwner, "h", 1
		}, "holder: who invokes makes its own"},
		{
			"invocation without expiry", func(c *core.Config) {
				c.Machine, c.Role, c.TTL = core.MachineInvocation, core.RoleOwner, core.TTLEndless
			},
			"ttl: work whose lease has no expiry would strand everybody if it died",
		},
		{"remote of nobody", func(c *core.Config) { c.Machine, c.Role = core.MachineInvocation, core.RoleRemote }, "holder: a companion needs the tenure that it joins"},
		{"remote without a lease", func(c *core.Config) {
			c.Machine, c.Role, c.WithoutLease = core.MachineInvocation, core.RoleRemote, true
		}, ""},
		{"no such machine", func(c *core.Config) { c.Machine = core.MachineClient + 1 }, "machine: no such machine"},
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
	for machine := core.MachineSession; machine <= core.MachineStoreClockSample; machine++ {
		checkRule(t, goodConfig(func(c *core.Config) { c.Machine = machine }), "machine: only strict has it")
	}
	checkRule(t, goodConfig(func(c *core.Config) { c.OnSession = true }), "session: only strict has sessions")
	checkRule(t, goodConfig(func(c *core.Config) { c.Expiry = core.ExpiryCalibrated }), "expiry: must be wall or observed")
	checkRule(t, goodConfig(func(c *core.Config) { c.TTL = core.TTLEndless }), "ttl -1ns: at least 50ms on this store, and never 0 under lastwriter")
	checkRule(t, strictConfig(func(c *core.Config) { c.Machine, c.Name, c.TTL = core.MachineSession, "", core.TTLEndless }), "ttl -1ns: at least 50ms on this store, and never 0 under lastwriter")
}
