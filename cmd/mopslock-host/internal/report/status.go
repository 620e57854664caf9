// Package report says in JSON, and in text for people, what a host.Status or a doctor's report
// shows. Text of others is escaped, so that a terminal takes nothing for a command.
//
// It prints nothing and asks no store.
package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// StatusText is what status prints of a lease or a semaphore for people.
func StatusText(s *host.Status) string {
	if s.IsSemaphore() {
		return semaphoreText(s)
	}
	var text strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&text, "%-11s%s\n", key, fmt.Sprintf(format, args...))
	}
	line("name", "%s", host.Printable(s.Name))
	line("state", "%s", s.State)
	if s.Holder != "" {
		line("holder", "%s", host.Printable(s.Holder))
		line("host", "%s", host.Printable(s.Host))
		line("pid", "%s", host.Printable(s.PID))
	}
	said := func(key, text string) {
		if text != "" {
			line(key, "%s", host.Printable(text))
		}
	}
	said("label", s.Label)
	line("protocol", "%s", s.Protocol)
	line("epoch", "%d", s.Epoch)
	line("token", "%d", s.Token)
	said("session", s.Session)
	for _, companion := range companions(s) {
		if s.Protocol == core.ProtocolLastWriter {
			line("companions", "%s (wrote last)", host.Printable(companion))
			continue
		}
		line("companion", "%s", host.Printable(companion))
	}
	switch {
	case s.TTL > 0:
		line("ttl", "%v", s.TTL)
	case Endless(s):
		line("ttl", "none: until it is released or broken")
	}
	if !s.Acquired.IsZero() {
		line("acquired", "%s", s.Acquired.Format(time.RFC3339))
	}
	if !s.Written.IsZero() || !s.Released.IsZero() {
		line("age", "%v", s.Age.Round(time.Millisecond))
	}
	said("left", leftText(s, time.Millisecond))
	if _, _, is := ended(s); is && s.Left > 0 {
		line("free", "in %v at the latest", s.Left.Round(time.Millisecond))
	}
	said("broken by", s.By)
	said("why", s.Why)
	return text.String()
}

// leftText says what is left of the TTL of a held lease, and by whose clock.
func leftText(s *host.Status, unit time.Duration) string {
	switch {
	case s.State != core.ObservedHeld || Endless(s):
		return ""
	case s.Left == 0 && s.Protocol == core.ProtocolStrict:
		return "unknown (no clock in common with its holder)"
	case s.Clock == "store":
		return s.Left.Round(unit).String() + " (by the store's clock)"
	}
	return s.Left.Round(unit).String()
}

// Endless reports whether the lease is held until it is released or broken.
func Endless(s *host.Status) bool {
	return s.Protocol == core.ProtocolStrict && s.State == core.ObservedHeld && s.TTL <= 0
}
