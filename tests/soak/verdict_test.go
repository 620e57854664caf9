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

// What grows is found, and what only moves is not.
func TestVerdict(t *testing.T) {
	const heap = 30 * mib
	for what, c := range map[string]struct {
		flat  bool
		value func(i int, noise float64) float64
	}{
		"steady":       {true, func(int, float64) float64 { return heap }},
		"noisy":        {true, func(_ int, noise float64) float64 { return heap + noise*3*mib }},
		"falling":      {true, func(i int, _ float64) float64 { return heap - float64(i)*mib/10 }},
		"warming up":   {true, func(i int, _ float64) float64 { return heap * min(1, .5+float64(i)/20) }},
		"one spike":    {true, func(i int, _ float64) float64 { return heap * float64(1+i/170*9) }},
		"a busy end":   {true, func(i int, _ float64) float64 { return heap * float64(1+i/150) }},
		"a slow leak":  {false, func(i int, _ float64) float64 { return heap + float64(i*each*20*100) }},
		"a noisy leak": {false, func(i int, noise float64) float64 { return heap + float64(i*each*20*200) + noise*mib }},
		"in steps":     {false, func(i int, _ float64) float64 { return heap + float64(i/60)*2*mib }},
	} {
		found := judge(course(qHeap, c.value))
		if len(found) != 1 || found[0].flat != c.flat {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// Work that is not done any more is no flat line.
func TestVerdictOfWork(t *testing.T) {
	for what, c := range map[string]struct {
		flat  bool
		value func(i int, noise float64) float64
	}{
		"steady":  {true, func(_ int, noise float64) float64 { return 10 + noise }},
		"more":    {true, func(i int, _ float64) float64 { return float64(i) }},
		"stuck":   {false, func(i int, _ float64) float64 { return float64(10 - i/20) }},
		"nothing": {false, func(i int, _ float64) float64 { return float64(1 - i/140) }},
	} {
		found := judge(course(qTurns, c.value))
		if len(found) != 1 || found[0].flat != c.flat {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// What a process does not tell is not judged, and neither are too few samples.
func TestVerdictOfNothing(t *testing.T) {
	if found := judge(nil); len(found) != 0 {
		t.Error(found)
	}
	if found := judge(course(qLost, func(int, float64) float64 { return 1 })); len(found) != 0 {
		t.Error(found)
	}
	if found := judge(course(qHeap, func(i int, _ float64) float64 { return float64(i) * mib })[:8]); len(found) != 0 {
		t.Error(found)
	}
}
