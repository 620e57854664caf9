package core

import (
	"slices"
	"strings"
	"time"
)

// strictReplies is what else the request in flight of a strict machine can be
// answered with, in the order of its names.
func strictReplies(m Machine) (all []saying) {
	body := func(name string, body []byte) {
		all = append(all, reply(name, Event{Outcome: OutcomeYes, Body: body, Stamp: worldStart}))
	}
	entries := func(name string, more bool, entries []Entry) {
		all = append(all, reply(name, Event{Outcome: OutcomeYes, Entries: entries, More: more}))
	}
	switch baseOf(m).flight.verb {
	case ActionGet:
		n := askedVersion(m)
		body("corrupt", []byte("{"))
		body("newer", []byte(`{"v": 2}`))
		body("of another kind", []byte(`{"v": 1, "kind": "semaphore"}`))
		for name, v := range strictVersions(m, n) {
			body(name, testVersion(m, v, 0))
		}
		body("other's, long dead", testVersion(m, otherVersion(n, VersionHeld), -worldStart))
		if s, ok := m.(*Semaphore); ok {
			for name, v := range permitVersions(s) {
				body(name, v)
			}
		}
		body("beat", testBeat(m))
		body("call", testCall(m, n))
	case ActionList:
		n := max(1, currentOf(m))
		entries("version and beat", false, testPage(n))
		entries("newer one", false, testPage(n+1))
		entries("older one", false, testPage(n-1))
		entries("more of them", true, testPage(n)[:1])
		entries("nothing, but more", true, nil)
		entries("calls", false, []Entry{{Key: []byte(callKey("sid", 0)), Stamp: worldStart}})
	}
	slices.SortFunc(all, func(a, b saying) int { return strings.Compare(a.name, b.name) })
	return all
}

func currentOf(m Machine) Epoch {
	switch m.(type) {
	case *Session, *Calibration:
		return 0
	}
	return registerOf(m).cur.n
}

// askedVersion is the version that the get in flight is of.
func askedVersion(m Machine) Epoch {
	n, _, _ := parseRegisterKey(registerPrefix("n"), []byte(baseOf(m).key))
	return max(1, n)
}

func otherVersion(n Epoch, state VersionState) ownVersion {
	return ownVersion{
		n: n, origin: n, state: state, tenure: "x", owner: "x", owners: `"x"`, nonce: nonce{1, 2},
		ttl: tableTTL, margin: tableTTL / 10,
	}
}

// strictVersions is what can stand at a version.
func strictVersions(m Machine, n Epoch) map[string]ownVersion {
	held := otherVersion(n, VersionHeld)
	released := otherVersion(n, VersionReleased)
	alone := released
	alone.alone = true
	onSession := otherVersion(n, VersionBroken)
	onSession.session = "sid"
	endless := held
	endless.ttl, endless.margin = 0, 0
	all := map[string]ownVersion{
		"other's": held, "other's, released": released, "other's, released alone": alone,
		"other's, broken on a session": onSession, "other's, endless": endless,
	}
	for name, v := range map[string]ownVersion{"ours": held, "ours, released": released, "ours, broken": otherVersion(n, VersionBroken)} {
		v.tenure = holderIn(m)
		v.owners = withOwner(v.owners, ownID(m))
		v.origin = 1
		all[name] = v
	}
	if c := claimOf(m); c != nil && c.n > 0 && c.v.n == n {
		v := c.v
		v.nonce = c.tried[c.n-1].nonce
		all["exactly ours"] = v
	}
	return all
}

func claimOf(m Machine) *claim {
	switch m := m.(type) {
	case *StrictLease:
		return m.claim
	case *StrictCompanion:
		return &m.claim
	case *Breaker:
		return &m.claim
	}
	return nil
}

// testVersion is the record of a version, made at a Mono of the machine's boot so
// far from now.
func testVersion(m Machine, v ownVersion, ago int64) []byte {
	writer := *baseOf(m)
	writer.now.Mono = max(0, writer.now.Mono+ago)
	return appendVersion(nil, &writer, &v)
}

func testBeat(m Machine) []byte {
	writer := *baseOf(m)
	return appendBeat(nil, &writer, "x", 1)
}

func testCall(m Machine, n Epoch) []byte {
	writer := *baseOf(m)
	return appendCall(nil, &writer, "n", n)
}

// testPage is a page with a version, its beat, and the one below it.
func testPage(n Epoch) []Entry {
	prefix := registerPrefix("n")
	if n == 0 {
		return nil
	}
	page := []Entry{
		{Key: []byte(beatKey(prefix, n, "x")), Stamp: worldStart},
		{Key: []byte(versionKey(prefix, n)), Stamp: worldStart},
	}
	if n > 1 {
		page = append(page, Entry{Key: []byte(versionKey(prefix, n-1)), Stamp: worldStart - int64(time.Hour)})
	}
	return page
}
