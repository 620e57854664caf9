package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// blobs is the store of those scenarios whose store is one of today's.
type blobs struct{ *world.Blobs }

func newBlobs(unit int64) blobs { return blobs{world.NewBlobs(unit)} }

// Choices implements Store: there is one way.
func (blobs) Choices(*core.Action, bool) int { return 1 }

// Apply implements Store.
func (b blobs) Apply(now int64, a *core.Action, _ int) (Store, core.Event) {
	next, reply := b.Blobs.Apply(now, a)
	return blobs{next}, reply
}

// gateway is such a store behind something that answers a list now and then in the store's
// place, with nothing in it.
type gateway struct{ blobs }

// Choices implements Store.
func (gateway) Choices(a *core.Action, _ bool) int {
	if a.Kind == core.ActionList {
		return 2
	}
	return 1
}

// Apply implements Store.
func (g gateway) Apply(now int64, a *core.Action, choice int) (Store, core.Event) {
	next, reply := g.blobs.Apply(now, a, 0)
	if choice != 0 {
		reply.Entries, reply.More = nil, false
	}
	return gateway{next.(blobs)}, reply
}

// The numbers of a scenario's claims. Before them one claim has taken a sample of the store's
// clock, and one has opened a session.
const (
	sampler = uint64(1 + iota)
	opener
	first
	another
)

// clientOf is the Config of a client, of one that has all that a claim's machine needs.
func clientOf(cfg core.Config) core.Config {
	return core.Config{
		Machine: core.MachineClient, StampUnit: cfg.StampUnit, Terms: core.Terms{StampSpread: cfg.StampSpread}, Boot: cfg.Boot,
		Seed: cfg.Seed, OwnStore: cfg.OwnStore, NoCreate: cfg.NoCreate, Watches: cfg.Watches,
		Samples: cfg.Protocol == core.ProtocolStrict && cfg.Expiry == core.ExpiryCalibrated,
	}
}

// begins is the command with which a claim begins.
func begins(kind core.EventKind, number uint64, cfg core.Config) core.Event {
	return core.Event{Kind: kind, Claim: number, Terms: &cfg.Terms, Wait: core.Forever}
}

// about is a command about the first claim.
func about(kind core.EventKind) core.Event { return core.Event{Kind: kind, Claim: first} }

// start makes the program of an actor.
func (s *Scenario) start(index uint8) (Program, error) {
	p, err := s.Actors[index].Start()
	if err != nil {
		return nil, err
	}
	return p, s.sample(index, p)
}

// sample has an actor's client take a sample of the store's clock before it is told
// anything: it meets a lease of somebody else, in another place, and asks for a sample to
// judge that.
func (s *Scenario) sample(index uint8, program Program) error {
	a := &s.Actors[index]
	p, ok := program.(*process)
	if !a.Sampled || !ok {
		return nil
	}
	const name = "elsewhere"
	terms := core.Terms{Protocol: core.ProtocolStrict, Name: name, TTL: core.TTL(strictTTL), Margin: core.Duration(strictMargin)}
	other, err := machines.New(core.Config{Machine: core.MachineClient, Seed: [16]byte{1}, OwnStore: true, StampUnit: core.Duration(strictUnit)})
	if err != nil {
		return err
	}
	taken := s.clock(index, uint16(a.SampleTick))
	rate := a.RatePercent
	if rate == 0 {
		rate = 100
	}
	taken.Mono -= a.SampleAge / 100 * rate
	store := world.NewBlobs(s.unit())
	wall := s.wall(uint16(a.SampleTick)) - a.SampleAge
	for _, client := range []core.Machine{other, p.Client} {
		scratch := world.Process{Client: client}
		inbox := []core.Event{{Kind: core.EventAcquire, Claim: sampler, Terms: &terms}}
		for ; len(inbox) > 0; inbox = inbox[1:] {
			actions, err := scratch.Step(taken, inbox[0])
			if err != nil {
				return err
			}
			for i := range actions {
				if actions[i].Kind.IsRequest() {
					var reply core.Event
					store, reply = store.Apply(wall, &actions[i])
					inbox = append(inbox, reply)
				}
			}
		}
	}
	return nil
}

// unit is that of the store's stamps.
func (s *Scenario) unit() int64 {
	switch b := s.Store.(type) {
	case blobs:
		return b.Unit
	case gateway:
		return b.Unit
	}
	return 1
}

// tenureOf is the id of the tenure that an actor's first claim has.
func tenureOf(a Actor) string {
	sc := &Scenario{Store: newBlobs(strictUnit), Tick: second, StoreWall: start, Actors: []Actor{a}}
	program, err := sc.start(0)
	if err != nil {
		return "" // the search will say so
	}
	s := &survivor{0, program, noWake, []core.Event{a.Tell[0].Event}}
	if _, err := newEngine(sc).runTick(s, 0, sc.Store); err != nil || len(program.Claims()) == 0 {
		return ""
	}
	return program.Claims()[0].Tenure
}
