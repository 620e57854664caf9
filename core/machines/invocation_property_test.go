package machines

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lockfile"
	hosts "github.com/mopslock/mopslock/tests/world"
	"pgregory.net/rapid"
)

// An invocationSim is a world of orchestrators and their remotes in which rapid
// decides what happens next.
type invocationSim struct {
	*world
	rt      *rapid.T
	strict  bool
	creates bool // the store can create, so the first result stays
	ttl     time.Duration
	session *actor // that some of them stand on, or nil
	living  []*actor
	lost    map[*actor]core.Reason // why it does not hold or keep the lease any more
	works   map[*actor]bool        // its work runs
	result  []byte                 // the first that was there
	born    int
}

// TestInvocationsStormy: under any order of answers, losses, thefts, ends of work
// and crashes nobody is stranded, who is out of contact launches nothing, found is
// said only when there is a result, who lost to another writes none, the first
// result stays where the store can create, and when the storm is over the next
// caller gets one.
func TestInvocationsStormy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &invocationSim{
			world: newWorld(rt), rt: rt, strict: rapid.Bool().Draw(rt, "strict"), lost: map[*actor]core.Reason{}, works: map[*actor]bool{},
			ttl: rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, time.Minute}).Draw(rt, "ttl"),
		}
		s.creates = s.strict || rapid.Bool().Draw(rt, "creates")
		s.stamps = rapid.Bool().Draw(rt, "stamps")
		if s.strict && rapid.Bool().Draw(rt, "session") {
			s.session = s.strictly("s", func(c *core.Config) { c.Machine, c.TTL = core.MachineSession, core.TTL(s.ttl) })
			s.promptly(s.session, core.Event{Kind: core.EventBegin})
		}
		for range rapid.IntRange(10, 250).Draw(rt, "steps") {
			s.oneThing()
			s.checkResult()
		}
		s.settle()
	})
}

func (s *invocationSim) dice(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.rt, what) }

func (s *invocationSim) config() core.Config {
	cfg := core.Config{
		Machine: core.MachineInvocation,
		Terms: core.Terms{
			Role: core.RoleOwner, Name: "n", TTL: core.TTL(s.ttl), Protocol: core.ProtocolLastWriter,
			MemoFailures: s.dice(4, "memo") == 0,
		},
		Creates: s.creates,
	}
	if s.dice(3, "observed") == 0 {
		cfg.Expiry = core.ExpiryObserved
	}
	if s.strict {
		cfg.Protocol = core.ProtocolStrict
		cfg.OnSession = s.session != nil && s.dice(2, "on session") == 0
		cfg.LockFilePresent = s.dice(5, "beside") == 0
		return cfg
	}
	if s.dice(3, "blind") == 0 {
		cfg.Renewal = core.RenewalBlind
	}
	if s.dice(3, "acquire margin") == 0 {
		cfg.AcquireMargin = time.Second
	}
	return cfg
}

// arrive makes an orchestrator, or a remote of one whose work runs.
func (s *invocationSim) arrive() {
	cfg := s.config()
	for _, a := range s.living {
		if v := a.machine.(*invocation.Invocation); s.works[a] && v.Cfg.Role == core.RoleOwner && v.Holder != "" && s.dice(2, "remote") == 0 {
			cfg.Role, cfg.Holder, cfg.Epoch, cfg.OnSession = core.RoleRemote, v.Holder, 1, false
			cfg.WithoutLease = s.dice(5, "without") == 0
			if cfg.WithoutLease && s.dice(3, "no holder") == 0 {
				cfg.Holder, cfg.Epoch = "", 0
			}
			break
		}
	}
	a := s.birth(cfg)
	s.tell(a, core.Event{Kind: core.EventBegin, Wait: rapid.SampledFrom([]time.Duration{0, 30 * time.Second, core.Forever}).Draw(s.rt, "wait")})
}

func (s *invocationSim) birth(cfg core.Config) *actor {
	s.born++
	a, err := s.add("m"+string(rune('a'+s.born%26))+string(rune('a'+s.born/26)), cfg)
	if err != nil {
		s.rt.Fatal(err)
	}
	if cfg.OnSession {
		a.strict.stands = s.session
	}
	s.living = append(s.living, a)
	return a
}

// tell steps a machine and holds what it says to the store.
func (s *invocationSim) tell(a *actor, ev core.Event) {
	actions, err := s.step(a, ev)
	if err != nil {
		s.fail("%s: %v", a.name, err)
	}
	s.observe(a, actions)
}

func (s *invocationSim) observe(a *actor, actions []core.Action) {
	gone := has(actions, core.ActionLost)
	if has(actions, core.ActionLaunch) && (gone || has(actions, core.ActionContactLost)) {
		s.fail("LaunchInContact: %s launches in the Step of its loss", a.name)
	}
	for _, action := range actions {
		switch action.Kind {
		case core.ActionAbsent:
			if gone && action.Reason == core.ReasonNone {
				s.fail("LostIsNotAbsent: %s", a.name)
			}
		case core.ActionHeld:
			delete(s.lost, a)
		case core.ActionContactLost:
			s.lost[a] = core.ReasonUnreachable
		case core.ActionLost:
			s.lost[a] = action.Reason
		case core.ActionLaunch:
			s.launched(a)
		case core.ActionCreateResult, core.ActionPutResult:
			s.checkOffer(a, action.Kind)
		case core.ActionFound:
			if _, there := s.store[action.Key]; !there {
				s.fail("FoundIsThere: %s: %s", a.name, action.Key)
			}
		}
	}
	waits := a.machine.String() == core.InvocationLaunched.String() || a.wake != base.Unset || len(a.flying) > 0
	if !a.machine.Idle() && !waits {
		s.fail("Stranded: %s is %s, with nothing in flight and no wake", a.name, a.machine)
	}
	twin := a.machine.Clone()
	if !bytes.Equal(twin.AppendState(nil), a.machine.AppendState(nil)) || twin.Idle() != a.machine.Idle() {
		s.fail("CloneIsEqual: %s", a.name)
	}
}

// launched: who works without a lease has none that it could be out of.
func (s *invocationSim) launched(a *actor) {
	if s.works[a] {
		s.fail("LaunchedTwice: %s", a.name)
	}
	s.works[a] = true
	if a.machine.(*invocation.Invocation).Cfg.WithoutLease {
		delete(s.lost, a)
	}
	if why, out := s.lost[a]; out {
		s.fail("LaunchInContact: %s launches, and had lost its lease: %s", a.name, why)
	}
}

// checkOffer: nothing is put at the shared keys by who lost to another, and by
// nobody out of his lease where the last result wins; but a remote whose
// orchestrator has released goes on.
func (s *invocationSim) checkOffer(a *actor, verb core.ActionKind) {
	why, out := s.lost[a]
	released := why == core.ReasonReleased && a.machine.(*invocation.Invocation).IsRemote()
	switch {
	case why == core.ReasonTaken || why == core.ReasonBroken:
		s.fail("LoserWritesNothing: %s", a.name)
	case out && !released && verb == core.ActionPutResult:
		s.fail("LateResultNeedsCreate: %s: %s", a.name, why)
	}
}

func (s *invocationSim) oneThing() {
	if len(s.living) == 0 || s.dice(8, "arrive") == 0 && len(s.living) < 5 {
		s.arrive()
		return
	}
	if s.session != nil && s.dice(3, "session") > 0 {
		s.keepSession()
	}
	a := s.living[s.dice(len(s.living), "who")]
	switch what := s.dice(12, "what"); {
	case what < 5 && len(a.flying) > 0:
		r := a.flying[s.dice(len(a.flying), "which")]
		s.apply(r)
		a.flying = without(a.flying, r)
		s.tell(a, r.reply)
	case what == 5 && len(a.flying) > 0:
		r := a.flying[s.dice(len(a.flying), "which")]
		if s.dice(2, "applied") == 0 {
			s.apply(r)
		}
		a.flying = without(a.flying, r)
		class := rapid.SampledFrom([]core.Class{core.ClassOther, core.ClassUnreachable, core.ClassThrottled, core.ClassFull}).Draw(s.rt, "class")
		s.tell(a, core.Event{Kind: core.EventAnswer, Request: r.Request, Outcome: core.OutcomeUnknown, Class: class})
	case what == 6:
		s.now += int64(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, s.ttl / 3, 2 * s.ttl}).Draw(s.rt, "pause"))
	case what == 7 && s.works[a]:
		delete(s.works, a)
		s.tell(a, core.Event{Kind: core.EventEnded, Outcome: core.Outcome(1 + s.dice(2, "well")), Result: s.dice(2, "result") == 0})
	case what == 8 && s.dice(3, "theft") == 0:
		s.theft()
	case what == 8:
		s.tell(a, core.Event{Kind: core.EventChanged})
	case what == 9 && s.dice(4, "end") == 0:
		s.depart(a)
	default:
		if a.wake != base.Unset {
			s.now = max(s.now, s.trueAt(a, a.wake))
		}
		s.tell(a, core.Event{Kind: core.EventWoke})
	}
}

// keepSession is the session's host, which is on time more often than not.
func (s *invocationSim) keepSession() {
	if s.session.wake != base.Unset && s.trueAt(s.session, s.session.wake) <= s.now && s.dice(4, "late") > 0 {
		s.stepSession(func() ([]core.Action, error) { return s.step(s.session, core.Event{Kind: core.EventWoke}) })
	}
	for len(s.session.flying) > 0 && s.dice(5, "answered") > 0 {
		s.stepSession(func() ([]core.Action, error) { return s.answer(s.session, s.session.flying[0]) })
	}
}

// stepSession passes on what a session says to those who stand on it.
func (s *invocationSim) stepSession(step func() ([]core.Action, error)) {
	if _, err := step(); err != nil {
		s.fail("session: %v", err)
	}
	relays := s.relays
	s.relays = nil
	for _, r := range relays {
		s.observe(r.actor, r.actions)
	}
}

// theft: somebody else has the name. Under strict he breaks the lease, claims the
// name and dies; under lastwriter he was slow to claim, and writes over what is there.
func (s *invocationSim) theft() {
	if !s.strict {
		if _, there := s.store["n/"+core.LockFile]; there {
			at := worldStart + s.now
			thief := lockfile.Own{Holder: "thief", WrittenAt: at, FirstWrittenAt: at, AcquiredAt: at, TTL: s.ttl, Count: 1}
			s.store["n/"+core.LockFile] = hosts.Object{Body: lockfile.Append(nil, &thief), Stamp: s.stamp()}
		}
		return
	}
	s.born++
	breaker := s.strictly(fmt.Sprintf("breaker%d", s.born), func(c *core.Config) { c.Machine, c.Why, c.Now = core.MachineRevocation, "stuck", true })
	s.promptly(breaker, core.Event{Kind: core.EventBegin})
	thief := s.strictly(fmt.Sprintf("thief%d", s.born), func(c *core.Config) { c.TTL = core.TTL(s.ttl) })
	s.promptly(thief, core.Event{Kind: core.EventAcquire})
	s.gone(breaker, thief)
}

// depart crashes a machine, or cancels it.
func (s *invocationSim) depart(a *actor) {
	if s.dice(2, "crash") == 0 {
		s.tell(a, core.Event{Kind: core.EventCancel})
		delete(s.works, a)
		return
	}
	s.bury(a)
}

func (s *invocationSim) bury(a *actor) {
	delete(s.works, a)
	s.living = slices.DeleteFunc(s.living, func(x *actor) bool { return x == a })
	s.gone(a)
}

func (s *invocationSim) checkResult() {
	now := s.store["n/"+core.ResultFile].Body
	if s.creates && s.result != nil && !bytes.Equal(now, s.result) {
		s.fail("FirstResultWins: %q became %q", s.result, now)
	}
	s.result = now
}

// settle crashes everybody and lets one more caller come, whose work goes well.
func (s *invocationSim) settle() {
	for len(s.living) > 0 {
		s.bury(s.living[0])
	}
	if s.session != nil {
		s.gone(s.session)
	}
	cfg := s.config()
	cfg.MemoFailures, cfg.OnSession = false, false
	a := s.birth(cfg)
	s.tell(a, core.Event{Kind: core.EventBegin, Wait: core.Forever})
	found := false
	end := s.now + int64(3*s.ttl) + int64(2*time.Minute)
	for s.now <= end && !found {
		s.drive(int64(10*time.Millisecond), end, func(a *actor, actions []core.Action) bool {
			s.observe(a, actions)
			for _, action := range actions {
				found = found || action.Kind == core.ActionFound
			}
			return found || s.works[a]
		})
		if s.works[a] {
			delete(s.works, a)
			s.tell(a, core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes, Result: true})
		} else if !found {
			break
		}
	}
	s.checkResult()
	if !found || s.result == nil {
		s.fail("NextCallerGetsIt: %s", a.machine)
	}
}
