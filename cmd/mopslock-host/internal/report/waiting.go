package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// ended reports whether the lease was broken or released, and by whom. It may not be free yet: its
// holder may still rely on it.
func ended(s *host.Status) (how, whom string, is bool) {
	switch s.State {
	case core.ObservedBroken:
		how = "broken"
		if s.By != "" {
			whom = " by " + host.Printable(s.By)
		}
		if s.Why != "" {
			whom += ": " + host.Printable(s.Why)
		}
	case core.ObservedReleased:
		how = "released"
		if s.Host != "" {
			whom = " on " + host.Printable(s.Host)
		}
	default:
		return "", "", false
	}
	return how, whom, true
}

// freeText says when the lease is free.
func freeText(left, unit time.Duration) string {
	if left <= 0 {
		return "not free yet"
	}
	return "free in " + left.Round(unit).String() + " at the latest"
}

// Waiting says why the lease cannot be acquired yet.
func Waiting(s *host.Status) string {
	if how, whom, is := ended(s); is {
		return how + whom + "; " + freeText(s.Left, 100*time.Millisecond)
	}
	return "held by " + s.Who()
}

// WaitingLine is the live line of a process that waits for a lease: its holder, the holder's host,
// since when, and the last renewal. Of a lease that was broken or released it says when the lease
// is free. The status was seen so long ago. The line has less than width columns: first it shortens
// the id and the date, then it loses its end.
func WaitingLine(name string, s *host.Status, ago time.Duration, width int) string {
	line := "waiting for " + host.Printable(name) + ": "
	if how, whom, is := ended(s); is {
		return endedLine(line, how, whom, freeText(s.Left-ago, time.Second), width)
	}
	expiry := expiryText(s, ago)
	whole := line + "held by " + holderText(s, len(s.Holder)) + sinceText(" since ", s, time.DateTime) + expiry
	if len([]rune(whole)) < width {
		return whole
	}
	return Clip(line+"held by "+holderText(s, shortHolder)+expiry+sinceText(", since ", s, time.TimeOnly), width)
}

// ComputingLine is WaitingLine for a process that waits for a result. It also says how long others
// took.
func ComputingLine(name string, s *host.Status, past []time.Duration, ago time.Duration, width int) string {
	line := "waiting for the result of " + host.Printable(name) + ": "
	if how, whom, is := ended(s); is {
		return endedLine(line, "its lease was "+how, whom, freeText(s.Left-ago, time.Second), width)
	}
	took, expiry := tookText(past), expiryText(s, ago)
	whole := line + "computed by " + holderText(s, len(s.Holder)) + sinceText(" since ", s, time.DateTime) + took + expiry
	if len([]rune(whole)) < width {
		return whole
	}
	line = "waiting for " + host.Printable(name) + ": "
	return Clip(line+"computed by "+holderText(s, shortHolder)+sinceText(" since ", s, time.TimeOnly)+took+expiry, width)
}

// endedLine says on a narrow terminal first when the lease is free, then by whom it was ended.
func endedLine(line, how, whom, free string, width int) string {
	if whole := line + how + whom + "; " + free; len([]rune(whole)) < width {
		return whole
	}
	return Clip(line+how+", "+free+";"+whom, width)
}

func sinceText(since string, s *host.Status, format string) string {
	if s.Acquired.IsZero() {
		return ""
	}
	return since + s.Acquired.Local().Format(format)
}

// expiryText says how long ago the lease was renewed, or, if a renewal is late, when the lease can
// expire.
func expiryText(s *host.Status, ago time.Duration) string {
	left := s.Left - ago
	renewed := max(0, s.TTL-left)
	switch {
	case s.Left <= 0 || left <= 0:
		return ""
	case renewed <= s.TTL/2:
		return fmt.Sprintf(", renewed %.0f s ago", renewed.Seconds())
	}
	return ", can expire in " + left.Round(time.Second).String()
}

// shortHolder is how many bytes of a holder's id tell two holders apart at a glance.
const shortHolder = 8

func holderText(s *host.Status, length int) string {
	text := host.Printable(s.Holder)
	switch {
	case s.Holder == "":
		text = "an unreadable record"
	case len(s.Holder) > length:
		text = host.Printable(strings.ToValidUTF8(s.Holder[:length], "")) + "…"
	}
	if s.Host != "" {
		text += " on " + host.Printable(s.Host)
	}
	return text
}

// Clip cuts a line to one row, since \r takes back no more.
func Clip(line string, width int) string {
	runes := []rune(line)
	if len(runes) < width {
		return line
	}
	return string(runes[:width-1])
}

// tookText says how long others took for a result, if that is known.
func tookText(took []time.Duration) string {
	if len(took) == 0 {
		return ""
	}
	least, most := roughly(slices.Min(took)), roughly(slices.Max(took))
	if least == most {
		return ", others took " + most
	}
	return ", others took " + least + " to " + most
}

// roughly rounds a duration as people do: the seconds of an hour tell nothing.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
