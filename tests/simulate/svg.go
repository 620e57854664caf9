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

// svgActors is up to how many actors have lanes of their own.
const svgActors = 12

const (
	svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"` +
		` font-family="sans-serif" font-size="13">
<style>.two{fill:#c0392b}.lane{stroke:#ccc}.tick{stroke:#e8e8e8}.wrong{stroke:#c0392b;stroke-dasharray:4 3}` +
		`.at{font-size:11px;fill:#777}.name{font-weight:bold}.in{font-size:10px;fill:#222}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`
	svgText = `<text x="%d" y="%d" class="%s">%s</text>` + "\n"
	svgLine = `<line x1="%d" y1="%d" x2="%d" y2="%d" class="%s"/>` + "\n"
	svgRect = `<rect x="%d" y="%d" width="%d" height="%d" %s><title>%s</title></rect>` + "\n"
)

// svgColour is an actor's; none is red, which is what overlaps are.
func svgColour(i int) string {
	colours := [svgActors]string{
		"#7fb77e", "#7ea6d9", "#d9c36a", "#a98fd0", "#6fc2bd", "#b59a7a",
		"#9aa7b5", "#c9d67a", "#8fa86a", "#7f8fd0", "#d0a9c9", "#5f9ea8",
	}
	return colours[i%len(colours)]
}

// WriteSVG draws who held what when, which Options.Holds keeps: a lane for each
// actor and name, or, where there are many actors, for each name; overlaps are red.
func (r *Result) WriteSVG(w io.Writer) error {
	out := bufio.NewWriter(w)
	d := newDrawing(out, r)
	d.draw()
	return out.Flush()
}

// WriteSVG draws the seed that failed; if none has, it writes what was played.
func (s *Summary) WriteSVG(w io.Writer) error {
	if s.Failed != nil {
		return s.Failed.WriteSVG(w)
	}
	out := bufio.NewWriter(w)
	lines := strings.Split(strings.TrimSpace(s.String()), "\n")
	longest := 0
	for _, line := range lines {
		longest = max(longest, len(line))
	}
	width, height := 40+svgLetter*longest, 30+20*len(lines)
	fmt.Fprintf(out, svgHead, width, height, width, height)
	for i, line := range lines {
		fmt.Fprintf(out, svgText, 20, 30+20*i, "", html.EscapeString(line))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// lane is one line of a timeline.
type lane struct {
	name  string
	actor string // "" is all
	rank  int
	holds []*Hold
}

// drawing is one timeline under way.
type drawing struct {
	*bufio.Writer
	result  *Result
	actors  map[string]int // by the order of their ranks
	lanes   []lane
	plot    int           // the width of all time
	perUnit time.Duration // a pixel
	bottom  int
}

func newDrawing(out *bufio.Writer, r *Result) *drawing {
	d := &drawing{Writer: out, result: r, actors: map[string]int{}, plot: svgLeast}
	all := r.Timeline
	byRank := slices.SortedFunc(slices.Values(all), func(a, b Hold) int { return cmp.Compare(a.rank, b.rank) })
	for i := range byRank {
		if _, known := d.actors[byRank[i].Actor]; !known {
			d.actors[byRank[i].Actor] = len(d.actors)
		}
	}
	at := map[[2]string]int{}
	end := r.Virtual
	for i := range all {
		hold := &all[i]
		end = max(end, hold.To)
		key := [2]string{hold.Name, hold.Actor}
		if len(d.actors) > svgActors {
			key[1] = ""
		}
		j, known := at[key]
		if !known {
			j = len(d.lanes)
			at[key] = j
			d.lanes = append(d.lanes, lane{name: key[0], actor: key[1], rank: hold.rank})
		}
		d.lanes[j].holds = append(d.lanes[j].holds, hold)
		d.plot = max(d.plot, svgPerBar*len(d.lanes[j].holds))
	}
	slices.SortStableFunc(d.lanes, func(a, b lane) int { // by length first: they end in numbers
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.rank, b.rank))
	})
	d.plot = min(d.plot, svgMost)
	d.perUnit = end/time.Duration(d.plot) + 1
	d.bottom = svgTop + max(1, len(d.lanes))*svgLane
	return d
}

func (d *drawing) x(at time.Duration) int { return svgLeft + int(at/d.perUnit) }

func (d *drawing) draw() {
	r := d.result
	title := fmt.Sprintf("%s, seed %d: held %d times, %d overlaps", r.Protocol, r.Seed, r.Holds, r.Overlaps)
	if r.Violation != nil {
		title += "; " + r.Violation.Error()
	}
	width, height := max(svgLeft+d.plot+svgRight, 40+svgLetter*len(title)), d.bottom+40
	fmt.Fprintf(d, svgHead, width, height, width, height)
	fmt.Fprintf(d, svgText, 20, 25, "name", html.EscapeString(title))
	d.axis()
	for i := range d.lanes {
		d.lane(&d.lanes[i], svgTop+i*svgLane)
	}
	if v := r.Violation; v != nil {
		fmt.Fprintf(d, svgLine, d.x(v.At), svgTop-8, d.x(v.At), d.bottom, "wrong")
	}
	fmt.Fprintln(d, "</svg>")
}

// axis marks the time, from the top to the bottom.
func (d *drawing) axis() {
	step := tick(svgTick * d.perUnit)
	for at := time.Duration(0); d.x(at) <= svgLeft+d.plot; at += step {
		fmt.Fprintf(d, svgLine, d.x(at), svgTop-8, d.x(at), d.bottom+6, "tick")
		fmt.Fprintf(d, svgText, d.x(at), d.bottom+22, "at", at)
	}
	fmt.Fprintf(d, svgLine, svgLeft, d.bottom, svgLeft+d.plot, d.bottom, "lane")
}

// tick is the first round duration that is not below least.
func tick(least time.Duration) time.Duration {
	at := time.Microsecond
	for i := 0; at < least; i++ {
		switch {
		case at >= time.Minute: // 2, 4 and 8 minutes, and so on
			at *= 2
		case at == 20*time.Second:
			at = time.Minute
		case i%3 == 1: // 1, 2, 5, 10
			at = at / 2 * 5
		default:
			at *= 2
		}
	}
	return at
}

// lane draws the bars of one, and in red over them what overlaps. Where a lane is
// all actors', companions are drawn below the holders that they keep alive.
func (d *drawing) lane(l *lane, top int) {
	label, middle := l.name, top+svgLane/2
	if l.actor != "" {
		label += ", " + l.actor
	}
	fmt.Fprintf(d, svgText, 20, middle+5, "name", html.EscapeString(label))
	fmt.Fprintf(d, svgLine, svgLeft, middle, svgLeft+d.plot, middle, "lane")
	place := func(hold *Hold) (y, height int) {
		y, height = middle-svgBar/2, svgBar
		if l.actor == "" && hold.Companion {
			y, height = y+svgBar*2/3, svgBar*2/3
		}
		return y, height
	}
	for _, hold := range l.holds {
		y, height := place(hold)
		x, width := d.x(hold.From), max(1, d.x(hold.To)-d.x(hold.From))
		colour := fmt.Sprintf(`class="held" fill="%s"`, svgColour(d.actors[hold.Actor]))
		text := fmt.Sprintf("%s (%s) holds %s from %v to %v, tenure %s",
			hold.Actor, hold.Machine, hold.Name, hold.From, hold.To, hold.Tenure)
		fmt.Fprintf(d, svgRect, x, y, width, height, colour, html.EscapeString(text))
		if l.actor == "" && width > svgLetter*len(hold.Actor) {
			fmt.Fprintf(d, svgText, x+3, y+height-5, "in", html.EscapeString(hold.Actor))
		}
	}
	for _, hold := range l.holds {
		y, height := place(hold)
		for _, both := range hold.Overlaps {
			text := fmt.Sprintf("%s is not alone from %v to %v", hold.Actor, both.From, both.To)
			fmt.Fprintf(d, svgRect, d.x(both.From), y, max(2, d.x(both.To)-d.x(both.From)), height, `class="two"`, html.EscapeString(text))
		}
	}
}
