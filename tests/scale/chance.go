package main

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"time"
)

// chance is where everything that is drawn comes from: a generator whose sequence
// is fixed, and whole numbers only, so that every processor draws the same.
type chance struct{ source *rand.PCG }

func newChance(seed, stream uint64) chance { return chance{rand.NewPCG(seed, stream)} }

// below draws from 0 to n-1.
func (c chance) below(n uint64) uint64 {
	high, _ := bits.Mul64(c.source.Uint64(), n)
	return high
}

// between draws from low to high; low <= high.
func (c chance) between(low, high int64) int64 { return low + int64(c.below(uint64(high-low)+1)) }

// perMille says yes n times in a thousand.
func (c chance) perMille(n int) bool { return n > 0 && c.below(1000) < uint64(n) }

// seed16 is the seed of a machine.
func (c chance) seed16() (seed [16]byte) {
	binary.LittleEndian.PutUint64(seed[:], c.source.Uint64())
	binary.LittleEndian.PutUint64(seed[8:], c.source.Uint64())
	seed[0] |= 1 // never all zero
	return seed
}

// latency is how long requests take: straight between these quantiles, from half
// the median, and up to twice the last.
type latency struct{ p50, p90, p99, p999 time.Duration }

func (c chance) latency(l latency) int64 {
	u := int64(c.below(1_000_000))
	along := func(from, to time.Duration, low, high int64) int64 {
		return int64(from) + int64(to-from)*(u-low)/(high-low)
	}
	switch {
	case u < 500_000:
		return along(l.p50/2, l.p50, 0, 500_000)
	case u < 900_000:
		return along(l.p50, l.p90, 500_000, 900_000)
	case u < 990_000:
		return along(l.p90, l.p99, 900_000, 990_000)
	case u < 999_000:
		return along(l.p99, l.p999, 990_000, 999_000)
	}
	return along(l.p999, 2*l.p999, 999_000, 1_000_000)
}
