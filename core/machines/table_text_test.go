package machines

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// How a table is written, so that a person can read what a machine does in a state.

// sections are the rows of one state of a machine.
type sections struct {
	variants []string // of the machine
	rows     []phase
}

// A phase is a row with where it is met.
type phase struct {
	name, variant string
	row
}

// sectionsOf sorts all rows by the file in which they stand.
func sectionsOf(tables []*table) map[string]*sections {
	variants := map[string][]string{}
	for _, tb := range tables {
		variants[tb.start.machine] = append(variants[tb.start.machine], tb.start.variant)
	}
	files := map[string]*sections{}
	for _, tb := range tables {
		for _, label := range slices.Sorted(maps.Keys(tb.rows)) {
			row := tb.rows[label]
			file := tb.start.machine + "/" + row.state
			if files[file] == nil {
				files[file] = &sections{variants: variants[tb.start.machine]}
			}
			files[file].rows = append(files[file].rows, phase{strings.TrimSpace(strings.TrimPrefix(label, row.state)), tb.start.variant, row})
		}
	}
	return files
}

// usual is what comes of each event in most rows.
func (s *sections) usual() (usual row, by map[string]outcome) {
	count := map[outcome]int{}
	var order []outcome
	for i := range s.rows {
		for _, o := range s.rows[i].came {
			if !o.answer {
				if count[o]++; count[o] == 1 {
					order = append(order, o)
				}
			}
		}
	}
	by = map[string]outcome{}
	for _, o := range order {
		if count[o] > count[by[o.saying]] {
			by[o.saying] = o
		}
	}
	for _, o := range order {
		if by[o.saying] == o {
			usual.came = append(usual.came, o)
		}
	}
	return usual, by
}

// text is the file. Sections stand in the order of their first sub-phases.
func (s *sections) text() string {
	usual, by := s.usual()
	met := map[string]map[string][]string{} // text, sub-phase, variants
	for i := range s.rows {
		p := &s.rows[i]
		text := p.text(by)
		if met[text] == nil {
			met[text] = map[string][]string{}
		}
		met[text][p.name] = append(met[text][p.name], p.variant)
	}
	var all []string
	for text, phases := range met {
		var section strings.Builder
		for _, name := range slices.Sorted(maps.Keys(phases)) {
			section.WriteString(strings.TrimSpace("* " + name))
			if met := phases[name]; len(met) < len(s.variants) {
				fmt.Fprintf(&section, " (%s)", strings.Join(met, ", "))
			}
			section.WriteString("\n")
		}
		all = append(all, "\n"+section.String()+text)
	}
	slices.Sort(all)
	return usual.text(nil) + strings.Join(all, "")
}

// text is what happens, an outcome a line, in the order in which they came. What is
// usual is left out, or what is only refused; and the names of the most frequent answers.
func (r *row) text(usual map[string]outcome) string {
	names := map[string][]string{}
	var order []string
	say := func(came, name string) {
		if names[came] == nil {
			order = append(order, came)
		}
		names[came] = append(names[came], name)
	}
	many, inTime, late := r.usualAnswer()
	others := 0
	for _, o := range r.came {
		switch {
		case !o.answer && usual != nil && usual[o.saying] == o, (o.answer || usual == nil) && o.isRefused():
		case many && o.answer && o.came == inTime && o.late == late:
			others++
		case o.came == o.late:
			say(o.came, o.saying)
		default:
			say(o.came, o.saying+" in time")
			say(o.late, o.saying+" late")
		}
	}
	switch rest := fmt.Sprintf("%d other answers", others); {
	case others == 0:
	case inTime == late:
		say(inTime, rest)
	default:
		say(inTime, rest+" in time")
		say(late, rest+" late")
	}
	var out strings.Builder
	for _, came := range order {
		fmt.Fprintf(&out, "    %s: %s\n", strings.Join(names[came], ", "), came)
	}
	return out.String()
}

// isRefused: it is the error that is to be expected where nothing is said of it.
func (o *outcome) isRefused() bool {
	want := "error " + core.ErrorEvent.String()
	if o.saying == "answer to none" || o.saying == "any answer" {
		want = "error " + core.ErrorRequest.String()
	}
	return o.came == want && o.late == want
}

// usualAnswer is what comes of most answers, if that is many.
func (r *row) usualAnswer() (many bool, inTime, late string) {
	count, most := map[[2]string]int{}, 0
	for _, o := range r.came {
		if o.answer && !o.isRefused() {
			count[[2]string{o.came, o.late}]++
		}
	}
	for _, o := range r.came {
		if n := count[[2]string{o.came, o.late}]; o.answer && n > most {
			most, inTime, late = n, o.came, o.late
		}
	}
	return most > 3, inTime, late
}
