package explore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// story is a play in which somebody is killed.
type story struct {
	name  string
	parts func(ttl int64) []*part
	kills []string // who
	// exact: as often as exact says the work is done; else at most twice.
	exact bool
}

// stories, in which who wants the result is A, what does the work is R, and Z is
// somebody else who was there before.
func stories() []story {
	const launching = second
	asks := func(ttl int64) job { return job{after: launching, starts: "R"} }
	does := func(ttl int64) job { return job{after: 2 * ttl, result: true} }
	return []story{
		{"a remote does it", func(ttl int64) []*part {
			return []*part{{name: "A", job: asks(ttl)}, {name: "R", job: does(ttl)}}
		}, []string{"A", "R"}, true},
		{"a remote that is started late", func(ttl int64) []*part {
			late := asks(ttl)
			late.delay = 2 * ttl
			return []*part{{name: "A", job: late}, {name: "R", job: does(ttl)}}
		}, []string{"A"}, true},
		{"a remote that is never started", func(ttl int64) []*part {
			return []*part{{name: "A", job: job{after: launching}}}
		}, []string{"A"}, true},
		{"a remote whose work stores the result itself", func(ttl int64) []*part {
			return []*part{{name: "A", job: asks(ttl)}, {name: "R", job: job{after: 2 * ttl, stores: true}}}
		}, []string{"R"}, true},
		{"a remote whose work ends as it renews", func(ttl int64) []*part {
			r := does(ttl)
			r.renewing = true
			return []*part{{name: "A", job: asks(ttl)}, {name: "R", job: r}}
		}, []string{"R"}, true},
		{"it does the work itself", func(ttl int64) []*part {
			return []*part{{name: "A", job: does(ttl)}}
		}, []string{"A"}, true},
		{"it waits for another", func(ttl int64) []*part {
			return []*part{{name: "Z", job: does(ttl)}, {name: "A", job: asks(ttl)}, {name: "R", job: does(ttl)}}
		}, []string{"A"}, true},
		{"it is cancelled", func(ttl int64) []*part {
			return []*part{{name: "A", job: asks(ttl), cancelAt: ttl}, {name: "R", job: does(ttl)}}
		}, []string{"A"}, false},
		{"its remote is cancelled", func(ttl int64) []*part {
			return []*part{{name: "A", job: asks(ttl)}, {name: "R", job: does(ttl), cancelAt: ttl}}
		}, []string{"R"}, false},
	}
}

// tell plays a story in which some are killed, each after so many events, and a
// next caller comes so many TTLs later. It says whether all were.
func (k *killings) tell(s *story, lands bool, ttls int64, kills map[string]int) bool {
	k.t.Helper()
	m := k.maker
	ttl := int64(m.config("A").TTL)
	p := &play{t: k.t, maker: m, store: newBlobs(1), lands: lands, comes: ttls * ttl, wanted: len(kills), states: map[string]int{}}
	if m.strict() {
		p.store = newBlobs(strictUnit)
	}
	p.parts = append(s.parts(ttl), &part{name: "C", job: job{after: second, starts: "S"}}, &part{name: "S", job: job{after: 2 * ttl, result: true}})
	for i, q := range p.parts {
		q.wake, q.crashAt = noWake, never
		if n, killed := kills[q.name]; killed {
			q.crashAt = n
		}
		if q.name == "A" || q.name == "Z" {
			p.at(int64(i)*2*second, func() { p.begin(q, nil) })
		}
	}
	p.run()
	if p.crashes < p.wanted {
		return false
	}
	s.judge(p, kills)
	k.plays++
	k.worst = max(k.worst, p.part("C").saidAt-p.part("C").began)
	for state, n := range p.states {
		k.states[state] += n
	}
	return true
}

// bound is within how long after it came the next caller has found the
// result: what still works may keep the lease until its work ends, and what died
// last for a TTL and what clocks and stamps err by; the waiter looks again within
// its longest pause; then it takes over, and all is done once more.
func bound(m *invocationMaker) int64 {
	ttl := int64(m.config("A").TTL)
	const pause, requests = 22 * second * 6 / 5, 40 * latency
	slop := ttl/50 + 2*strictUnit
	taking := int64(m.config("A").AcquireMargin)
	return 2*ttl + ttl + slop + pause + taking + 2*ttl + min(pause, ttl/3) + requests
}

// judge holds what a play came to against what is promised.
func (s *story) judge(p *play, kills map[string]int) {
	p.t.Helper()
	what := fmt.Sprintf("%s, kills %v, lands %t", s.name, kills, p.lands)
	c := p.part("C")
	if c.said != core.ActionFound || c.key != resultOf(leaseName) || p.object() == nil {
		p.fail("%s: the next caller says %s of %s", what, c.said, c.key)
	}
	if took, most := c.saidAt-c.began, bound(p.maker); took > most {
		p.fail("%s: the next caller has it after %.1f s, more than %.1f s", what, float64(took)/1e9, float64(most)/1e9)
	}
	works, begun := 0, 0 // of those who do it themselves, and of these by those that were killed
	by := ""
	for _, q := range p.parts {
		if !q.job.result && !q.job.stores {
			continue
		}
		works += q.works
		if _, killed := kills[q.name]; killed {
			begun += q.works
		}
		if string(p.object()) == "by "+q.name {
			by = q.name
		}
	}
	_, killed := kills[by]
	switch {
	case by == "":
		p.fail("%s: %q", what, p.object())
	case !s.exact && works > 2:
		p.fail("%s: the work was done %d times", what, works)
	case s.exact && killed && works != 1, s.exact && !killed && works != 1+begun:
		p.fail("%s: the work was done %d times, %d of them by who was killed, and the result is %s's", what, works, begun, by)
	case s.exact && by == "S":
		s.needed(p, what, kills)
	}
}

// needed: the next caller does the work only if nobody is left who does.
func (s *story) needed(p *play, what string, kills map[string]int) {
	for _, q := range p.parts {
		if _, killed := kills[q.name]; q.name != "S" && !killed && q.works > 0 && (q.job.result || q.job.stores) {
			p.fail("%s: %s does the work, and is not killed, and it is done once more", what, q.name)
		}
	}
}

// TestKillAtEveryStep: who wants a result, and who works on it, are killed after
// each of their events, and both after each pair of them, with what they had sent
// applied all the same or not. The next caller always finds the result, with
// nobody's help, within the bound, and the work is done once, or once more for one
// that was killed at it.
func TestKillAtEveryStep(t *testing.T) {
	for name, m := range makers() {
		t.Run(name, func(t *testing.T) {
			k := &killings{t: t, maker: m, states: map[string]int{}}
			for _, s := range stories() {
				last := map[string]int{}
				for _, who := range s.kills {
					for n := 0; k.kill(&s, map[string]int{who: n}); n++ {
						last[who] = n
					}
				}
				if len(s.kills) == 2 {
					k.both(&s, last)
				}
			}
			k.covered()
			t.Logf("%d kills; the next caller had it after %.1f s at most, of %.1f s", k.plays, float64(k.worst)/1e9, float64(bound(m))/1e9)
		})
	}
}

// killings are all kills under one protocol.
type killings struct {
	t      *testing.T
	maker  *invocationMaker
	states map[string]int // how many were killed, by who it was and its state
	plays  int
	worst  int64 // from when the next caller came until he had it
}

// kill plays a story with what the killed had sent applied, and without, and with a
// next caller who comes at once or when all has had time to expire.
func (k *killings) kill(s *story, kills map[string]int) bool {
	k.t.Helper()
	reached := false
	for _, lands := range []bool{false, true} {
		for _, ttls := range []int64{0, 7} {
			reached = k.tell(s, lands, ttls, kills)
		}
	}
	return reached
}

// both kills both, in every pair of their events that there is.
func (k *killings) both(s *story, last map[string]int) {
	a, r := s.kills[0], s.kills[1]
	for n := range last[a] + 1 {
		for m := range last[r] + 1 {
			k.tell(s, (n+m)%2 == 0, 0, map[string]int{a: n, r: m})
		}
	}
}

// covered demands that there was a kill in every state of either role.
func (k *killings) covered() {
	for role, without := range map[string][]core.InvocationState{
		"A": {core.InvocationJoining},
		"R": {core.InvocationAcquiring, core.InvocationWaiting, core.InvocationAwaiting},
	} {
		for state := core.InvocationIdle; state <= core.InvocationRefused; state++ {
			n := k.states[role+" "+state.String()]
			if has := !slices.Contains(without, state); has != (n > 0) {
				k.t.Errorf("%s was killed %d times in state %s", role, n, state)
			}
			k.t.Logf("%s %-10s %6d", role, state, n)
		}
	}
}
