package explore

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteText writes the counter-example as numbered steps, and the summary.
func (r *Result) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	if c := r.Counterexample; c != nil {
		fmt.Fprintf(out, "%s (%s)\n", c.Scenario.Name, c.Scenario.About)
		for i := range c.Trace {
			fmt.Fprintf(out, "%3d. %s\n", i+1, c.Trace[i].line())
		}
		fmt.Fprintf(out, "%s\n", c.Violation.Error())
	}
	if len(r.Scenarios) > 1 {
		for _, f := range r.Scenarios {
			fmt.Fprintf(out, "%-24s %9d states, depth %3d, %s: %s\n", f.Scenario.Name, f.States, f.Depth, f.bound(), f.Scenario.About)
		}
	}
	fmt.Fprintln(out, r.Summary())
	return out.Flush()
}

// Summary is one line.
func (r *Result) Summary() string {
	verdict := "no violation found"
	switch {
	case r.Counterexample != nil:
		verdict = "violation found: " + r.Counterexample.Violation.Checker
	case r.Exhausted:
		verdict += " (exhausted: there is no more within the scenario's bounds)"
	default:
		verdict += " (cut at the bound of " + r.bounds() + ": there is more to see)"
	}
	return fmt.Sprintf("explored %d distinct states, %d transitions, depth %d, in %s; %s",
		r.States, r.Transitions, r.Depth, r.Elapsed.Round(10*time.Millisecond), verdict)
}

// bound says how a search ended.
func (f *Found) bound() string {
	switch {
	case f.Violation != nil:
		return f.Violation.Checker
	case f.Exhausted:
		return "exhausted"
	}
	if f.Faults < 0 { // not even those were gone through
		return fmt.Sprintf("cut at the bound of %s at the beginning", f.Bound)
	}
	return fmt.Sprintf("cut at the bound of %s among %s", f.Bound, faults(f.Faults))
}

// bounds are those that cut a search, and how many worlds were exhausted.
func (r *Result) bounds() string {
	var all []string
	exhausted := 0
	for _, f := range r.Scenarios {
		if f.Exhausted {
			exhausted++
		}
		if f.Bound != "" && !slices.Contains(all, string(f.Bound)) {
			all = append(all, string(f.Bound))
		}
	}
	text := strings.Join(all, " and ")
	if len(r.Scenarios) > 1 {
		text += fmt.Sprintf(", %d of %d scenarios exhausted", exhausted, len(r.Scenarios))
	}
	return text
}

func faults(n int) string {
	switch n {
	case 0:
		return "worlds without a fault"
	case 1:
		return "worlds with 1 fault"
	}
	return fmt.Sprintf("worlds with %d faults", n)
}

func (s *Step) line() string {
	text := s.Text
	if s.At != 0 && s.Kind != KindTime {
		text = fmt.Sprintf("%s  [at %s]", text, s.At)
	}
	if len(s.Holds) > 0 {
		text += "  {" + strings.Join(s.Holds, " and ") + holdsVerb(len(s.Holds))
	}
	return text
}

func holdsVerb(n int) string {
	if n == 1 {
		return " holds}"
	}
	return " hold}"
}
