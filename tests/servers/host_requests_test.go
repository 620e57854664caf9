package servers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// ledger is what a server was asked, as it passed over the wire.
type ledger struct {
	mu       sync.Mutex
	all      []proxy.Request
	beatless []string
}

func (l *ledger) note(r *proxy.Request) proxy.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, *r)
	if r.Op == proxy.Put && slices.ContainsFunc(l.beatless, func(prefix string) bool { return strings.HasPrefix(r.Key, prefix) }) {
		return proxy.CutBefore
	}
	return proxy.None
}

// noBeats keeps the signs of life of who holds the name from the store.
func (w *errand) noBeats(name string) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.beatless = append(w.ledger.beatless, w.prefix+"/"+name+"/")
}

// errand is a scene whose requests are written down.
type errand struct {
	scene
	prefix string
	ledger *ledger
	seen   int // of the ledger's
}

// forget begins a new page: what was asked before is not shown any more.
func (w *errand) forget() {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.seen = len(w.ledger.all)
}

// asked is what was asked since forget, without what budgets leave out: probes of the
// store, samples of its clock, and the look for an old client's record.
func (w *errand) asked() string { return w.askedBelow("") }

// askedBelow is what of that was about keys that begin so.
func (w *errand) askedBelow(part string) string {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	var out []string
	for _, r := range w.ledger.all[w.seen:] {
		key, mine := strings.CutPrefix(r.Key, w.prefix+"/")
		service := strings.HasPrefix(key, "_mopslock/") && !strings.HasPrefix(key, core.SessionPrefix)
		old := r.Op == proxy.Exists && strings.HasSuffix(key, "/"+core.LockFile)
		if mine && !service && !old && strings.HasPrefix(key, part) {
			out = append(out, string(r.Op))
		}
	}
	return strings.Join(out, " ")
}

// asks holds what was asked to a budget, and begins a new page.
func (w *errand) asks(what, want string) {
	w.Helper()
	w.same(what, w.asked(), want)
	w.forget()
}

// renewals holds what is asked while a lease is held to whole renewals, one after the
// other, from the first on that begins from now on.
func (w *errand) renewals(what, want string) {
	w.Helper()
	const rounds = 3
	w.forget()
	all := strings.TrimSpace(strings.Repeat(want+" ", rounds))
	asked := ""
	w.eventually(what, func() bool {
		asked = w.asked()
		if begun := strings.Index(asked, "put"); begun >= 0 {
			asked = asked[begun:]
		}
		return len(asked) >= len(all)
	})
	w.same(what, asked[:len(all)], all)
}

const (
	// renewedTTL is so long that a slow machine gives no request of a renewal up, which
	// would be asked again.
	renewedTTL = 20 * time.Second
	// deadTTL is no longer than it must be to see the holder alive.
	deadTTL = 10 * time.Second
)

// TestHostRequests: what a lease costs is what was budgeted, request by request, on
// each cloud. It waits for renewals and for deaths, on all of them at once.
func TestHostRequests(t *testing.T) {
	var kinds sync.WaitGroup
	for _, kind := range Kinds {
		kinds.Go(func() { t.Run(kind, func(t *testing.T) { hostRequests(t, kind) }) })
	}
	kinds.Wait()
}

func hostRequests(t *testing.T, kind string) {
	server, p := behind(t, kind)
	ledger := &ledger{}
	p.Choose(ledger.note)
	var all sync.WaitGroup
	for name, walked := range map[string]func(*errand){
		"strict": strictLease, "takeover": strictTakeOver, "stranger": strictTakeOverByAStranger, "fromsession": strictTakeOverFromASession,
		"join": strictJoin, "adoption": strictAdoption, "renewals": strictRenewals, "beside": strictBesideAnOldRecord, "session": strictSession,
		"lastwriter": lastWriterLease, "lastwriterrenewals": lastWriterRenewals,
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				terms := host.Terms{Protocol: core.ProtocolStrict, FleetExpire: core.None}
				walked(&errand{scene: scene{T: t, url: server.Under(p.Address(), name), terms: terms}, prefix: name, ledger: ledger})
			})
		})
	}
	all.Wait()
}

func strictLease(w *errand) {
	a, b := w.host(), w.host()
	l := w.acquire(a, "n")
	w.asks("a name never used", "list create")
	w.ok(l.Release(w.ctx()))
	w.asks("a release", "create")
	l = w.acquire(a, "n")
	w.asks("again by the last holder", "create")
	w.ok(l.Release(w.ctx()))
	w.forget()
	l = w.acquire(b, "n")
	w.asks("after another's release", "list get create")
	w.same("token", l.FencingToken(), uint64(5))
}

// dies is a lease whose holder was killed before he renewed it, and a host that has
// looked at it before and so knows the store's clock. It returns when the lease is dead
// for all who look.
func (w *errand) dies() (knows *host.Host) {
	w.Helper()
	w.terms.TTL = deadTTL
	w.noBeats("n") // or who looks would read one more
	p := w.holder("n")
	w.terms.Session = false // which would be renewed between what is counted
	knows = w.host()
	_, err := w.try(knows, "n")
	w.is(err, host.ErrRefused)
	w.kill(p)
	looks := w.host()
	// Beyond the TTL, by what stamps and front-ends may be apart.
	const apart = core.DefaultSpread + 3*core.CoarseStamp
	for left := time.Duration(0); left >= -apart; {
		s, err := looks.Inspect(w.ctx(), "n")
		w.ok(err)
		left = s.Left
		<-time.After(left + apart)
	}
	w.forget()
	return knows
}

func strictTakeOver(w *errand) {
	l, err := w.try(w.dies(), "n")
	w.ok(err)
	w.asks("a take-over", "list get create")
	w.same("token", l.FencingToken(), uint64(2))
}

// Who has yet to learn the store's clock looks once more when he has.
func strictTakeOverByAStranger(w *errand) {
	w.dies()
	_, err := w.try(w.host(), "n")
	w.ok(err)
	w.asks("a take-over", "list get list create")
}

func strictTakeOverFromASession(w *errand) {
	w.terms.Session = true
	_, err := w.try(w.dies(), "n")
	w.ok(err)
	w.asks("a take-over", "list get get create")
}

func strictJoin(w *errand) {
	a, b := w.host(), w.host()
	l := w.acquire(a, "n")
	w.forget()
	_, err := b.Accompany(w.ctx(), l.Handle(), nil)
	w.ok(err)
	w.asks("a join", "list get create") // the version's body tells what a join copies
}

// What a companion writes when it joins and when it leaves is found at the holder's
// next renewal, read, and renewed in its turn.
func strictAdoption(w *errand) {
	w.terms.TTL = 30 * time.Second // so that both have been by then
	l := w.acquire(w.host(), "n")
	b := w.host()
	_, err := b.Accompany(w.ctx(), l.Handle(), nil)
	w.ok(err)
	w.ok(b.Close(w.ctx()))
	w.forget()
	const want = "put exists get put exists get put exists" + " put exists" // and a renewal like any other
	asked := ""
	w.eventually("a renewal after the adoptions", func() bool {
		asked = w.asked()
		return len(asked) >= len(want)
	})
	w.same("two adoptions", asked[:len(want)], want)
	w.same("epoch", l.Epoch(), uint64(3))
}

func strictRenewals(w *errand) {
	w.terms.TTL = renewedTTL
	w.acquire(w.host(), "n")
	w.renewals("renewals", "put exists")
}

func strictBesideAnOldRecord(w *errand) {
	a := w.host()
	w.terms.Protocol = core.ProtocolLastWriter
	w.free(a, "n")
	w.terms.Protocol, w.terms.TTL = core.ProtocolStrict, renewedTTL
	w.acquire(a, "n")
	w.renewals("renewals beside an old client's record", "put exists get")
}

// What opening a session costs depends on how far the first claim is by then.
func strictSession(w *errand) {
	a := w.host()
	w.terms.TTL, w.terms.Session = renewedTTL, true
	w.acquire(a, "first")
	for n := range 20 {
		w.forget()
		w.acquire(a, fmt.Sprint("n/", n))
		w.same("a name never used", w.askedBelow("n/"), "list create")
	}
	w.renewals("renewals of a session", "put exists")
}

func lastWriterLease(w *errand) {
	a := w.host()
	w.terms.Protocol = core.ProtocolLastWriter
	l := w.acquire(a, "n")
	w.eventually("the later look", func() bool { return w.asked() != "get put get put" })
	w.asks("an acquire with its later look", "get put get put get")
	w.ok(l.Release(w.ctx()))
	w.asks("a release", "get put")
}

// The later look comes when it comes, between any two others.
func lastWriterRenewals(w *errand) {
	w.terms.Protocol, w.terms.TTL = core.ProtocolLastWriter, renewedTTL
	a := w.host()
	w.acquire(a, "n")
	w.forget()
	want := strings.TrimSpace(strings.Repeat("get put ", 3))
	asked := ""
	w.eventually("renewals", func() bool {
		asked = strings.Replace(w.asked(), "get get", "get", 1)
		return len(asked) >= len(want)
	})
	w.same("renewals", asked[:len(want)], want)
}
