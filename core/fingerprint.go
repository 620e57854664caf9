package core

// fingerprint is of a whole body, where print has nothing to hold on to.
func fingerprint(body []byte) uint64 { return fnv1a(fnvOffset, body) }

// FNV-1a, 64 bits, of Fowler, Noll and Vo.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x00000100000001b3
)

func fnv1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// mix spreads two numbers over one (FNV-1a by words).
func mix(a, b uint64) uint64 {
	h := (uint64(fnvOffset) ^ a) * fnvPrime
	h = (h ^ b>>32) * fnvPrime
	return (h ^ b) * fnvPrime
}
