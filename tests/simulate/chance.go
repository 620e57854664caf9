package simulate

import "github.com/mopslock/mopslock/tests/world"

// newChance draws from a seed.
func newChance(seed uint64) world.Chance { return world.NewChance(seed, 0x6d6f70736c6f636b) }

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
func exponential(c world.Chance, mean int64) int64 {
	whole := int64(0)
	for {
		u := c.Below(steps << 16)
		i, rest := u>>16, int64(u&0xffff)
		if i < steps-1 {
			low, high := exponentialAt[i], exponentialAt[i+1]
			return scale(mean, whole+low) + scale(mean, high-low)*rest>>16
		}
		whole += exponentialAt[steps-1]
	}
}

// logNormal draws a time with about this mean and a long tail.
func logNormal(c world.Chance, mean int64) int64 {
	u := c.Below(steps << 16)
	i, rest := u>>16, int64(u&0xffff)
	low, high := logNormalAt[i], logNormalAt[i+1]
	return scale(mean, low) + scale(mean, high-low)*rest>>16
}

// scale is this many thousandths of x.
func scale(x, thousandths int64) int64 { return x / 1000 * thousandths }
