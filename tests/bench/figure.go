//go:build unix

package main

import (
	"fmt"
	"math"
)

// figure is what was measured: a value, and the samples if it is their median.
type figure struct {
	Value  float64 `json:"value"`
	Unit   unit    `json:"unit"`
	Allocs float64 `json:"allocs,omitempty"`
	// Quoted is the source of a figure that no run here has measured.
	Quoted string `json:"quoted,omitempty"`
	// Curve is the name under which the samples are drawn; "" draws none.
	Curve   string    `json:"curve,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
}

// unit is what a value counts.
type unit string

const (
	inTime    unit = "ns"
	inBytes   unit = "B"
	inNumber  unit = ""
	inPercent unit = "%"
)

func (f *figure) String() string {
	text := f.Unit.text(f.Value)
	if f.Quoted != "" {
		text += " (quoted)"
	}
	return text
}

// text is a value with three significant digits, but for bytes, of which each
// counts.
func (u unit) text(v float64) string {
	switch {
	case u == inBytes && v >= 1<<20:
		return fmt.Sprintf("%.2f MiB", v/(1<<20))
	case u == inBytes && v >= 10<<10:
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	case u == inBytes:
		return fmt.Sprintf("%.0f B", v)
	case u == inPercent:
		return digits(v) + " %"
	case u != inTime:
		return digits(v)
	case math.Abs(v) < 1e3:
		return digits(v) + " ns"
	case math.Abs(v) < 1e6:
		return digits(v/1e3) + " µs"
	case math.Abs(v) < 1e9:
		return digits(v/1e6) + " ms"
	}
	return digits(v/1e9) + " s"
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e15:
		return fmt.Sprintf("%.0f", v)
	case a < 1:
		return fmt.Sprintf("%.2g", v)
	case a < 10:
		return fmt.Sprintf("%.2f", v)
	case a < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
