package core

import "time"

// A saying is one thing that can be said to a machine, in whatever state.
type saying struct {
	name   string
	later  func(*machine) int64
	event  func(Machine) Event
	answer bool // to the request in flight
}

// sayings is everything that can be said; without a request in flight all answers are
// one.
func sayings(m Machine) []saying {
	at := func(d time.Duration) func(*machine) int64 { return func(*machine) int64 { return int64(d) } }
	say := func(name string, ev Event) saying {
		return saying{name: name, later: at(0), event: func(m Machine) Event { return withSession(m, ev) }}
	}
	var all []saying
	for kind := EventAcquire; kind <= EventDown; kind++ {
		if kind != EventAnswer {
			all = append(all, say(kind.String(), Event{Kind: kind, Epoch: 1 << 20}))
		}
	}
	woke := func(m Machine) Event { return withSession(m, Event{Kind: EventWoke}) }
	all = append(all,
		say("patiently", Event{Kind: EventAcquire, Wait: Forever}),
		say("release brief", Event{Kind: EventRelease, Brief: true}),
		say("nothing", Event{}),
		say("answer to none", Event{Kind: EventAnswer, Request: 1 << 40, Outcome: OutcomeYes}),
		saying{name: "old answer", later: at(0), event: func(m Machine) Event {
			return withSession(m, Event{Kind: EventAnswer, Request: baseOf(m).issued - 1, Outcome: OutcomeYes})
		}},
		saying{name: "woke in time", later: toWake, event: woke},
		saying{name: "woke late", later: at(tableTTL), event: woke},
	)
	if onSession(m) {
		all = append(all, saying{name: "session lost", later: at(0), event: func(Machine) Event {
			return Event{Kind: EventWoke, SessionEnd: ReasonExpired}
		}})
	}
	if s, ok := m.(*Semaphore); ok {
		all = append(all, permitSayings(s)...)
	}
	if baseOf(m).flight.id == 0 {
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

func onSession(m Machine) bool { return baseOf(m).cfg.OnSession }

// withSession adds what the host of a lease on a session says with each event.
func withSession(m Machine, ev Event) Event {
	if onSession(m) {
		ev.Session, ev.SessionUntil = []byte("sid"), worldStart
	}
	return ev
}

func toWake(k *machine) int64 {
	if at := k.timers.earliest(); at != unset {
		return max(0, at-k.now.Mono)
	}
	return 0
}

// replies is every sort of answer that can be given to the request in flight.
func replies(m Machine) []saying {
	all := []saying{
		reply("yes", Event{Outcome: OutcomeYes}),
		reply("no", Event{Outcome: OutcomeNo}),
		reply("unknown", Event{Outcome: OutcomeUnknown, Class: ClassUnreachable}),
		reply("unauthorized", Event{Outcome: OutcomeUnknown, Class: ClassUnauthorized}),
		reply("no outcome", Event{}),
		reply("odd class", Event{Outcome: OutcomeUnknown, Class: ClassFull + 1}),
		reply("odd outcome", Event{Outcome: OutcomeUnknown + 1}),
		reply("odd stamp", Event{Outcome: OutcomeYes, Stamp: MaxClockRange + 1}),
		reply("odd early stamp", Event{Outcome: OutcomeYes, Stamp: -MaxClockRange - 1}),
	}
	if isStrict(m) {
		return append(all, strictReplies(m)...)
	}
	all = append(all, reply("corrupt", Event{Outcome: OutcomeYes, Body: []byte("{")}))
	record := func(name string, make func(*tenure) ownRecord) {
		all = append(all, saying{name: name, event: func(m Machine) Event {
			k := tenureOf(m)
			own := make(k)
			own.ttl, own.count = tableTTL, 1000
			return Event{Kind: EventAnswer, Request: k.flight.id, Outcome: OutcomeYes, Body: appendRecord(nil, &own)}
		}})
	}
	record("ours", func(k *tenure) ownRecord {
		return ownRecord{holder: k.holder, writtenAt: k.now.Wall, acquiredAt: worldStart}
	})
	record("ours stale", func(k *tenure) ownRecord {
		return ownRecord{holder: k.holder, writtenAt: k.now.Wall - 1e12, acquiredAt: worldStart}
	})
	record("ours unconfirmed", func(k *tenure) ownRecord { return ownRecord{holder: k.holder, writtenAt: k.now.Wall} })
	record("ours released", func(k *tenure) ownRecord {
		return ownRecord{holder: k.holder, releasedAt: k.now.Wall, acquiredAt: worldStart}
	})
	record("other's", func(k *tenure) ownRecord {
		return ownRecord{holder: "x", writtenAt: k.now.Wall, acquiredAt: worldStart}
	})
	record("other's claim", func(k *tenure) ownRecord { return ownRecord{holder: "x", writtenAt: k.now.Wall} })
	record("other's stale", func(k *tenure) ownRecord { return ownRecord{holder: "x", writtenAt: k.now.Wall - 1e12} })
	record("other's released", func(k *tenure) ownRecord { return ownRecord{holder: "x", releasedAt: k.now.Wall} })
	return append(all, saying{name: "last put", event: func(m Machine) Event {
		k := tenureOf(m)
		return Event{Kind: EventAnswer, Request: k.flight.id, Outcome: OutcomeYes, Body: k.body}
	}})
}

// reply is one answer to the request in flight.
func reply(name string, ev Event) saying {
	return saying{name: name, event: func(m Machine) Event {
		ev := ev
		ev.Kind, ev.Request = EventAnswer, baseOf(m).flight.id
		return withSession(m, ev)
	}}
}
