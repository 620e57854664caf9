package core

// BucketsMachine is Buckets behind messages, for languages that have none of their
// own: one name, whose holders are texts. It asks no store and sets no timer, and
// has one state. Each step ends in counted, which says how things stand after it.
type BucketsMachine struct {
	machine
	buckets  Buckets[string]
	counters []uint32 // room for what counted shows
	body     []byte   // and for its text
}

// NewBucketsMachine makes a machine of buckets with nothing held. Of the Config it
// needs the seed alone, which every machine has: there is no name, and no TTL.
func NewBucketsMachine(cfg Config) (*BucketsMachine, error) {
	cfg.Machine, cfg.Protocol = MachineBuckets, ProtocolStrict
	m, err := newMachine(cfg)
	if err != nil {
		return nil, err
	}
	return &BucketsMachine{machine: m}, nil
}

// String implements Machine.
func (b *BucketsMachine) String() string { return BucketsReady.String() }

// State is where the machine stands.
func (b *BucketsMachine) State() BucketsState { return BucketsReady }

// Step implements Machine.
func (b *BucketsMachine) Step(now Instant, ev Event) ([]Action, error) {
	if err := b.admit(now, &ev); err != nil {
		return nil, err
	}
	if err := b.check(&ev); err != nil {
		return nil, err
	}
	b.begin(now)
	switch ev.Kind {
	case EventAcquire:
		b.acquire(&ev)
	case EventRelease:
		if b.buckets.Release(string(ev.Holder), ev.Weight) {
			b.emit(ActionReleased)
		} else {
			b.emit(ActionRefused).Reason = ReasonOutOfBuckets
		}
	case EventDown:
		b.buckets.Down(string(ev.Holder))
		b.emit(ActionReleased)
	}
	b.count()
	return b.finish(), nil
}

// check refuses what breaks the contract, before anything is changed.
func (b *BucketsMachine) check(ev *Event) error {
	switch ev.Kind {
	case EventAcquire, EventRelease, EventDown, EventChanged, EventWoke:
	default:
		return errEvent(b.String(), ev.Kind)
	}
	kind := ev.Kind.String()
	switch {
	case !bucketsKnow(*ev):
		return &Error{Code: ErrorEvent, Text: kind + ": only acquire has a capacity and a width, down has no weight, and buckets know no wait, brief, permit, spare, limit and label"}
	case !isText(string(ev.Holder), MaxHolder):
		return &Error{Code: ErrorEvent, Text: kind + ": holder: at most 512 bytes of UTF-8"}
	case ev.Kind == EventDown && len(ev.Holder) == 0:
		return &Error{Code: ErrorEvent, Text: kind + ": without a holder"}
	case ev.Kind != EventAcquire:
		return nil
	}
	if err := CheckView(ev.Capacity, ev.Width); err != nil {
		return err
	}
	if b.crowded(ev) {
		return &Error{Code: ErrorEvent, Text: kind + ": at most " + uintText(MaxAsked) + " holders at once"}
	}
	return nil
}

// bucketsKnow reports whether nothing is set but what this event to buckets has: who
// asks to wait, or for a permit by its number, must not be answered as if he had not.
func bucketsKnow(ev Event) bool {
	switch ev.Kind {
	case EventAcquire:
		ev.Capacity, ev.Width, ev.Weight, ev.Holder = 0, 0, 0, nil
	case EventRelease:
		ev.Weight, ev.Holder = 0, nil
	case EventDown:
		ev.Holder = nil
	}
	return ev.Wait == 0 && !ev.Brief && !ev.asks()
}

// crowded reports whether this acquire would make one holder too many. Who is
// refused for another reason makes none.
func (b *BucketsMachine) crowded(ev *Event) bool {
	return b.buckets.holders() >= MaxAsked && b.buckets.HeldBy(string(ev.Holder)) == 0 &&
		b.buckets.judge(ev.Capacity, ev.Width, ev.Weight) == ReasonNone
}

func (b *BucketsMachine) acquire(ev *Event) {
	total, reason := b.buckets.Acquire(ev.Capacity, ev.Width, ev.Weight, string(ev.Holder))
	if reason != ReasonNone {
		b.emit(ActionRefused).Reason = reason
		return
	}
	b.emit(ActionGranted).Total = total
}

// count tells the counters as text, like [4,1].
func (b *BucketsMachine) count() {
	b.counters = b.buckets.AppendCounters(b.counters[:0], MaxCounters)
	b.body = append(b.body[:0], '[')
	for i, n := range b.counters {
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = appendDecimal(b.body, uint64(n))
	}
	b.body = append(b.body, ']')
	a := b.emit(ActionCounted)
	a.Count, a.Total, a.Body = uint64(b.buckets.Highest()), b.buckets.Held(), b.body
}

// AppendState implements Machine.
func (b *BucketsMachine) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineBuckets))
	b.machine.snapshot(&s)
	all := b.shares()
	s.int(int64(len(all)))
	for i := range all {
		s.text(all[i].holder)
		s.uint(all[i].weight)
	}
	s.uint(b.buckets.held)
	s.uint(uint64(b.buckets.highest))
	// With nothing held the scale has no meaning.
	capacity := b.buckets.capacity
	if b.buckets.held == 0 {
		capacity = 0
	}
	s.uint(uint64(capacity))
	s.bools(b.buckets.passed)
	return s
}

// shares is who holds what, in the order of the holders' bytes: a map has none.
func (b *BucketsMachine) shares() []share[string] {
	all := make([]share[string], 0, b.buckets.holders())
	if b.buckets.first.weight > 0 {
		all = append(all, b.buckets.first)
	}
	for holder, weight := range b.buckets.others {
		all = append(all, share[string]{holder, weight})
	}
	for i := range all { // package slices' sort would cost the WASM guest kilobytes
		for j := i; j > 0 && all[j].holder < all[j-1].holder; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// Clone implements Machine.
func (b *BucketsMachine) Clone() Machine {
	twin := *b
	twin.out, twin.counters, twin.body = nil, nil, nil
	twin.buckets = b.buckets.clone()
	return &twin
}
