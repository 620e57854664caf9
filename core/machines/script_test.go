package machines

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	hosts "github.com/mopslock/mopslock/tests/world"
)

// script is one story being played: a world and the command at hand.
type script struct {
	*world
	data *datadriven.TestData
}

// handlers is every command of a script.
var handlers = map[string]func(*script, *testing.T) string{
	"machine":   (*script).machineCommand,
	"acquire":   (*script).acquireCommand,
	"release":   (*script).eventCommand,
	"cancel":    (*script).eventCommand,
	"accompany": (*script).eventCommand,
	"leave":     (*script).eventCommand,
	"changed":   (*script).eventCommand,
	"woke":      (*script).eventCommand,
	"begin":     (*script).acquireCommand,
	"ended":     (*script).endedCommand,
	"limit":     (*script).eventCommand,
	"apply":     (*script).applyCommand,
	"answer":    (*script).answerCommand,
	"unknown":   (*script).unknownCommand,
	"land":      (*script).landCommand,
	"hold":      (*script).holdCommand,
	"clock":     (*script).clockCommand,
	"wake":      (*script).wakeCommand,
	"reach":     (*script).reachCommand,
	"run":       (*script).runCommand,
	"write":     (*script).writeCommand,
	"delete":    (*script).deleteCommand,
	"store":     (*script).storeCommand,

	"sample":   (*script).sampleCommand,
	"stand":    (*script).standCommand,
	"object":   (*script).objectCommand,
	"empty":    (*script).emptyCommand,
	"objects":  (*script).objectsCommand,
	"versions": (*script).versionsCommand,
	"spend":    (*script).spendCommand,
	"crash":    (*script).crashCommand,
	"deny":     (*script).denyCommand,
	"blank":    (*script).blankCommand,
	"stamps":   (*script).stampsCommand,
	"state":    (*script).stateCommand,
	"freeze":   (*script).freezeCommand,
	"prompt":   (*script).promptCommand,
	"darken":   (*script).darkenCommand,
	"crowd":    (*script).crowdCommand,
}

// machine NAME [companion] [ttl=…] …: makes a machine.
func (s *script) machineCommand(t *testing.T) string {
	cfg := core.Config{
		Machine: core.MachineLease,
		Terms: core.Terms{
			Name: s.text("name", "n"), TTL: core.TTL(s.duration(t, "ttl", 0)), Margin: s.duration(t, "margin", 0),
			AcquireMargin: s.duration(t, "acquire-margin", 0), FleetExpire: core.TTL(s.duration(t, "fleet", 0)),
		},
		Host: s.text("host", ""), PID: s.text("pid", ""),
	}
	if s.data.HasArg("companion") {
		cfg.Machine = core.MachineCompanion
	}
	if holder := s.text("holder", ""); holder != "" {
		cfg.Holder = s.holder(holder)
	}
	cfg.Renewal, _ = byName[core.Renewal](s.text("renewal", ""))
	cfg.Expiry, _ = byName[core.Expiry](s.text("expiry", ""))
	cfg.Role, _ = byName[core.Role](s.text("role", ""))
	if s.data.HasArg("strict") {
		s.strictConfig(t, &cfg)
	}
	s.invocationConfig(&cfg)
	a, err := s.add(s.data.CmdArgs[0].Key, cfg)
	if err == nil {
		s.standOn(a)
	}
	if err != nil {
		return err.Error()
	}
	return s.stateLine(a)
}

// holder is the tenure of a machine, or the text itself.
func (s *script) holder(name string) core.HolderID {
	for _, a := range s.actors {
		if a.name == name {
			return holderIn(a.machine)
		}
	}
	return core.HolderID(name)
}

// acquire NAME [wait=…|forever], begin NAME [wait=…|forever].
func (s *script) acquireCommand(t *testing.T) string {
	kind, _ := byName[core.EventKind](s.data.Cmd)
	ev := core.Event{Kind: kind, Wait: s.duration(t, "wait", 0)}
	s.permitEvent(&ev)
	return s.stepped(s.subject(), ev)
}

// EVENT NAME [brief].
func (s *script) eventCommand(*testing.T) string {
	kind, _ := byName[core.EventKind](s.data.Cmd)
	ev := core.Event{Kind: kind, Brief: s.data.HasArg("brief")}
	s.permitEvent(&ev)
	return s.stepped(s.subject(), ev)
}

// apply NAME: the request in flight reaches the store.
func (s *script) applyCommand(t *testing.T) string {
	r := s.flying(t)
	s.apply(r)
	return s.storeLine(t, r.Key)
}

// answer NAME [id=N]: it is applied, if it was not, and answered.
func (s *script) answerCommand(t *testing.T) string {
	a, r := s.subject(), s.flying(t)
	return s.shown(a, func() ([]core.Action, error) { return s.answer(a, r) })
}

// unknown NAME [class=…] [applied] [id=N]: its answer is lost, its effect
// perhaps not.
func (s *script) unknownCommand(t *testing.T) string {
	a, r := s.subject(), s.flying(t)
	class, ok := byName[core.Class](s.text("class", core.ClassOther.String()))
	if !ok {
		t.Fatalf("%s: no such class", s.data.Pos)
	}
	if s.data.HasArg("applied") {
		s.apply(r)
	}
	return s.shown(a, func() ([]core.Action, error) { return s.unknown(a, r, class) })
}

// land NAME: the oldest put that was given up lands after all.
func (s *script) landCommand(t *testing.T) string {
	a := s.subject()
	if len(a.stray) == 0 {
		t.Fatalf("%s: nothing can land", s.data.Pos)
	}
	r := a.stray[0]
	s.land(a, r)
	return s.storeLine(t, r.Key)
}

// hold NAME [id=N]: the request in flight stays on its way until it is named.
func (s *script) holdCommand(t *testing.T) string {
	r := s.flying(t)
	r.held = true
	return fmt.Sprintf("%s #%d is held up", r.Kind, r.Request)
}

// clock +5s, clock at=5s: everybody's time goes on. clock NAME wall=+5s: one
// machine's wall clock steps.
func (s *script) clockCommand(t *testing.T) string {
	switch {
	case s.data.HasArg("wall"):
		s.subject().wall += int64(s.duration(t, "wall", 0))
	case s.data.HasArg("at"):
		s.now = max(s.now, int64(s.duration(t, "at", 0)))
	default:
		s.now += int64(parseDuration(t, s.data.CmdArgs[0].Key))
	}
	return "now " + seconds(s.now)
}

// wake NAME: time goes on to its wake, and it is woken.
func (s *script) wakeCommand(t *testing.T) string {
	a := s.subject()
	if a.wake == base.Unset {
		t.Fatalf("%s: no wake is set", s.data.Pos)
	}
	s.now = max(s.now, s.trueAt(a, a.wake))
	return s.stepped(a, core.Event{Kind: core.EventWoke})
}

// reach NAME STATE [latency=…]: everything happens as it should until the
// machine is in that state.
func (s *script) reachCommand(t *testing.T) string {
	a, state := s.subject(), s.data.CmdArgs[1].Key
	end := s.now + int64(time.Hour)
	there := func(*actor, []core.Action) bool { return a.machine.String() == state }
	if !there(a, nil) {
		s.drive(s.latency(t), end, there)
	}
	return s.stateLine(a)
}

// run 60s [latency=…] [notices|quiet]: everything happens as it should for so long.
func (s *script) runCommand(t *testing.T) string {
	end := s.now + int64(parseDuration(t, s.data.CmdArgs[0].Key))
	var out strings.Builder
	s.drive(s.latency(t), end, func(a *actor, actions []core.Action) bool {
		if !s.data.HasArg("quiet") && (!s.data.HasArg("notices") || hasNotice(actions)) {
			out.WriteString(s.show(a, actions))
		}
		return false
	})
	s.now = end
	return out.String() + "now " + seconds(s.now)
}

func hasNotice(actions []core.Action) bool {
	for _, a := range actions {
		if a.Kind >= core.ActionWaiting && a.Kind != core.ActionWake {
			return true
		}
	}
	return false
}

// write [writer=… written=-5s …]: a record made by somebody else; with input
// below it, that is the whole object.
func (s *script) writeCommand(t *testing.T) string {
	body := []byte(strings.TrimSuffix(s.data.Input, "\n"))
	if len(s.data.CmdArgs) > 0 {
		body = s.foreign(t)
	}
	s.store["n/lock.json"] = hosts.Object{Body: body, Stamp: worldStart + s.now}
	return s.storeCommand(t)
}

// foreign is a record as mops would write it; instants are from now.
func (s *script) foreign(t *testing.T) []byte {
	if size := s.text("bytes", ""); size != "" {
		n, _ := strconv.Atoi(size)
		return []byte(strings.Repeat(" ", n))
	}
	stamp := func(name string) string {
		if !s.data.HasArg(name) {
			return ""
		}
		return core.FormatStamp(worldStart + s.now + int64(s.duration(t, name, 0)))
	}
	return fmt.Appendf(nil, `{"writer_id": %q, "written_at": %q, "expire_s": %s, "write_count": %s, "hostname": %q,`+
		` "first_acquired_at": %q, "released_at": %q, "colour": ["blue"]%s}`,
		s.holder(s.text("writer", "x")), stamp("written"), s.text("expire", "88.0"), s.text("count", "1"),
		s.text("host", "elsewhere"), stamp("acquired"), stamp("released"), s.text("extra", ""))
}

// delete: somebody removes the object.
func (s *script) deleteCommand(t *testing.T) string {
	delete(s.world.store, "n/lock.json")
	return s.storeCommand(t)
}

// store [raw]: what the store holds.
func (s *script) storeCommand(*testing.T) string {
	o, there := s.world.store["n/lock.json"]
	switch {
	case !there:
		return "store: absent"
	case s.data.HasArg("raw"):
		return string(o.Body)
	}
	return "store: " + s.formatBody(o.Body)
}

func (s *script) subject() *actor { return s.actor(s.data.CmdArgs[0].Key) }

// flying is the subject's newest request that was not answered, or the one
// with the id given.
func (s *script) flying(t *testing.T) *request {
	a := s.subject()
	id := s.text("id", "")
	for i := len(a.flying) - 1; i >= 0; i-- {
		if id == "" || strconv.Itoa(int(a.flying[i].Request)) == id {
			return a.flying[i]
		}
	}
	t.Fatalf("%s: no request is in flight", s.data.Pos)
	return nil
}

func (s *script) stepped(a *actor, ev core.Event) string {
	return s.shown(a, func() ([]core.Action, error) { return s.step(a, ev) })
}

func (s *script) shown(a *actor, do func() ([]core.Action, error)) string {
	actions, err := do()
	if err != nil {
		return err.Error()
	}
	text := s.show(a, actions)
	for _, r := range s.relays {
		text += s.show(r.actor, r.actions)
	}
	s.relays = nil
	return strings.TrimSuffix(text, "\n")
}

// show is the state line, then the actions.
func (s *script) show(a *actor, actions []core.Action) string {
	var out strings.Builder
	out.WriteString(s.stateLine(a) + "\n")
	for _, action := range actions {
		out.WriteString("  " + s.formatAction(action) + "\n")
	}
	return out.String()
}

func (s *script) stateLine(a *actor) string {
	text := seconds(s.now) + " " + a.name + " " + a.machine.String()
	if a.machine.Idle() {
		text += " (idle)"
	}
	return text
}

func (s *script) text(name, otherwise string) string {
	for _, arg := range s.data.CmdArgs {
		if arg.Key == name && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return otherwise
}

func (s *script) latency(t *testing.T) int64 {
	return int64(s.duration(t, "latency", 100*time.Millisecond))
}

func (s *script) duration(t *testing.T, name string, otherwise time.Duration) time.Duration {
	text := s.text(name, "")
	if text == "" {
		return otherwise
	}
	return parseDuration(t, text)
}

// byName is the value of an enum that has this name.
func byName[E interface {
	~uint8
	String() string
}](name string) (E, bool) {
	for n := range 256 {
		if name != "" && E(n).String() == name {
			return E(n), true
		}
	}
	return 0, false
}

func parseDuration(t *testing.T, text string) time.Duration {
	if text == "forever" || text == "none" {
		return core.Forever
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
