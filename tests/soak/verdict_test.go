//go:build unix

package main

import (
	"math/rand/v2"
	"testing"
)

const (
	steps = 180
	each  = 10 // seconds
)

// course is what half an hour of samples shows of one quantity.
func course(name string, value func(i int, noise float64) float64) []sample {
	chance := rand.New(rand.NewPCG(1, 2))
	var samples []sample
	for i := range steps {
		samples = append(samples, sample{float64(i * each), map[string]float64{name: value(i, chance.NormFloat64())}})
	}
	return samples
}

// TestVerdict: it finds what grows, and not what only moves; and work that is not done any
// more is no flat line.
func TestVerdict(t *testing.T) {
	const heap = 30 * mib
	for what, c := range map[string]struct {
		flat  bool
		of    string
		value func(i int, noise float64) float64
	}{
		"steady":       {true, qHeap, func(int, float64) float64 { return heap }},
		"noisy":        {true, qHeap, func(_ int, noise float64) float64 { return heap + noise*3*mib }},
		"falling":      {true, qHeap, func(i int, _ float64) float64 { return heap - float64(i)*mib/10 }},
		"warming up":   {true, qHeap, func(i int, _ float64) float64 { return heap * min(1, .5+float64(i)/20) }},
		"one spike":    {true, qHeap, func(i int, _ float64) float64 { return heap * float64(1+i/170*9) }},
		"a busy end":   {true, qHeap, func(i int, _ float64) float64 { return heap * float64(1+i/150) }},
		"a slow leak":  {false, qHeap, func(i int, _ float64) float64 { return heap + float64(i*each*20*100) }},
		"a noisy leak": {false, qHeap, func(i int, noise float64) float64 { return heap + float64(i*each*20*200) + noise*mib }},
		"in steps":     {false, qHeap, func(i int, _ float64) float64 { return heap + float64(i/60)*2*mib }},
		"steady work":  {true, qTurns, func(_ int, noise float64) float64 { return 10 + noise }},
		"more work":    {true, qTurns, func(i int, _ float64) float64 { return float64(i) }},
		"stuck":        {false, qTurns, func(i int, _ float64) float64 { return float64(10 - i/20) }},
		"no work":      {false, qTurns, func(i int, _ float64) float64 { return float64(1 - i/140) }},
	} {
		if found := judge(course(c.of, c.value)); len(found) != 1 || found[0].flat != c.flat {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// TestVerdictOfNothing: a quantity that a process does not tell is not judged, and neither
// are too few samples.
func TestVerdictOfNothing(t *testing.T) {
	leak := func(i int, _ float64) float64 { return float64(i) * mib }
	for _, samples := range [][]sample{nil, course(qLost, leak), course(qHeap, leak)[:8]} {
		if found := judge(samples); len(found) != 0 {
			t.Error(found)
		}
	}
}
