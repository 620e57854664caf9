package simulate

import (
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// Shape is how the time that a request takes is distributed.
type Shape string

// The shapes.
const (
	Constant    Shape = "constant"
	Uniform     Shape = "uniform" // from 0 to twice the mean
	Exponential Shape = "exponential"
	LogNormal   Shape = "log-normal" // a long tail
)

// Share is so many of a thousand.
type Share int

func (s Share) String() string { return fmt.Sprintf("%.1f %%", float64(s)/10) }

// Faults is the weather of one run. A kind that is zero is switched off whole:
// otherwise a rare kind would never be seen alone. Shares are in thousandths of
// all requests.
type Faults struct {
	Latency Shape         // of a request, there and back; "" is Constant
	Mean    time.Duration // of it

	LostRequests Share         // that never reaches the store
	LostAnswers  Share         // that is applied, and its answer is lost
	Duplicates   Share         // that is applied twice, and answered unknown
	LateWrites   Share         // of the writes given up that still land
	LateBy       time.Duration // at most

	Throttle    int           // requests a second and prefix; more are turned away
	Rest        time.Duration // for which the store then asks to be left alone, at most
	OutageEvery time.Duration // on average: no process reaches the store
	OutageFor   time.Duration // on average

	PauseEvery   time.Duration // on average, of one process
	PauseFor     time.Duration // at most
	CrashEvery   time.Duration // on average, of one process
	CloseEvery   time.Duration // on average: it closes, and starts again
	RestartAfter time.Duration // on average

	Drift     int           // millionths by which clock rates differ from the store's, at most
	Skew      time.Duration // of wall clocks, at most
	WallSteps bool          // and they are set again and again
	StampUnit time.Duration // resolution of the store's stamps; 0 is exact
	Spread    time.Duration // how far the clocks of the store's front-ends disagree
	Stale     time.Duration // reads show what was there this long ago, at most
	// InOrder is a local directory: a process lets no put of its own to a key overtake
	// a newer one, its stamps are of the writer's wall clock, and all on one computer
	// have its boot clock.
	InOrder bool
}

// drawFaults draws the swarm of a seed.
func drawFaults(c world.Chance, protocol core.Protocol, ttl time.Duration) Faults {
	t := int64(ttl)
	f := Faults{
		Latency: world.Pick(c, Constant, Uniform, Exponential, LogNormal),
		Mean:    world.Pick(c, 2*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond),
	}
	f.LostRequests = Share(c.Sometimes(2, 1, 150))
	f.LostAnswers = Share(c.Sometimes(2, 1, 150))
	f.Duplicates = Share(c.Sometimes(3, 1, 100))
	if c.OneIn(2) {
		f.LateWrites = Share(c.Between(100, 1000))
		f.LateBy = time.Duration(c.Between(t/10, 4*t))
	}
	if f.Throttle = int(c.Sometimes(4, 3, 40)); f.Throttle > 0 && c.OneIn(2) {
		f.Rest = time.Duration(c.Between(int64(time.Millisecond), t))
	}
	f.drawOutages(c, t)
	if c.OneIn(2) {
		f.PauseEvery, f.PauseFor = time.Duration(c.Between(t, 10*t)), time.Duration(c.Between(t/10, 3*t))
	}
	f.drawCrashes(c, t)
	f.Drift = int(c.Sometimes(2, 1, million/core.RateInverse))
	if c.OneIn(2) {
		f.Skew, f.WallSteps = world.Pick(c, time.Second, time.Minute, time.Hour), c.OneIn(3)
	}
	f.StampUnit = world.Pick(c, 0, time.Microsecond, time.Millisecond, time.Second)
	f.Spread = time.Duration(c.Sometimes(3, 1, int64(core.DefaultSpread)))
	f.InOrder = protocol == core.ProtocolStrict && c.OneIn(3)
	if protocol == core.ProtocolLastWriter && c.OneIn(4) {
		f.Stale = time.Duration(c.Between(int64(10*time.Millisecond), int64(5*time.Second)))
	}
	return f
}

func (f *Faults) drawOutages(c world.Chance, t int64) {
	if c.OneIn(4) {
		f.OutageEvery, f.OutageFor = time.Duration(c.Between(3*t, 12*t)), time.Duration(c.Between(t/10, t))
	}
}

func (f *Faults) drawCrashes(c world.Chance, t int64) {
	if c.OneIn(2) {
		f.CrashEvery = time.Duration(c.Between(2*t, 20*t))
	}
	if c.OneIn(3) {
		f.CloseEvery = time.Duration(c.Between(2*t, 20*t))
	}
	f.RestartAfter = time.Duration(c.Between(t/10, 2*t))
}

// drawOrderly draws a swarm under which lastwriter promises that nothing
// overlaps: requests are bounded and within the acquire margin, no write is
// late, no process pauses, and wall clocks agree but for a little.
func drawOrderly(c world.Chance, ttl time.Duration) Faults {
	t := int64(ttl)
	f := Faults{
		Latency: world.Pick(c, Constant, Uniform),
		Mean:    world.Pick(c, 2*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond),
	}
	f.LostRequests = Share(c.Sometimes(2, 1, 200))
	f.LostAnswers = Share(c.Sometimes(2, 1, 200))
	f.Throttle = int(c.Sometimes(4, 5, 40))
	f.drawOutages(c, t)
	f.drawCrashes(c, t)
	f.Drift = int(c.Sometimes(2, 1, 5000))
	if c.OneIn(2) {
		f.Skew = 20 * time.Millisecond
	}
	f.StampUnit = world.Pick(c, 0, time.Microsecond, time.Second)
	return f
}

// longest is an upper bound of what a request can take, for shapes that have one.
func (f *Faults) longest() time.Duration {
	if f.Latency == Uniform {
		return 2 * f.Mean
	}
	return f.Mean
}

func (f *Faults) draw(c world.Chance) int64 {
	switch mean := int64(f.Mean); f.Latency {
	case Uniform:
		return c.UpTo(2 * mean)
	case Exponential:
		return exponential(c, mean)
	case LogNormal:
		return logNormal(c, mean)
	default:
		return mean
	}
}
