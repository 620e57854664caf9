package simulate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// Weather says which swarm of faults a seed is given.
type Weather string

// The weathers.
const (
	// Stormy draws every kind of fault on or off.
	Stormy Weather = "stormy"
	// Orderly keeps to what lastwriter needs for its promise that nothing overlaps.
	Orderly Weather = "orderly"
	// Fair has no faults.
	Fair Weather = "fair"
)

// Options describe a run. Fields that are zero are drawn from the seed.
type Options struct {
	Protocol core.Protocol // 0 is strict
	Blind    bool          // lastwriter renews without reading first
	Seed     uint64

	Actors     int           // loops of acquire, hold and release
	Names      int           // that they want
	Companions int           // processes that keep a holder's lease alive beside it; below 0 is none
	TTL        time.Duration // below 0 is "until released or broken", of strict
	Duration   time.Duration // of the faults, virtual; what is open then is played to its end
	Hold       time.Duration // on average
	Think      time.Duration // on average, between release and acquire
	Once       bool          // each actor wants one turn, and waits without limit; no lease is broken
	Sessions   bool          // every lease stands on its process's session
	NoSessions bool          // none does
	// Shared: actors want permits of shared semaphores, of Capacity and Width. They are
	// spread over this number of Processes.
	Shared    bool
	Capacity  int
	Width     int
	Processes int
	Idles     bool // actors think until sessions are left, and longer; with sessions and TTLs that outlive that
	Works     bool // some of what is held on sessions is work, which is broken twice
	// Clients says what the processes' clients are told of their hosts and the store.
	Clients *Clients
	// BootAnywhere lets processes judge each other by the boot clock on every store,
	// and not only where no put overtakes another.
	BootAnywhere bool

	Weather Weather // "" is stormy; under lastwriter it is drawn
	Faults  *Faults // instead of a weather

	mostEvents uint64 // for each actor; 0 is mostEvents

	// New makes the machines; nil is machines.New.
	New func(core.Config) (core.Machine, error)
	// Trace keeps the last 40 events in words. Run does it again by itself for a
	// seed that fails.
	Trace bool
	// Holds keeps who held what when for Result.Timeline, as Trace does.
	Holds bool
}

// Clients is what the Config of each client says.
type Clients struct {
	Probed    bool   // nobody knows whether the store honours create-if-absent
	Watches   bool   // hosts tell of changes
	Remembers bool   // hosts keep what a process of this boot leaves to the next
	Slots     uint64 // for requests; 0 is many
}

// protocols are by the names that people call them.
var protocols = []struct {
	name string
	Options
}{
	{"strict", Options{Protocol: core.ProtocolStrict}},
	{"lastwriter", Options{Protocol: core.ProtocolLastWriter}},
	{"lastwriter-blind", Options{Protocol: core.ProtocolLastWriter, Blind: true}},
	{"semaphore", Options{Protocol: core.ProtocolStrict, Shared: true}},
}

// Protocols are what ByName knows.
func Protocols() (names []string) {
	for _, p := range protocols {
		names = append(names, p.name)
	}
	return names
}

// ByName is the Options of a protocol.
func ByName(protocol string) (Options, error) {
	for _, p := range protocols {
		if p.name == protocol {
			return p.Options, nil
		}
	}
	return Options{}, fmt.Errorf("simulate: no protocol %q; there are %s", protocol, strings.Join(Protocols(), ", "))
}

func (o *Options) protocolName() string {
	for _, p := range protocols {
		if p.Protocol == o.Protocol && p.Blind == o.Blind && p.Shared == o.Shared {
			return p.name
		}
	}
	return o.Protocol.String()
}

// settle draws what was left open.
func (o Options) settle(c world.Chance) Options {
	o.Protocol, o.mostEvents = cmp.Or(o.Protocol, core.ProtocolStrict), cmp.Or(o.mostEvents, mostEvents)
	if o.New == nil {
		o.New = machines.New
	}
	strict := o.Protocol == core.ProtocolStrict && !o.Shared
	story := o.Weather == "" && o.Faults == nil && !o.Once && !o.NoSessions && c.OneIn(5)
	o.Idles = o.Idles || story && c.OneIn(2)
	o.Works = o.Works || story && strict && o.TTL >= 0 && !o.Idles
	o.Sessions = o.Sessions || strict && (o.Idles || o.Works)
	if o.Idles {
		drawn(&o.TTL, func() time.Duration { return world.Pick(c, 20*time.Second, time.Minute) })
	}
	drawn(&o.TTL, func() time.Duration { return world.Pick(c, 5*time.Second, 10*time.Second, 20*time.Second) })
	if o.TTL < 0 {
		o.TTL = time.Duration(core.TTLEndless)
	}
	if o.Shared {
		o = o.settleShared(c)
	}
	life := max(o.TTL, 5*time.Second) // what other times are measured by
	drawn(&o.Actors, func() int { return int(c.Between(3, 9)) })
	drawn(&o.Names, func() int { return int(c.Between(1, 3)) })
	drawn(&o.Companions, func() int { return int(c.UpTo(3)) })
	o.Companions, o.Duration = max(0, o.Companions), cmp.Or(o.Duration, 10*life)
	drawn(&o.Hold, func() time.Duration { return world.Pick(c, life/10, life/2, 2*life) })
	drawn(&o.Think, func() time.Duration { return world.Pick(c, life/20, life/4, life) })
	if o.Clients == nil {
		o.Clients = &Clients{}
		if o.Weather != Fair {
			o.Clients.draw(c)
		}
	}
	if o.Weather == "" {
		o.Weather = Stormy
		if o.Protocol == core.ProtocolLastWriter && c.OneIn(2) {
			o.Weather = Orderly
		}
	}
	if o.Faults == nil {
		var f Faults
		switch o.Weather {
		case Stormy:
			f = drawFaults(c, o.Protocol, life)
		case Orderly:
			f = drawOrderly(c, life)
		default:
			f = Faults{Latency: Constant, Mean: 20 * time.Millisecond}
		}
		o.Faults = &f
	}
	return o
}

func (k *Clients) draw(c world.Chance) {
	k.Probed, k.Watches, k.Remembers = c.OneIn(3), c.OneIn(3), c.OneIn(2)
	k.Slots = world.Pick[uint64](c, 0, 0, 0, 2, 3, 4)
}

// settleShared draws what was left open of semaphores.
func (o Options) settleShared(c world.Chance) Options {
	o.Companions, o.NoSessions = -1, false
	o.Actors = cmp.Or(o.Actors, 20)
	drawn(&o.Names, func() int { return int(c.Between(1, 2)) })
	drawn(&o.Capacity, func() int { return int(c.Between(1, 5)) })
	drawn(&o.Width, func() int { return int(c.Between(1, 3)) })
	return o
}

// drawn draws what is 0.
func drawn[T int | time.Duration](of *T, draw func() T) {
	if *of == 0 {
		*of = draw()
	}
}

// promised reports whether nothing may overlap. A break of a lease without a TTL
// is a declared exception: a holder out of contact does not hear of it.
func (o *Options) promised() bool {
	return o.Protocol == core.ProtocolStrict && o.TTL > 0 || o.Protocol == core.ProtocolLastWriter && o.Weather == Orderly && !o.Blind
}
