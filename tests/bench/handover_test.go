//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"
)

// askedOf is a source that tells how often it was asked.
type askedOf struct {
	figure
	asked int
}

func (c *askedOf) measure(*workshop) (figure, error) {
	c.asked++
	return c.figure, nil
}

// TestOnce: rows that show the same long run, or the file that it leaves, run it once, and
// only the row that shows its samples draws them.
func TestOnce(t *testing.T) {
	of := &askedOf{figure: figure{Value: 3, Curve: "c", Samples: []float64{1, 2, 3, 4, 9}}}
	run := &once{source: of}
	whole, err := run.measure(nil)
	if err != nil || whole.Value != 3 || whole.Curve != "c" || len(whole.Samples) != 5 {
		t.Errorf("%v, %v", whole, err)
	}
	slowest, err := percentile{run, 100}.measure(nil)
	if err != nil || slowest.Value != 9 || slowest.Curve != "" || slowest.Samples != nil {
		t.Errorf("%v, %v", slowest, err)
	}
	if of.asked != 1 {
		t.Errorf("it was measured %d times", of.asked)
	}
	if again, _ := run.measure(nil); len(again.Samples) != 5 {
		t.Error("a percentile has taken the samples away")
	}
	w := &workshop{dir: t.TempDir(), ctx: t.Context()}
	if _, err := (content{run, "asked"}).measure(w); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	if err := os.WriteFile(w.path("asked"), []byte("1.25\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := (content{run, "asked"}).measure(w); err != nil || f.Value != 1.25 || f.Unit != inNumber {
		t.Errorf("%v, %v", f, err)
	}
}

// TestSamples: a program prints samples, has no server, or fails.
func TestSamples(t *testing.T) {
	w := &workshop{dir: t.TempDir(), ctx: t.Context()}
	for curve, drawn := range map[string]int{"c": 3, "": 0} {
		f, err := w.samples(curve, "a server", "sh", "-c", "echo 3; echo 1; echo 2")
		if err != nil || f.Value != 2 || f.Curve != curve || len(f.Samples) != drawn {
			t.Errorf("%v, %v", f, err)
		}
	}
	_, err := w.samples("c", "a server", "sh", "-c", "exit 3")
	if missing, ok := errors.AsType[*missingError](err); !ok || missing.what != "a server" {
		t.Errorf("%v", err)
	}
	if _, err = w.samples("c", "a server", "sh", "-c", "echo why >&2; exit 1"); err == nil || errors.As(err, new(*missingError)) {
		t.Errorf("%v", err)
	}
	if f, err := (startUp{program: "false"}).measure(w); err == nil {
		t.Errorf("a process that failed took %v", f)
	}
}

// TestCommandEnds: a program that hangs is asked to end, so that it can end what it
// has started.
func TestCommandEnds(t *testing.T) {
	w := &workshop{ctx: t.Context()}
	cmd, cancel := w.command("sh", "-c", `trap "echo ended; exit" TERM; echo begun; for i in $(seq 6000); do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "begun\n" {
		t.Errorf("it said %q: %v", line, err)
	}
	cancel()
	if rest, err := io.ReadAll(said); string(rest) != "ended\n" {
		t.Errorf("it said %q: %v", rest, err)
	}
	_ = cmd.Wait() // says that it was ended
}
