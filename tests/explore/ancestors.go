package explore

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// NobodyWorks is the liveness verdict on a lock that only has to be taken once:
// all workers have moved on, and none holds or ever held it.
const NobodyWorks = "NobodyWorks"

// worker is one of Riak's drafts: read, write, read again, work, remove. It
// leaves out the steps that its draft does not have.
type worker struct {
	claimant
	asking
	draft int
	byID  bool // draft 4: the id decides, not the timestamp
	id    string
	stamp int64 // of its own clock, as it wrote it
}

// claimant is what an ancestor relies on.
type claimant struct {
	actor, name, tenure string
	claims              []check.Claim
}

// Claims implements Program.
func (c *claimant) Claims() []check.Claim { return c.claims }

func (c *claimant) appendState(dst []byte) []byte {
	dst = append(dst, byte(len(c.claims)))
	for i := range c.claims {
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.claims[i].Until))
	}
	return dst
}

// follow takes the actions of one Step.
func (c *claimant) follow(actions []core.Action) {
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case core.ActionHeld:
			c.claims = []check.Claim{{Actor: c.actor, Name: c.name, Tenure: c.tenure, Until: a.At}}
		case core.ActionLost, core.ActionReleased, core.ActionRefused:
			c.claims = nil
		}
	}
}

// worker's states.
const (
	workerIdle     = "idle"
	workerReading  = "reading"
	workerWriting  = "writing"
	workerChecking = "checking"
	workerWorking  = "held"
	workerRemoving = "releasing"
	workerMoved    = "refused"
	workerDone     = "released"
)

// dataSet is what the ancestors lock.
const dataSet = "lock"

func newWorker(draft int, name, id string, byID bool) *worker {
	return &worker{
		claimant: claimant{actor: name, name: dataSet, tenure: id},
		asking:   asking{state: workerIdle},
		draft:    draft, byID: byID, id: id,
	}
}

// Step implements Program.
func (r *worker) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	var out []core.Action
	switch {
	case ev.Kind == core.EventAcquire:
		out = r.ask(workerReading, core.ActionGet, dataSet, "")
	case ev.Kind == core.EventRelease:
		out = r.ask(workerRemoving, core.ActionDelete, dataSet, "")
	case ev.Kind == core.EventAnswer && ev.Request == r.issued:
		out = r.answered(now, &ev)
	}
	r.follow(out)
	return out, nil
}

func (r *worker) answered(now core.Instant, ev *core.Event) []core.Action {
	there := ev.Outcome == core.OutcomeYes
	switch {
	case r.state == workerRemoving:
		return r.end(workerDone, core.Action{Kind: core.ActionReleased})
	case !there && ev.Outcome == core.OutcomeUnknown:
		return r.moveOn()
	case r.state == workerReading && there:
		return r.moveOn()
	case r.state == workerReading:
		r.stamp = now.Wall
		return r.ask(workerWriting, core.ActionPut, dataSet, r.id+"@"+strconv.FormatInt(r.stamp, 10))
	case r.state == workerWriting && r.draft > 1:
		return r.ask(workerChecking, core.ActionGet, dataSet, "")
	case r.state == workerChecking && !r.mine(string(ev.Body)):
		return r.moveOn()
	}
	return r.end(workerWorking, core.Action{Kind: core.ActionHeld, At: noWake})
}

// mine is the verdict of the second read. A space stands between siblings.
func (r *worker) mine(body string) bool {
	siblings := strings.Fields(body)
	switch {
	case r.draft == 4:
		return r.earliest(siblings)
	case r.draft == 3 && len(siblings) != 1:
		return false
	}
	for _, s := range siblings {
		if id, _, _ := strings.Cut(s, "@"); id != r.id {
			return false
		}
	}
	return len(siblings) > 0
}

func (r *worker) earliest(siblings []string) bool {
	first, least := "", int64(0)
	for _, s := range siblings {
		id, text, _ := strings.Cut(s, "@")
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false
		}
		if r.byID {
			at = 0 // all alike: the ids decide
		}
		if first == "" || at < least || at == least && id < first {
			first, least = id, at
		}
	}
	return first == r.id
}

func (r *worker) moveOn() []core.Action {
	return r.end(workerMoved, core.Action{Kind: core.ActionRefused, Reason: core.ReasonHeld})
}

// Idle implements Program.
func (r *worker) Idle() bool {
	switch r.state {
	case workerReading, workerWriting, workerChecking, workerRemoving:
		return false
	}
	return true
}

// AppendState implements Program.
func (r *worker) AppendState(dst []byte) []byte {
	dst = append(append(dst, r.state...), 0, byte(r.issued))
	return r.appendState(strconv.AppendInt(dst, r.stamp, 10))
}

// Copy implements Program.
func (r *worker) Copy() Program { twin := *r; return &twin }

// riakScenario is a draft with two workers, as the guide tells it: only the order
// of things goes wrong.
func riakScenario(draft int, byID bool) *Scenario {
	sc := &Scenario{
		Name: "riak-" + strconv.Itoa(draft), About: "two workers, a store without fault; only the order differs",
		Store: newRiak(draft >= 3), Tick: second, OutOfOrder: true,
		Words: workerWords{
			object: "the lock", put: "writes its ID to", held: "starts processing the data set",
			refused: "moves on to another data set", done: "is done",
		},
		End: someoneWorks,
	}
	for i, id := range []string{"w1", "w2"} {
		name := "worker " + strconv.Itoa(i+1)
		sc.Actors = append(sc.Actors, Actor{
			Name:  name,
			Start: func() (Program, error) { return newWorker(draft, name, id, byID), nil },
			// The first worker's clock is behind: it asks later, with the earlier timestamp.
			WallOffset: int64(i) * second,
			Tell:       []Command{{Event: core.Event{Kind: core.EventAcquire}, Must: true}},
		})
	}
	return sc
}

// someoneWorks is NobodyWorks.
func someoneWorks(ledger *check.Ledger, states []string) *check.Violation {
	if ledger.Tenures() > 0 {
		return nil
	}
	for _, s := range states {
		if s != workerMoved {
			return nil
		}
	}
	return &check.Violation{Checker: NobodyWorks, Text: "both move on to another data set, and neither processes this one"}
}

// riakDeletion is draft 1 with a worker that removes its lock while a server is
// away: when the server comes back, so does the lock.
func riakDeletion() *Scenario {
	sc := riakScenario(1, false)
	sc.Name, sc.About = "riak-deletion", "a deletion misses a server; the lock comes back and nobody may work"
	sc.Odd = 2
	sc.Actors[0].Tell = append(sc.Actors[0].Tell, Command{
		Event: core.Event{Kind: core.EventRelease}, In: workerWorking, Words: "worker 1 is done processing",
	})
	sc.Actors[1].Tell[0] = Command{Event: core.Event{Kind: core.EventAcquire}, After: workerDone}
	sc.End = func(_ *check.Ledger, states []string) *check.Violation {
		if states[0] != workerDone || states[1] != workerMoved {
			return nil
		}
		return &check.Violation{Checker: check.NoResurrection, Text: "worker 1 has removed its lock, and worker 2 still finds it"}
	}
	return sc
}
