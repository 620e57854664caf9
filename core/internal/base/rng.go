package base

import (
	"math/bits"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// RNG is xoroshiro128++ (Blackman and Vigna, "Scrambled linear pseudorandom
// number generators", 2019). It spreads timers and makes ids from the host's
// 128 random bits; it is no source of secrets.
type RNG struct {
	a, b uint64 `state:"exact: each draw is one that can happen"`
}

func NewRNG(seed [16]byte) RNG {
	r := RNG{octets.LE64(seed[:8]), octets.LE64(seed[8:])}
	if r.a|r.b == 0 { // the one state that the generator never leaves
		r.a = 1
	}
	return r
}

func (r *RNG) Next() uint64 {
	a, b := r.a, r.b
	out := bits.RotateLeft64(a+b, 17) + a
	b ^= a
	r.a = bits.RotateLeft64(a, 49) ^ b ^ b<<21
	r.b = bits.RotateLeft64(b, 28)
	return out
}

// Between draws from [low, high], both included; low <= high.
func (r *RNG) Between(low, high core.Duration) core.Duration {
	high64, _ := bits.Mul64(r.Next(), uint64(high-low)+1)
	return low + core.Duration(high64)
}

// SeedUUID is the seed itself as a UUIDv4: all of the host's randomness that
// the format leaves room for, which two draws of the generator would not keep.
func SeedUUID(seed [16]byte) core.HolderID {
	const hex = "0123456789abcdef"
	seed[6] = seed[6]&0x0f | 0x40
	seed[8] = seed[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for i, octet := range seed {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = hex[octet>>4], hex[octet&15]
		at += 2
	}
	return core.HolderID(text[:])
}

// Seed draws another seed, for a machine that another one makes: two of one seed would be one holder.
func (r *RNG) Seed() (seed [16]byte) {
	for i := range seed {
		seed[i] = byte(r.Next())
	}
	seed[15] |= 1 // not zero
	return seed
}
