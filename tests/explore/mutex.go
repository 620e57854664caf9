package explore

import (
	"encoding/binary"

	"github.com/mopslock/mopslock/core"
)

// driver is the reservation mutex: add a service of a known name, check who its
// owner is, work, and remove the service, even if another owns it by then.
type driver struct {
	claimant
	asking
	checked bool
	tries   int // how many it makes before it continues without the mutex; 0 is no end
	id      string
	tried   int
	wake    int64
}

const (
	driverAdding   = "adding"
	driverSleeping = "waiting"
)

// driverSleep is the least of the two to five seconds between two tries.
const driverSleep = 2 * second

func newDriver(name, id string, checked bool, tries int) *driver {
	return &driver{
		claimant: claimant{actor: name, name: dataSet, tenure: id},
		asking:   asking{state: workerIdle},
		checked:  checked, tries: tries, id: id, wake: noWake,
	}
}

// Step implements Program.
func (d *driver) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	var out []core.Action
	switch {
	case ev.Kind == core.EventAcquire, ev.Kind == core.EventWoke && d.state == driverSleeping && now.Mono >= d.wake:
		d.wake = noWake
		d.tried++
		out = d.ask(driverAdding, core.ActionCreate, dataSet, d.id)
	case ev.Kind == core.EventRelease:
		out = d.ask(workerRemoving, core.ActionDelete, dataSet, "")
	case ev.Kind == core.EventAnswer && ev.Request == d.issued:
		out = d.answered(now, &ev)
	}
	d.follow(out)
	if d.state == workerRemoving {
		d.claims = nil
	}
	if d.wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: d.wake})
	}
	return out, nil
}

func (d *driver) answered(now core.Instant, ev *core.Event) []core.Action {
	yes := ev.Outcome == core.OutcomeYes
	switch {
	case d.state == workerRemoving:
		return d.end(workerDone, core.Action{Kind: core.ActionReleased})
	case d.state == driverAdding && yes && d.checked:
		return d.ask(workerChecking, core.ActionGet, dataSet, "")
	// Nothing there passes the check, as it does in the sample: it looks for
	// another's name, not for its own.
	case d.state == driverAdding && yes,
		d.state == workerChecking && (ev.Outcome == core.OutcomeNo || yes && string(ev.Body) == d.id),
		d.tries != 0 && d.tried >= d.tries: // "continuing without it"
		return d.end(workerWorking, core.Action{Kind: core.ActionHeld, At: noWake})
	}
	d.state, d.wake = driverSleeping, now.Mono+driverSleep
	return nil
}

// Idle implements Program.
func (d *driver) Idle() bool {
	return d.state == workerIdle || d.state == workerWorking || d.state == workerDone
}

// AppendState implements Program.
func (d *driver) AppendState(dst []byte) []byte {
	dst = append(append(dst, d.state...), 0, byte(d.issued), byte(d.tried))
	return d.appendState(binary.LittleEndian.AppendUint64(dst, uint64(d.wake)))
}

// Copy implements Program.
func (d *driver) Copy() Program { twin := *d; return &twin }

// reservation is the store of the mutex: adding fails where a service of the
// name exists, but for the bug against which the owner check is meant: two drivers
// that add at the same time both hear of success. The later one's name is kept.
type reservation struct{ blobs }

// Choices implements Store.
func (r *reservation) Choices(a *core.Action, crowded bool) int {
	if a.Kind == core.ActionCreate && crowded && r.Object(a.Key) != nil {
		return 2
	}
	return 1
}

// Odd says what a choice is.
func (r *reservation) Odd(int) string { return "two that add at the same time both hear of success" }

// Apply implements Store.
func (r *reservation) Apply(now int64, a *core.Action, choice int) (Store, core.Event) {
	asked := *a
	if choice == 1 {
		asked.Kind = core.ActionPut
	}
	next, reply := r.blobs.Apply(now, &asked, 0)
	reply.Stamp = 0
	return &reservation{next.(blobs)}, reply
}

// AppendState implements Store.
func (r *reservation) AppendState(dst []byte) []byte {
	return append(dst, r.Object(dataSet)...)
}

// mutexScenario is two drivers and one reservation. With tries above 0 they
// continue without the mutex after that many, as the sample does after 100.
func mutexScenario(checked bool, tries int) *Scenario {
	sc := &Scenario{
		Name: "mutex", About: "two drivers; adding twice at the same time may succeed twice",
		Store: &reservation{newBlobs(1)}, Tick: second, Horizon: 8, Odd: 1, Pauses: 3, OutOfOrder: true,
		Words: workerWords{object: "the service MUTEX", held: "changes the reservation", done: "is done"},
	}
	if !checked {
		sc.Name = "mutex-unchecked"
	}
	for _, id := range []string{"X", "Y"} {
		name := "driver " + id
		sc.Actors = append(sc.Actors, Actor{
			Name:  name,
			Start: func() (Program, error) { return newDriver(name, id, checked, tries), nil },
			Tell: []Command{
				{Event: core.Event{Kind: core.EventAcquire}},
				{Event: core.Event{Kind: core.EventRelease}, In: workerWorking, Words: name + " leaves the with block"},
			},
		})
	}
	return sc
}
