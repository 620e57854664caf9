package client

import "github.com/mopslock/mopslock/core"

// storeClock is the newest sample of the store's clock, and where it was taken.
type storeClock struct {
	stamp, at int64
	owner     string // in the sample's key; "" before the first
	begun     int64  // Mono of the latest sample
	unit      *unit  // takes one, or nil
	askers    []*unit
}

// sample takes a sample of the store's clock for a machine that would judge sooner by it:
// one at a time, and no more than one in core.SampleEach. If there can be none, the machine
// is told at once, since one that tries only once has nothing else to wait for.
func (c *Client) sample(asker *unit) {
	k := &c.clock
	if k.unit == nil && !c.maySample() {
		c.post(job{unit: asker, kind: core.EventWoke})
		return
	}
	k.askers = append(k.askers, asker)
	if k.unit != nil {
		return
	}
	cfg := c.config(core.MachineStoreClockSample, core.ProtocolStrict, &core.Config{Owner: k.owner})
	cfg.Seed = c.seed()
	if k.owner == "" {
		k.owner = c.uuid()
		cfg.Owner = k.owner
	}
	machine, err := newMachine(cfg)
	if err != nil {
		panic("mopslock: core: client: " + err.Error())
	}
	k.begun = c.now.Mono
	k.unit = &unit{machine: machine, owner: k}
	c.post(job{unit: k.unit, kind: core.EventBegin})
}

func (c *Client) maySample() bool {
	k := &c.clock
	return c.cfg.Samples && !c.closing && (k.owner == "" || c.now.Mono-k.begun >= int64(core.SampleEach))
}

// hear implements owner. It keeps the sample, and hands it on. The newest is the best: its
// lower bound of the store's clock has lost least to the difference of rates.
func (k *storeClock) hear(c *Client, u *unit, a *core.Action) {
	if a.Kind == core.ActionStoreClockSampled && a.At > k.at {
		k.stamp, k.at = a.Wall, a.At
	}
	c.drop(u)
	k.unit = nil
	for _, asker := range k.askers { // also when it failed
		c.post(job{unit: asker, kind: core.EventWoke})
	}
	k.askers = nil
}

// stepped implements owner.
func (k *storeClock) stepped(*Client, *unit) {}

// keeps implements owner.
func (k *storeClock) keeps() bool { return false }
