package report

import (
	"fmt"
	"time"

	"github.com/mopslock/mopslock/host"
)

// WatchLine is what watch prints at a change.
func WatchLine(s *host.Status, now time.Time) string {
	line := now.Format(time.RFC3339) + " " + host.Printable(s.Name) + " " + s.State.String()
	if s.IsSemaphore() {
		return fmt.Sprintf("%s %s (%s) epoch %d", line, heldOfMost(s), viewText(s), s.Epoch)
	}
	if s.Holder != "" {
		line += " holder " + host.Printable(s.Holder) + " on " + host.Printable(s.Host) + " pid " + host.Printable(s.PID)
	}
	if s.Companion {
		line += " (companion)"
	}
	if s.Epoch > 0 {
		line += fmt.Sprintf(" epoch %d token %d", s.Epoch, s.Token)
	}
	if s.By != "" {
		line += " broken by " + host.Printable(s.By) + ": " + host.Printable(s.Why)
	}
	return line
}
