package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/tests/world"
)

// bucket is a store that answers at once.
type bucket struct {
	objects world.Objects
	fails   func(a *core.Action) core.Class
	rest    core.Duration // a Retry-After, with what fails
	flat    bool          // it has no directories
	denies  string        // a get of such a key is told no
}

func newBucket() *bucket { return &bucket{objects: world.Objects{}} }

// apply does what a request asks for.
func (b *bucket) apply(a *core.Action, wall int64) core.Event {
	reply := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeNo}
	if b.fails != nil {
		if class := b.fails(a); class != core.ClassNone {
			reply.Outcome, reply.Class, reply.RetryAfter = core.OutcomeUnknown, class, b.rest
			return reply
		}
	}
	denied := b.denies != "" && a.Kind == core.ActionGet && strings.HasSuffix(a.Key, b.denies)
	if denied || a.Overwrites && !b.flat && !b.objects.HasDirectory(a.Key) {
		return reply
	}
	return b.objects.Apply(wall, a)
}

// process is a client with its host, in a time of its own. Its requests are answered at once,
// and its watches begin when a test says so.
type process struct {
	world.Process
	t      *testing.T
	bucket *bucket
	now    int64    // Mono, and Wall a second after 2026 began
	sent   int      // requests
	told   []string // what the claims were told
	last   uint64
	holder core.HolderID             // of the latest held
	holds  func(a *core.Action) bool // back, answers to such requests, until free
	kept   []core.Event
	latest map[core.ActionKind]core.Action
}

const wallBase = 1_767_225_600_000_000_000

func newProcess(t *testing.T, b *bucket, seed byte) *process {
	t.Helper()
	return newProcessOf(t, b, core.Config{Seed: [16]byte{seed}, OwnStore: true})
}

// newProcessOf also takes what else a process can do.
func newProcessOf(t *testing.T, b *bucket, cfg core.Config) *process {
	t.Helper()
	cfg.Machine, cfg.Host, cfg.PID = core.MachineClient, "h", "1"
	cfg.Samples, cfg.StampUnit = true, 1
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &process{Process: world.Process{Client: c, Late: true}, t: t, bucket: b, now: int64(core.Second), latest: map[core.ActionKind]core.Action{}}
}

// letGo gives the answers that were kept back.
func (p *process) letGo() {
	p.t.Helper()
	kept := p.kept
	p.holds, p.kept = nil, nil
	for _, ev := range kept {
		p.do(ev)
	}
}

// do takes an event, and all that follows from it at once.
func (p *process) do(ev core.Event) {
	p.t.Helper()
	queue := []core.Event{ev}
	for len(queue) > 0 {
		actions, err := p.Step(core.Instant{Mono: p.now, Wall: wallBase + p.now}, queue[0])
		if err != nil {
			p.t.Fatal(err)
		}
		queue = queue[1:]
		for i := range actions {
			switch a := &actions[i]; {
			case a.Kind.IsRequest():
				p.sent++
				ev := p.bucket.apply(a, wallBase+p.now)
				if p.holds != nil && p.holds(a) {
					p.kept = append(p.kept, ev)
				} else {
					queue = append(queue, ev)
				}
			case a.Kind == core.ActionWake, a.Kind == core.ActionAbandon, a.Kind == core.ActionWatch, a.Kind == core.ActionUnwatch:
			default:
				p.latest[a.Kind] = *a
				if a.Kind == core.ActionHeld {
					p.holder = a.Holder
				}
				text := fmt.Sprintf("%d %v", a.Claim, a.Kind)
				if a.Reason != 0 {
					text += " " + a.Reason.String()
				}
				if a.Kind == core.ActionRefused && a.Class != 0 {
					text += " " + a.Class.String()
				}
				if a.Origin > core.OriginFree {
					text += " from " + a.Origin.String()
				}
				if a.Observed != nil && a.Kind != core.ActionWaiting {
					text += " " + a.Observed.State.String()
				}
				p.told = append(p.told, text)
			}
		}
	}
}

// begin begins a claim.
func (p *process) begin(kind core.EventKind, terms core.Terms, with core.Event) uint64 {
	p.t.Helper()
	p.last++
	with.Kind, with.Claim, with.Terms = kind, p.last, &terms
	p.do(with)
	return p.last
}

// until lets time pass to an instant.
func (p *process) until(at int64) {
	p.t.Helper()
	for p.Wake != 0 && p.Wake <= at {
		p.now = max(p.now, p.Wake)
		p.do(core.Event{Kind: core.EventWoke})
	}
	p.now = max(p.now, at)
}

func (p *process) heard() string {
	text := strings.Join(p.told, "; ")
	p.told = nil
	return text
}

func (p *process) hears(want string) {
	p.t.Helper()
	if got := p.heard(); got != want {
		p.t.Errorf("told\n%s, want\n%s", got, want)
	}
}

func TestLeaseFromAcquireToClose(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	one := p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
	p.hears("1 held")
	q.now = p.now
	two := q.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
	q.hears("1 waiting")
	p.until(p.now + int64(100*core.Second))
	q.until(p.now)
	p.hears("1 renewed; 1 renewed; 1 renewed; 1 renewed; 1 renewed")
	p.do(core.Event{Kind: core.EventRelease, Claim: one})
	p.hears("1 released")
	q.until(p.now + int64(10*core.Second))
	if got := q.heard(); !strings.HasSuffix(got, "held from elsewhere") {
		t.Error(got)
	}
	q.do(core.Event{Kind: core.EventClose})
	_ = two
	q.hears("1 released; 0 closed")
	p.do(core.Event{Kind: core.EventClose})
	p.hears("0 closed")
	if !q.Client.Idle() || !p.Client.Idle() {
		t.Error("not idle")
	}
}

func TestSession(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for range 100 {
		p.begin(core.EventAcquire, core.Terms{Name: fmt.Sprint("n", p.last), OnSession: true}, core.Event{Wait: core.Forever})
	}
	p.told, p.sent = nil, 0
	p.until(p.now + int64(60*core.Second))
	p.hears("0 renewed; 0 renewed; 0 renewed")
	if p.sent != 7 { // the second renewal also asks for what the session has made
		t.Error(p.sent, "requests")
	}
	p.bucket.fails = func(*core.Action) core.Class { return core.ClassUnreachable }
	p.until(p.now + int64(120*core.Second))
	if got := strings.Count(p.heard(), " lost unreachable"); got != 101 {
		t.Error(got, "lost")
	}
}

// all requests.
func all(*core.Action) bool { return true }
