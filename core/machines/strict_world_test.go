package machines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// What a world needs for strict: lists and creates, stamps, the host of a
// session, and the names by which scripts call keys and records.

// strictActor is what the host of a machine that speaks strict keeps for it.
type strictActor struct {
	stands *actor // the session that it stands on

	// Of a session: what it has said.
	sid   string
	until int64
	end   core.Reason

	// Of a lease: what may be told to the next one.
	lastEpoch       core.Epoch
	lastAt          int64
	seenFingerprint uint64
	seenSince       int64
}

// relayed is a step that a session's host has made because of the session.
type relayed struct {
	actor   *actor
	actions []core.Action
}

// baseOf is what every machine is built on.
func baseOf(m core.Machine) *base.Machine {
	switch m := m.(type) {
	case *lastwriter.Lease:
		return &m.Machine
	case *lastwriter.Companion:
		return &m.Machine
	case *strict.Session:
		return &m.Machine
	case *strict.StoreClockSample:
		return &m.Machine
	case *invocation.Invocation:
		return &m.Machine
	case *buckets.Machine:
		return &m.Machine
	}
	return &registerOf(m).Machine
}

// registerOf is the register of a machine that has one.
func registerOf(m core.Machine) *register.Register {
	switch m := m.(type) {
	case *strict.Lease:
		return &m.Register
	case *strict.Companion:
		return &m.Register
	case *strict.Revocation:
		return &m.Register
	case *strict.Inspection:
		return &m.Register
	case *semaphore.Semaphore:
		return &m.Register
	}
	panic("no register")
}

func isStrict(m core.Machine) bool { return baseOf(m).Cfg.Protocol == core.ProtocolStrict }

// standsOnSession: it waits for its session, with no timer and no request.
func standsOnSession(m core.Machine) bool {
	switch m := m.(type) {
	case *strict.Lease:
		return m.State == core.LeaseHeld
	case *semaphore.Semaphore:
		return len(m.Asks) > 0
	}
	return false
}

// edgeKind names the table of a machine's edges.
func edgeKind(m core.Machine) string {
	switch m.(type) {
	case *strict.Lease:
		return "strict_lease"
	case *strict.Companion:
		return "strict_companion"
	case *semaphore.Semaphore:
		return "semaphore"
	case *strict.Revocation, *strict.Inspection, *strict.StoreClockSample:
		return "task"
	}
	return kindOf(m).String()
}

// ownID is the id by which a machine's writings are known, and nobody else's.
func ownID(m core.Machine) string {
	switch m := m.(type) {
	case *lastwriter.Lease:
		if m.Cfg.Holder != "" {
			return ""
		}
		return string(m.Holder())
	case *lastwriter.Companion:
		return ""
	case *strict.Lease:
		return m.ParticipantID
	case *strict.Session:
		return m.SID
	case *strict.StoreClockSample:
		return m.Cfg.Owner
	case *invocation.Invocation:
		if m.Inner != nil {
			return ownID(m.Inner)
		}
		return string(m.Holder)
	}
	return registerOf(m).ParticipantID
}

// holderIn is the tenure that a machine is about.
func holderIn(m core.Machine) core.HolderID {
	switch m := m.(type) {
	case *strict.Lease:
		return m.Holder()
	case *strict.Companion:
		return m.HolderID
	case *lastwriter.Lease, *lastwriter.Companion:
		return tenureOf(m).HolderID
	case *invocation.Invocation:
		if m.Inner != nil {
			return holderIn(m.Inner)
		}
		return m.Holder
	}
	return core.HolderID(ownID(m))
}

func isWrite(verb core.ActionKind) bool {
	return verb == core.ActionPut || verb == core.ActionCreate || verb == core.ActionDelete || isResult(verb)
}

// carry adds to an event what the host of a strict machine knows by now.
func (w *world) carry(a *actor, ev *core.Event) {
	if !isStrict(a.machine) {
		return
	}
	if w.sample.At != 0 {
		ev.StoreStamp, ev.StoreAt = w.sample.Stamp, w.sample.At/1e6*a.rate+w.sample.At%1e6*a.rate/1e6
	}
	if s := a.strict.stands; s != nil {
		ev.Session, ev.SessionUntil, ev.SessionEnd = []byte(s.strict.sid), s.strict.until, s.strict.end
	}
}

// relay plays the host of a session: who stands on it hears what it says.
func (w *world) relay(a *actor, actions []core.Action) {
	for _, action := range actions {
		switch action.Kind {
		case core.ActionStoreClockSampled:
			w.sample = register.StoreClockSample{Stamp: action.Wall, At: w.trueAt(a, action.At)}
		case core.ActionReleased:
			a.strict.lastEpoch, a.strict.lastAt = action.Epoch, action.At
		case core.ActionWaiting, core.ActionRefused, core.ActionSeen:
			if s := action.Observed; s != nil {
				a.strict.seenFingerprint, a.strict.seenSince = s.Fingerprint, s.Since
			}
		}
	}
	if s, ok := a.machine.(*strict.Session); ok {
		for _, action := range actions {
			w.relaySession(a, s, action)
		}
	}
}

func (w *world) relaySession(a *actor, s *strict.Session, action core.Action) {
	switch action.Kind {
	case core.ActionHeld:
		a.strict.sid, a.strict.until, a.strict.end = string(action.Holder), action.At, core.ReasonNone
		w.tellAll(a, "", core.Event{Kind: core.EventWoke})
	case core.ActionRenewed:
		a.strict.until = action.At
	case core.ActionCalled:
		w.tellAll(a, action.Key, core.Event{Kind: core.EventCalled, Epoch: action.Epoch})
	case core.ActionLost, core.ActionLeft:
		a.strict.sid, a.strict.until, a.strict.end = "", 0, action.Reason
		w.tellAll(a, "", core.Event{Kind: core.EventWoke})
	}
}

// tellAll steps every lease of a name, or of any, and every semaphore that stands on a
// session.
func (w *world) tellAll(session *actor, name string, ev core.Event) {
	for _, x := range w.actors {
		_, always := x.machine.(*semaphore.Semaphore)
		begun := (always || x.machine.String() != core.LeaseIdle.String()) && !x.ended
		if x.strict.stands != session || !begun || name != "" && baseOf(x.machine).Cfg.Name != name {
			continue
		}
		actions, err := w.step(x, ev)
		if err != nil {
			w.fail("%s: %v", x.name, err)
		}
		w.relays = append(w.relays, relayed{x, actions})
	}
}

// formatKey writes n#3 for a version, n#3/b.a for a beat, n# for all of a name,
// s/S/beat and s/S/call/0 for what a session has.
func (w *world) formatKey(key string) string {
	const dir = "/" + core.RegisterDir + "/"
	switch at := strings.Index(key, dir); {
	case strings.HasPrefix(key, core.SessionPrefix):
		sid, rest, _ := strings.Cut(key[len(core.SessionPrefix):], "/")
		return "s/" + w.alias(sid) + "/" + strings.Replace(rest, "call/000000000", "call/", 1)
	case strings.HasPrefix(key, core.StoreClockPrefix):
		return "c/" + w.alias(key[len(core.StoreClockPrefix):])
	case strings.HasPrefix(key, core.FailurePrefix):
		return "f/" + key[len(core.FailurePrefix):]
	case at < 0:
		return key
	case len(key) == at+len(dir):
		return key[:at] + "#"
	default:
		n, owner, ok := register.ParseRegisterKey(key[:at+len(dir)], []byte(key))
		if !ok {
			return key
		}
		text := fmt.Sprintf("%s#%d", key[:at], n)
		if owner != nil {
			text += "/b." + w.alias(string(owner))
		}
		return text
	}
}

// parseKey is the key that formatKey has written so.
func (w *world) parseKey(text string) string {
	if rest, ok := strings.CutPrefix(text, "s/"); ok {
		name, file, _ := strings.Cut(rest, "/")
		if k, ok := strings.CutPrefix(file, "call/"); ok {
			file = "call/" + strings.Repeat("0", 10-len(k)) + k
		}
		return core.SessionPrefix + ownID(w.actor(name).machine) + "/" + file
	}
	name, rest, ok := strings.Cut(text, "#")
	if !ok {
		return text
	}
	number, owner, isBeat := strings.Cut(rest, "/b.")
	n, _ := parseUint(number)
	if isBeat {
		return register.BeatKey(register.RegisterPrefix(name), core.Epoch(n), ownID(w.actor(owner).machine))
	}
	return register.VersionKey(register.RegisterPrefix(name), core.Epoch(n))
}

func parseUint(text string) (n uint64, err error) {
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// formatBodyOf shows what a record says, whatever it is the record of.
func (w *world) formatBodyOf(key string, body []byte) string {
	switch {
	case strings.HasSuffix(key, "/"+core.LockFile):
		return w.formatBody(body)
	case strings.HasSuffix(key, "/"+core.ResultFile):
		return "{" + string(body) + "}"
	}
	var r map[string]any // read by another reader than ours
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if decoder.Decode(&r) != nil || decoder.More() {
		return fmt.Sprintf("{corrupt %d bytes}", len(body))
	}
	var l line
	if kind, ok := r["state"]; ok {
		fmt.Fprintf(&l, "%v", kind)
	}
	for _, name := range []string{"tenure", "origin", "owner", "owners", "seq", "name", "epoch", "ttl_s", "session", "alone", "why", "by", "label", "capacity", "width", "limit"} {
		if v, ok := r[name]; ok {
			l.field(name, w.formatValue(v))
		}
	}
	if held, ok := r["permits"].([]any); ok {
		l.field("permits", w.formatPermits(held))
	}
	if at := strings.Index(string(body), "\"ext\": "); at >= 0 { // to the octet
		l.field("ext", strings.TrimSuffix(string(body[at+len("\"ext\": "):]), "\n}\n"))
	}
	nonce := fmt.Sprint(r["nonce"])
	l.field("nonce", nonce[:min(len(nonce), 4)])
	if boot, ok := r["boot"]; ok {
		fmt.Fprintf(&l, " boot=%v@%v", boot, r["boottime_ns"])
	}
	return "{" + strings.TrimSpace(l.String()) + "}"
}

// formatPermits shows the permits of a record: what is left out is as before it.
func (w *world) formatPermits(all []any) string {
	texts, session := make([]string, len(all)), ""
	for i := range all {
		m := all[i].(map[string]any)
		p := register.Permit{ID: core.HolderID(m["id"].(string)), Weight: 1}
		if sid, ok := m["session"].(string); ok {
			session = sid
		}
		if weight, ok := m["weight"].(json.Number); ok {
			n, _ := weight.Int64()
			p.Weight = uint64(n)
		}
		p.Session = session
		texts[i] = w.formatPermit(p)
	}
	return "[" + strings.Join(texts, ",") + "]"
}

func (w *world) formatValue(v any) string {
	switch v := v.(type) {
	case []any:
		all := make([]string, len(v))
		for i := range v {
			all[i] = w.formatValue(v[i])
		}
		return strings.Join(all, ",")
	case string:
		return w.alias(v)
	}
	return fmt.Sprint(v)
}

// rest puts a lease at rest and wakes it: all its stories go on as if it had not slept.
func (w *world) rest(a *actor) {
	l, ok := a.machine.(*strict.Lease)
	if !ok {
		return
	}
	resting := l.Park()
	if resting == nil {
		return
	}
	woken := resting.Unpark().(*strict.Lease)
	woken.Cfg = l.Cfg // of which it has what a lease that is held asks for
	if !bytes.Equal(woken.AppendState(nil), l.AppendState(nil)) {
		w.fail("Rest: %s woke as another", a.name)
	}
	a.machine = woken
}

// strictly makes a machine that speaks strict.
func (w *world) strictly(name string, change func(*core.Config)) *actor {
	w.t.Helper()
	cfg := core.Config{Machine: core.MachineLease, Terms: core.Terms{
		Protocol: core.ProtocolStrict, Name: "n",
	}, StampUnit: time.Duration(w.unit), OwnStore: true}
	if change != nil {
		change(&cfg)
	}
	a, err := w.add(name, cfg)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return a
}

// say gives a machine a command.
func (w *world) say(a *actor, ev core.Event) {
	w.t.Helper()
	if _, err := w.step(a, ev); err != nil {
		w.t.Fatalf("%s: %v", a.name, err)
	}
	w.relays = nil
}

// is checks what state a machine is in.
func (w *world) is(a *actor, state string) {
	w.t.Helper()
	if a.machine.String() != state {
		w.fail("%s is %s, not %s", a.name, a.machine, state)
	}
}

// pass lets time go on, and everything that happens meanwhile.
func (w *world) pass(d time.Duration) {
	end := w.now + int64(d)
	w.drive(100e6, end, func(*actor, []core.Action) bool { return false })
	w.now = end
}

// keysOf are the versions of a name that the store has.
func (w *world) keysOf(name string) (versions []core.Epoch) {
	for key := range w.store {
		if n, owner, ok := register.ParseRegisterKey(register.RegisterPrefix(name), []byte(key)); ok && owner == nil {
			versions = append(versions, n)
		}
	}
	slices.Sort(versions)
	return versions
}

// promptly says something to a machine and answers all that it asks for, at once.
func (w *world) promptly(a *actor, ev core.Event) {
	w.t.Helper()
	w.say(a, ev)
	for range 300 {
		if len(a.flying) == 0 {
			return
		}
		if _, err := w.answer(a, a.flying[len(a.flying)-1]); err != nil {
			w.t.Fatalf("%s: %v", a.name, err)
		}
	}
	w.fail("%s asks forever", a.name)
}

// until lets everything happen as it should until a machine is in a state.
func (w *world) until(a *actor, state string) {
	w.t.Helper()
	w.drive(100e6, w.now+int64(2*time.Hour), func(*actor, []core.Action) bool { return a.machine.String() == state || a.machine.Idle() })
	w.is(a, state)
}

// has reports whether a Step said so.
func has(actions []core.Action, kind core.ActionKind) bool {
	return slices.ContainsFunc(actions, func(a core.Action) bool { return a.Kind == kind })
}

// holding is a machine that holds the name.
func (w *world) holding(name string, change func(*core.Config)) *actor {
	w.t.Helper()
	a := w.strictly(name, change)
	w.promptly(a, core.Event{Kind: core.EventAcquire, Wait: core.Forever})
	w.is(a, "held")
	return a
}

// gone ends a machine as a crash does.
func (w *world) gone(all ...*actor) {
	for _, a := range all {
		a.flying, a.wake, a.ended, a.strict.stands = nil, base.Unset, true, nil
	}
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return slices.Contains(all, a) })
}
