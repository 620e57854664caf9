package buckets

import (
	"maps"
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// Machine is Buckets behind messages, for languages that have no Buckets of their
// own. It is for one name, and its holders are texts. It asks no store, sets no timer
// and has one state. Each step ends in counted, which has the counters after the step.
type Machine struct {
	base.Machine
	Buckets  texts
	counters []uint32 `state:"scratch: room for the counters of counted"`
	body     []byte   `state:"scratch: room for their text"`
}

// texts are buckets whose holders are texts.
type texts struct{ Buckets[string] }

// New makes a machine of buckets with nothing held. It needs only the seed of the
// Config, as every machine does: there is no name, and no TTL.
func New(cfg core.Config) (*Machine, error) {
	cfg.Machine, cfg.Protocol = core.MachineBuckets, core.ProtocolStrict
	m, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Machine{Machine: m}, nil
}

// String implements Machine.
func (b *Machine) String() string { return core.BucketsReady.String() }

// State returns the machine's state.
func (b *Machine) State() core.BucketsState { return core.BucketsReady }

// Step implements Machine.
func (b *Machine) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := b.Admit(now, &ev); err != nil {
		return nil, err
	}
	if err := b.check(&ev); err != nil {
		return nil, err
	}
	b.Begin(now)
	switch ev.Kind {
	case core.EventAcquire:
		b.acquire(&ev)
	case core.EventRelease:
		if b.Buckets.Release(string(ev.Holder), ev.Weight) {
			b.Emit(core.ActionReleased)
		} else {
			b.Emit(core.ActionRefused).Reason = core.ReasonOutOfBuckets
		}
	case core.EventDown:
		b.Buckets.Down(string(ev.Holder))
		b.Emit(core.ActionReleased)
	}
	b.count()
	return b.Finish(), nil
}

// check refuses an event that breaks the contract, before anything is changed.
func (b *Machine) check(ev *core.Event) error {
	switch ev.Kind {
	case core.EventAcquire, core.EventRelease, core.EventDown, core.EventChanged, core.EventWoke:
	default:
		return base.ErrEvent(b.String(), ev.Kind)
	}
	kind := ev.Kind.String()
	switch {
	case !bucketsKnow(*ev):
		return &core.Error{Code: core.ErrorEvent, Text: kind + ": only acquire has a capacity and a width, down has no weight, and buckets know no wait, brief, permit, spare, limit and label"}
	case !octets.IsText(string(ev.Holder), core.MaxHolder):
		return &core.Error{Code: core.ErrorEvent, Text: kind + ": holder: at most 512 bytes of UTF-8"}
	case ev.Kind == core.EventDown && len(ev.Holder) == 0:
		return &core.Error{Code: core.ErrorEvent, Text: kind + ": without a holder"}
	case ev.Kind != core.EventAcquire:
		return nil
	}
	if err := core.CheckView(ev.Capacity, ev.Width); err != nil {
		return err
	}
	if b.crowded(ev) {
		return &core.Error{Code: core.ErrorEvent, Text: kind + ": at most " + strconv.FormatUint(core.MaxAsked, 10) + " holders at once"}
	}
	return nil
}

// bucketsKnow reports whether the event has only fields that buckets know. A caller that
// asks to wait, or for a permit by its number, must not get an answer that ignores this.
func bucketsKnow(ev core.Event) bool {
	switch ev.Kind {
	case core.EventAcquire:
		ev.Capacity, ev.Width, ev.Weight, ev.Holder = 0, 0, 0, nil
	case core.EventRelease:
		ev.Weight, ev.Holder = 0, nil
	case core.EventDown:
		ev.Holder = nil
	}
	return ev.Wait == 0 && !ev.Brief && !ev.Asks()
}

// crowded reports whether this acquire would make one holder too many. An acquire that
// is refused for another reason makes none.
func (b *Machine) crowded(ev *core.Event) bool {
	return b.Buckets.Holders() >= core.MaxAsked && b.Buckets.HeldBy(string(ev.Holder)) == 0 &&
		b.Buckets.judge(ev.Capacity, ev.Width, ev.Weight) == core.ReasonNone
}

func (b *Machine) acquire(ev *core.Event) {
	total, reason := b.Buckets.Acquire(ev.Capacity, ev.Width, ev.Weight, string(ev.Holder))
	if reason != core.ReasonNone {
		b.Emit(core.ActionRefused).Reason = reason
		return
	}
	b.Emit(core.ActionGranted).Total = total
}

// count emits the counters as text, such as [4,1].
func (b *Machine) count() {
	b.counters = b.Buckets.AppendCounters(b.counters[:0], core.MaxCounters)
	b.body = append(b.body[:0], '[')
	for i, n := range b.counters {
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = strconv.AppendUint(b.body, uint64(n), 10)
	}
	b.body = append(b.body, ']')
	a := b.Emit(core.ActionCounted)
	a.Count, a.Total, a.Body = uint64(b.Buckets.Highest()), b.Buckets.Held(), b.body
}

// WriteState writes the state of b. With nothing held the counters' scale has no meaning.
func (b *texts) WriteState(w *core.StateWriter) {
	all := b.shares()
	w.Int(int64(len(all)))
	for i := range all {
		w.Text(all[i].holder)
		w.Uint(all[i].weight)
	}
	w.Uint(b.held)
	w.Uint(uint64(b.highest))
	if b.held > 0 {
		w.Uint(uint64(b.capacity))
	}
	w.Bool(b.passed)
}

// Detach gives b, a copy, a map of its own.
func (b *texts) Detach() { b.others = maps.Clone(b.others) }

// shares returns what each holder holds, sorted by the holders' bytes: a map has no order.
func (b *texts) shares() []share[string] {
	all := make([]share[string], 0, b.Holders())
	if b.first.weight > 0 {
		all = append(all, b.first)
	}
	for holder, weight := range b.others {
		all = append(all, share[string]{holder, weight})
	}
	for i := range all { // package slices' sort would cost the WASM guest kilobytes
		for j := i; j > 0 && all[j].holder < all[j-1].holder; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}
