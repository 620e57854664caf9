package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// semaphoreReport is a semaphore as status, ls and watch print it with --json.
type semaphoreReport struct {
	Name     string         `json:"name"`
	Capacity int            `json:"capacity"`
	Width    int            `json:"width"`
	Limit    uint64         `json:"limit,omitempty"`
	Held     uint64         `json:"held"`
	Holders  []holderReport `json:"holders"`
}

type holderReport struct {
	Holder  string  `json:"holder"`
	Weight  uint64  `json:"weight"`
	Host    string  `json:"host"`
	PID     *uint64 `json:"pid"`
	Label   string  `json:"label"`
	Session string  `json:"session"`
	Stale   bool    `json:"stale"`
}

func newSemaphoreReport(s *host.Status) semaphoreReport {
	holders := make([]holderReport, 0, len(s.Holders))
	for i := range s.Holders {
		p := &s.Holders[i]
		holders = append(holders, holderReport{p.ID, p.Weight, p.Host, pidNumber(p.PID), p.Label, p.Session, p.Stale})
	}
	return semaphoreReport{s.Name, s.Capacity, s.Width, s.Limit, s.Held, holders}
}

// hasExpired reports whether ls --stale shows it: of a semaphore, whether a
// holder's session is dead.
func hasExpired(s *host.Status) bool {
	if s.IsSemaphore() {
		return slices.ContainsFunc(s.Holders, func(p host.PermitHolder) bool { return p.Stale })
	}
	return s.State == core.ObservedStale
}

// heldOfMost is how much is held of how much. It is more where the last who was let
// in has a smaller view than those before, or the limit is younger than they are.
func heldOfMost(s *host.Status) string { return fmt.Sprintf("%d/%d", s.Held, s.Most()) }

// viewText is what that is made of.
func viewText(s *host.Status) string {
	return occupancy{view: host.View{Capacity: s.Capacity, Width: s.Width}}.viewText(s.Limit)
}

// semaphoreText is what status says.
func semaphoreText(s *host.Status) string {
	var text strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&text, "%-11s%v\n", key, value) }
	line("name", host.Printable(s.Name))
	line("state", s.State)
	line("held", heldOfMost(s))
	line("capacity", s.Capacity)
	line("width", s.Width)
	if s.Limit != 0 {
		line("limit", fmt.Sprintf("%d, in the store", s.Limit))
	}
	line("protocol", s.Protocol)
	line("epoch", s.Epoch)
	if !s.Written.IsZero() {
		line("age", s.Age.Round(time.Millisecond))
	}
	if len(s.Holders) == 0 {
		return text.String()
	}
	text.WriteString("\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOLDER\tWEIGHT\tHOST\tPID\tSTATE\tLABEL")
	for i := range s.Holders {
		p := &s.Holders[i]
		state := core.ObservedHeld
		if p.Stale {
			state = core.ObservedStale
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", dash(p.ID), p.Weight, dash(p.Host), dash(p.PID), state, dash(p.Label))
	}
	_ = table.Flush() // into text
	return text.String()
}

// occupancy is how full a semaphore is for one caller: its view, the weight that it wants, and
// what it spares.
type occupancy struct {
	view          host.View
	weight, spare uint64
}

// most is how much may be held by this view, with the store's limit, if that is not 0.
func (o occupancy) most(limit uint64) uint64 {
	most := uint64(o.view.Capacity) * uint64(o.view.Width)
	if limit != 0 {
		most = min(most, limit)
	}
	return most
}

func (o occupancy) viewText(limit uint64) string {
	text := fmt.Sprintf("%d x %d", o.view.Capacity, o.view.Width)
	if limit != 0 {
		text += fmt.Sprintf(", limit %d in the store", limit)
	}
	if o.spare != 0 {
		text += fmt.Sprintf(", %d spared", o.spare)
	}
	return text
}

// whyFull is why it does not fit.
func (o occupancy) whyFull(s *host.Status) string {
	switch most := o.most(s.Limit); {
	case s.State == core.ObservedCorrupt:
		return "cannot be read"
	case o.weight+o.spare > most:
		return fmt.Sprintf("has no room for %d until the limit in the store is raised", o.weight)
	}
	if s.Held+o.spare >= o.most(s.Limit) {
		return "is full"
	}
	return fmt.Sprintf("has no room for %d", o.weight)
}

// text is how much is held of how much, and by whom; short names more of them on a
// row of a terminal.
func (o occupancy) text(s *host.Status, short bool) string {
	if s.State == core.ObservedCorrupt {
		return "held by an unreadable record"
	}
	return fmt.Sprintf("%d/%d permits (%s) held by %s", s.Held, o.most(s.Limit), o.viewText(s.Limit), holdersText(s, short))
}

// line is the live one, in less than width columns.
func (o occupancy) line(name string, s *host.Status, width int) string {
	line := "waiting for a permit of " + host.Printable(name) + ": "
	if whole := line + o.text(s, false); len([]rune(whole)) < width {
		return whole
	}
	return clip(line+o.text(s, true), width)
}

// namedHolders is how many holders a line names.
const namedHolders = 3

func holdersText(s *host.Status, short bool) string {
	holders := s.Holders
	switch {
	case s.Held == 0:
		return "nobody"
	case len(holders) == 0:
		return "others"
	}
	var who []string
	for i := range holders[:min(namedHolders, len(holders))] {
		p := &holders[i]
		text := p.Who()
		if short {
			text = holderText(&host.Status{Holder: p.ID, Host: p.Host}, shortHolder)
		}
		if p.Weight > 1 {
			text += fmt.Sprintf(" with %d", p.Weight)
		}
		who = append(who, text)
	}
	text := strings.Join(who, ", ")
	if len(holders) > namedHolders {
		text += " and others" // how many there are, a record that is cut short does not say
	}
	return text
}

// refusal is err, or, where there was no room, how that is by our own view.
func (o occupancy) refusal(name string, err error) error {
	refused, ok := errors.AsType[*host.Error](err)
	if !ok || !errors.Is(err, host.ErrFull) || refused.Seen == nil {
		return err
	}
	s := refused.Seen
	return &exit{
		Status: statusNotAcquired, Reason: core.ReasonFull.String(),
		Text: host.Printable(name) + " " + o.whyFull(s) + ": " + o.text(s, false) + "; wait for room, or try again later",
	}
}
