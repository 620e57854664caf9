//go:build linux || darwin

package stress

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tenure is from the first to the last instant at which a process was sure of one
// tenure.
type tenure struct {
	token uint64
	interval
}

// workerOf is which of the stormers wrote a journal, in this life or in another.
func workerOf(file string) int {
	text, _, _ := strings.Cut(filepath.Base(file), "-")
	worker, err := strconv.Atoi(text)
	if err != nil {
		panic("stress: a journal named " + file)
	}
	return worker
}

// somebodyWaits reports whether one of the stormers has not held in any of its lives.
func (w *weather) somebodyWaits(t *testing.T) bool {
	files, err := filepath.Glob(filepath.Join(w.logs, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var turns [stormers]bool
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "held ") || strings.Contains(string(text), "\nheld ") {
			turns[workerOf(file)] = true
		}
	}
	return slices.Contains(turns[:], false)
}

// holder is who holds now, as its journal says, if anybody does soon.
func (w *weather) holder() (worker int, found bool) {
	for range 100 {
		for i, log := range w.journals {
			if text, err := os.ReadFile(log); err == nil && !w.stopped[i] && inTenure(string(text)) {
				return i, true
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, false
}

// inTenure reports whether a journal's last line is neither of a tenure's end nor of
// a claim that failed.
func inTenure(journal string) bool {
	journal = strings.TrimSuffix(journal, "\n")
	what, _, _ := strings.Cut(journal[strings.LastIndex(journal, "\n")+1:], " ")
	return !slices.Contains([]string{"", "released", "unreleased", "refused", "lost"}, what)
}

// judgeHolds looks at what the processes believed: no two at once, by the clock that
// they share, and each under a greater token than whoever was before.
func (w *weather) judgeHolds(t *testing.T, s *tally) {
	t.Helper()
	slices.SortFunc(w.holds, func(a, b tenure) int { return cmp.Compare(a.begin, b.begin) })
	c := contention{turns: s.turns}
	for i, h := range w.holds {
		c.intervals = append(c.intervals, h.interval)
		if i > 0 && h.token <= w.holds[i-1].token {
			t.Errorf("token %d was held after token %d", h.token, w.holds[i-1].token)
		}
	}
	c.judge()
	c.report(t)
	if c.overlaps > 0 {
		t.Errorf("%d of %d tenures were held at the same time as another, the longest for %v", c.overlaps, len(c.intervals), c.longest)
	}
}
