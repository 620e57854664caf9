package host

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// serve makes a task of the host's own, which no caller waits for: a session or a
// sample of the store's clock. It must be stepped with its first event.
func (l *loop) serve(cfg *core.Config, stopKind core.EventKind, hears func(*core.Action)) (*task, error) {
	t, err := l.host.newTask(context.Background(), cfg, stopKind, nil)
	if err != nil {
		return nil, err
	}
	l.enlist(t, hears)
	return t, nil
}

func (l *loop) enlist(t *task, hears func(*core.Action)) {
	t.service, t.hears = true, hears
	l.services[t] = struct{}{}
}

// stopServices ends them, when no lease is left that needs them: a session must outlive
// every release on it.
func (l *loop) stopServices() {
	if l.served {
		return
	}
	l.served = true
	for t := range l.services {
		l.stopTask(t)
	}
	l.sweepTried(0)
	if l.clock.key != "" {
		l.sendOnce(core.Action{Kind: core.ActionDelete, Key: l.clock.key, Limit: tidyLimit}, 0)
	}
}

// sendOnce sends one request whose outcome does not matter, after a while or when the
// Host closes.
func (l *loop) sendOnce(a core.Action, after time.Duration) {
	t := &task{
		loop: l, machine: &oneShot{action: a, at: l.host.clock.Now().Mono + int64(after)},
		index: -1, foreign: true, ctx: context.Background(), stopKind: core.EventCancel,
	}
	l.enlist(t, func(*core.Action) {})
	l.step(t, core.Event{Kind: core.EventBegin})
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

	begun   int64 // when the latest sample was begun, if there was one
	running *task
	askers  []*task // told as soon as it is there
}

// sampleStoreClock takes a sample of the store's clock for a machine that would judge
// sooner by it: one at a time, and no more than one in core.SampleEach. If there can
// be none, the machine is told at once, since one that tries only once has nothing else
// to wait for.
func (l *loop) sampleStoreClock(asker *task) {
	c := &l.clock
	if c.running != nil {
		c.askers = append(c.askers, asker)
		return
	}
	if !l.startStoreClockSample() {
		l.wake(asker)
		return
	}
	c.askers = append(c.askers, asker)
	l.step(c.running, core.Event{Kind: core.EventBegin})
}

func (l *loop) startStoreClockSample() bool {
	c := &l.clock
	now := l.host.clock.Now().Mono
	if !l.host.samplesStoreClock || l.closing || c.begun != 0 && now-c.begun < int64(core.SampleEach) {
		return false
	}
	cfg, err := l.host.machineConfig(core.MachineStoreClockSample, core.ProtocolStrict)
	if err == nil {
		cfg.Owner, err = l.host.processID()
	}
	if err == nil {
		c.running, err = l.serve(&cfg, 0, l.storeClockSampled)
	}
	if err != nil {
		l.host.log.Debug("no calibration", "error", err)
		return false
	}
	c.key, c.begun = storeClockPrefix+cfg.Owner, max(1, now)
	return true
}

// wake steps a machine as soon as the one that is being stepped has been.
func (l *loop) wake(t *task) {
	if !t.gone {
		l.post(message{to: t, event: core.Event{Kind: core.EventWoke}})
	}
}

// storeClockSampled keeps the sample, and hands it on. The newest is the best: its
// lower bound of the store's clock has lost least to the difference of rates.
func (l *loop) storeClockSampled(a *core.Action) {
	c := &l.clock
	if a.Kind == core.ActionStoreClockSampled && a.At > c.at {
		c.stamp, c.at = knownStamp(a.Wall), a.At
	}
	askers := c.askers
	c.askers, c.running = nil, nil
	for _, t := range askers { // also when it failed
		l.wake(t)
	}
}
