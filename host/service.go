package host

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// serve makes a task of the host's own, which no caller waits for: a session or a
// calibration. It must be stepped with its first event.
func (k *loop) serve(cfg *core.Config, stopKind core.EventKind, hears func(*core.Action)) (*task, error) {
	t, err := k.host.newTask(context.Background(), cfg, stopKind, nil)
	if err != nil {
		return nil, err
	}
	k.enlist(t, hears)
	return t, nil
}

func (k *loop) enlist(t *task, hears func(*core.Action)) {
	t.service, t.hears = true, hears
	k.services[t] = struct{}{}
}

// stopServices ends them, when no lease is left that needs them: a session must outlive
// every release on it.
func (k *loop) stopServices() {
	if k.served {
		return
	}
	k.served = true
	for t := range k.services {
		k.stopTask(t)
	}
	k.sweepTried(0)
	if k.clock.key != "" {
		k.sendOnce(core.Action{Kind: core.ActionDelete, Key: k.clock.key, Limit: tidyLimit}, 0)
	}
}

// sendOnce sends one request whose outcome does not matter, after a while or when the
// Host closes.
func (k *loop) sendOnce(a core.Action, after time.Duration) {
	t := &task{
		loop: k, machine: &oneShot{action: a, at: k.host.clock.Now().Mono + int64(after)},
		index: -1, foreign: true, ctx: context.Background(), stopKind: core.EventCancel,
	}
	k.enlist(t, func(*core.Action) {})
	k.step(t, core.Event{Kind: core.EventBegin})
}

// oneShot is a machine of the host's own that sends one request and ends.
type oneShot struct {
	action core.Action
	at     int64 // Mono
	out    [1]core.Action
	sent   bool
	done   bool
}

// Step implements core.Stepper.
func (o *oneShot) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	switch {
	case ev.Kind == core.EventAnswer:
		o.done = true
		return nil, nil
	case o.sent:
		return nil, nil
	case now.Mono < o.at && ev.Kind != core.EventCancel:
		o.out[0] = core.Action{Kind: core.ActionWake, At: o.at}
	default:
		o.sent = true
		o.out[0] = o.action
		o.out[0].Request = 1
	}
	return o.out[:], nil
}

// Idle implements core.Stepper.
func (o *oneShot) Idle() bool { return o.done }

// String implements core.Stepper.
func (o *oneShot) String() string { return "one-shot" }

// storeClock is the newest sample of the store's clock, and where it was taken.
type storeClock struct {
	stamp int64
	at    int64
	key   string

	begun   int64 // when the latest calibration was begun, if there was one
	running *task
	askers  []*task // told as soon as it is there
}

// calibrate takes a sample of the store's clock for a machine that would judge
// sooner by it: one at a time, and no more than one in core.CalibrateEach. Where
// there is none to be had the machine hears of it at once: one that tries only
// once has nothing else to wait for.
func (k *loop) calibrate(asker *task) {
	c := &k.clock
	if c.running != nil {
		c.askers = append(c.askers, asker)
		return
	}
	if !k.startCalibration() {
		k.wake(asker)
		return
	}
	c.askers = append(c.askers, asker)
	k.step(c.running, core.Event{Kind: core.EventBegin})
}

func (k *loop) startCalibration() bool {
	c := &k.clock
	now := k.host.clock.Now().Mono
	if !k.host.calibrates || k.closing || c.begun != 0 && now-c.begun < int64(core.CalibrateEach) {
		return false
	}
	cfg, err := k.host.machineConfig(core.MachineCalibration, core.ProtocolStrict)
	if err == nil {
		cfg.Owner, err = k.host.processID()
	}
	if err == nil {
		c.running, err = k.serve(&cfg, 0, k.calibrationSaid)
	}
	if err != nil {
		k.host.log.Debug("no calibration", "error", err)
		return false
	}
	c.key, c.begun = calibrationPrefix+cfg.Owner, max(1, now)
	return true
}

// wake steps a machine as soon as the one that is being stepped has been.
func (k *loop) wake(t *task) {
	if !t.gone {
		k.post(message{to: t, event: core.Event{Kind: core.EventWoke}})
	}
}

// calibrationSaid keeps the sample, and hands it on. The newest is the best: its
// lower bound of the store's clock has lost least to the difference of rates.
func (k *loop) calibrationSaid(a *core.Action) {
	c := &k.clock
	if a.Kind == core.ActionCalibrated && a.At > c.at {
		c.stamp, c.at = knownStamp(a.Wall), a.At
	}
	askers := c.askers
	c.askers, c.running = nil, nil
	for _, t := range askers { // also when it failed
		k.wake(t)
	}
}
