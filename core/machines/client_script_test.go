package machines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/mopslock/mopslock/core"
	hosts "github.com/mopslock/mopslock/tests/world"
)

// The scripts of clients: each process is one machine with many claims, behind messages.

// clientScript is one story of clients being played: its vector is written as it goes on.
type clientScript struct {
	script
	v       *vector
	clients []*process
	blind   bool // the store takes every create for a put
	sent    int  // requests, since they were counted last
	said    strings.Builder
}

// process is one client and its host.
type process struct {
	hosts.Process
	name   string
	flying []*request
	last   uint64 // claim
	holder core.HolderID
	epoch  core.Epoch
	memory map[string][]byte
}

// scripted is a client behind messages. It says what it answers in the script's output.
type scripted struct {
	core.Machine // none: only steps are asked for
	script       *clientScript
	number       int // in the vector
}

// Step implements core.Machine.
func (c *scripted) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	s := c.script
	message := s.v.stepped(c.number, core.AppendInput(nil, now, &ev))
	var answer core.Answer
	err := core.DecodeAnswer(message, new(core.AnswerBuffer), &answer)
	if err = errors.Join(err, answer.Err); err != nil {
		return nil, err
	}
	for i := range answer.Actions {
		s.said.WriteString(s.actionLine(&answer.Actions[i]))
	}
	if answer.Idle {
		s.said.WriteString("  (idle)\n")
	}
	return answer.Actions, nil
}

var clientHandlers = map[string]func(*clientScript, *testing.T) string{
	"client": (*clientScript).clientCommand, "do": (*clientScript).doCommand,
	"answer": (*clientScript).answerCommand, "unknown": (*clientScript).unknownCommand,
	"settle": (*clientScript).settleCommand, "run": (*clientScript).runCommand,
	"wake": (*clientScript).wakeCommand, "clock": (*clientScript).clockCommand,
	"put": (*clientScript).putCommand, "remove": (*clientScript).removeCommand,
	"objects": (*clientScript).objectsCommand, "changed": (*clientScript).changedCommand,
	"store": (*clientScript).storeCommand, "count": (*clientScript).countCommand, "crash": (*clientScript).crashCommand, "crowd": (*clientScript).crowdCommand,
}

// TestClientScripts plays the stories of clients.
func TestClientScripts(t *testing.T) {
	for _, path := range glob(t, "../testdata/clients/*") {
		t.Run(filepath.Base(path), func(t *testing.T) { playClients(t, path) })
	}
}

// playClients runs one script and answers its vector.
func playClients(t *testing.T, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil || len(text) < 2 || text[0] != '#' {
		t.Fatal("the first line must be a comment with the theorem")
	}
	theorem, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	s := &clientScript{v: newVector(theorem, "testdata/clients/"+filepath.Base(path))}
	s.world = newWorld(t)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		handler, ok := clientHandlers[d.Cmd]
		if !ok {
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		s.data = d
		return strings.TrimSuffix(handler(s, t), "\n") + "\n"
	})
	return s.v.end()
}

// clientVectors is each story of clients as a vector.
func clientVectors(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	for _, path := range glob(t, "../testdata/clients/*") {
		files["client_"+filepath.Base(path)+".vec"] = playClients(t, path)
	}
	return files
}

// client NAME [own] [samples] [watches] [remembers] [nocreate] [nolist] [boot=…] [in_flight=…]: a process.
func (s *clientScript) clientCommand(t *testing.T) string {
	cfg := core.Config{
		Machine: core.MachineClient, Host: "h", PID: s.data.CmdArgs[0].Key, Seed: [16]byte{byte(len(s.clients) + 1)}, StampUnit: 1,
		OwnStore: s.data.HasArg("own"), NoCreate: s.data.HasArg("nocreate"), NoList: s.data.HasArg("nolist"), Probes: s.data.HasArg("probes"), Samples: s.data.HasArg("samples"),
		Watches: s.data.HasArg("watches"), Remembers: s.data.HasArg("remembers"), Boot: s.text("boot", ""), InFlight: s.count(t, "in_flight"),
	}
	p := &process{name: cfg.PID, memory: map[string][]byte{}}
	if before := s.named(p.name); before != nil { // the next process of this boot
		p.memory = before.memory
		s.clients = slices.DeleteFunc(s.clients, func(q *process) bool { return q == before })
	}
	p.Process = hosts.Process{Client: &scripted{script: s, number: s.v.made(core.AppendConfig(nil, &cfg))}, Late: true}
	s.clients = append(s.clients, p)
	return p.name
}

func (s *clientScript) count(t *testing.T, name string) (n uint64) {
	if text := s.text(name, ""); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (s *clientScript) named(name string) *process {
	for _, p := range s.clients {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (s *clientScript) process(t *testing.T) *process {
	p := s.named(s.data.CmdArgs[0].Key)
	if p == nil {
		s.data.Fatalf(t, "no client %s", s.data.CmdArgs[0].Key)
	}
	return p
}

// step gives an event to a client, and answers its actions as text.
func (s *clientScript) step(p *process, ev core.Event) string {
	s.said.Reset()
	actions, err := p.Step(core.Instant{Mono: s.now, Wall: worldStart + s.now}, ev)
	if err != nil {
		return "error: " + strings.TrimPrefix(err.Error(), "mopslock: ") + "\n"
	}
	for i := range actions {
		s.take(p, &actions[i])
	}
	return s.said.String()
}

func (s *clientScript) take(p *process, a *core.Action) {
	switch {
	case a.Kind == core.ActionHeld && a.Claim != 0:
		p.holder, p.epoch = a.Holder, a.Epoch
	case a.Kind == core.ActionRemember:
		p.memory[a.Key] = a.Body
	case a.Kind == core.ActionForget:
		delete(p.memory, a.Key)
	case a.Kind.IsRequest():
		s.sent++
		p.flying = append(p.flying, &request{Action: *a, sent: s.now})
	}
}

func (s *clientScript) actionLine(a *core.Action) string {
	var l line
	l.WriteString("  " + a.Kind.String())
	if a.Claim != 0 {
		fmt.Fprintf(&l, " %d", a.Claim)
	}
	if a.Request != 0 {
		fmt.Fprintf(&l, " #%d", a.Request)
	}
	if a.Key != "" {
		l.field("key", s.formatKey(a.Key))
	}
	if a.Limit != 0 {
		l.field("limit", a.Limit.String())
	}
	if a.Purpose != 0 {
		l.field("for", a.Purpose.String())
	}
	if a.Reason != 0 {
		l.WriteString(" " + a.Reason.String())
	}
	l.field("class", a.Class.String())
	if a.Kind == core.ActionTried || a.Kind == core.ActionRefused || a.Kind == core.ActionWarned {
		l.field("text", string(a.Body))
	}
	if a.At != 0 {
		l.field("at", deadline(a.At))
	}
	l.number("epoch", uint64(a.Epoch))
	l.number("token", uint64(a.Token))
	if a.Protocol != 0 {
		l.WriteString(" " + a.Protocol.String())
	}
	l.number("on", a.On)
	if a.Origin != 0 {
		l.field("from", a.Origin.String())
	}
	if a.Took != 0 {
		l.field("took", a.Took.String())
	}
	if a.Verb != 0 {
		l.field("verb", a.Verb.String())
	}
	if a.TTL != 0 {
		l.field("ttl", core.Duration(a.TTL).String())
	}
	if a.Observed != nil {
		l.field("sight", a.Observed.State.String())
	}
	l.number("total", a.Total)
	l.number("count", a.Count)
	return l.String() + "\n"
}

// do NAME KIND [claim=…] [name=…] [strict] [lastwriter] [bridge] [session] [ttl=…] [wait=…] [of=CLIENT] …: a command.
func (s *clientScript) doCommand(t *testing.T) string {
	p := s.process(t)
	kind, ok := byName[core.EventKind](s.data.CmdArgs[1].Key)
	if !ok {
		s.data.Fatalf(t, "no command %s", s.data.CmdArgs[1].Key)
	}
	ev := core.Event{Kind: kind, Claim: s.count(t, "claim"), Wait: s.duration(t, "wait", 0), StoreLimit: s.count(t, "limit"), Brief: s.data.HasArg("brief")}
	ev.Capacity, ev.Width, ev.Weight = uint32(s.count(t, "capacity")), uint32(s.count(t, "width")), uint32(s.count(t, "weight"))
	if s.data.HasArg("forever") {
		ev.Wait = core.Forever
	}
	if kind == core.EventEnded {
		ev.Outcome = core.OutcomeNo
		if s.data.HasArg("well") {
			ev.Outcome, ev.Result = core.OutcomeYes, true
		}
	}
	name := s.text("name", "")
	if name == "" {
		return s.step(p, ev)
	}
	terms := &core.Terms{
		Name: name, TTL: core.TTL(s.duration(t, "ttl", 0)), OnSession: s.data.HasArg("session"), Why: s.text("why", ""),
		WithoutLease: s.data.HasArg("without-lease"), MemoFailures: s.data.HasArg("memo"), Now: s.data.HasArg("now"),
	}
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter, core.ProtocolBridge} {
		if s.data.HasArg(protocol.String()) {
			terms.Protocol = protocol
		}
	}
	if of := s.named(s.text("of", "")); of != nil {
		terms.Holder, terms.Epoch = of.holder, of.epoch
	}
	terms.Role, _ = byName[core.Role](s.text("role", ""))
	if terms.Role == core.RoleOwner && terms.Epoch != 0 {
		terms.Owner = string(terms.Holder)
	}
	p.last++
	ev.Claim, ev.Terms, ev.Body = cmp.Or(ev.Claim, p.last), terms, p.memory[name]
	p.last = ev.Claim
	return s.step(p, ev)
}

// request is the one that a command is about: by its number, or the oldest.
func (s *clientScript) request(t *testing.T, p *process) *request {
	n := s.count(t, "n")
	for _, r := range p.flying {
		if n == 0 || uint64(r.Request) == n {
			p.flying = without(p.flying, r)
			return r
		}
	}
	s.data.Fatalf(t, "%s has no such request", p.name)
	return nil
}

func (s *clientScript) reach(r *request) {
	if s.blind && r.Kind == core.ActionCreate {
		delete(s.world.store, r.Key)
	}
	s.apply(r)
}

// answer NAME [n=…]: the request reaches the store, and is answered.
func (s *clientScript) answerCommand(t *testing.T) string {
	p := s.process(t)
	r := s.request(t, p)
	s.reach(r)
	return s.step(p, r.reply)
}

// unknown NAME [n=…] [class=…] [applied] [retry=…] [all]: no answer comes.
func (s *clientScript) unknownCommand(t *testing.T) string {
	p := s.process(t)
	out := ""
	for all := s.data.HasArg("all"); ; {
		r := s.request(t, p)
		if s.data.HasArg("applied") {
			s.reach(r)
		}
		class, _ := byName[core.Class](s.text("class", "unreachable"))
		out += s.step(p, core.Event{
			Kind: core.EventAnswer, Request: r.Request, Outcome: core.OutcomeUnknown, Class: class, RetryAfter: s.duration(t, "retry", 0),
		})
		if !all || len(p.flying) == 0 {
			return out
		}
	}
}

// settle NAME: its requests reach the store and are answered, until there is none.
func (s *clientScript) settleCommand(t *testing.T) string { return s.settle(s.process(t)) }

func (s *clientScript) settle(p *process) string {
	out := ""
	for len(p.flying) > 0 {
		r := p.flying[0]
		p.flying = p.flying[1:]
		s.reach(r)
		out += notices(s.step(p, r.reply))
	}
	return out
}

// notices leaves out requests and the wake.
func notices(text string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if !strings.Contains(l, " #") && !strings.HasPrefix(l, "  wake") {
			out.WriteString(l)
		}
	}
	return out.String()
}

// run D: time passes, and all is answered at once.
func (s *clientScript) runCommand(t *testing.T) string {
	var out strings.Builder
	end := s.now + int64(parseDuration(t, s.data.CmdArgs[0].Key))
	for {
		at := end
		for _, p := range s.clients {
			if len(p.flying) > 0 {
				at = s.now
			} else if p.Wake != 0 {
				at = min(at, max(p.Wake, s.now))
			}
		}
		s.now = at
		idle := true
		for _, p := range s.clients {
			text := s.settle(p)
			if p.Wake != 0 && p.Wake <= s.now && s.now < end {
				text += notices(s.step(p, core.Event{Kind: core.EventWoke}))
				idle = false
			}
			for l := range strings.Lines(text) {
				fmt.Fprintf(&out, "%s %s%s", seconds(s.now), p.name, l[1:])
			}
		}
		if idle && s.now == end {
			return out.String()
		}
	}
}

// wake NAME: time passes until its timer, and it is woken.
func (s *clientScript) wakeCommand(t *testing.T) string {
	p := s.process(t)
	s.now = max(s.now, p.Wake)
	return "now " + seconds(s.now) + "\n" + s.step(p, core.Event{Kind: core.EventWoke})
}

// clock D: time passes.
func (s *clientScript) clockCommand(t *testing.T) string {
	s.now += int64(parseDuration(t, s.data.CmdArgs[0].Key))
	return "now " + seconds(s.now)
}

// put KEY: somebody else writes an object.
func (s *clientScript) putCommand(*testing.T) string {
	s.world.store[s.data.CmdArgs[0].Key] = hosts.Object{Body: []byte(s.data.Input), Stamp: s.stamp()}
	return "ok"
}

// remove KEY: somebody else deletes an object.
func (s *clientScript) removeCommand(*testing.T) string {
	if key := s.data.CmdArgs[0].Key; strings.HasSuffix(key, "/") {
		s.world.empty(key)
	} else {
		delete(s.world.store, key)
	}
	return "ok"
}

// objects: the keys in the store.
func (s *clientScript) objectsCommand(*testing.T) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.world.store)) {
		out.WriteString(s.formatKey(key) + "\n")
	}
	return out.String()
}

// changed NAME KEY: the host tells of a change.
func (s *clientScript) changedCommand(t *testing.T) string {
	p := s.process(t)
	key := s.data.CmdArgs[1].Key
	for _, watched := range p.Watched {
		if s.formatKey(watched) == key {
			key = watched
		}
	}
	return s.step(p, core.Event{Kind: core.EventChanged, Key: []byte(key)})
}

// store [blind]: it takes every create for a put, or not.
func (s *clientScript) storeCommand(*testing.T) string {
	s.blind = s.data.HasArg("blind")
	return "ok"
}

// count: requests since the last count.
func (s *clientScript) countCommand(*testing.T) string {
	n := s.sent
	s.sent = 0
	return fmt.Sprint(n, " requests")
}

// crowd NAME n=…: so many claims on a session, each of a name of its own.
func (s *clientScript) crowdCommand(t *testing.T) string {
	p := s.process(t)
	for n := range s.count(t, "n") {
		p.last++
		terms := &core.Terms{Name: fmt.Sprint("n", n), OnSession: true}
		s.step(p, core.Event{Kind: core.EventAcquire, Claim: p.last, Terms: terms, Wait: core.Forever})
	}
	held := strings.Count(s.settle(p), "held")
	return fmt.Sprint(held, " held")
}

// crash NAME: the process is gone; what it has sent never lands.
func (s *clientScript) crashCommand(t *testing.T) string {
	p := s.process(t)
	p.flying, p.Wake = nil, 0
	return p.name + " is gone"
}
