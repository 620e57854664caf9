package register

import "github.com/mopslock/mopslock/core"

// What is known of the store's clock is its stamps: when an answer came, the clock showed
// each stamp in it, or later. From then on lowerBound tells what it shows at least.

// StoreClockSample says that at the Mono at the store's clock showed stamp or later.
type StoreClockSample struct{ Stamp, At int64 }

// reaches is the earliest Mono at which lowerBound is at least stamp.
func (s StoreClockSample) reaches(stamp int64) int64 {
	left := stamp - s.Stamp
	if left <= 0 {
		return s.At
	}
	return s.At + left + left/(core.RateInverse-1) + 2
}

// better is the sample that bounds the store's clock more closely.
func better(a, b StoreClockSample) StoreClockSample {
	switch {
	case a.At == 0:
		return b
	case b.At == 0 || a.Stamp+(max(a.At, b.At)-a.At) >= b.Stamp+(max(a.At, b.At)-b.At):
		return a
	}
	return b
}

// Learn notes what an answer tells of the store's clock: it was past this stamp.
func (r *Register) Learn(ev *core.Event) {
	newest := ev.Stamp
	for i := range ev.Entries {
		newest = max(newest, ev.Entries[i].Stamp)
	}
	if newest != 0 && r.Now.Mono != 0 {
		r.Fresh = better(r.Fresh, StoreClockSample{newest, r.Now.Mono})
	}
}

// TakeSample makes what was learned of the store's clock serve observations from now on.
func (r *Register) TakeSample() {
	r.Sample, r.Fresh = better(r.Sample, r.Fresh), StoreClockSample{}
}

// storeClock is what is known of the store's clock, if that can be relied on.
func (r *Register) storeClock() StoreClockSample {
	if r.Cfg.Expiry != core.ExpiryCalibrated {
		return StoreClockSample{}
	}
	return better(r.Sample, r.Fresh)
}
