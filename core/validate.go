package core

import (
	"strings"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core/internal/octets"
)

// WithDefaults returns the Config with its defaults where a field was left zero. Call it
// before Validate, so that a default obeys the same rules as a caller's value.
func (c Config) WithDefaults() Config {
	strict := c.Protocol.HasRegister()
	c.TTL = c.TTL.Under(c.Protocol)
	if c.Margin == 0 && c.TTL > 0 {
		c.Margin = c.TTL.Duration() / MarginShare
	}
	if c.StampSpread == 0 && strict {
		c.StampSpread = DefaultSpread
	}
	if c.FleetExpire == TTLDefault {
		c.FleetExpire = TTL(DefaultFleetExpire)
	}
	if c.Renewal == 0 {
		c.Renewal = RenewalChecked
	}
	switch {
	case c.Expiry != 0:
	case strict:
		c.Expiry = ExpiryCalibrated
	default:
		c.Expiry = ExpiryWall
	}
	if c.Role == 0 {
		c.Role = RoleRemote
	}
	return c
}

// faults is the list of what is wrong with a Config, one rule after the other.
type faults string

// require adds the text only if the rule is broken: a Config is validated for each lease.
func (f *faults) require(ok bool, text string) {
	if ok {
		return
	}
	if *f != "" {
		*f += "; "
	}
	*f += faults(text)
}

const (
	noLimit       Duration = -1
	noSuchMachine          = "machine: no such machine"
)

// bound is require with a duration in its text, and the limit of that duration.
func (f *faults) bound(ok bool, field string, value Duration, rule string, limit Duration, rest string) {
	if ok {
		return
	}
	text := field + " " + octets.DurationText(int64(value)) + ": " + rule
	if limit != noLimit {
		text += octets.DurationText(int64(limit))
	}
	f.require(false, text+rest)
}

// Validate lists every bad field, each with its rule, in one *Error.
func (c *Config) Validate() error {
	var f faults
	f.require(c.Machine >= MachineLease && c.Machine <= MachineBuckets, noSuchMachine)
	f.require(c.Protocol >= ProtocolLastWriter && c.Protocol <= ProtocolBridge, "protocol: must be lastwriter, strict or bridge")
	invocation := c.Machine == MachineInvocation
	f.require(c.Machine <= MachineCompanion || invocation || c.Protocol == ProtocolStrict, "machine: only strict has it")
	f.require(c.Renewal == RenewalChecked || c.Renewal == RenewalBlind, "renewal: must be checked or blind")
	c.validateProtocol(&f)
	f.require(c.Role == RoleRemote || c.Role == RoleOwner, "role: must be remote or owner")
	nameless := c.Machine == MachineSession || c.Machine == MachineStoreClockSample || c.Machine == MachineBuckets
	if rule := nameRule(c.Name); rule != "" && !nameless {
		f.require(false, badName(c.Name, rule))
	}
	c.validateDurations(&f)
	f.require(octets.IsText(c.Host, MaxText), "host: at most 256 bytes of UTF-8")
	f.require(octets.IsText(c.PID, MaxText), "pid: at most 256 bytes of UTF-8")
	f.require(octets.IsText(string(c.Holder), MaxHolder) && !strings.Contains(string(c.Holder), "/"),
		"holder: at most 512 bytes of UTF-8, without a slash")
	joins := c.Machine == MachineCompanion || invocation && c.Role == RoleRemote && !c.WithoutLease
	f.require(!joins || c.Holder != "", "holder: a companion needs the tenure that it joins")
	f.require(!invocation || c.Role == RoleRemote || c.Holder == "", "holder: who invokes makes its own")
	f.require(!invocation || c.TTL != TTLEndless, "ttl: work whose lease has no expiry would strand everybody if it died")
	// Two machines of one seed are one holder, and do not exclude each other.
	f.require(c.Seed != [16]byte{}, "seed: must be 16 fresh random bytes for each machine")
	if f != "" {
		return fault(ErrorConfig, string(f))
	}
	return nil
}

// validateProtocol checks the fields whose rules depend on the protocol.
func (c *Config) validateProtocol(f *faults) {
	if !c.Protocol.HasRegister() {
		f.require(c.Expiry == ExpiryWall || c.Expiry == ExpiryObserved, "expiry: must be wall or observed")
		f.require(!c.OnSession && !c.LockFilePresent, "session: only strict has sessions")
		return
	}
	f.require(c.Expiry == ExpiryCalibrated || c.Expiry == ExpiryObserved, "expiry: must be calibrated or observed")
	f.require(c.Renewal != RenewalBlind, "renewal: must be checked under strict")
	f.require(c.Protocol == ProtocolStrict || !c.OnSession && !c.LockFilePresent, "session: a bridge stands on none")
	onSession := c.Machine == MachineLease || c.Machine == MachineSemaphore || c.Machine == MachineInvocation && c.Role == RoleOwner
	f.require(!c.OnSession || onSession, "session: only a lease and permits stand on one")
	f.require(c.endlessRule() != EndlessOnSession, "ttl: a lease on a session has the session's, so it cannot be without one")
	f.require(len(c.Label) <= MaxLabel && octets.IsPrintable(c.Label), "label: at most 128 printable bytes")
	f.require(len(c.Why) <= MaxWhy && octets.IsPrintable(c.Why), "why: at most 512 printable bytes")
	f.require(c.Machine != MachineRevocation || c.Why != "", "why: a break needs a reason")
	f.require(IsID(c.Owner) && IsID(c.Boot) && IsID(string(c.Holder)), "holder, owner and boot: printable ASCII without quotes, slashes and backslashes")
	f.require(c.Holder == "" || c.Epoch > 0 || c.Machine == MachineRevocation, "epoch: whoever comes back to a tenure needs one that it had")
	f.bound(c.StampSpread >= OneClock, "stamp spread", c.StampSpread, "not negative", noLimit, "")
}

// IsID reports whether s can be written into a record and a key without a change: as the
// id of a holder, an owner, a session or a boot.
func IsID(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '/' {
			return false
		}
	}
	return len(s) <= MaxSegment
}

func (c *Config) validateDurations(f *faults) {
	if !c.validateTTL(f) {
		return
	}
	ttl, acquire, fleet := Duration(c.TTL), c.AcquireMargin, Duration(c.FleetExpire)
	if ttl > 0 { // otherwise the rules that compare with the TTL say nothing
		least := leastMargin(ttl)
		f.bound(c.Margin < ttl/2, "margin", c.Margin, "less than half the ttl of ", ttl, "")
		f.bound(c.Margin >= least, "margin", c.Margin, "at least ", least,
			", by which clocks whose rates differ by 1 % can drift apart within the ttl")
		f.bound(acquire >= 0 && acquire <= ttl/2, "acquire margin", acquire, "from 0 to half the ttl of ", ttl, "")
		f.bound(fleet <= 0 || acquire <= fleet/2, "acquire margin", acquire,
			"at most half the fleet expire of ", fleet, ", by which others may take the claim over before it is held")
	}
	f.bound(c.FleetExpire == TTLEndless || fleet >= MinTTL && fleet <= MaxTTL, "fleet expire", fleet,
		"none, or from 50ms to 720h", noLimit, "")
	f.bound(c.StampUnit >= 0, "stamp unit", c.StampUnit, "not negative", noLimit, "")
}

// leastMargin returns how far two clocks, whose rates differ by rho each way, can
// drift apart within a TTL: TTL * 2 rho / (1 + rho).
func leastMargin(ttl Duration) Duration {
	return ttl / (RateInverse + 1) * 2
}

// CheckName returns an error if a lease cannot have this name; the error says which
// rule the name breaks. A name becomes part of a key in every kind of store, and a
// directory in some, so each rule is that of the strictest store.
func CheckName(name string) error {
	rule := nameRule(name)
	if rule == "" {
		return nil
	}
	return &Error{ErrorConfig, badName(name, rule)}
}

// CheckWork returns an error if a piece of work cannot have this name, which a lease can have.
func CheckWork(name string) error {
	if name != "lock" && !strings.HasSuffix(name, "/lock") {
		return nil
	}
	return &Error{ErrorConfig, badName(name, "a last segment lock is a mops memo's lease, and the result would lie within the memo; use another")}
}

func badName(name, rule string) string { return "name " + quoteName(name) + ": " + rule }

func nameRule(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > MaxName:
		return "at most 512 bytes"
	case !octets.IsText(name, MaxName):
		return "must be UTF-8"
	case name[0] == '/' || name[len(name)-1] == '/':
		return "must not begin or end with a slash"
	case strings.Contains(name, "\\"):
		return "must not contain a backslash"
	}
	for _, r := range name {
		if octets.IsControl(r) {
			return "must not contain control characters"
		}
	}
	start := 0
	for end := 0; end <= len(name); end++ {
		if end == len(name) || name[end] == '/' {
			if rule := segmentRule(name[start:end]); rule != "" {
				return rule
			}
			start = end + 1
		}
	}
	return ""
}

func segmentRule(segment string) string {
	switch segment {
	case "":
		return "must not contain an empty segment (//)"
	case ".", "..":
		return "must not contain a segment . or .."
	case RegisterDir, LockFile, ResultFile:
		return "the segment " + segment + " is reserved"
	}
	last := segment[len(segment)-1]
	switch {
	case len(segment) > MaxSegment:
		return "a segment has at most 200 bytes"
	case last == '.' || last == ' ':
		return "a segment must not end in a dot or a space"
	}
	return ""
}

// quoteName returns a refused name in a form that is safe to show: it escapes control
// characters and broken UTF-8, and cuts the length.
func quoteName(name string) string {
	const shown = 64
	out := `"`
	for _, r := range name[:min(len(name), shown)] {
		if octets.IsControl(r) || r == utf8.RuneError {
			out += "\\ufffd"
		} else {
			out += string(r)
		}
	}
	if len(name) > shown {
		out += "..."
	}
	return out + `"`
}
