package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// semaphore is a semaphore as status, ls and watch print it with --json.
type semaphore struct {
	Name     string   `json:"name"`
	Capacity int      `json:"capacity"`
	Width    int      `json:"width"`
	Limit    uint64   `json:"limit,omitempty"`
	Held     uint64   `json:"held"`
	Holders  []permit `json:"holders"`
}

type permit struct {
	Holder  string  `json:"holder"`
	Weight  uint64  `json:"weight"`
	Host    string  `json:"host"`
	PID     *uint64 `json:"pid"`
	Label   string  `json:"label"`
	Session string  `json:"session"`
	Stale   bool    `json:"stale"`
}

func newSemaphore(s *host.Status) semaphore {
	holders := make([]permit, 0, len(s.Holders))
	for i := range s.Holders {
		p := &s.Holders[i]
		holders = append(holders, permit{p.ID, p.Weight, p.Host, pidNumber(p.PID), p.Label, p.Session, p.Stale})
	}
	return semaphore{s.Name, s.Capacity, s.Width, s.Limit, s.Held, holders}
}

// semaphoreText is what status prints of a semaphore for people.
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
