package world

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// Chance is the source of all draws. It takes only the generator from the library, whose
// sequence is fixed, and no floating point, which differs between processors.
type Chance struct{ source *rand.PCG }

// NewChance draws from a stream of a seed.
func NewChance(seed, stream uint64) Chance { return Chance{rand.NewPCG(seed, stream)} }

// Below draws from 0 to n-1.
func (c Chance) Below(n uint64) uint64 {
	high, _ := bits.Mul64(c.source.Uint64(), n)
	return high
}

// UpTo draws from 0 to n.
func (c Chance) UpTo(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(c.Below(uint64(n) + 1))
}

// Between draws from low to high.
func (c Chance) Between(low, high int64) int64 { return low + c.UpTo(high-low) }

// Within draws from -n to n.
func (c Chance) Within(n int64) int64 { return c.UpTo(2*n) - n }

// OneIn says yes once in n times.
func (c Chance) OneIn(n uint64) bool { return c.Below(n) == 0 }

// PerMille says yes n times in a thousand.
func (c Chance) PerMille(n int) bool { return n > 0 && c.Below(1000) < uint64(n) }

// Sometimes draws from low to high once in n times, and is 0 otherwise.
func (c Chance) Sometimes(n uint64, low, high int64) int64 {
	if !c.OneIn(n) {
		return 0
	}
	return c.Between(low, high)
}

// Seed16 is the seed of a machine.
func (c Chance) Seed16() (seed [16]byte) {
	binary.LittleEndian.PutUint64(seed[:], c.source.Uint64())
	binary.LittleEndian.PutUint64(seed[8:], c.source.Uint64())
	seed[0] |= 1 // never all zero
	return seed
}

// Pick draws one of these.
func Pick[T any](c Chance, from ...T) T { return from[c.Below(uint64(len(from)))] }
