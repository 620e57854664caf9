//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// at is a source that always says the same.
func at(value float64) quoted { return set(value, inTime) }

func TestBudgets(t *testing.T) {
	const ms = float64(time.Millisecond)
	allocating := at(1)
	allocating.Allocs = 1
	for _, test := range []struct {
		row        row
		ok, budget string
	}{
		{row{ours: at(13), beside: at(10), budget: times(1.3)}, "yes", "≤ 1.30 ×"},
		{row{ours: at(13.1), beside: at(10), budget: times(1.3)}, "NO", "≤ 1.30 ×"},
		{row{ours: at(3 * ms), beside: at(2 * ms), budget: moreTime(time.Millisecond)}, "yes", "≤ +1 ms"},
		{row{ours: at(3.1 * ms), beside: at(2 * ms), budget: moreTime(time.Millisecond)}, "NO", "≤ +1 ms"},
		{row{ours: at(20 * ms), budget: atMost(20 * ms)}, "yes", "≤ 20 ms"},
		{row{ours: at(21 * ms), budget: atMost(20 * ms)}, "NO", "≤ 20 ms"},
		{row{ours: at(1), beside: at(1), noAllocs: true}, "yes", "0 allocs"},
		{row{ours: allocating, beside: at(1), budget: times(16), noAllocs: true}, "NO", "≤ 16 ×, 0 allocs"},
		{row{ours: at(9), beside: at(1)}, "", ""},
	} {
		o, err := test.row.take(nil)
		if err != nil {
			t.Fatal(err)
		}
		if o.OK != test.ok || o.Budget != test.budget {
			t.Errorf("ok %q, budget %q; want %q, %q", o.OK, o.Budget, test.ok, test.budget)
		}
	}
}

// TestMissing: a program that is not installed leaves a hole in the table, and is no failure.
func TestMissing(t *testing.T) {
	o, err := (&row{what: "lock", ours: at(1), beside: absent{}, budget: times(1)}).take(nil)
	if err != nil || o.OK != "" || !strings.Contains(strings.Join(o.cells(), "|"), "etcd is not installed") {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestPagesAreFresh: the pages show the last results.
func TestPagesAreFresh(t *testing.T) {
	t.Chdir("../..")
	r, err := readReport()
	if err != nil {
		t.Fatal(err)
	}
	for name, section := range r.pages() {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if fresh, err := into(page, section); err != nil || !bytes.Equal(fresh, page) {
			t.Errorf("%s: %v, or other figures: go run ./tests/bench -write", name, err)
		}
	}
}

// TestHeadlines: each row of the front page is measured.
func TestHeadlines(t *testing.T) {
	rows := map[string]bool{}
	for _, g := range groups() {
		for _, row := range g.rows {
			rows[row.what] = true
		}
	}
	for _, h := range headlines() {
		if !rows[h[0]] {
			t.Errorf("the front page shows %q, which is not measured", h[0])
		}
	}
}

type absent struct{}

func (absent) measure(*workshop) (figure, error) { return figure{}, &missingError{"etcd"} }

// TestMedianKeepsAllSamples: a picture shows every round.
func TestMedianKeepsAllSamples(t *testing.T) {
	f := median([]figure{{Value: 3, Samples: []float64{3, 1}}, {Value: 1}, {Value: 2, Samples: []float64{2}}})
	if f.Value != 2 || len(f.Samples) != 3 || f.Samples[0] != 1 || f.Samples[2] != 3 {
		t.Errorf("%+v", f)
	}
}

// TestMerge: rows measured again replace the last ones, and the report has only rows
// that still exist.
func TestMerge(t *testing.T) {
	last := newReport()
	last.Parts = []part{{Name: "A", Rows: []outcome{{What: "gone"}, {What: "kept", OK: "yes"}, {What: "again", OK: "NO"}}}}
	all := []group{{"A", []row{{what: "again"}, {what: "kept"}}}}
	r := newReport()
	r.Parts = []part{{Name: "A", Rows: []outcome{{What: "again", OK: "yes"}}}}
	if err := r.merge(last, all); err != nil || len(r.Parts) != 1 || len(r.Parts[0].Rows) != 2 || r.Parts[0].Rows[0] != (outcome{What: "again", OK: "yes"}) || r.Parts[0].Rows[1] != last.Parts[0].Rows[1] {
		t.Errorf("%+v, %v", r.Parts, err)
	}
	all[0].rows = append(all[0].rows, row{what: "new"})
	if err := newReport().merge(last, all); err == nil || !strings.Contains(err.Error(), `"new" was never measured`) {
		t.Error(err)
	}
	last.Cores++
	if err := newReport().merge(last, all); err == nil {
		t.Error("figures of two machines were mixed")
	}
}

func TestSection(t *testing.T) {
	r := report{Parts: []part{{Name: "Steps", Rows: []outcome{{
		What: "a / b", Ours: &figure{Value: 1.5e6, Unit: inTime}, Beside: &figure{Value: 33e3, Unit: inTime, Quoted: "b's page"}, OK: "yes",
	}}}}}
	page := []byte("before\n" + sectionBegin + "\nold\n" + sectionEnd + "\nafter\n")
	for range 2 { // again, over what it wrote
		var err error
		if page, err = into(page, r.markdown); err != nil {
			t.Fatal(err)
		}
		text := string(page)
		for _, want := range []string{"before\n" + sectionBegin, "| a / b | 1.50 ms | 33 µs (quoted) |  |  | yes |", "b's page", sectionEnd + "\nafter\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
		if strings.Contains(text, "old") {
			t.Error("the old section is still there")
		}
	}
	if _, err := into([]byte("no section"), r.markdown); err == nil {
		t.Error("a document without the section was written")
	}
}
