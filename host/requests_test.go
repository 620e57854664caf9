package host

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of this file count what is asked of the store. Their figures are those of `make bench`.

// told is a figure for `make bench`.
func (w *world) told(what string, n float64) {
	w.Attr(strings.ReplaceAll(what, " ", "-"), strconv.FormatFloat(n, 'g', 4, 64))
}

// costs checks the requests that something took, by their verbs, and forgets them.
func (w *world) costs(what string, p *actor, want string) {
	w.Helper()
	verbs := p.store.work()
	w.told(what, float64(len(strings.Fields(verbs))))
	same(w, what, verbs, want)
	p.store.forget()
}

func (w *world) atMost(what string, got, most int) {
	w.Helper()
	if got > most {
		w.Errorf("%s: %d, at most %d", what, got, most)
	}
}

// TestRequests: what each form of an acquire and of a renewal costs.
func TestRequests(t *testing.T) {
	each(t, map[string]func(*world){
		"acquires": acquiresCost, "session": sessionCosts, "renewals": renewalsCost, "lastwriter": lastWriterCosts, "permits": permitsCost,
	}, func(w *world, _ string, tell func(*world)) { tell(w) })
}

func acquiresCost(w *world) {
	a, b := w.host(), w.host()
	l := a.strictly("n")
	w.costs("strict, never used", a, "list create list")
	w.same("token", l.FencingToken(), uint64(1))
	a.release(l)
	w.costs("strict, release", a, "create")
	l = a.strictly("n")
	w.costs("strict, again", a, "create")
	w.same("token", l.FencingToken(), uint64(3))
	a.release(l)
	l = b.strictly("n")
	w.costs("strict, after another", b, "list get create")
	w.same("token", l.FencingToken(), uint64(5))
	a.store.forget()
	_, err := a.Accompany(background, l.Handle(), nil)
	w.ok(err)
	w.costs("strict, join", a, "list get create")
	w.takeOverCosts("strict, take-over", strict, "list get create")
}

// takeOverCosts has a host hold a name and die. Another host, which has looked before and so
// knows the store's clock, comes when the lease is dead.
func (w *world) takeOverCosts(what string, by Terms, want string) {
	p, knows := w.host(), w.host()
	p.hold("dead", by)
	w.sleep(time.Second)
	w.is(errOf(knows.tryStrictly("dead")), ErrNotAcquired)
	p.store.always(fault{hang: true})
	w.sleep(2 * minute)
	knows.store.forget()
	knows.strictly("dead")
	w.costs(what, knows, want)
}

func sessionCosts(w *world) {
	p := w.host()
	p.sessional("first")
	p.store.forget()
	p.sessional("second")
	w.costs("strict, never used, on a session", p, "list create list")
	for i := range 1000 {
		p.sessional(fmt.Sprint("n/", i))
	}
	w.renewalCosts("session of 1,000, renewal", p, "put exists")
	w.takeOverCosts("strict, take-over from a session", onSession, "list get get create")
}

// renewalCosts checks the requests from one beat to the next.
func (w *world) renewalCosts(what string, p *actor, want string) {
	w.Helper()
	p.store.forget()
	w.until(latency/2, func() bool { return p.store.count("put", "") > 0 })
	if n := len(p.store.log()); n > 1 { // what came before it is of the last renewal
		w.Fatalf("%s: %s", what, p.store.verbs())
	}
	w.sleep(10 * time.Second)
	w.costs(what, p, want)
}

func renewalsCost(w *world) {
	alone, beside, holder, companion := w.host(), w.host(), w.host(), w.host()
	alone.strictly("alone")
	w.renewalCosts("strict, renewal", alone, "put exists")

	beside.release(beside.acquire("beside"))
	beside.strictly("beside")
	w.renewalCosts("strict, renewal beside a lock.json", beside, "put exists get")

	_, err := companion.Accompany(background, holder.strictly("accompanied").Handle(), nil)
	w.ok(err)
	w.renewalCosts("strict, renewal with an adoption", holder, "put exists get put exists")
}

func lastWriterCosts(w *world) {
	p := w.host()
	l := p.acquire("n")
	w.sleep(2 * time.Second)
	w.costs("lastwriter, acquire", p, "get put get put get") // with the later look
	for range 3 {
		w.until(latency, func() bool { return p.store.count("put", "") > 0 })
		w.sleep(latency)
		w.costs("lastwriter, renewal", p, "get put")
	}
	p.release(l)
	w.costs("lastwriter, release", p, "get put")
	w.sleep(10 * minute)
	w.same("after it", p.store.verbs(), "")
	p.idle()
}

// permitsCost: a hundred callers who wait in one process are let in by one write, and what they
// give back at the same time goes by two: the first is not made to wait for the others.
func permitsCost(w *world) {
	const callers = 100
	p := w.host()
	all := make([]*Permit, callers)
	p.giveBack(p.permit("other", six))
	before := goroutines()
	p.store.forget()
	together := func(do func(i int)) {
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() { do(i) })
		}
		group.Wait()
	}
	together(func(i int) { all[i] = p.permit("n", View{callers, 1}) })
	w.same("looks", p.store.count("list", "n/"), 2) // the first version is looked for once it is made
	for _, permit := range all {
		w.same("total", permit.Total(), uint64(callers))
	}
	w.same("goroutines", goroutines(), before)
	same(w, "creates to let them in", p.store.count("create", versionFile), 1)
	together(func(i int) { p.giveBack(all[i]) })
	commits := p.store.count("create", versionFile)
	w.told("commits of a hundred", float64(commits))
	same(w, "creates in all", commits, 3)
	w.held("n", 0)
	p.idle()

	// They queue for one place after the other's.
	p.store.forget()
	holder := w.host().permit("n", View{callers, 1}, PermitOptions{Weight: callers})
	queue := make([]<-chan *Permit, callers)
	for i := range queue {
		queue[i], _ = p.queues("n", View{callers, 1}, 1)
	}
	w.ok(holder.Release(background))
	for _, got := range queue {
		<-got
	}
	w.same("creates", p.store.count("create", versionFile), 1)
}

// An interval is TTL/3 times 5/6 at least; each second renewal also asks whether its own
// version is still there, and for a lock.json.
const (
	mostRenewals = 216
	mostLooks    = mostRenewals / 2
	leastLooks   = 180/2 - 1
)

// TestRequestsPerHour: what a held lease costs an hour, at a TTL of a minute, by
// itself and on a session of many. A lease on a session makes no requests of its own: it costs
// what the session does. No lease has a goroutine.
func TestRequestsPerHour(t *testing.T) {
	for _, many := range []int{1, 100} {
		t.Run(fmt.Sprint(many, " alone"), func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.hour("alone", many, strict)
				w.atMost("all", len(strings.Fields(p.store.work())), many*2*(mostRenewals+mostLooks))
				puts := p.store.count("put", "n/0/")
				own, above := p.store.count("exists", versionKey("n/0", 1)), p.store.count("exists", versionKey("n/0", 2))
				w.atMost("puts", puts, mostRenewals)
				w.atMost("exists above", above, mostRenewals)
				w.atMost("looks for our own version", own, mostLooks)
				w.atMost("looks for our own version, at least", leastLooks, own)
				w.same("looks for a lock.json", p.store.count("get", "n/0/"), own)
				if many == 1 {
					w.told("alone-puts", float64(puts))
					w.told("alone-exists", float64(above))
					w.told("alone-looks", float64(own))
					w.atMost("all", len(strings.Fields(p.store.work())), puts+above+2*own)
				}
			})
		})
	}
	crowds := []int{1, 10, 100, 1000, 10_000}
	if raceDetector {
		crowds = crowds[:4] // the last one takes minutes there
	}
	for _, many := range crowds {
		t.Run(strconv.Itoa(many), func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.hour("session", many, onSession)
				w.atMost("beats", p.store.count("put", sessionPrefix), mostRenewals)
				w.atMost("exists of the next call", p.store.count("exists", "/call/"), mostRenewals)
				w.atMost("looks for what it has made", p.store.count("exists", sessionPrefix)-p.store.count("exists", "/call/"), mostLooks)
				w.atMost("of the leases", p.store.count("", "n/"), 0)
			})
		})
	}
}

// hour holds that many leases for an hour, and tells what each has cost.
func (w *world) hour(how string, many int, by Terms) *actor {
	p, before := w.host(), 0
	held := make([]*Lease, many)
	for i := range held {
		held[i] = p.hold(fmt.Sprint("n/", i), by)
		if i == 0 {
			quiet(w, p)
			before = goroutines()
		}
	}
	quiet(w, p)
	w.same("goroutines", goroutines(), before)
	p.store.forget()
	w.sleep(time.Hour)
	if how != "alone" || many > 1 {
		how = fmt.Sprint(how, "-", many)
	}
	w.told(how, float64(len(strings.Fields(p.store.work())))/float64(many))
	for _, l := range held {
		w.ok(l.Err())
	}
	return p
}
