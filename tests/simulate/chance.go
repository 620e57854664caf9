package simulate

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// chance is the source of all draws. It takes only the generator from the
// library, whose sequence is fixed, and no floating point, which differs between
// processors.
type chance struct{ source *rand.PCG }

func newChance(seed uint64) chance {
	return chance{rand.NewPCG(seed, 0x6d6f70736c6f636b)}
}

// below draws from 0 to n-1.
func (c chance) below(n uint64) uint64 {
	high, _ := bits.Mul64(c.source.Uint64(), n)
	return high
}

// upTo draws from 0 to n.
func (c chance) upTo(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(c.below(uint64(n) + 1))
}

// between draws from low to high.
func (c chance) between(low, high int64) int64 { return low + c.upTo(high-low) }

// within draws from -n to n.
func (c chance) within(n int64) int64 { return c.upTo(2*n) - n }

// oneIn says yes once in n times.
func (c chance) oneIn(n uint64) bool { return c.below(n) == 0 }

// perMille says yes n times in a thousand.
func (c chance) perMille(n int) bool { return n > 0 && c.below(1000) < uint64(n) }

// sometimes draws from low to high once in n times, and is 0 otherwise.
func (c chance) sometimes(n uint64, low, high int64) int64 {
	if !c.oneIn(n) {
		return 0
	}
	return c.between(low, high)
}

// seed16 is the seed of a machine.
func (c chance) seed16() (seed [16]byte) {
	binary.LittleEndian.PutUint64(seed[:], c.source.Uint64())
	binary.LittleEndian.PutUint64(seed[8:], c.source.Uint64())
	seed[0] |= 1 // never all zero
	return seed
}

func pick[T any](c chance, from ...T) T { return from[c.below(uint64(len(from)))] }

// steps is how fine a table of quantiles is.
const steps = 32

// exponentialAt are the quantiles i/32 of an exponential distribution, in
// thousandths of its mean. The last step has no end: it begins anew.
var exponentialAt = [steps]int64{
	0, 32, 65, 98, 134, 170, 208, 247, 288, 330, 375, 421, 470, 521, 575, 633,
	693, 758, 827, 901, 981, 1068, 1163, 1269, 1386, 1520, 1674, 1856, 2079, 2367, 2773, 3466,
}

// logNormalAt are those of a log-normal one of sigma 1, cut at twelve means.
var logNormalAt = [steps + 1]int64{
	0, 94, 131, 162, 192, 221, 250, 279, 309, 340, 372, 406, 441, 478, 518, 561,
	607, 656, 710, 769, 834, 907, 989, 1082, 1191, 1318, 1473, 1665, 1916, 2266, 2813, 3907, 12000,
}

// exponential draws a time with this mean.
func (c chance) exponential(mean int64) int64 {
	whole := int64(0)
	for {
		u := c.below(steps << 16)
		i, rest := u>>16, int64(u&0xffff)
		if i < steps-1 {
			low, high := exponentialAt[i], exponentialAt[i+1]
			return scale(mean, whole+low) + scale(mean, high-low)*rest>>16
		}
		whole += exponentialAt[steps-1]
	}
}

// logNormal draws a time with about this mean and a long tail.
func (c chance) logNormal(mean int64) int64 {
	u := c.below(steps << 16)
	i, rest := u>>16, int64(u&0xffff)
	low, high := logNormalAt[i], logNormalAt[i+1]
	return scale(mean, low) + scale(mean, high-low)*rest>>16
}

// scale is this many thousandths of x.
func scale(x, thousandths int64) int64 { return x / 1000 * thousandths }
