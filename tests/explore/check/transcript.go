package check

import (
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Transcript watches one client: what it says of each claim, and what it sends. Its zero value is
// ready, and Copy is independent.
type Transcript struct {
	claims []said
	asked  []question // about results, that were not answered
}

// said is what was said of a claim.
type said struct {
	number  uint64
	kind    core.EventKind // of the command
	name    string
	held    bool
	waits   bool            // for nothing but its caller
	decided core.ActionKind // found, absent or refused, of work
	end     core.ActionKind // after which nothing is said
	knows   bool            // it was answered that the result is there
	loser   bool            // its lease is another's, and it has won none since
	bridge  bool            // of its two halves, one outlives the loss of the other: it is given back
}

type question struct {
	id   core.RequestID
	verb core.ActionKind
	name string
}

// Copy is an independent copy.
func (t *Transcript) Copy() Transcript {
	return Transcript{slices.Clone(t.claims), slices.Clone(t.asked)}
}

// AppendState appends all that is remembered as canonical bytes.
func (t *Transcript) AppendState(dst []byte) []byte {
	for i := range t.claims {
		s := &t.claims[i]
		flags := byte(1)
		for bit, is := range []bool{s.held, s.waits, s.knows, s.loser} {
			if is {
				flags |= 2 << bit
			}
		}
		dst = append(dst, flags, byte(s.number), byte(s.decided), byte(s.end))
	}
	for i := range t.asked {
		dst = append(dst, 0, byte(t.asked[i].verb))
	}
	return dst
}

// Ended reports whether a claim has ended.
func (t *Transcript) Ended(number uint64) bool {
	s := t.find(number)
	return s != nil && s.end != 0
}

func (t *Transcript) find(number uint64) *said {
	for i := range t.claims {
		if t.claims[i].number == number {
			return &t.claims[i]
		}
	}
	return nil
}

// Heard tells of an event before the client is told.
func (t *Transcript) Heard(ev *core.Event) {
	if ev.Terms != nil {
		t.claims = slices.DeleteFunc(t.claims, func(s said) bool { return s.end != 0 })
		t.claims = append(t.claims, said{number: ev.Claim, kind: ev.Kind, name: ev.Terms.Name, bridge: ev.Terms.Protocol == core.ProtocolBridge})
	}
	i := slices.IndexFunc(t.asked, func(q question) bool { return q.id == ev.Request })
	if ev.Kind != core.EventAnswer || i < 0 {
		return
	}
	q := t.asked[i]
	t.asked = slices.Delete(t.asked, i, i+1)
	there := q.verb == core.ActionExists && ev.Outcome == core.OutcomeYes || q.verb == core.ActionCreateResult && ev.Outcome != core.OutcomeUnknown
	for i := range t.claims {
		if s := &t.claims[i]; s.name == q.name {
			s.knows = s.knows || there
		}
	}
}

// Watch looks at the actions of one Step, in their order.
func (t *Transcript) Watch(client core.Stepper, actions []core.Action) *Violation {
	wake := false
	for i := range actions {
		a := &actions[i]
		v := t.sent(a)
		if !a.Kind.IsRequest() && a.Claim != 0 {
			v = t.told(a)
		}
		if v != nil {
			return v
		}
		wake = wake || a.Kind == core.ActionWake
	}
	if !client.Idle() {
		return nil
	}
	if wake {
		return found(QuietWhenIdle, "a client that waits for nothing wants to be woken")
	}
	for i := range t.claims {
		if s := &t.claims[i]; s.end == 0 && !s.held && !s.waits {
			return found(QuietWhenIdle, "a client that waits for nothing has not said what became of claim %d", s.number)
		}
	}
	return nil
}

// Forgotten is asked after each Step of a client that has no request under way and wants no
// wake: every claim that has not ended has its caller to wait for, and relies on nothing.
func (t *Transcript) Forgotten() *Violation {
	for i := range t.claims {
		if s := &t.claims[i]; s.end == 0 && (s.held || !s.waits) {
			return found(QuietWhenIdle, "a client waits for nothing, and claim %d has not ended", s.number)
		}
	}
	return nil
}

// Renewed is told of each renewal: until when what is renewed was relied on before, and
// from now on. What has expired is not renewed.
func Renewed(now, before, until int64) *Violation {
	if before <= now || until <= now {
		return found(NoResurrection, "a client says renewed of what has expired")
	}
	return nil
}

// Tells is SessionFirst, told of a notice of what stands on a session, the last of these, and
// whether the session was past its deadline before this Step.
func Tells(actions []core.Action, session uint64, past bool) *Violation {
	last := len(actions) - 1
	told := slices.ContainsFunc(actions[:last], func(a core.Action) bool { return a.Claim == 0 && a.Kind == core.ActionLost && a.On == session })
	if a := &actions[last]; past && !told && !a.Kind.IsRequest() {
		return found(SessionFirst, "a client says %s of claim %d, and has not said that its session is lost", a.Kind, a.Claim)
	}
	return nil
}

// told takes a notice of a claim.
func (t *Transcript) told(a *core.Action) *Violation {
	s := t.find(a.Claim)
	if s == nil || s.end != 0 {
		return found(NoResurrection, "a client says %s of claim %d, which has ended", a.Kind, a.Claim)
	}
	work := s.kind == core.EventInvoke || s.kind == core.EventRemote
	switch a.Kind {
	case core.ActionHeld:
		if s.held && s.kind == core.EventPermit {
			return found(NoResurrection, "a client says held of permit %d, which is held", a.Claim)
		}
		s.held, s.loser = true, false
	case core.ActionLaunch:
		if s.knows {
			return found(ResultHeeded, "a client launches although it was told that the result is there")
		}
		if s.decided != 0 {
			return found(NoResurrection, "a client says %s of work after it said %s", a.Kind, s.decided)
		}
		s.waits = true
	case core.ActionContactLost:
		s.held = false
	case core.ActionLost:
		s.held = false
		s.loser = a.Reason == core.ReasonTaken || a.Reason == core.ReasonBroken
		if !work {
			s.end = a.Kind
		}
	case core.ActionFound, core.ActionAbsent, core.ActionRefused:
		switch {
		case work && s.decided != 0:
			return found(NoResurrection, "a client says %s of work after it said %s", a.Kind, s.decided)
		case work:
			s.decided = a.Kind
		case s.held:
			return found(NoResurrection, "a client says %s of claim %d, which is held", a.Kind, a.Claim)
		default:
			s.end = a.Kind
		}
	case core.ActionLeft:
		s.end = a.Kind
	case core.ActionReleased, core.ActionCannotMaintain, core.ActionLimited, core.ActionBroken:
		if !work {
			s.end = a.Kind
		}
	case core.ActionSeen:
		if s.kind == core.EventLook {
			s.end = a.Kind
		}
	}
	return nil
}

// sent takes a request.
func (t *Transcript) sent(a *core.Action) *Violation {
	if name, is := strings.CutSuffix(a.Key, "/"+core.ResultFile); is && a.Kind.IsRequest() {
		t.asked = append(t.asked, question{a.Request, a.Kind, name})
	}
	s := t.find(a.Claim)
	if s == nil || !Changes(a.Kind) {
		return nil
	}
	isResult := a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult
	switch {
	case isResult && s.loser:
		return found(LoserWritesNothing, "a client sends %s of %s, and the lease is another's", a.Kind, a.Key)
	case isResult && s.knows:
		return found(ResultHeeded, "a client sends %s of %s although it was told that there is one", a.Kind, a.Key)
	case isResult && s.decided != 0:
		return found(NoClobber, "a client sends %s of %s after it said %s", a.Kind, a.Key, s.decided)
	case s.end != 0 && s.end != core.ActionReleased && !s.releasesAfter(a):
		return found(NoClobber, "a client sends %s of %s for claim %d after it said %s", a.Kind, a.Key, a.Claim, s.end)
	}
	return nil
}

// own are the parts of keys below which each object is one process's: beats of a version's
// owner, of a session, and samples.
var own = []string{"/b.", core.SessionPrefix, core.StoreClockPrefix}

// Put is told of each put, in the store's order, and who sent it.
func (l *Ledger) Put(actor, key string) *Violation {
	if !slices.ContainsFunc(own, func(part string) bool { return strings.Contains(key, part) }) {
		return nil
	}
	i := slices.IndexFunc(l.puts, func(p put) bool { return p.key == key })
	if i < 0 {
		l.puts = append(slices.Clip(l.puts), put{key, actor})
		slices.SortFunc(l.puts, func(a, b put) int { return strings.Compare(a.key, b.key) })
		return nil
	}
	if l.puts[i].actor != actor {
		return found(NoClobber, "%s puts %s, which is %s's", actor, key, l.puts[i].actor)
	}
	return nil
}

// put is an object of one process's own, and whose it is.
type put struct{ key, actor string }

// Changes reports whether a request changes the store.
func Changes(verb core.ActionKind) bool {
	switch verb {
	case core.ActionPut, core.ActionCreate, core.ActionDelete, core.ActionCreateResult, core.ActionPutResult:
		return true
	}
	return false
}

// releasesAfter reports whether a machine that has said its last may send this: a release of what it
// may have left.
func (s *said) releasesAfter(a *core.Action) bool {
	end := s.end
	if s.bridge && end == core.ActionLost {
		end = core.ActionRefused
	}
	switch body := string(a.Body); a.Kind {
	case core.ActionPut:
		return (end == core.ActionReleased || end == core.ActionRefused) && strings.Contains(body, `"released_at"`)
	case core.ActionDelete: // of superseded versions
		return end == core.ActionReleased
	case core.ActionCreate:
		leaves := s.bridge && s.kind == core.EventAccompany && s.end == core.ActionLost // by a version without it
		return leaves || end == core.ActionRefused && strings.Contains(body, `"state": "released"`)
	}
	return false
}
