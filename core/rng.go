package core

import (
	"math/bits"
)

// rng is xoroshiro128++ (Blackman and Vigna, "Scrambled linear pseudorandom
// number generators", 2019). It spreads timers and makes ids from the host's
// 128 random bits; it is no source of secrets.
type rng struct{ a, b uint64 }

func newRNG(seed [16]byte) rng {
	r := rng{le64(seed[:8]), le64(seed[8:])}
	if r.a|r.b == 0 { // the one state that the generator never leaves
		r.a = 1
	}
	return r
}

func (r *rng) next() uint64 {
	a, b := r.a, r.b
	out := bits.RotateLeft64(a+b, 17) + a
	b ^= a
	r.a = bits.RotateLeft64(a, 49) ^ b ^ b<<21
	r.b = bits.RotateLeft64(b, 28)
	return out
}

// between draws from [low, high], both included; low <= high.
func (r *rng) between(low, high Duration) Duration {
	high64, _ := bits.Mul64(r.next(), uint64(high-low)+1)
	return low + Duration(high64)
}

// seedUUID is the seed itself as a UUIDv4: all of the host's randomness that
// the format leaves room for, which two draws of the generator would not keep.
func seedUUID(seed [16]byte) HolderID {
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
	return HolderID(text[:])
}
