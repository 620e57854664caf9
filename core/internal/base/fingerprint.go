package base

// Fingerprint tells bodies, or parts of them, apart.
func Fingerprint(body []byte) uint64 { return FNV1a(FnvOffset, body) }

// FNV-1a, 64 bits, of Fowler, Noll and Vo.
const (
	FnvOffset = 0xcbf29ce484222325
	FnvPrime  = 0x00000100000001b3
)

func FNV1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * FnvPrime
	}
	return h
}

// Mix spreads two numbers over one (FNV-1a by words).
func Mix(a, b uint64) uint64 {
	h := (uint64(FnvOffset) ^ a) * FnvPrime
	h = (h ^ b>>32) * FnvPrime
	return (h ^ b) * FnvPrime
}
