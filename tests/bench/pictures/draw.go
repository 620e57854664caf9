package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette is Okabe and Ito's, which the colour-blind can tell apart.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x00, 0x00, 0x00, 0xff},
	{0x80, 0x80, 0x80, 0xff},
	{0x99, 0x4f, 0x00, 0xff},
}

// curve is one line of a picture.
type curve struct {
	name   string
	points plotter.XYs
	dashed bool // quoted, or counted by a formula
}

// handOver is the share of hand-overs that are done within a time.
func handOver(r *report) (*picture, error) {
	samples := map[string][]float64{}
	var names []string
	for _, part := range r.Parts {
		for _, row := range part.Rows {
			for _, f := range []*figure{row.Ours, row.Beside} {
				if f != nil && f.Curve != "" && len(f.Samples) > 0 && samples[f.Curve] == nil {
					samples[f.Curve] = f.Samples
					names = append(names, f.Curve)
				}
			}
		}
	}
	var curves []curve
	for _, name := range names {
		curves = append(curves, curve{name: name, points: shares(samples[name])})
	}
	p, err := newPicture("Hand-over: from one's release until the next one holds", curves)
	if err != nil {
		return nil, err
	}
	p.X.Label.Text, p.Y.Label.Text = "at most", "share of hand-overs"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(durations)
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.TickerFunc(func(_, _ float64) (all []plot.Tick) {
		for share := 0; share <= 100; share += 25 {
			all = append(all, plot.Tick{Value: float64(share) / 100, Label: fmt.Sprintf("%d %%", share)})
		}
		return all
	})
	return p, nil
}

// shares is the distribution of samples, as steps; none is under ten microseconds.
func shares(samples []float64) plotter.XYs {
	slices.Sort(samples)
	points := plotter.XYs{{X: max(samples[0], 1e4), Y: 0}}
	for i, s := range samples {
		points = append(points, plotter.XY{X: max(s, 1e4), Y: float64(i+1) / float64(len(samples))})
	}
	return points
}

// durations marks the powers of ten, of nanoseconds.
func durations(least, most float64) (all []plot.Tick) {
	at := 1e4
	for _, label := range []string{"10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"} {
		if at >= least && at <= most {
			all = append(all, plot.Tick{Value: at, Label: label})
		}
		at *= 10
	}
	return all
}

// requests are those of an hour against the leases that one process holds.
func requests(r *report) (*picture, error) {
	points := map[string]plotter.XYs{}
	var names []string
	var each []curve
	for _, part := range r.Parts {
		for _, row := range part.Rows {
			if row.Held == 0 {
				continue
			}
			if f := row.Ours; f != nil && f.Curve != "" {
				if points[f.Curve] == nil {
					names = append(names, f.Curve)
				}
				points[f.Curve] = append(points[f.Curve], plotter.XY{X: row.Held, Y: f.Value * row.Held})
			}
			if f := row.Beside; f != nil && f.Curve != "" && !slices.ContainsFunc(each, func(c curve) bool { return c.name == f.Curve }) {
				each = append(each, curve{name: f.Curve, dashed: true, points: plotter.XYs{{X: 1, Y: f.Value}, {X: 1e4, Y: f.Value * 1e4}}})
			}
		}
	}
	var curves []curve
	for _, name := range names {
		slices.SortFunc(points[name], func(a, b plotter.XY) int { return int(math.Copysign(1, a.X-b.X)) })
		curves = append(curves, curve{name: name, points: points[name]})
	}
	p, err := newPicture("Requests to the store, an hour, TTL 60 s or what others choose", append(curves, each...))
	if err != nil {
		return nil, err
	}
	p.X.Label.Text, p.Y.Label.Text = "leases held by one process", "requests an hour"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powers), plot.TickerFunc(powers)
	return p, nil
}

// powers marks the powers of ten.
func powers(least, most float64) (all []plot.Tick) {
	for at := 1.; at <= most; at *= 10 {
		if at >= least {
			label := fmt.Sprintf("%.0f", at)
			for i := len(label) - 3; i > 0; i -= 3 {
				label = label[:i] + "," + label[i:]
			}
			all = append(all, plot.Tick{Value: at, Label: label})
		}
	}
	return all
}

// picture is a plot with the names of its curves beside it.
type picture struct {
	*plot.Plot

	names plot.Legend
}

func newPicture(title string, curves []curve) (*picture, error) {
	if len(curves) == 0 {
		return nil, errors.New("nothing to draw: measure the rows first")
	}
	p := &picture{Plot: plot.New(), names: plot.NewLegend()}
	p.Title.Text = title
	p.Title.Padding = vg.Points(8)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	p.names.Top, p.names.Left = true, true
	p.names.Padding = vg.Points(3)
	for i, c := range curves {
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		line.LineStyle = draw.LineStyle{Color: palette[i%len(palette)], Width: vg.Points(2)}
		if c.dashed {
			line.Width, line.Dashes = vg.Points(1), []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		p.names.Add(c.name, line)
	}
	return p, nil
}

// write also names fonts that other systems have.
func (p *picture) write(path string) error {
	const width, height, names, above = 26 * vg.Centimeter, 11 * vg.Centimeter, 9.5 * vg.Centimeter, 1 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, whole.ClipPolygonXY([]vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}}))
	p.Draw(draw.Crop(whole, 0, -names, 0, 0))
	p.names.Draw(draw.Crop(whole, width-names+vg.Points(8), 0, 0, -above))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	const font = "font-family:Liberation Sans"
	return os.WriteFile(path, bytes.ReplaceAll(out.Bytes(), []byte(font), []byte(font+",Helvetica,Arial,sans-serif")), 0o666)
}
