package simulate

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

const never = core.Never

// fate is what becomes of a request: when it is applied, and again, and when the
// process hears of it or gives it up.
type fate struct {
	apply, again, answer int64
	unknown              bool // the process does not hear what the store says
	class                core.Class
	rest                 core.Duration // for which the store asks to be left alone
}

// send puts a request on its way, and decides what becomes of it.
func (w *simulation) send(p *process, u *unit, a *core.Action) {
	r := &request{process: p, host: p.host, unit: u, action: *a}
	p.asked[a.Request] = r
	if w.faults.InOrder && a.Kind == core.ActionPut {
		w.newest[a.Key] = r
	}
	w.stats.request(u, a)
	r.fate = w.drawFate(p, r)
	for _, at := range [2]int64{r.apply, r.again} {
		if at != never {
			w.At(at, func() { w.apply(r) })
		}
	}
	w.in(p, r.fate.answer, func() { w.answer(r) })
}

func (w *simulation) drawFate(p *process, r *request) fate {
	f, c := w.faults, w.chance
	total := f.draw(c)
	up := c.UpTo(total)
	limit := p.computer.trueAt(p.computer.mono(w.Now)+int64(r.action.Limit)) - w.Now
	out := fate{apply: w.Now + up, again: never, answer: w.Now + total}
	switch {
	case w.calm:
	case w.Now < w.outageUntil:
		out.lose(w, limit, total)
	case f.Throttle > 0 && !w.admitted(r.action.Key):
		out.apply, out.unknown, out.class, out.rest = never, true, core.ClassThrottled, core.Duration(c.UpTo(int64(f.Rest)))
	case c.PerMille(int(f.LostRequests)):
		out.lose(w, limit, total)
	case c.PerMille(int(f.LostAnswers)):
		out.unknown, out.class = true, core.ClassUnreachable
		if c.OneIn(2) {
			out.answer = w.Now + limit
		}
	case c.PerMille(int(f.Duplicates)):
		out.again, out.unknown, out.class = w.Now+total+c.UpTo(total), true, core.ClassOther
	}
	if out.answer > w.Now+limit {
		out.answer, out.unknown, out.class = w.Now+limit, true, core.ClassUnreachable
		if up > limit {
			out.apply = never // a write that has not begun to apply by then must not
		}
	}
	if out.apply == never && out.class != core.ClassThrottled && check.Changes(r.action.Kind) && !w.calm && c.PerMille(int(f.LateWrites)) {
		out.apply = out.answer + c.UpTo(int64(f.LateBy))
	}
	return out
}

// lose loses a request on its way: the connection breaks, or nothing comes back.
func (f *fate) lose(w *simulation, limit, total int64) {
	f.apply, f.unknown, f.class = never, true, core.ClassUnreachable
	f.answer = w.Now + total
	if w.chance.OneIn(2) {
		f.answer = w.Now + limit
	}
}

// admitted takes a request to a prefix from what it may have in this second.
func (w *simulation) admitted(key string) bool {
	if second := w.Now / 1e9; second != w.second {
		w.second = second
		clear(w.meters)
	}
	prefix, _, _ := strings.Cut(key, "/")
	w.meters[prefix]++
	return w.meters[prefix] <= w.faults.Throttle
}

// apply lets a request reach the store.
func (w *simulation) apply(r *request) {
	a := &r.action
	w.stats.Virtual = time.Duration(w.Now)
	if first := w.newest[a.Key]; first != nil && first != r && a.Kind == core.ActionPut {
		return // overtaken: its process has let it go
	}
	var ahead, lag int64
	if w.faults.Spread > 0 {
		ahead = w.chance.UpTo(int64(w.faults.Spread))
	}
	if w.faults.InOrder {
		ahead = r.process.computer.wall // its kernel stamps
	}
	if w.faults.Stale > 0 && !w.calm && w.chance.OneIn(4) {
		lag = w.chance.UpTo(int64(w.faults.Stale))
	}
	if w.opts.Protocol == core.ProtocolStrict && check.Changes(a.Kind) {
		w.inspect(r)
	}
	reply := w.store.Apply(w.Now, a, ahead, lag)
	w.noteApply(r, &reply)
	if !r.applied { // only the first answer counts
		r.applied, r.reply = true, reply
	}
	if check.Changes(a.Kind) {
		for _, p := range w.watchers[a.Key] { // however long it takes until a process is told
			w.in(p, w.Now+w.chance.UpTo(int64(w.faults.Mean)), func() { w.tell(p, core.Event{Kind: core.EventChanged, Key: []byte(a.Key)}) })
		}
	}
}

// answer gives a request's answer to its process, if that still lives and waits for it.
func (w *simulation) answer(r *request) {
	p := r.process
	w.stats.Virtual = time.Duration(w.Now)
	if r.host != p.host || r.dropped {
		return
	}
	delete(p.asked, r.action.Request)
	if r.unknown || !r.applied {
		w.tell(p, core.Event{
			Kind: core.EventAnswer, Request: r.action.Request, Outcome: core.OutcomeUnknown, Class: cmp.Or(r.class, core.ClassUnreachable), RetryAfter: r.rest,
		})
		return
	}
	w.tell(p, r.reply)
	w.called(r)
}

// called: a process whose session has read a call believes no claim of that name any longer by its
// session, until it has found out.
func (w *simulation) called(r *request) {
	host := r.process.host
	if r.unit != nil || r.action.Kind != core.ActionGet || !strings.Contains(r.action.Key, "/call/") || host == nil {
		return
	}
	if c := host.BelievesCalled(r.reply.Body); c != nil {
		w.checker.fail(w.Now, check.CallEndsBelief, "%s was called, and believes in %s as long as its session lasts", r.process.unit(c.Number).label, c.Name)
	}
}

// inspect tells the checker what a write is about to do to the versions of a name.
func (w *simulation) inspect(r *request) {
	a := &r.action
	there := w.store.Has(a.Key)
	name, epoch, rest, ok := world.VersionKey(a.Key)
	if !ok {
		return
	}
	claim := check.Claim{Actor: r.process.String(), Name: name, Epoch: epoch}
	switch {
	case rest != "v" && a.Kind == core.ActionPut: // a beat belongs to the process that put it first
		if w.beats[a.Key] == nil {
			w.beats[a.Key] = r.process
		} else if w.beats[a.Key] != r.process {
			w.checker.overwritten(w.Now, &claim)
		}
	case rest != "v":
	case a.Kind == core.ActionCreate && !there:
		w.created(r, &claim)
	case a.Kind == core.ActionPut:
		w.checker.overwritten(w.Now, &claim)
	case a.Kind == core.ActionDelete && there:
		w.checker.deleted(w.Now, &claim)
	}
}

// created tells the checker of a version that is about to be made.
func (w *simulation) created(r *request, claim *check.Claim) {
	var body struct {
		State, Tenure string
		Limit         uint64
		Permits       []struct{ Session, Label string }
	}
	if err := json.Unmarshal(r.action.Body, &body); err != nil {
		w.checker.fail(w.Now, Contract, "%s creates what is not JSON: %v", r.process, err)
	}
	if r.unit == nil || r.unit.what != whatKeeper {
		w.stats.Commits++
	}
	session, label := "", ""
	for _, p := range body.Permits { // what is left out is that of the one before
		session, label = cmp.Or(p.Session, session), cmp.Or(p.Label, label)
		w.checker.brings(w.Now, claim.Name, session, label, body.Limit)
	}
	if body.State == "held" {
		claim.Tenure = body.Tenure
	}
	w.checker.version(w.Now, claim, r.unit != nil && r.unit.now)
}
