// Command pictures draws what `make bench` has found: how long a hand-over takes, and
// how many requests an hour held leases cost. It is a module of its own, so that users
// of mopslock get no drawing library.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
)

// report is the part of bench.json that is drawn.
type report struct {
	Parts []struct {
		Rows []struct {
			Held         float64 `json:"held"` // leases
			Ours, Beside *figure
		}
	}
}

type figure struct {
	Value   float64
	Curve   string
	Samples []float64
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures bench.json DIR")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(from, dir string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	for name, draw := range map[string]func(*report) (*picture, error){
		"handover.svg": handOver, "requests.svg": requests,
	} {
		p, err := draw(&r)
		if err == nil {
			err = p.write(filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
