package core

import (
	"strings"
	"unicode/utf8"
)

// withDefaults fills what was left zero. It comes before validation, so that a
// default is held against the same rules as a wish.
func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Margin == 0 {
		c.Margin = c.TTL / MarginShare
	}
	if c.FleetExpire == 0 {
		c.FleetExpire = DefaultFleetExpire
	}
	if c.Renewal == 0 {
		c.Renewal = RenewalChecked
	}
	if c.Expiry == 0 {
		c.Expiry = ExpiryWall
	}
	if c.Role == 0 {
		c.Role = RoleRemote
	}
	return c
}

// validate lists every bad field, each with its rule.
func (c *Config) validate() error {
	var bad []string
	require := func(ok bool, text string) {
		if !ok {
			bad = append(bad, text)
		}
	}
	require(c.Machine == MachineLease || c.Machine == MachineCompanion, "machine: lease or companion")
	require(c.Protocol == ProtocolLastWriter, "protocol: lastwriter")
	require(c.Renewal == RenewalChecked || c.Renewal == RenewalBlind, "renewal: checked or blind")
	require(c.Expiry == ExpiryWall || c.Expiry == ExpiryObserved, "expiry: wall or observed")
	require(c.Role == RoleRemote || c.Role == RoleOwner, "role: remote or owner")
	if rule := nameRule(c.Name); rule != "" {
		bad = append(bad, badName(c.Name, rule))
	}
	bad = c.validateDurations(bad)
	require(len(c.Host) <= MaxText && utf8.ValidString(c.Host), "host: at most 256 bytes of UTF-8")
	require(len(c.PID) <= MaxText && utf8.ValidString(c.PID), "pid: at most 256 bytes of UTF-8")
	require(len(c.Holder) <= MaxHolder && utf8.ValidString(string(c.Holder)) && !strings.Contains(string(c.Holder), "/"),
		"holder: at most 512 bytes of UTF-8, without a slash")
	require(c.Machine != MachineCompanion || c.Holder != "", "holder: a companion needs the tenure that it joins")
	if len(bad) > 0 {
		return &Error{ErrorConfig, strings.Join(bad, "; ")}
	}
	return nil
}

func (c *Config) validateDurations(bad []string) []string {
	// The text is made only of what is wrong: a Config is validated per lease.
	require := func(ok bool, field string, value Duration, rule string, limit Duration, rest string) {
		if ok {
			return
		}
		text := field + " " + durationText(value) + ": " + rule
		if limit != 0 {
			text += durationText(limit)
		}
		bad = append(bad, text+rest)
	}
	floor := c.floor()
	require(c.TTL >= floor, "ttl", c.TTL, "at least ", floor, " on this store, and never 0 under lastwriter")
	require(c.TTL <= MaxTTL, "ttl", c.TTL, "at most 720h (30 days)", 0, "")
	if c.TTL > 0 { // else there is no more to say of what is measured by it
		require(c.Margin < c.TTL/2, "margin", c.Margin, "less than half the ttl of ", c.TTL, "")
		require(c.Margin >= leastMargin(c.TTL), "margin", c.Margin, "at least ", leastMargin(c.TTL),
			", by which clocks whose rates differ by 1 % can drift apart within the ttl")
		require(c.AcquireMargin >= 0 && c.AcquireMargin <= c.TTL/2, "acquire margin", c.AcquireMargin,
			"from 0 to half the ttl of ", c.TTL, "")
		require(c.FleetExpire <= 0 || c.AcquireMargin <= c.FleetExpire/2, "acquire margin", c.AcquireMargin,
			"at most half the fleet expire of ", c.FleetExpire, ", by which others may take the claim over before it is held")
	}
	require(c.FleetExpire == None || c.FleetExpire >= MinTTL && c.FleetExpire <= MaxTTL, "fleet expire", c.FleetExpire,
		"none, or from 50ms to 720h", 0, "")
	require(c.StampUnit >= 0, "stamp unit", c.StampUnit, "not negative", 0, "")
	return bad
}

// floor is the shortest TTL that the store's stamps allow.
func (c *Config) floor() Duration {
	if c.StampUnit >= CoarseStamp {
		return MinTTLCoarse
	}
	return MinTTL
}

// leastMargin is what two clocks whose rates differ by rho each way can drift
// apart within a TTL: TTL * 2 rho / (1 + rho).
func leastMargin(ttl Duration) Duration {
	return ttl / (RateInverse + 1) * 2
}

// CheckName says whether a lease can have this name, and if not which rule it
// breaks. A name becomes part of a key in every kind of store, and a directory
// in some, so the rules are the narrowest of theirs.
func CheckName(name string) error {
	rule := nameRule(name)
	if rule == "" {
		return nil
	}
	return &Error{ErrorConfig, badName(name, rule)}
}

func badName(name, rule string) string { return "name " + quoteName(name) + ": " + rule }

func nameRule(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > MaxName:
		return "at most 512 bytes"
	case !utf8.ValidString(name):
		return "must be UTF-8"
	case strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/"):
		return "must not begin or end with a slash"
	case strings.Contains(name, `\`):
		return "must not contain a backslash"
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return "must not contain control characters"
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		if rule := segmentRule(segment); rule != "" {
			return rule
		}
	}
	return ""
}

func segmentRule(segment string) string {
	switch {
	case segment == "":
		return "must not contain an empty segment (//)"
	case segment == "." || segment == "..":
		return "must not contain a segment . or .."
	case len(segment) > MaxSegment:
		return "a segment has at most 200 bytes"
	case strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " "):
		return "a segment must not end in a dot or a space"
	case segment == "_mopslock" || segment == LockFile || segment == "result":
		return "the segment " + segment + " is reserved"
	}
	return ""
}

// quoteName shows a refused name in an error without repeating what was wrong
// with it: control characters and broken UTF-8 are escaped, length is cut.
func quoteName(name string) string {
	const shown = 64
	cut := name
	if len(cut) > shown {
		cut = cut[:shown]
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range cut {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			out.WriteString("\\ufffd")
			continue
		}
		out.WriteRune(r)
	}
	if cut != name {
		out.WriteString("...")
	}
	out.WriteByte('"')
	return out.String()
}
