package machines

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func goodConfig(change func(*core.Config)) core.Config {
	cfg := core.Config{Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n"}, Seed: [16]byte{1}}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// TestConfigRules: each rule, at its edge, with its words.
func TestConfigRules(t *testing.T) {
	const s, day = time.Second, 24 * time.Hour
	for _, c := range []struct {
		name   string
		change func(*core.Config)
		want   string
	}{
		{"zero", nil, ""},
		{"machine", func(c *core.Config) { c.Machine = 0 }, "machine: no such machine"},
		{"machine 11", func(c *core.Config) { c.Machine = core.MachineClient + 1 }, "machine: no such machine; machine: only strict has it"},
		{"protocol", func(c *core.Config) { c.Protocol = 0 }, "protocol: must be lastwriter, strict or bridge"},
		{"renewal", func(c *core.Config) { c.Renewal = 3 }, "renewal: must be checked or blind"},
		{"expiry", func(c *core.Config) { c.Expiry = 3 }, "expiry: must be wall or observed"},
		{"role", func(c *core.Config) { c.Role = 3 }, "role: must be remote or owner"},
		{"ttl least", func(c *core.Config) { c.TTL = core.TTL(50 * time.Millisecond) }, ""},
		{
			"ttl below", func(c *core.Config) { c.TTL = core.TTL(49 * time.Millisecond) },
			"ttl 49ms: at least 50ms on this store, and never 0 under lastwriter",
		},
		{
			"ttl none", func(c *core.Config) { c.TTL, c.Margin = core.TTL(-s), -s },
			"ttl -1s: at least 50ms on this store, and never 0 under lastwriter",
		},
		{"ttl coarse least", func(c *core.Config) { c.TTL, c.StampUnit = core.TTL(5*s), s }, ""},
		{
			"ttl coarse below", func(c *core.Config) { c.TTL, c.StampUnit = core.TTL(5*s-1), s },
			"ttl 4.999999999s: at least 5s on this store, and never 0 under lastwriter",
		},
		{"ttl most", func(c *core.Config) { c.TTL = core.TTL(30 * day) }, ""},
		{"ttl above", func(c *core.Config) { c.TTL = core.TTL(30*day + 1) }, "ttl 720h0m0.000000001s: at most 720h (30 days)"},
		{"margin most", func(c *core.Config) { c.TTL, c.Margin = core.TTL(10*s), 5*s-1 }, ""},
		{"margin half", func(c *core.Config) { c.TTL, c.Margin = core.TTL(10*s), 5*s }, "margin 5s: less than half the ttl of 10s"},
		{"margin least", func(c *core.Config) { c.TTL, c.Margin = core.TTL(101*s), 2*s }, ""},
		{
			"margin small", func(c *core.Config) { c.TTL, c.Margin = core.TTL(101*s), 2*s-1 },
			"margin 1.999999999s: at least 2s, by which clocks whose rates differ by 1 % can drift apart within the ttl",
		},
		{"acquire margin half", func(c *core.Config) { c.TTL, c.AcquireMargin = core.TTL(10*s), 5*s }, ""},
		{
			"acquire margin above", func(c *core.Config) { c.TTL, c.AcquireMargin = core.TTL(10*s), 5*s+1 },
			"acquire margin 5.000000001s: from 0 to half the ttl of 10s",
		},
		{
			"acquire margin negative", func(c *core.Config) { c.AcquireMargin = -1 },
			"acquire margin -1ns: from 0 to half the ttl of 1m28s",
		},
		{
			"acquire margin and fleet", func(c *core.Config) { c.TTL, c.AcquireMargin = core.TTL(10*time.Minute), 44*s },
			"",
		},
		{
			"acquire margin above fleet", func(c *core.Config) { c.TTL, c.AcquireMargin = core.TTL(10*time.Minute), 44*s+1 },
			"acquire margin 44.000000001s: at most half the fleet expire of 1m28s, by which others may take the claim over before it is held",
		},
		{
			"acquire margin without fleet",
			func(c *core.Config) {
				c.TTL, c.AcquireMargin, c.FleetExpire = core.TTL(10*time.Minute), 5*time.Minute, core.TTLEndless
			}, "",
		},
		{"fleet none", func(c *core.Config) { c.FleetExpire = core.TTLEndless }, ""},
		{"fleet least", func(c *core.Config) { c.FleetExpire = core.TTL(core.MinTTL) }, ""},
		{"fleet below", func(c *core.Config) { c.FleetExpire = core.TTL(core.MinTTL - 1) }, "fleet expire 49.999999ms: none, or from 50ms to 720h"},
		{
			"fleet above", func(c *core.Config) { c.FleetExpire = core.TTL(core.MaxTTL + 1) },
			"fleet expire 720h0m0.000000001s: none, or from 50ms to 720h",
		},
		{"stamp unit", func(c *core.Config) { c.StampUnit = -1 }, "stamp unit -1ns: not negative"},
		{"host most", func(c *core.Config) { c.Host = strings.Repeat("h", 256) }, ""},
		{"host long", func(c *core.Config) { c.Host = strings.Repeat("h", 257) }, "host: at most 256 bytes of UTF-8"},
		{"host bytes", func(c *core.Config) { c.Host = "\xff" }, "host: at most 256 bytes of UTF-8"},
		{"pid long", func(c *core.Config) { c.PID = strings.Repeat("1", 257) }, "pid: at most 256 bytes of UTF-8"},
		{"pid bytes", func(c *core.Config) { c.PID = "\xff" }, "pid: at most 256 bytes of UTF-8"},
		{"holder most", func(c *core.Config) { c.Holder = core.HolderID(strings.Repeat("h", 512)) }, ""},
		{
			"holder long", func(c *core.Config) { c.Holder = core.HolderID(strings.Repeat("h", 513)) },
			"holder: at most 512 bytes of UTF-8, without a slash",
		},
		{"holder slash", func(c *core.Config) { c.Holder = "a/b" }, "holder: at most 512 bytes of UTF-8, without a slash"},
		{"holder bytes", func(c *core.Config) { c.Holder = "\xff" }, "holder: at most 512 bytes of UTF-8, without a slash"},
		{"companion", func(c *core.Config) { c.Machine = core.MachineCompanion }, "holder: a companion needs the tenure that it joins"},
		{"name", func(c *core.Config) { c.Name = "" }, `name "": must not be empty`},
		{
			"all at once", func(c *core.Config) {
				*c = core.Config{Terms: core.Terms{TTL: core.TTL(time.Millisecond)}, Host: "\xff"}
			},
			"machine: no such machine; protocol: must be lastwriter, strict or bridge; " + `name "": must not be empty; ` +
				"ttl 1ms: at least 50ms on this store, and never 0 under lastwriter; host: at most 256 bytes of UTF-8; seed: must be 16 fresh random bytes for each machine",
		},
		{"buckets", func(c *core.Config) { *c = bucketsConfig() }, ""},
		{"buckets of lastwriter", func(c *core.Config) { *c = bucketsConfig(); c.Protocol = core.ProtocolLastWriter }, "machine: only strict has it"},
		{"buckets on a session", func(c *core.Config) { *c = bucketsConfig(); c.OnSession = true }, "session: only a lease and permits stand on one"},
		{"remote on a session", func(c *core.Config) {
			c.Machine, c.Protocol, c.Role, c.Holder, c.Epoch, c.OnSession = core.MachineInvocation, core.ProtocolStrict, core.RoleRemote, "x", 1, true
		}, "session: only a lease and permits stand on one"},
		{"seed", func(c *core.Config) { c.Seed = [16]byte{} }, "seed: must be 16 fresh random bytes for each machine"},
		{
			"tiny", func(c *core.Config) { c.TTL, c.Margin = 1, -5 }, "ttl 1ns: at least 50ms on this store, and never 0 under lastwriter; " +
				"margin -5ns: at least 0s, by which clocks whose rates differ by 1 % can drift apart within the ttl",
		},
	} {
		t.Run(c.name, func(t *testing.T) { checkRule(t, goodConfig(c.change), c.want) })
	}
}

func checkRule(t *testing.T, cfg core.Config, want string) {
	t.Helper()
	m, err := New(cfg)
	if want == "" {
		if err != nil || m == nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	if err == nil || err.Error() != "mopslock: "+want {
		t.Fatalf("got  %v\nwant mopslock: %s", err, want)
	}
	if m != nil {
		t.Error("a machine came with the error")
	}
	if !errors.Is(err, &core.Error{Code: core.ErrorConfig}) || errors.Is(err, &core.Error{Code: core.ErrorClock}) {
		t.Error("the code is not config")
	}
}

// TestDefaults: what is left zero, as PROTOCOL T7 and L2 have it.
func TestDefaults(t *testing.T) {
	m, err := New(goodConfig(nil))
	if err != nil {
		t.Fatal(err)
	}
	got := tenureOf(m).Cfg
	want := goodConfig(func(c *core.Config) {
		c.TTL, c.Margin, c.FleetExpire = core.TTL(88*time.Second), 8800*time.Millisecond, core.TTL(88*time.Second)
		c.Renewal, c.Expiry, c.Role = core.RenewalChecked, core.ExpiryWall, core.RoleRemote
	})
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestCheckName: each rule, with its words; and what mops and people use.
func TestCheckName(t *testing.T) {
	long := strings.Repeat("s", 200)
	for name, rule := range map[string]string{
		"": "must not be empty",
		long + "/" + long + "/" + strings.Repeat("x", 111): "at most 512 bytes",
		"a\xff":       "must be UTF-8",
		"/a":          "must not begin or end with a slash",
		"a/":          "must not begin or end with a slash",
		"/":           "must not begin or end with a slash",
		`a\b`:         "must not contain a backslash",
		"a\x00":       "must not contain control characters",
		"a\n":         "must not contain control characters",
		"a\x7f":       "must not contain control characters",
		"a\u0085b":    "must not contain control characters",
		"a//b":        "must not contain an empty segment (//)",
		".":           "must not contain a segment . or ..",
		"a/../b":      "must not contain a segment . or ..",
		long + "s":    "a segment has at most 200 bytes",
		"a./b":        "a segment must not end in a dot or a space",
		"a ":          "a segment must not end in a dot or a space",
		"_mopslock":   "the segment _mopslock is reserved",
		"a/lock.json": "the segment lock.json is reserved",
		"result/b":    "the segment result is reserved",
	} {
		err := core.CheckName(name)
		if err == nil || !strings.HasSuffix(err.Error(), `": `+rule) {
			t.Errorf("%q: got %v, want %s", name, err, rule)
		}
	}
	for _, name := range []string{
		"n", "a/lock", "nightly report", ".hidden", "a..b", "mops2-mpf/a~b/pkg.mod:fn/Xy-_z", "caf\u00e9/\u65e5\u672c",
		long + "/" + long + "/" + strings.Repeat("x", 110), "Lock.json", "results",
	} {
		if err := core.CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusedNameIsShownSafely: an error repeats nothing that was wrong.
func TestRefusedNameIsShownSafely(t *testing.T) {
	for name, want := range map[string]string{
		"a\x1b[31m":              `mopslock: name "a\ufffd[31m": must not contain control characters`,
		"\xffb":                  `mopslock: name "\ufffdb": must be UTF-8`,
		strings.Repeat("n", 600): `mopslock: name "` + strings.Repeat("n", 64) + `...": at most 512 bytes`,
	} {
		if err := core.CheckName(name); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
