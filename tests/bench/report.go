//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
)

// A whole run leaves its results here, from the root of the module.
const (
	results = "tests/bench/results"
	figures = results + "/bench.json"
	whole   = "tests/bench/README.md" // every row
	front   = "README.md"             // the headlines

	// On both pages the figures are between these lines, which stay.
	sectionBegin = "<!-- make bench writes from here -->"
	sectionEnd   = "<!-- make bench writes to here -->"
)

// report is a whole run.
type report struct {
	Go     string `json:"go"`
	System string `json:"system"`
	Cores  int    `json:"cores"`
	Rounds int    `json:"rounds"`
	Parts  []part `json:"parts"`
}

type part struct {
	Name string    `json:"name"`
	Rows []outcome `json:"rows"`
}

func newReport() *report {
	return &report{
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Rounds: rounds,
	}
}

func readReport() (*report, error) {
	text, err := os.ReadFile(figures)
	if err != nil {
		return nil, err
	}
	r := new(report)
	return r, json.Unmarshal(text, r)
}

// merge puts the rows that were measured now into their places in the last results: the
// two sides of each row were measured in turns, whenever that was.
func (r *report) merge(last *report, all []group) error {
	if last.Go != r.Go || last.System != r.System || last.Cores != r.Cores {
		return fmt.Errorf("the last results are of %s on %s with %d cores: measure all rows", last.Go, last.System, last.Cores)
	}
	measured := map[string]outcome{}
	for _, parts := range [][]part{last.Parts, r.Parts} {
		for _, p := range parts {
			for _, o := range p.Rows {
				measured[o.What] = o
			}
		}
	}
	r.Parts = nil
	for _, g := range all {
		p := part{Name: g.name}
		for _, row := range g.rows {
			o, ok := measured[row.what]
			if !ok {
				return fmt.Errorf("%q was never measured: have -rows find it", row.what)
			}
			p.Rows = append(p.Rows, o)
		}
		r.Parts = append(r.Parts, p)
	}
	return nil
}

// publish writes the figures, the pictures, and what the two pages say of them.
func (r *report) publish() error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(results, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(figures, append(text, '\n'), 0o666); err != nil {
		return err
	}
	if err := draw(); err != nil {
		return err
	}
	for name, section := range r.pages() {
		page, err := os.ReadFile(name)
		if err == nil {
			page, err = into(page, section)
		}
		if err == nil {
			err = os.WriteFile(name, page, 0o666)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// pages are the pages that show the figures, and how.
func (r *report) pages() map[string]func(io.Writer) {
	return map[string]func(io.Writer){whole: r.markdown, front: r.headlines}
}

// draw makes the pictures, by a module of its own.
func draw() error {
	here, err := filepath.Abs(results)
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "run", "-C", "tests/bench/pictures", ".", filepath.Join(here, filepath.Base(figures)), here).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pictures: %w\n%s", err, out)
	}
	return nil
}

// into replaces the section of a page.
func into(page []byte, section func(io.Writer)) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte(sectionBegin))
	_, after, closed := bytes.Cut(rest, []byte(sectionEnd))
	if !found || !closed {
		return nil, fmt.Errorf("no lines %q and %q", sectionBegin, sectionEnd)
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(sectionBegin + "\n\n")
	section(&out)
	out.WriteString(sectionEnd)
	out.Write(after)
	return out.Bytes(), nil
}

// headlines are the rows that the front page shows, in plain words.
func headlines() [][2]string {
	return [][2]string{
		{"acquire + release, strict, again, S3 / create + create, bare", "acquire and release on an S3 server; beside it the same two requests without mopslock"},
		{"hand-over between two processes, strict, directory / by polls alone", "hand-over between two processes on a directory; beside it with polls instead of file events"},
		{"take-over from a dead holder, calibrated, S3 / TTL", "take-over of a dead holder's lease on an S3 server; beside it the TTL"},
		{"requests of a held lease in an hour, on a session of 1,000 / mops' own puts, expire 88 s", "requests an hour of a lease, one of 1,000 on a session; beside it a lease of mops"},
		{"10,000 leases held, memory of a lease", "memory of a held lease, one of 10,000"},
		{"acquire + release, strict, directory / etcd's lock", "acquire and release on a directory; beside it etcd's lock, which has a server"},
	}
}

// headlines is the table of the front page.
func (r *report) headlines(w io.Writer) {
	fmt.Fprint(w, "| | mopslock | beside | ratio |\n|---|--:|--:|--:|\n")
	for _, h := range headlines() {
		for _, p := range r.Parts {
			for _, o := range p.Rows {
				if o.What == h[0] {
					fmt.Fprintf(w, "| %s | %s |\n", h[1], strings.Join(o.cells()[1:4], " | "))
				}
			}
		}
	}
	fmt.Fprintln(w)
}

// markdown is the table of all rows.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %d cores, everything in turns, medians. A dash in the last column: shown, and not promised.\n\n",
		strings.Replace(r.Go, "go", "Go ", 1), r.System, r.Cores)
	for _, p := range r.Parts {
		fmt.Fprintf(w, "| %s | ours | beside | ratio | budget | ok |\n|---|--:|--:|--:|--:|---|\n", p.Name)
		for _, o := range p.Rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(o.cells(), " | "))
		}
		fmt.Fprintln(w)
	}
	for i, source := range r.quoted() {
		fmt.Fprintf(w, "%s%s: %s", map[bool]string{true: "Quoted, not measured here. ", false: "; "}[i == 0], source[0], source[1])
	}
	if len(r.quoted()) > 0 {
		fmt.Fprint(w, ".\n\n")
	}
}

// quoted are the figures from elsewhere and where they are from, each source once.
func (r *report) quoted() (all [][2]string) {
	seen := map[string]bool{}
	for _, p := range r.Parts {
		for _, o := range p.Rows {
			for _, f := range []*figure{o.Ours, o.Beside} {
				if f != nil && f.Quoted != "" && !seen[f.Quoted] {
					seen[f.Quoted] = true
					all = append(all, [2]string{f.Unit.text(f.Value), f.Quoted})
				}
			}
		}
	}
	return all
}

// cells are a row of the table.
func (o *outcome) cells() []string {
	if o.Missing != "" {
		return []string{o.What, o.Missing, "", "", o.Budget, cmp.Or(o.OK, "–")}
	}
	beside, ratio := "", ""
	if o.Beside != nil {
		beside = o.Beside.String()
	}
	if o.Ratio != 0 {
		ratio = digits(o.Ratio)
	}
	return []string{o.What, o.Ours.String(), beside, ratio, o.Budget, cmp.Or(o.OK, "–")}
}

// print shows a part on the terminal, as soon as it is there.
func (p *part) print() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\tours\tbeside\tratio\tbudget\tok\n", p.Name)
	for _, o := range p.Rows {
		fmt.Fprintln(table, strings.Join(o.cells(), "\t"))
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// missed says which budgets are not met.
func (r *report) missed() error {
	var all []string
	for _, p := range r.Parts {
		for _, o := range p.Rows {
			if o.OK == "NO" {
				all = append(all, o.What)
			}
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%d budgets not met:\n  %s", len(all), strings.Join(all, "\n  "))
	}
	return nil
}
