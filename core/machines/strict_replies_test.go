package machines

import (
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// strictReplies is what else the request in flight of a strict machine can be
// answered with, in the order of its names.
func strictReplies(m core.Machine) (all []saying) {
	body := func(name string, body []byte) {
		all = append(all, reply(name, core.Event{Outcome: core.OutcomeYes, Body: body, Stamp: worldStart}))
	}
	entries := func(name string, more bool, entries []core.Entry) {
		all = append(all, reply(name, core.Event{Outcome: core.OutcomeYes, Entries: entries, More: more}))
	}
	switch baseOf(m).Flight.Verb {
	case core.ActionGet:
		n := askedVersion(m)
		body("corrupt", []byte("{"))
		body("newer", []byte(`{"v": 2}`))
		body("of another kind", []byte(`{"v": 1, "kind": "semaphore"}`))
		for name, v := range strictVersions(m, n) {
			body(name, testVersion(m, v, 0))
		}
		body("other's, long dead", testVersion(m, otherVersion(n, core.VersionHeld), -worldStart))
		if s, ok := m.(*semaphore.Semaphore); ok {
			for name, v := range permitVersions(s) {
				body(name, v)
			}
		}
		body("beat", testBeat(m))
		body("call", testCall(m, n))
	case core.ActionList:
		n := max(1, currentOf(m))
		entries("version and beat", false, testPage(n))
		entries("newer one", false, testPage(n+1))
		entries("older one", false, testPage(n-1))
		entries("more of them", true, testPage(n)[:1])
		entries("nothing, but more", true, nil)
		entries("calls", false, []core.Entry{{Key: []byte(register.CallKey("sid", 0)), Stamp: worldStart}})
	}
	slices.SortFunc(all, func(a, b saying) int { return strings.Compare(a.name, b.name) })
	return all
}

func currentOf(m core.Machine) core.Epoch {
	switch m.(type) {
	case *strict.Session, *strict.StoreClockSample:
		return 0
	}
	return registerOf(m).Cur.N
}

// askedVersion is the version that the get in flight is of.
func askedVersion(m core.Machine) core.Epoch {
	n, _, _ := register.ParseRegisterKey(register.RegisterPrefix("n"), []byte(baseOf(m).Key))
	return max(1, n)
}

func otherVersion(n core.Epoch, state core.VersionState) register.OwnVersion {
	return register.OwnVersion{
		N: n, Origin: n, State: state, Tenure: "x", Owner: "x", Owners: `"x"`, Nonce: register.Nonce{A: 1, B: 2},
		TTL: tableTTL, Margin: tableTTL / 10,
	}
}

// strictVersions is what can stand at a version.
func strictVersions(m core.Machine, n core.Epoch) map[string]register.OwnVersion {
	held := otherVersion(n, core.VersionHeld)
	released := otherVersion(n, core.VersionReleased)
	alone := released
	alone.Alone = true
	onSession := otherVersion(n, core.VersionBroken)
	onSession.Session = "sid"
	endless := held
	endless.TTL, endless.Margin = 0, 0
	all := map[string]register.OwnVersion{
		"other's": held, "other's, released": released, "other's, released alone": alone,
		"other's, broken on a session": onSession, "other's, endless": endless,
	}
	for name, v := range map[string]register.OwnVersion{"ours": held, "ours, released": released, "ours, broken": otherVersion(n, core.VersionBroken)} {
		v.Tenure = holderIn(m)
		v.Owners = register.WithOwner(v.Owners, ownID(m))
		v.Origin = 1
		all[name] = v
	}
	if a := attemptOf(m); a != nil && a.N > 0 && a.V.N == n {
		v := a.V
		v.Nonce = a.Requests[a.N-1].Nonce
		all["exactly ours"] = v
	}
	return all
}

func attemptOf(m core.Machine) *strict.Attempt {
	switch m := m.(type) {
	case *strict.Lease:
		return m.Attempt
	case *strict.Companion:
		return &m.Attempt
	case *strict.Revocation:
		return &m.Attempt
	}
	return nil
}

// testVersion is the record of a version, made at a Mono of the machine's boot so
// far from now.
func testVersion(m core.Machine, v register.OwnVersion, ago int64) []byte {
	writer := *baseOf(m)
	writer.Now.Mono = max(0, writer.Now.Mono+ago)
	return register.AppendVersion(nil, &writer, &v)
}

func testBeat(m core.Machine) []byte {
	writer := *baseOf(m)
	return register.AppendBeat(nil, &writer, "x", 1)
}

func testCall(m core.Machine, n core.Epoch) []byte {
	writer := *baseOf(m)
	return register.AppendCall(nil, &writer, "n", n)
}

// testPage is a page with a version, its beat, and the one below it.
func testPage(n core.Epoch) []core.Entry {
	prefix := register.RegisterPrefix("n")
	if n == 0 {
		return nil
	}
	page := []core.Entry{
		{Key: []byte(register.BeatKey(prefix, n, "x")), Stamp: worldStart},
		{Key: []byte(register.VersionKey(prefix, n)), Stamp: worldStart},
	}
	if n > 1 {
		page = append(page, core.Entry{Key: []byte(register.VersionKey(prefix, n-1)), Stamp: worldStart - int64(time.Hour)})
	}
	return page
}
