package explore

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options says what Run explores, and how far.
type Options struct {
	Protocol string // one of Protocols
	Seed     uint64 // of the machines' ids and jitter
	// MaxStates is the most distinct states, of all scenarios together; 0 is
	// DefaultStates, or with For no bound. Depth is the most transitions from the
	// beginning; 0 is no bound.
	MaxStates int
	Depth     int
	// For, if not 0, is how long it may take, of all scenarios together.
	For time.Duration
	// MaxBytes is the most memory that the states may take, as far as it is counted;
	// 0 is DefaultBytes.
	MaxBytes int64
	// Progress, if set, is called now and then with the states seen so far. It may
	// be called from several goroutines, one at a time.
	Progress func(states int)
}

// DefaultStates is how many states Run sees without being told.
const DefaultStates = 20_000_000

// DefaultBytes is how much memory Run takes for states without being told.
const DefaultBytes = 4 << 30

// Protocols are the names that Run knows.
func Protocols() []string {
	return []string{
		"strict", "lastwriter", "lastwriter-blind", "riak-1", "riak-2", "riak-3", "riak-4", "mutex", "mutex-unchecked",
		"invocation", "semaphore", "canal-lock", "buckets",
	}
}

// scenarios are what is explored of a protocol.
func scenarios(protocol string, seed uint64) []*Scenario {
	switch protocol {
	case "strict":
		return strictScenarios(seed)
	case "lastwriter":
		return []*Scenario{lastwriterPromised(seed)}
	case "lastwriter-blind":
		return []*Scenario{lastwriterBlind(seed)}
	case "invocation":
		return invocationScenarios(seed)
	case "semaphore":
		return semaphoreScenarios(seed)
	case "canal-lock":
		return canalScenarios()
	case "buckets":
		return limiterScenarios()
	case "riak-1", "riak-2", "riak-3", "riak-4":
		return []*Scenario{riakScenario(int(protocol[len(protocol)-1]-'0'), false)}
	case "mutex":
		return []*Scenario{mutexScenario(true, mutexTries)}
	case "mutex-unchecked":
		return []*Scenario{mutexScenario(false, mutexTries)}
	}
	return nil
}

// mutexTries stands for the sample's hundred.
const mutexTries = 3

// Result is what Run has found.
type Result struct {
	Protocol       string
	States         int
	Transitions    int
	Depth          int
	Exhausted      bool // nothing was left out within the scenarios' bounds
	Elapsed        time.Duration
	Scenarios      []*Found // in order, those that were explored
	Counterexample *Found   // nil if there is none: the shortest
}

// Run explores a protocol: each of its scenarios with an equal share of the
// states, two at a time. An error says that nothing could be explored.
func Run(ctx context.Context, o Options) (Result, error) {
	all := scenarios(o.Protocol, o.Seed)
	if all == nil {
		return Result{}, fmt.Errorf("explore: protocol %q is not known: choose %s", o.Protocol, strings.Join(Protocols(), ", "))
	}
	if o.MaxStates == 0 && o.For == 0 {
		o.MaxStates = DefaultStates
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultBytes
	}
	began := time.Now()
	r := Result{Protocol: o.Protocol, Exhausted: true}
	found, err := searchAll(ctx, all, &o)
	if err != nil {
		return Result{}, err
	}
	for _, f := range found {
		r.States += f.States
		r.Transitions += f.Transitions
		r.Depth = max(r.Depth, f.Depth)
		r.Exhausted = r.Exhausted && f.Exhausted
		if f.Violation != nil && (r.Counterexample == nil || len(f.Trace) < len(r.Counterexample.Trace)) {
			r.Counterexample = f
		}
	}
	r.Scenarios, r.Elapsed = found, time.Since(began)
	return r, nil
}

// shares are what is left of the bounds for the scenarios that are still to come.
type shares struct {
	sync.Mutex
	o      *Options
	states int
	until  time.Time
	seen   int
	waits  int // scenarios
	side   int // how many are explored side by side
}

// next is the share of the next scenario: of time as much more as others run beside it.
func (s *shares) next() Limits {
	s.Lock()
	defer s.Unlock()
	limits := Limits{Depth: s.o.Depth, MaxBytes: s.o.MaxBytes / int64(s.side)}
	if s.o.MaxStates != 0 {
		limits.MaxStates = max(1, s.states/s.waits)
		s.states -= limits.MaxStates
	}
	if s.o.For != 0 {
		rounds := (s.waits + s.side - 1) / s.side
		limits.For = max(1, time.Until(s.until)/time.Duration(rounds))
	}
	s.waits--
	if s.o.Progress != nil {
		limits.Progress = func(int, int) {
			s.Lock()
			defer s.Unlock()
			s.seen += progressEvery
			s.o.Progress(s.seen)
		}
	}
	return limits
}

// back returns what a scenario did not need.
func (s *shares) back(states int) {
	s.Lock()
	defer s.Unlock()
	s.states += max(0, states)
}

// searchAll explores scenarios side by side; each has all of its state to itself.
// A share that one does not need goes to those that are still to come.
func searchAll(ctx context.Context, all []*Scenario, o *Options) ([]*Found, error) {
	var (
		found  = make([]*Found, len(all))
		errs   = make([]error, len(all))
		next   atomic.Int64
		worker sync.WaitGroup
		left   = shares{o: o, states: o.MaxStates, until: time.Now().Add(o.For), waits: len(all), side: min(len(all), runtime.GOMAXPROCS(0))}
	)
	for range left.side {
		worker.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				limits := left.next()
				if found[i], errs[i] = Search(ctx, all[i], limits); errs[i] == nil {
					left.back(limits.MaxStates - found[i].States)
				}
			}
		})
	}
	worker.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
