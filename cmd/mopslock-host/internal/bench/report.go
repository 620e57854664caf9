package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
)

// Report is what bench prints.
type Report struct {
	Store     string    `json:"store"`
	Parallel  int       `json:"parallel"`
	Elapsed   float64   `json:"elapsed_s"`
	Protocols []*Result `json:"protocols"`
	Left      int       `json:"left_behind"` // objects that could not be deleted; -1: unknown how many
}

// Text is the report for people. Requests of the store cost money if it is paid.
func (r *Report) Text(paid bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "store %s, %d workers, %v\n", host.Printable(r.Store), r.Parallel, time.Duration(r.Elapsed*1e9).Round(100*time.Millisecond))
	for _, p := range r.Protocols {
		fmt.Fprintf(&text, "\n%-12s%10s %10s %10s %8s\n", p.Protocol, "p50 ms", "p90 ms", "p99 ms", "of")
		for _, row := range []struct {
			what string
			timing
		}{{"acquire", p.Acquire}, {"renew", p.Renew}, {"release", p.Release}, {"hand-over", p.Handover}} {
			fmt.Fprintf(&text, "  %-10s%10.2f %10.2f %10.2f %8d\n", row.what, row.P50, row.P90, row.P99, row.Count)
		}
		fmt.Fprintf(&text, "  %.1f leases a second; %s\n", p.PerS, requestsText(p, paid))
		if p.Failed > 0 {
			fmt.Fprintf(&text, "  %d could not be acquired or released\n", p.Failed)
		}
	}
	return text.String()
}

// requestsText says what a lease asks of the store, and what that costs.
func requestsText(p *Result, paid bool) string {
	if p.Leases == 0 {
		return "no time for one; give it more, by --for"
	}
	var parts []string
	for verb, n := range p.Requests {
		if each := float64(n) / float64(p.Leases); each >= 0.05 {
			parts = append(parts, fmt.Sprintf("%.1f %s", each, verb))
		}
	}
	slices.Sort(parts)
	slices.Reverse(parts) // the most frequent first
	text := "of each " + strings.Join(parts, ", ")
	if paid {
		text += fmt.Sprintf("; 1,000 of them US$ %.4f at S3's list prices (an estimate)", p.USD)
	}
	return text
}

// Result is what was measured of one protocol.
type Result struct {
	latest time.Time // when the last lease was counted

	Protocol string         `json:"protocol"`
	Leases   int            `json:"leases"`
	PerS     float64        `json:"leases_per_s"`
	Acquire  timing         `json:"acquire"`
	Renew    timing         `json:"renew"`
	Release  timing         `json:"release"`
	Handover timing         `json:"hand_over"`
	Requests map[string]int `json:"requests"`
	// USD is what the requests of a thousand acquired and released leases cost at S3's list
	// prices.
	USD    float64 `json:"usd_per_1000_leases"`
	Failed int     `json:"failed"`
}

// rate is how many leases a second there were since begun, to one decimal. The time after the last
// lease does not count: the store may have been silent.
func (r *Result) rate(begun time.Time) float64 {
	return math.Round(float64(r.Leases)/r.latest.Sub(begun).Seconds()*10) / 10
}

// timing says how long some took, and how many they were.
type timing struct {
	took []time.Duration

	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
}

func (t *timing) settle() {
	slices.Sort(t.took)
	of := func(percent int) float64 {
		return math.Round(float64(doctor.Quantile(t.took, percent))/float64(time.Microsecond)) / 1e3
	}
	t.Count, t.P50, t.P90, t.P99 = len(t.took), of(50), of(90), of(99)
}

// usdOf returns what requests cost at S3's list prices.
func usdOf(requests map[string]int) float64 {
	return doctor.USD(float64(requests["put"]+requests["create"]+requests["list"]), float64(requests["get"]+requests["exists"]))
}
