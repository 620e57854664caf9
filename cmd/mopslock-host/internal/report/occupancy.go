package report

import (
	"fmt"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// heldOfMost says how many permits are held of how many. More are held if the newest holder has a
// smaller view than earlier ones, or if the limit is newer than they are.
func heldOfMost(s *host.Status) string { return fmt.Sprintf("%d/%d", s.Held, s.Most()) }

// viewText says what that maximum is made of.
func viewText(s *host.Status) string {
	return Occupancy{View: host.View{Capacity: s.Capacity, Width: s.Width}}.viewText(s.Limit)
}

// Occupancy is how full a semaphore is for one caller: its view, the weight that it wants, and
// what it spares.
type Occupancy struct {
	View          host.View
	Weight, Spare uint64
}

// most is how many permits may be held by this view and the store's limit; 0 is no limit.
func (o Occupancy) most(limit uint64) uint64 {
	most := uint64(o.View.Capacity) * uint64(o.View.Width)
	if limit != 0 {
		most = min(most, limit)
	}
	return most
}

func (o Occupancy) viewText(limit uint64) string {
	text := fmt.Sprintf("%d x %d", o.View.Capacity, o.View.Width)
	if limit != 0 {
		text += fmt.Sprintf(", limit %d in the store", limit)
	}
	if o.Spare != 0 {
		text += fmt.Sprintf(", %d spared", o.Spare)
	}
	return text
}

// WhyFull says why the permit is not granted.
func (o Occupancy) WhyFull(s *host.Status) string {
	switch most := o.most(s.Limit); {
	case s.State == core.ObservedCorrupt:
		return "cannot be read"
	case o.Weight+o.Spare > most:
		return fmt.Sprintf("has no room for %d until the limit in the store is raised", o.Weight)
	}
	if s.Held+o.Spare >= o.most(s.Limit) {
		return "is full"
	}
	return fmt.Sprintf("has no room for %d", o.Weight)
}

// Text says how many permits are held of how many, and by whom. The short form has room for more
// holders.
func (o Occupancy) Text(s *host.Status, short bool) string {
	if s.State == core.ObservedCorrupt {
		return "held by an unreadable record"
	}
	return fmt.Sprintf("%d/%d permits (%s) held by %s", s.Held, o.most(s.Limit), o.viewText(s.Limit), holdersText(s, short))
}

// Line is the live line of a process that waits for a permit, in less than width columns.
func (o Occupancy) Line(name string, s *host.Status, width int) string {
	line := "waiting for a permit of " + host.Printable(name) + ": "
	if whole := line + o.Text(s, false); len([]rune(whole)) < width {
		return whole
	}
	return Clip(line+o.Text(s, true), width)
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
		text += " and others" // a record that is cut short does not say how many
	}
	return text
}
