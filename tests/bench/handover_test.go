package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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

// TestOnce: rows that show the same long run have it run once, and its samples are
// drawn by the one that shows them.
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
}

func TestContent(t *testing.T) {
	w := &workshop{dir: t.TempDir(), ctx: t.Context()}
	if _, err := (content{&askedOf{}, "asked"}).measure(w); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	if err := os.WriteFile(w.path("asked"), []byte("1.25\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := (content{&askedOf{}, "asked"}).measure(w); err != nil || f.Value != 1.25 || f.Unit != inNumber {
		t.Errorf("%v, %v", f, err)
	}
}

// TestSamples: what a program says, that it has no server, and that it fails.
func TestSamples(t *testing.T) {
	w := &workshop{dir: t.TempDir(), ctx: t.Context()}
	f, err := w.samples("c", "a server", "sh", "-c", "echo 3; echo 1; echo 2")
	if err != nil || f.Value != 2 || f.Curve != "c" || len(f.Samples) != 3 {
		t.Errorf("%v, %v", f, err)
	}
	if f, err = w.samples("", "a server", "sh", "-c", "echo 3; echo 1; echo 2"); err != nil || f.Value != 2 || f.Samples != nil {
		t.Errorf("%v, %v", f, err)
	}
	_, err = w.samples("c", "a server", "sh", "-c", "exit 3")
	if missing, ok := errors.AsType[*missingError](err); !ok || missing.what != "a server" {
		t.Errorf("%v", err)
	}
	if _, err = w.samples("c", "a server", "sh", "-c", "echo why >&2; exit 1"); err == nil || errors.As(err, new(*missingError)) {
		t.Errorf("%v", err)
	}
}

// TestCommandEnds: a program that hangs is asked to end, so that it can end what it
// has started.
func TestCommandEnds(t *testing.T) {
	w := &workshop{ctx: t.Context()}
	cmd, cancel := w.command("sh", "-c", "trap 'kill $!; echo ended; exit 0' TERM; echo begun; sleep 60 & wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	buffer := make([]byte, 100)
	n, err := out.Read(buffer)
	if err != nil || string(buffer[:n]) != "begun\n" {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
	begun := time.Now()
	cancel()
	for err == nil {
		said = append(said, buffer[:n]...)
		n, err = out.Read(buffer)
	}
	_ = cmd.Wait() // says that it was ended
	if string(said) != "begun\nended\n" {
		t.Errorf("it said %q in %v", said, time.Since(begun))
	}
}

// TestOnTmpfs: what is started keeps its files in memory meanwhile, and nothing stays;
// where there is no such memory it is not started.
func TestOnTmpfs(t *testing.T) {
	w := &workshop{temp: t.TempDir(), ctx: t.Context()}
	before := w.temp
	var during spy
	_, err := onTmpfs{&during}.measure(w)
	if _, absent := os.Stat(memoryDir); absent != nil {
		if !errors.As(err, new(*missingError)) || during.temp != "" {
			t.Errorf("without %s: files in %q, %v", memoryDir, during.temp, err)
		}
		return
	}
	if err != nil || filepath.Dir(during.temp) != memoryDir || w.temp != before {
		t.Fatalf("files in %q, then in %q: %v", during.temp, w.temp, err)
	}
	if _, err := os.Stat(during.temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there still: %v", during.temp, err)
	}
}

// spy sees where a program that it starts would keep its files.
type spy struct{ temp string }

func (s *spy) measure(w *workshop) (figure, error) {
	cmd, cancel := w.command("sh", "-c", `printf %s "$TMPDIR"`)
	defer cancel()
	out, err := w.output(cmd)
	s.temp = string(out)
	return figure{}, err
}
