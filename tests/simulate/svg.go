package simulate

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// The measures of a timeline, in pixels.
const (
	svgLane   = 30 // a lane's height
	svgBar    = 18
	svgLeft   = 250
	svgTop    = 60
	svgRight  = 40
	svgLeast  = 1200 // the width of all time, at least
	svgMost   = 20_000
	svgPerBar = 12 // as much of it as a hold of the busiest lane is given
	svgTick   = 90 // between two marks of the axis, at least
	svgLetter = 7
)

const (
	svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d"` +
		` font-family="sans-serif" font-size="13">
<style>.held{fill:#7ea6d9}.two{fill:#c0392b}.lane{stroke:#ccc}.tick{stroke:#e8e8e8}.wrong{stroke:#c0392b;stroke-dasharray:4 3}` +
		`.at{font-size:11px;fill:#777}.name{font-weight:bold}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`
	svgText = `<text x="%d" y="%d" class="%s">%s</text>` + "\n"
	svgLine = `<line x1="%d" y1="%d" x2="%d" y2="%d" class="%s"/>` + "\n"
	svgRect = `<rect x="%d" y="%d" width="%d" height="%d" class="%s"><title>%s</title></rect>` + "\n"
)

// WriteSVG draws the seed that failed; if none has, it writes what was played.
func (s *Summary) WriteSVG(w io.Writer) error {
	if s.Failed != nil {
		return s.Failed.WriteSVG(w)
	}
	out := bufio.NewWriter(w)
	lines := strings.Split(strings.TrimSpace(s.String()), "\n")
	fmt.Fprintf(out, svgHead, svgLeast, 30+20*len(lines))
	for i, line := range lines {
		fmt.Fprintf(out, svgText, 20, 30+20*i, "", html.EscapeString(line))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// drawing is one timeline under way.
type drawing struct {
	*bufio.Writer
	lanes    [][]Hold      // each of one actor and name
	plot     int           // the width of all time
	perPixel time.Duration // of it
	bottom   int
}

// WriteSVG draws who held what when, which Options.Holds keeps: a lane for each
// actor and name; overlaps are red.
func (r *Result) WriteSVG(w io.Writer) error {
	d := &drawing{Writer: bufio.NewWriter(w), plot: svgLeast}
	at, end := map[[2]string]int{}, r.Virtual
	for _, hold := range r.Timeline {
		end = max(end, hold.To)
		key := [2]string{hold.Name, hold.Actor}
		i, known := at[key]
		if !known {
			i = len(d.lanes)
			at[key] = i
			d.lanes = append(d.lanes, nil)
		}
		d.lanes[i] = append(d.lanes[i], hold)
		d.plot = min(svgMost, max(d.plot, svgPerBar*len(d.lanes[i])))
	}
	slices.SortFunc(d.lanes, func(a, b []Hold) int { // by length first: names end in numbers
		return cmp.Or(cmp.Compare(len(a[0].Name), len(b[0].Name)), cmp.Compare(a[0].Name, b[0].Name),
			cmp.Compare(a[0].process, b[0].process), cmp.Compare(a[0].slot, b[0].slot))
	})
	d.perPixel = end/time.Duration(d.plot) + 1
	d.bottom = svgTop + max(1, len(d.lanes))*svgLane
	title := fmt.Sprintf("%s, seed %d: held %d times, %d overlaps", r.Protocol, r.Seed, r.Holds, r.Overlaps)
	if r.Violation != nil {
		title += "; " + r.Violation.Error()
	}
	fmt.Fprintf(d, svgHead, max(svgLeft+d.plot+svgRight, 40+svgLetter*len(title)), d.bottom+40)
	fmt.Fprintf(d, svgText, 20, 25, "name", html.EscapeString(title))
	d.axis()
	for i := range d.lanes {
		d.lane(d.lanes[i], svgTop+i*svgLane)
	}
	if v := r.Violation; v != nil {
		fmt.Fprintf(d, svgLine, d.x(v.At), svgTop-8, d.x(v.At), d.bottom, "wrong")
	}
	fmt.Fprintln(d, "</svg>")
	return d.Flush()
}

func (d *drawing) x(at time.Duration) int { return svgLeft + int(at/d.perPixel) }

// axis marks the time, at round durations.
func (d *drawing) axis() {
	step := time.Microsecond
	for i := 0; step < svgTick*d.perPixel; i++ {
		if i%3 == 1 { // 1, 2, 5, 10
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
	for at := time.Duration(0); d.x(at) <= svgLeft+d.plot; at += step {
		fmt.Fprintf(d, svgLine, d.x(at), svgTop-8, d.x(at), d.bottom+6, "tick")
		fmt.Fprintf(d, svgText, d.x(at), d.bottom+22, "at", at)
	}
}

// lane draws the bars of one, and in red over them what overlaps.
func (d *drawing) lane(all []Hold, top int) {
	middle := top + svgLane/2
	fmt.Fprintf(d, svgText, 20, middle+5, "name", html.EscapeString(all[0].Name+", "+all[0].Actor))
	fmt.Fprintf(d, svgLine, svgLeft, middle, svgLeft+d.plot, middle, "lane")
	for _, hold := range all {
		d.bar(hold.Span, middle, "held", "%s holds %s, tenure %s,", hold.Actor, hold.Name, hold.Tenure)
		for _, both := range hold.Overlaps {
			d.bar(both, middle, "two", "%s is not alone", hold.Actor)
		}
	}
}

func (d *drawing) bar(s Span, middle int, class, format string, args ...any) {
	text := fmt.Sprintf(format, args...) + fmt.Sprintf(" from %v to %v", s.From, s.To)
	fmt.Fprintf(d, svgRect, d.x(s.From), middle-svgBar/2, max(2, d.x(s.To)-d.x(s.From)), svgBar, class, html.EscapeString(text))
}
