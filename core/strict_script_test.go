package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// machine NAME strict [session|breaker|observer|calibration] [on=SESSION] …: the
// options that only strict has.
func (s *script) strictConfig(t *testing.T, cfg *Config) {
	cfg.Protocol = ProtocolStrict
	for _, kind := range []MachineKind{MachineSession, MachineBreaker, MachineObserver, MachineCalibration, MachineSemaphore} {
		if s.data.HasArg(kind.String()) {
			cfg.Machine = kind
		}
	}
	cfg.StampUnit = s.duration(t, "unit", time.Duration(s.unit))
	cfg.StampSpread = s.duration(t, "spread", 0)
	cfg.Boot, cfg.Label, cfg.Why = s.text("boot", ""), s.text("label", ""), s.text("why", "")
	cfg.OnSession, cfg.Beside, cfg.Now = s.data.HasArg("on"), s.data.HasArg("beside"), s.data.HasArg("now")
	epoch, _ := parseUint(s.text("epoch", "0"))
	cfg.Epoch = Epoch(epoch)
	if cfg.Owner = s.text("owner", ""); cfg.Owner != "" {
		cfg.Owner = string(s.holder(cfg.Owner))
	}
	if name := s.text("last", ""); name != "" {
		from := &s.actor(name).strict
		cfg.LastEpoch, cfg.LastAt = from.lastEpoch, from.lastAt
	}
	if name := s.text("seen", ""); name != "" {
		from := &s.actor(name).strict
		cfg.SeenPrint, cfg.SeenSince = from.seenPrint, from.seenSince
	}
}

// … permit=N capacity=C width=W [weight=W] [spare=N] [label=TEXT], of acquire;
// permit=N of release and cancel; permit=N store_limit=N of limit.
func (s *script) permitEvent(ev *Event) {
	number := func(name string) uint32 {
		n, _ := parseUint(s.text(name, "0"))
		return uint32(n)
	}
	ev.Permit, ev.StoreLimit = uint64(number("permit")), uint64(number("store_limit"))
	ev.Capacity, ev.Width, ev.Weight, ev.Spare = number("capacity"), number("width"), number("weight"), number("spare")
	if label := s.text("label", ""); label != "" {
		ev.Label = []byte(label)
	}
}

func (s *script) standOn(a *actor) {
	if name := s.text("on", ""); name != "" && name != "none" {
		a.strict.stands = s.actor(name)
	}
}

// stand NAME SESSION: the host has made a new session, and NAME is told.
func (s *script) standCommand(*testing.T) string {
	a := s.subject()
	a.strict.stands = s.actor(s.data.CmdArgs[1].Key)
	return s.stepped(a, Event{Kind: EventWoke})
}

// sample: the host has taken a sample of the store's clock just now.
func (s *script) sampleCommand(*testing.T) string {
	s.sample = clockSample{s.stamp(), s.now}
	return fmt.Sprintf("store=%s at=%s", wallSeconds(s.sample.stamp), seconds(s.now))
}

// stamps none|unit=1s: what the store's modification times are like.
func (s *script) stampsCommand(t *testing.T) string {
	s.stamps = !s.data.HasArg("none")
	s.unit = int64(s.duration(t, "unit", 0))
	return fmt.Sprintf("stamps=%v unit=%s", s.stamps, seconds(s.unit))
}

// object KEY [raw|delete|edit]: one object of the store; with input below it,
// somebody writes that, or has the first line of it replaced by the second.
func (s *script) objectCommand(t *testing.T) string {
	key := s.parseKey(s.data.CmdArgs[0].Key)
	o, there := s.world.store[key]
	switch {
	case s.data.HasArg("delete"):
		delete(s.world.store, key)
	case s.data.HasArg("edit"):
		from, to, _ := strings.Cut(strings.TrimSuffix(s.data.Input, "\n"), "\n")
		if !strings.Contains(string(o.body), from) {
			t.Fatalf("%s: no %q in %s", s.data.Pos, from, o.body)
		}
		s.world.store[key] = object{[]byte(strings.Replace(string(o.body), from, to, 1)), s.stamp()}
	case s.data.Input != "":
		s.world.store[key] = object{[]byte(s.data.Input), s.stamp()}
	case s.data.HasArg("raw") && there:
		return strings.TrimSuffix(string(o.body), "\n")
	}
	return s.storeLine(t, key)
}

// objects: all that the store holds.
func (s *script) objectsCommand(t *testing.T) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.world.store)) {
		out.WriteString(s.storeLine(t, key) + "\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// storeLine is one object.
func (s *script) storeLine(t *testing.T, key string) string {
	if strings.HasSuffix(key, "/"+LockFile) {
		return s.storeCommand(t)
	}
	o, there := s.world.store[key]
	if !there {
		return "store: " + s.formatKey(key) + " absent"
	}
	return "store: " + s.formatKey(key) + " " + wallSeconds(o.stamp) + " " + s.formatBodyOf(key, o.body)
}

// spend NAME [until STATE] [latency=…]: everything happens as it should until the
// machine is in that state, and what it asks for on the way is counted, in order.
func (s *script) spendCommand(t *testing.T) string {
	a, state := s.subject(), s.data.CmdArgs[1].Key
	var verbs []string
	for _, r := range a.flying {
		verbs = append(verbs, r.Kind.String())
	}
	s.drive(s.latency(t), s.now+int64(time.Hour), func(x *actor, actions []Action) bool {
		for _, action := range actions {
			if x == a && action.Kind.IsRequest() {
				verbs = append(verbs, action.Kind.String())
			}
		}
		return a.machine.String() == state || a.machine.Idle()
	})
	return s.stateLine(a) + ": " + runs(verbs)
}

// runs writes what comes several times in a row once.
func runs(verbs []string) string {
	var out []string
	for i := 0; i < len(verbs); {
		n := 1
		for i+n < len(verbs) && verbs[i+n] == verbs[i] {
			n++
		}
		text := verbs[i]
		if n > 1 {
			text += fmt.Sprintf(" x%d", n)
		}
		out = append(out, text)
		i += n
	}
	return strings.Join(out, ", ")
}

// crash NAME: its process ends; what it has sent may land.
func (s *script) crashCommand(*testing.T) string {
	a := s.subject()
	for _, r := range a.flying {
		if !r.applied && isWrite(r.Kind) {
			a.stray = append(a.stray, r)
		}
	}
	a.flying, a.wake, a.strict.stands = nil, unset, nil
	return a.name + " is gone"
}

// deny NAME: the request in flight, which was applied, is sent once more by
// somebody on the way, and answered: no.
func (s *script) denyCommand(t *testing.T) string {
	a, r := s.subject(), s.flying(t)
	r.reply.Outcome = OutcomeNo
	return s.shown(a, func() ([]Action, error) { return s.answer(a, r) })
}
