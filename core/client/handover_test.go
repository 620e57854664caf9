package client_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestWhence: from whom a name has come, and how long it was nobody's at most. The waiter is
// the holder's own process, or another.
func TestWhence(t *testing.T) {
	const second = int64(core.Second)
	acquire, invoke := core.EventAcquire, core.EventInvoke
	for _, tc := range []struct {
		name   string
		kind   core.EventKind
		here   bool   // the waiter is of the holder's process
		ends   string // by whom and how it is given back
		origin core.Origin
	}{
		{"release", acquire, false, "released", core.OriginElsewhere},
		{"own release", acquire, true, "released", core.OriginHere},
		{"break", acquire, false, "broken now", core.OriginElsewhere},
		{"break of who may live", acquire, false, "broken", core.OriginElsewhere},
		{"death", acquire, false, "", core.OriginDead},
		{"release to work", invoke, false, "released", core.OriginElsewhere},
		{"own release to work", invoke, true, "released", core.OriginHere},
		{"death to work", invoke, false, "", core.OriginDead},
	} {
		for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
			b := newBucket()
			p, other := newProcess(t, b, 1), newProcess(t, b, 2)
			terms := core.Terms{Name: "n", Protocol: protocol}
			claim := p.begin(acquire, terms, core.Event{})
			p.until(p.now + second)
			if a := p.latest[core.ActionHeld]; a.Origin != core.OriginFree || a.Took != 0 {
				t.Errorf("%s, %v: the first is %v after %d", tc.name, protocol, a.Origin, a.Took)
			}
			q := p
			if !tc.here {
				q = newProcess(t, b, 3)
				q.now = p.now
			}
			waits := q.begin(tc.kind, terms, core.Event{Wait: core.Forever})
			q.until(q.now + 27*second)
			p.until(q.now)
			freed := q.now
			switch tc.ends {
			case "broken", "broken now":
				other.now = freed
				other.begin(core.EventBreak, core.Terms{Name: "n", Why: "stuck", Now: tc.ends != "broken"}, core.Event{})
			case "released":
				p.do(core.Event{Kind: core.EventRelease, Claim: claim})
			}
			held := q.now
			for end := q.now + 600*second; q.latest[core.ActionHeld].Claim != waits && q.now < end; {
				q.until(max(q.now, q.Wake))
				held = q.now
			}
			a := q.latest[core.ActionHeld]
			if a.Claim != waits || a.Origin != tc.origin {
				t.Errorf("%s, %v: claim %d has it from %v", tc.name, protocol, a.Claim, a.Origin)
			}
			took, least, most := int64(a.Took), held-freed, held-freed
			switch tc.origin {
			case core.OriginDead:
				least, most = 0, 0
			case core.OriginElsewhere: // since the last look that showed it not free
				most += map[core.EventKind]int64{acquire: 6, invoke: 12}[tc.kind] * second // its polls
				least++
				if tc.ends == "broken" { // it was not free before its holder must have ended
					least, most = 1, most-held+freed
				}
			}
			if took < least || took > most {
				t.Errorf("%s, %v: took %d, want %d to %d", tc.name, protocol, took, least, most)
			}
		}
	}
}

// TestWhenceOfNext: who was told of a release and gives up passes it on, with its instant.
func TestWhenceOfNext(t *testing.T) {
	b := newBucket()
	p := newProcess(t, b, 1)
	terms := core.Terms{Name: "n", Protocol: core.ProtocolStrict}
	one := p.begin(core.EventAcquire, terms, core.Event{})
	two := p.begin(core.EventAcquire, terms, core.Event{Wait: core.Forever})
	p.begin(core.EventAcquire, terms, core.Event{Wait: core.Forever})
	freed := p.now
	b.fails = func(a *core.Action) core.Class {
		if p.latest[core.ActionReleased].Claim == one {
			p.holds = all
			return core.ClassUnreachable // for two, and then nobody
		}
		return 0
	}
	p.do(core.Event{Kind: core.EventRelease, Claim: one})
	p.holds, b.fails = nil, nil
	p.now += int64(core.Second / 10)
	p.told = nil
	p.do(core.Event{Kind: core.EventCancel, Claim: two})
	p.letGo()
	p.until(p.now + int64(20*core.Second))
	a := p.latest[core.ActionHeld]
	if a.Claim != 3 || a.Origin != core.OriginHere || int64(a.Took) < int64(core.Second/10) || int64(a.Took) > p.now-freed {
		t.Errorf("%v: %d has it from %v after %d", p.told, a.Claim, a.Origin, a.Took)
	}
}
