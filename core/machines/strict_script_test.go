package machines

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
	hosts "github.com/mopslock/mopslock/tests/world"
)

// machine NAME strict [session|breaker|observer|calibration] [on=SESSION] …: the
// options that only strict has.
func (s *script) strictConfig(t *testing.T, cfg *core.Config) {
	cfg.Protocol = core.ProtocolStrict
	cfg.OwnStore = !s.data.HasArg("remote")
	for _, kind := range []core.MachineKind{core.MachineSession, core.MachineRevocation, core.MachineInspection, core.MachineStoreClockSample, core.MachineSemaphore} {
		if s.data.HasArg(kind.String()) {
			cfg.Machine = kind
		}
	}
	cfg.StampUnit = s.duration(t, "unit", time.Duration(s.unit))
	cfg.StampSpread = s.duration(t, "spread", 0)
	cfg.Boot, cfg.Label, cfg.Why = s.text("boot", ""), s.text("label", ""), s.text("why", "")
	cfg.OnSession, cfg.LockFilePresent, cfg.Now = s.data.HasArg("on"), s.data.HasArg("beside"), s.data.HasArg("now")
	epoch, _ := parseUint(s.text("epoch", "0"))
	cfg.Epoch = core.Epoch(epoch)
	if cfg.Owner = s.text("owner", ""); cfg.Owner != "" {
		cfg.Owner = string(s.holder(cfg.Owner))
	}
	if name := s.text("last", ""); name != "" {
		from := &s.actor(name).strict
		cfg.LastEpoch, cfg.LastAt = from.lastEpoch, from.lastAt
	}
	if name := s.text("seen", ""); name != "" {
		from := &s.actor(name).strict
		cfg.SeenFingerprint, cfg.SeenSince = from.seenFingerprint, from.seenSince
	}
}

// … permit=N capacity=C width=W [weight=W] [spare=N] [label=TEXT], of acquire;
// permit=N of release and cancel; permit=N store_limit=N of limit.
func (s *script) permitEvent(ev *core.Event) {
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
	return s.stepped(a, core.Event{Kind: core.EventWoke})
}

// sample: the host has taken a sample of the store's clock just now.
func (s *script) sampleCommand(*testing.T) string {
	s.sample = register.StoreClockSample{Stamp: s.stamp(), At: s.now}
	return fmt.Sprintf("store=%s at=%s", wallSeconds(s.sample.Stamp), seconds(s.now))
}

// stamps none|unit=1s: what the store's modification times are like.
func (s *script) stampsCommand(t *testing.T) string {
	s.stamps = !s.data.HasArg("none")
	s.unit = int64(s.duration(t, "unit", 0))
	return fmt.Sprintf("stamps=%v unit=%s", s.stamps, seconds(s.unit))
}

// object KEY [raw|delete|edit|stamp=-5s]: one object of the store; with input below
// it, somebody writes that, or has the first line of it replaced by the second.
func (s *script) objectCommand(t *testing.T) string {
	key := s.parseKey(s.data.CmdArgs[0].Key)
	o, there := s.world.store[key]
	switch {
	case s.data.HasArg("delete"):
		delete(s.world.store, key)
	case s.data.HasArg("stamp"):
		s.world.store[key] = hosts.Object{Body: o.Body, Stamp: s.stamp() + int64(s.duration(t, "stamp", 0))}
	case s.data.HasArg("edit"):
		from, to, _ := strings.Cut(strings.TrimSuffix(s.data.Input, "\n"), "\n")
		if !strings.Contains(string(o.Body), from) {
			t.Fatalf("%s: no %q in %s", s.data.Pos, from, o.Body)
		}
		s.world.store[key] = hosts.Object{Body: []byte(strings.Replace(string(o.Body), from, to, 1)), Stamp: s.stamp()}
	case s.data.Input != "":
		s.world.store[key] = hosts.Object{Body: []byte(s.data.Input), Stamp: s.stamp()}
	case s.data.HasArg("raw") && there:
		return strings.TrimSuffix(string(o.Body), "\n")
	}
	return s.storeLine(t, key)
}

// empty KEY: the directory of that name, or of that version, is removed with all that is in it.
func (s *script) emptyCommand(*testing.T) string {
	key := s.parseKey(s.data.CmdArgs[0].Key)
	if version, is := strings.CutSuffix(key, "/v"); is {
		key = version
	}
	s.world.empty(strings.TrimSuffix(key, "/") + "/")
	return "gone"
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
	if strings.HasSuffix(key, "/"+core.LockFile) {
		return s.storeCommand(t)
	}
	o, there := s.world.store[key]
	if !there {
		return "store: " + s.formatKey(key) + " absent"
	}
	return "store: " + s.formatKey(key) + " " + wallSeconds(o.Stamp) + " " + s.formatBodyOf(key, o.Body)
}

// spend NAME [until STATE] [latency=…]: everything happens as it should until the
// machine is in that state, and what it asks for on the way is counted, in order.
func (s *script) spendCommand(t *testing.T) string {
	a, state := s.subject(), s.data.CmdArgs[1].Key
	var verbs []string
	for _, r := range a.flying {
		verbs = append(verbs, r.Kind.String())
	}
	s.drive(s.latency(t), s.now+int64(time.Hour), func(x *actor, actions []core.Action) bool {
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

// crash NAME…: their process ends; what they have sent may land.
func (s *script) crashCommand(*testing.T) string {
	all := s.subjects()
	for _, a := range all {
		for _, r := range a.flying {
			if !r.applied && isWrite(r.Kind) {
				a.stray = append(a.stray, r)
			}
		}
		a.flying, a.wake, a.strict.stands, a.deadline = nil, base.Unset, nil, base.Unset
	}
	if len(all) > 1 {
		return fmt.Sprintf("%d are gone", len(all))
	}
	return all[0].name + " is gone"
}

// subjects is everybody who is named; c* is all whose names begin with c, but=NAME not.
func (s *script) subjects() (all []*actor) {
	for _, arg := range s.data.CmdArgs {
		prefix, many := strings.CutSuffix(arg.Key, "*")
		for _, a := range s.actors {
			if len(arg.Vals) == 0 && a.name != s.text("but", "") && (a.name == arg.Key || many && strings.HasPrefix(a.name, prefix)) {
				all = append(all, a)
			}
		}
	}
	if len(all) == 0 {
		s.world.t.Fatalf("%s: nobody has that name", s.data.Pos)
	}
	return all
}

// state NAME…: where they are, and until when they believe.
func (s *script) stateCommand(*testing.T) string {
	var out []string
	for _, a := range s.subjects() {
		text := s.stateLine(a)
		if a.deadline != base.Unset {
			text += " until=" + deadline(a.deadline)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// freeze NAME: it stands still, and no wake and no answer reaches it.
func (s *script) freezeCommand(*testing.T) string {
	s.subject().wake = base.Unset
	for _, r := range s.subject().flying {
		r.held = true
	}
	return s.subject().name + " stands still"
}

// prompt NAME: all that it asks for is answered at once, in no time; and what it tells.
func (s *script) promptCommand(*testing.T) string {
	var out strings.Builder
	a := s.subject()
	for range 300 {
		if len(a.flying) == 0 {
			return cmp.Or(strings.TrimSuffix(out.String(), "\n"), s.stateLine(a))
		}
		actions, err := s.answer(a, a.flying[len(a.flying)-1])
		if err != nil {
			return err.Error()
		}
		if hasNotice(actions) {
			out.WriteString(s.show(a, actions))
		}
	}
	return a.name + " asks forever"
}

// darken NAME: each of its requests is lost on the way, until it gives up.
func (s *script) darkenCommand(*testing.T) string {
	a, began := s.subject(), s.now
	for range 1000 {
		if a.machine.Idle() {
			break
		}
		at, r := a.wake, (*request)(nil)
		if n := len(a.flying); n > 0 {
			r = a.flying[n-1]
			at = min(at, r.sent+int64(r.Limit))
		}
		s.now = max(s.now, at)
		if r == nil || at == a.wake {
			s.say(a, core.Event{Kind: core.EventWoke})
		} else if _, err := s.unknown(a, r, core.ClassUnreachable); err != nil {
			return err.Error()
		}
	}
	return s.stateLine(a) + " after " + seconds(s.now-began)
}

// crowd N LETTER ARGS… [wall=…] [gap=…] [crash|release]: so many machines, made as ARGS
// say and begun one after the other, with wall clocks that are wrong by so much; before
// the next one comes time passes, and the one before it is gone, or has given back.
func (s *script) crowdCommand(t *testing.T) string {
	count, _ := parseUint(s.data.CmdArgs[0].Key)
	letter, args := s.data.CmdArgs[1].Key, s.data.CmdArgs[2:]
	verb := core.Event{Kind: core.EventAcquire, Wait: core.Forever}
	var a *actor
	for i := range count {
		s.data.CmdArgs = append([]datadriven.CmdArg{{Key: fmt.Sprint(letter, i)}}, args...)
		s.machineCommand(t)
		a = s.subject()
		if a.wall = int64(s.duration(t, "wall", 0)); kindOf(a.machine) == core.MachineCompanion {
			verb = core.Event{Kind: core.EventAccompany}
		}
		s.promptly(a, verb)
		s.pass(s.duration(t, "gap", 0))
		switch {
		case s.data.HasArg("release"):
			s.promptly(a, core.Event{Kind: core.EventRelease})
		case s.data.HasArg("crash"):
			s.crashCommand(t)
		}
	}
	return s.stateLine(a)
}

// versions: which ones of the name there are.
func (s *script) versionsCommand(*testing.T) string {
	all := s.keysOf("n")
	var out []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i]+core.Epoch(n) {
			n++
		}
		text := fmt.Sprint(all[i])
		if n > 1 {
			text += fmt.Sprintf(" to %d", all[i+n-1])
		}
		out = append(out, text)
		i += n
	}
	return strings.Join(out, ", ")
}

// deny NAME: the request in flight, which was applied, is sent once more by
// somebody on the way, and answered: no.
func (s *script) denyCommand(t *testing.T) string {
	a, r := s.subject(), s.flying(t)
	r.reply.Outcome = core.OutcomeNo
	return s.shown(a, func() ([]core.Action, error) { return s.answer(a, r) })
}

// blank NAME: the list in flight is answered by something between, with nothing in it.
func (s *script) blankCommand(t *testing.T) string {
	a, r := s.subject(), s.flying(t)
	if !r.applied {
		s.apply(r)
	}
	r.reply.Entries = nil
	return s.shown(a, func() ([]core.Action, error) { return s.answer(a, r) })
}
