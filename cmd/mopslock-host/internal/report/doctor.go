package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
)

// textReport is a report for people: rows of a word, and a text about it.
type textReport struct{ strings.Builder }

// A long text is broken at reportWidth. The word before it takes wordWidth.
const (
	reportWidth = 110
	wordWidth   = 12
)

// line writes a word and a text, in as many rows as needed.
func (p *textReport) line(word, format string, args ...any) {
	row := fmt.Sprintf("%-*s", wordWidth, word)
	for i, part := range strings.Fields(fmt.Sprintf(format, args...)) {
		switch {
		case i == 0:
		case len([]rune(row))+1+len([]rune(part)) > reportWidth:
			p.WriteString(row + "\n")
			row = strings.Repeat(" ", wordWidth)
		default:
			row += " "
		}
		row += part
	}
	p.WriteString(row + "\n")
}

// DoctorText is what doctor prints for people. Requests of the store cost money if it is paid.
func DoctorText(raw string, paid bool, r *doctor.Report) string {
	var p textReport
	p.line("store", "%s", host.Printable(store.Redact(raw)))
	p.line("reached", "in %v", short(r.Reached))
	p.latencies(r)
	if r.Create.Rounds > 0 {
		p.line("create", "%s", createText(&r.Create))
	}
	p.line("fresh", "%s", freshText(&r.Fresh))
	p.clocks(r)
	if r.Capability.Refused {
		p.line("card", "refused: %s", r.Capability.Seen)
	}
	for _, found := range r.Findings {
		word := "note"
		if found.Bad {
			word = "bad"
		}
		p.line(word, "%s", host.Printable(found.Text))
	}
	p.WriteString("\n")
	switch {
	case r.Advice == nil:
		p.line("verdict", "no lease can be kept here")
		return p.String()
	case r.Strict():
		p.line("verdict", "strict: leases exclude each other, and have fencing tokens")
	default:
		p.line("verdict", "lastwriter only: two may hold a lease at once, now and then, and there is no fencing token")
	}
	p.advice(r, paid)
	return p.String()
}

func (p *textReport) latencies(r *doctor.Report) {
	fmt.Fprintf(p, "%-*s%8s %8s %8s\n", wordWidth, "latency", "p50 ms", "p99 ms", "of")
	for _, v := range r.Verbs {
		if v.Denied {
			fmt.Fprintf(p, "  %-*s%8s\n", wordWidth-2, v.Verb, "denied")
			continue
		}
		fmt.Fprintf(p, "  %-*s%8.2f %8.2f %8d\n", wordWidth-2, v.Verb, millis(v.P50), millis(v.P99), v.Timed)
	}
}

func millis(m doctor.Milliseconds) float64 { return float64(m) / float64(time.Millisecond) }

// short is a duration as one reads it: three digits are enough.
func short[T ~int64](d T) time.Duration {
	whole := time.Duration(d)
	unit := time.Nanosecond
	for unit < time.Second && whole.Abs() >= 1000*unit {
		unit *= 10
	}
	return whole.Round(unit)
}

func createText(c *doctor.Create) string {
	text := fmt.Sprintf("one winner in each of %d rounds of %d writers", c.Rounds, c.Writers)
	switch {
	case c.Lost > 0 && c.Doubled == 0:
		text = fmt.Sprintf("never two winners in %d rounds of %d writers; in %d nobody was told that he had won", c.Rounds, c.Writers, c.Lost)
	case c.Doubled > 0:
		text = fmt.Sprintf("%d of %d writers were told they won; more than one in %d of %d rounds", c.MostWinners, c.Writers, c.Doubled, c.Rounds)
	}
	if c.Over > 0 {
		text += fmt.Sprintf("; over an object %d of %d were refused", c.Over-c.Overwrote, c.Over)
	}
	return text
}

func freshText(f *doctor.Fresh) string {
	var seen, stale []string
	for _, each := range []struct {
		doctor.Checked
		what string
	}{{f.AfterWrite, "lists after a write"}, {f.AfterDelete, "lists after a delete"}, {f.AfterOverwrite, "reads after an overwrite"}, {f.Exists, "looks"}} {
		if each.Stale > 0 {
			stale = append(stale, fmt.Sprintf("%d of %d %s were stale", each.Stale, each.Tries, each.what))
		}
		if each.Tries > 0 {
			seen = append(seen, fmt.Sprintf("%d %s", each.Tries, each.what))
		}
	}
	switch {
	case len(stale) > 0:
		return strings.Join(stale, ", ")
	case len(seen) > 0:
		return "nothing was stale in " + strings.Join(seen, ", ")
	}
	return "not looked at"
}

func (p *textReport) clocks(r *doctor.Report) {
	s, c := &r.Stamps, &r.Clock
	if !c.Known {
		p.line("stamps", "none")
		return
	}
	agree := "one clock, as far as can be seen"
	if s.Spread > 0 {
		agree = fmt.Sprintf("their clocks disagree by %v at least", short(s.Spread))
	}
	p.line("stamps", "in units of %v, of %d looked at; %s", short(s.Unit), s.Samples, agree)
	word := "ahead of"
	if c.Offset < 0 {
		word = "behind"
	}
	p.line("clock", "the store's is %v %s this machine's, give or take %v", short(time.Duration(c.Offset).Abs()), word, short(c.Bound))
	trust := "leases are judged by it: "
	if c.Steps {
		trust = "no lease is judged by it: "
	}
	p.line("", "%s", trust+c.Why)
}

func (p *textReport) advice(r *doctor.Report, paid bool) {
	a := r.Advice
	fmt.Fprintf(p, "%-*s%s\n", wordWidth, "use", a.Command) // on one line, to be copied
	p.line("ttl", "%s; not below %s here", doctor.Brief(time.Duration(a.TTL)), doctor.Brief(time.Duration(a.TTLFloor)))
	price := func(usd float64) string {
		if !paid {
			return ""
		}
		return fmt.Sprintf(" (US$ %.4f)", usd)
	}
	if r.Strict() {
		p.line("cost", "a held lease: at most %.0f put and %.0f exists an hour%s", a.Cost.Puts, a.Cost.Gets, price(a.Cost.USD))
		p.line("session", "1,000 leases of one process on one session (--session): the same for all of them together%s", price(a.Cost.Thousand))
	} else {
		p.line("cost", "a held lease: at most %.0f put and %.0f get an hour%s; 1,000 leases a thousand times that", a.Cost.Puts, a.Cost.Gets, price(a.Cost.USD))
	}
	p.line("waiting", "at most %.0f get or exists an hour%s", a.Cost.Polls, price(a.Cost.PollsUSD))
	if paid {
		p.line("", "US$ at S3's list prices: an estimate")
	}
	events := ""
	if a.Watched {
		events = ", on this machine by file events"
	}
	p.line("hand-over", "at once within a process%s; else within %v of a release", events, time.Duration(a.Handover).Round(100*time.Millisecond))
	p.line("take-over", "of a dead holder's lease: within %v", time.Duration(a.TakeOver).Round(100*time.Millisecond))
}
