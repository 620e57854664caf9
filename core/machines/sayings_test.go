package machines

import (
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/lockfile"
	"github.com/mopslock/mopslock/core/internal/semaphore"
)

// A saying is one thing that can be said to a machine, in whatever state.
type saying struct {
	name   string
	later  func(*base.Machine) int64
	event  func(core.Machine) core.Event
	answer bool // to the request in flight
}

// sayings is everything that can be said; without a request in flight all answers are
// one.
func sayings(m core.Machine) []saying {
	at := func(d time.Duration) func(*base.Machine) int64 { return func(*base.Machine) int64 { return int64(d) } }
	say := func(name string, ev core.Event) saying {
		return saying{name: name, later: at(0), event: func(m core.Machine) core.Event { return withSession(m, ev) }}
	}
	var all []saying
	for kind := core.EventAcquire; kind <= core.EventDown; kind++ {
		if kind != core.EventAnswer {
			all = append(all, say(kind.String(), core.Event{Kind: kind, Epoch: 1 << 20}))
		}
	}
	woke := func(m core.Machine) core.Event { return withSession(m, core.Event{Kind: core.EventWoke}) }
	all = append(all,
		say("patiently", core.Event{Kind: core.EventAcquire, Wait: core.Forever}),
		say("release brief", core.Event{Kind: core.EventRelease, Brief: true}),
		say("nothing", core.Event{}),
		say("answer to none", core.Event{Kind: core.EventAnswer, Request: 1 << 40, Outcome: core.OutcomeYes}),
		saying{name: "old answer", later: at(0), event: func(m core.Machine) core.Event {
			return withSession(m, core.Event{Kind: core.EventAnswer, Request: baseOf(m).Issued - 1, Outcome: core.OutcomeYes})
		}},
		saying{name: "woke in time", later: toWake, event: woke},
		saying{name: "woke late", later: at(tableTTL), event: woke},
	)
	if onSession(m) {
		all = append(all, saying{name: "session lost", later: at(0), event: func(core.Machine) core.Event {
			return core.Event{Kind: core.EventWoke, SessionEnd: core.ReasonExpired}
		}})
	}
	if s, ok := m.(*semaphore.Semaphore); ok {
		all = append(all, permitSayings(s)...)
	}
	if baseOf(m).Flight.ID == 0 {
		return append(all, saying{name: "any answer", later: at(0), event: replies(m)[0].event})
	}
	for _, s := range replies(m) {
		s.later, s.answer = at(10*time.Millisecond), true
		all = append(all, s)
		s.name, s.later = s.name+" late", at(tableTTL)
		all = append(all, s)
	}
	return all
}

func onSession(m core.Machine) bool { return baseOf(m).Cfg.OnSession }

// withSession adds what the host of a lease on a session says with each event.
func withSession(m core.Machine, ev core.Event) core.Event {
	if onSession(m) {
		ev.Session, ev.SessionUntil = []byte("sid"), worldStart
	}
	return ev
}

func toWake(m *base.Machine) int64 {
	if at := m.Timers.Earliest(); at != base.Unset {
		return max(0, at-m.Now.Mono)
	}
	return 0
}

// replies is every sort of answer that can be given to the request in flight.
func replies(m core.Machine) []saying {
	all := []saying{
		reply("yes", core.Event{Outcome: core.OutcomeYes}),
		reply("no", core.Event{Outcome: core.OutcomeNo}),
		reply("unknown", core.Event{Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable}),
		reply("unauthorized", core.Event{Outcome: core.OutcomeUnknown, Class: core.ClassUnauthorized}),
		reply("no outcome", core.Event{}),
		reply("odd class", core.Event{Outcome: core.OutcomeUnknown, Class: core.ClassFull + 1}),
		reply("odd outcome", core.Event{Outcome: core.OutcomeUnknown + 1}),
		reply("odd stamp", core.Event{Outcome: core.OutcomeYes, Stamp: core.MaxClockRange + 1}),
		reply("odd early stamp", core.Event{Outcome: core.OutcomeYes, Stamp: -core.MaxClockRange - 1}),
	}
	if isStrict(m) {
		return append(all, strictReplies(m)...)
	}
	all = append(all, reply("corrupt", core.Event{Outcome: core.OutcomeYes, Body: []byte("{")}))
	record := func(name string, make func(*lastwriter.Tenure) lockfile.Own) {
		all = append(all, saying{name: name, event: func(m core.Machine) core.Event {
			t := tenureOf(m)
			own := make(t)
			own.TTL, own.Count = tableTTL, 1000
			return core.Event{Kind: core.EventAnswer, Request: t.Flight.ID, Outcome: core.OutcomeYes, Body: lockfile.Append(nil, &own)}
		}})
	}
	record("ours", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: t.HolderID, WrittenAt: t.Now.Wall, AcquiredAt: worldStart}
	})
	record("ours stale", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: t.HolderID, WrittenAt: t.Now.Wall - 1e12, AcquiredAt: worldStart}
	})
	record("ours unconfirmed", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: t.HolderID, WrittenAt: t.Now.Wall}
	})
	record("ours released", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: t.HolderID, ReleasedAt: t.Now.Wall, AcquiredAt: worldStart}
	})
	record("other's", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: "x", WrittenAt: t.Now.Wall, AcquiredAt: worldStart}
	})
	record("other's claim", func(t *lastwriter.Tenure) lockfile.Own { return lockfile.Own{Holder: "x", WrittenAt: t.Now.Wall} })
	record("other's stale", func(t *lastwriter.Tenure) lockfile.Own {
		return lockfile.Own{Holder: "x", WrittenAt: t.Now.Wall - 1e12}
	})
	record("other's released", func(t *lastwriter.Tenure) lockfile.Own { return lockfile.Own{Holder: "x", ReleasedAt: t.Now.Wall} })
	return append(all, saying{name: "last put", event: func(m core.Machine) core.Event {
		t := tenureOf(m)
		return core.Event{Kind: core.EventAnswer, Request: t.Flight.ID, Outcome: core.OutcomeYes, Body: t.Body}
	}})
}

// reply is one answer to the request in flight.
func reply(name string, ev core.Event) saying {
	return saying{name: name, event: func(m core.Machine) core.Event {
		ev := ev
		ev.Kind, ev.Request = core.EventAnswer, baseOf(m).Flight.ID
		return withSession(m, ev)
	}}
}
