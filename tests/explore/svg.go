package explore

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// The measures of a timeline, in pixels.
const (
	svgLane   = 90 // a lane's height
	svgLeft   = 110
	svgColumn = 64 // a step's width
	svgTop    = 50
)

// WriteSVG draws the counter-example: one lane an actor, a bar while it relies
// on the lease, a mark for each thing that it does. Below it the steps stand in
// words, by their numbers. Without a counter-example the summary is all there is.
func (r *Result) WriteSVG(w io.Writer) error {
	out := bufio.NewWriter(w)
	c := r.Counterexample
	if c == nil {
		fmt.Fprintf(out, svgHead, 900, 60, 900, 60)
		fmt.Fprintf(out, svgText, 20, 35, "", html.EscapeString(r.Protocol+": "+r.Summary()))
		fmt.Fprintln(out, "</svg>")
		return out.Flush()
	}
	d := drawing{Writer: out, found: c}
	d.draw(r.Protocol)
	return out.Flush()
}

const (
	svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"` +
		` font-family="sans-serif" font-size="13">
<style>.two{fill:#c0392b}.held{fill:#7fb77e}.time{stroke:#bbb;stroke-dasharray:3 3}.lane{stroke:#ccc}` +
		`.n{font-size:10px;fill:#fff;text-anchor:middle}.at{font-size:11px;fill:#777}.name{font-weight:bold}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`
	svgText = `<text x="%d" y="%d" class="%s">%s</text>` + "\n"
)

// drawing is one timeline under way.
type drawing struct {
	*bufio.Writer
	found *Found
}

func (d *drawing) draw(title string) {
	actors, steps := d.found.Scenario.Actors, d.found.Trace
	longest := 0
	for i := range steps {
		longest = max(longest, len(steps[i].line()))
	}
	width := max(svgLeft+(len(steps)+1)*svgColumn, 60+8*longest)
	lanes := svgTop + len(actors)*svgLane
	height := lanes + 40 + 18*len(steps) + 20
	fmt.Fprintf(d, svgHead, width, height, width, height)
	fmt.Fprintf(d, svgText, 20, 25, "name", html.EscapeString(title+": "+d.found.Violation.Error()))
	for i := range actors {
		y := svgTop + i*svgLane + svgLane/2
		fmt.Fprintf(d, svgText, 10, y+5, "name", html.EscapeString(actors[i].Name))
		fmt.Fprintf(d, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="lane"/>`+"\n", svgLeft, y, width-10, y)
		d.bars(actors[i].Name, y)
	}
	for i := range steps {
		d.mark(i, lanes)
	}
	for i := range steps {
		fmt.Fprintf(d, svgText, 20, lanes+40+18*i, "", html.EscapeString(fmt.Sprintf("%d. %s", i+1, steps[i].line())))
	}
	fmt.Fprintln(d, "</svg>")
}

// bars draws when an actor holds, in red where it is not the only one.
func (d *drawing) bars(actor string, y int) {
	for i := range d.found.Trace {
		s := &d.found.Trace[i]
		if !slices.Contains(s.Holds, actor) {
			continue
		}
		class := "held"
		if len(s.Holds) > 1 {
			class = "two"
		}
		fmt.Fprintf(d, `<rect x="%d" y="%d" width="%d" height="26" class="%s"><title>%s holds</title></rect>`+"\n",
			svgLeft+i*svgColumn+svgColumn/2, y-13, svgColumn, class, html.EscapeString(actor))
	}
}

// mark draws one step where it happens.
func (d *drawing) mark(i, lanes int) {
	s := &d.found.Trace[i]
	x := svgLeft + i*svgColumn + svgColumn/2
	lane := slices.IndexFunc(d.found.Scenario.Actors, func(a Actor) bool { return a.Name == s.Actor })
	if lane < 0 { // time
		fmt.Fprintf(d, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="time"/>`+"\n", x, svgTop, x, lanes)
		fmt.Fprintf(d, svgText, x+3, svgTop-4, "at", s.At.Round(time.Millisecond))
		return
	}
	y := svgTop + lane*svgLane + svgLane/2
	colour := map[string]string{KindRequest: "#2c6fbb", KindNotice: "#3d3d3d", KindCommand: "#8e6bbf", KindFault: "#d98324"}[s.Kind]
	fmt.Fprintf(d, `<circle cx="%d" cy="%d" r="10" fill="%s"><title>%s</title></circle>`+"\n", x, y, colour, html.EscapeString(s.line()))
	fmt.Fprintf(d, svgText, x, y+4, "n", fmt.Sprint(i+1))
	label := s.Verb
	if label == "" {
		label = s.Kind
	}
	fmt.Fprintf(d, svgText, x-svgColumn/2+6, y+30, "at", html.EscapeString(strings.ReplaceAll(label, "_", " ")))
}
