package machines

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/lockfile"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
)

// Events and actions as text, in the schema's own words: the kind, then the
// fields that are set. Monotonic instants are seconds of the actor's clock,
// wall instants are seconds since the world began, with a sign.

func seconds(ns int64) string { return strconv.FormatFloat(float64(ns/1000)/1e6, 'f', -1, 64) + "s" }

func wallSeconds(ns int64) string {
	if ns == 0 {
		return ""
	}
	d := ns - worldStart
	if d >= 0 {
		return "+" + seconds(d)
	}
	return seconds(d)
}

// deadline is an instant, or never.
func deadline(at int64) string {
	if at == core.Never {
		return "never"
	}
	return seconds(at)
}

// line collects "name=value" pairs of values that are not empty.
type line struct{ strings.Builder }

func (l *line) field(name, value string) {
	if value != "" && value != "none" {
		l.WriteString(" " + name + "=" + value)
	}
}

func (l *line) number(name string, n uint64) {
	if n != 0 {
		fmt.Fprintf(l, " %s=%d", name, n)
	}
}

func (l *line) flag(name string, set bool) {
	if set {
		l.WriteString(" " + name)
	}
}

func formatEvent(ev core.Event) string {
	var l line
	l.WriteString(ev.Kind.String())
	if ev.Kind == core.EventAcquire {
		l.field("wait", ev.Wait.String())
	}
	l.flag("brief", ev.Brief)
	if ev.Kind == core.EventEnded {
		l.WriteString(" " + ev.Outcome.String())
		l.flag("result", ev.Result)
	}
	if ev.Kind == core.EventAnswer {
		fmt.Fprintf(&l, " #%d %s", ev.Request, ev.Outcome)
		l.field("class", ev.Class.String())
		for _, e := range ev.Entries {
			l.field("entry", string(e.Key))
		}
		l.flag("more", ev.More)
	}
	l.number("epoch", uint64(ev.Epoch))
	l.number("permit", ev.Permit)
	l.number("capacity", uint64(ev.Capacity))
	l.number("width", uint64(ev.Width))
	l.number("weight", uint64(ev.Weight))
	l.number("spare", uint64(ev.Spare))
	l.number("store_limit", ev.StoreLimit)
	l.field("label", string(ev.Label))
	l.field("holder", string(ev.Holder))
	if len(ev.Session) > 0 {
		fmt.Fprintf(&l, " session=%s until=%s", ev.Session, seconds(ev.SessionUntil))
	}
	l.field("ended", ev.SessionEnd.String())
	if ev.StoreStamp != 0 {
		fmt.Fprintf(&l, " store=%s at=%s", wallSeconds(ev.StoreStamp), seconds(ev.StoreAt))
	}
	return l.String()
}

func (w *world) formatAction(a core.Action) string {
	var l line
	l.WriteString(a.Kind.String())
	l.number("permit", a.Permit)
	switch a.Kind {
	case core.ActionGet, core.ActionPut, core.ActionCreate, core.ActionExists, core.ActionList, core.ActionDelete, core.ActionCreateResult, core.ActionPutResult:
		fmt.Fprintf(&l, " #%d", a.Request)
		if !strings.HasSuffix(a.Key, "/"+core.LockFile) { // of lastwriter there is no other
			l.field("key", w.formatKey(a.Key))
		}
		l.field("after", w.formatKey(a.After))
		l.number("count", a.Count)
		l.field("limit", seconds(int64(a.Limit)))
		if len(a.Body) > 0 {
			l.WriteString(" " + w.formatBodyOf(a.Key, a.Body))
		}
		l.flag("overwrites", a.Overwrites)
	case core.ActionHeld:
		fmt.Fprintf(&l, " deadline=%s acquired=%s holder=%s", deadline(a.At), wallSeconds(a.Wall), w.alias(string(a.Holder)))
		l.number("epoch", uint64(a.Epoch))
		l.number("token", uint64(a.Token))
		l.field("session", w.alias(a.Session))
		l.number("total", a.Total)
	case core.ActionReleased, core.ActionStoreClockSampled:
		l.number("epoch", uint64(a.Epoch))
		if a.At != 0 {
			l.field("at", seconds(a.At))
		}
		l.field("store", wallSeconds(a.Wall))
	case core.ActionRenewed, core.ActionDeadline:
		fmt.Fprintf(&l, " deadline=%s", deadline(a.At))
	case core.ActionWake:
		fmt.Fprintf(&l, " at=%s", seconds(a.At))
	default:
		l.flag(a.Reason.String(), a.Reason != core.ReasonNone)
		l.field("class", a.Class.String())
		l.field("key", w.formatKey(a.Key))
		l.number("epoch", uint64(a.Epoch))
		l.field("sight", w.formatObserved(a.Observed))
	}
	return l.String()
}

func (w *world) formatObserved(s *core.Observed) string {
	if s == nil {
		return ""
	}
	var l line
	l.WriteString(s.State.String())
	l.field("holder", w.alias(string(s.Holder)))
	l.field("host", string(s.Host))
	l.flag("remote", s.Remote)
	if s.TTL != 0 {
		l.field("ttl", s.TTL.String())
	}
	l.field("written", wallSeconds(s.WrittenAt))
	l.field("acquired", wallSeconds(s.AcquiredAt))
	l.field("released", wallSeconds(s.ReleasedAt))
	if s.RecheckAt != 0 {
		l.field("look", seconds(s.RecheckAt))
	}
	l.number("epoch", uint64(s.Epoch))
	l.number("token", uint64(s.Token))
	for _, text := range []struct {
		name string
		text []byte
	}{{"companions", s.Companions}, {"label", s.Label}, {"session", s.Session}, {"why", s.Why}, {"by", s.By}} {
		l.field(text.name, w.aliases(string(text.text), ","))
	}
	if s.Left != 0 {
		l.field("left", s.Left.String())
	}
	l.flag("store_clock", s.StoreClock)
	if s.Capacity != 0 {
		fmt.Fprintf(&l, " held=%d/%dx%d", s.Held, s.Capacity, s.Width)
		l.number("limit", s.Limit)
		register.EachPermit(s.Permits, func(p register.Permit) {
			fmt.Fprintf(&l, " %s", w.formatPermit(p))
		})
		l.field("dead", w.aliases(string(s.Dead), ","))
	}
	if s.Fingerprint != 0 { // the number itself says nothing to people
		l.field("unchanged_since", seconds(s.Since))
	}
	return "{" + l.String() + "}"
}

// formatPermit is the number of a permit at whose it is, or its id; and its weight.
func (w *world) formatPermit(p register.Permit) string {
	text := w.permitAlias(string(p.ID))
	if p.Weight != 1 {
		text += fmt.Sprintf("x%d", p.Weight)
	}
	return text + "@" + w.alias(p.Session)
}

// permitAlias is NAME.N of the permit N of a machine, or the id itself.
func (w *world) permitAlias(id string) string {
	for _, a := range w.actors {
		if s, ok := a.machine.(*semaphore.Semaphore); ok {
			if ask := s.ByID(id); ask != nil {
				return fmt.Sprintf("%s.%d", a.name, ask.Number)
			}
		}
	}
	return id[:min(len(id), 4)]
}

// formatBody shows what a record says.
func (w *world) formatBody(body []byte) string {
	var r lockfile.Record
	lockfile.Parse(body, &r)
	var l line
	switch r.State {
	case lockfile.Empty:
		return "{empty}"
	case lockfile.Corrupt:
		return fmt.Sprintf("{corrupt %d bytes}", len(body))
	}
	l.WriteString(w.alias(string(r.Writer.AppendTo(nil))))
	fmt.Fprintf(&l, " count=%d", r.Count)
	l.flag("remote", r.Remote)
	l.field("written", wallSeconds(r.WrittenAt))
	l.field("expire", r.Expire.String())
	l.field("first", wallSeconds(r.FirstWrittenAt))
	l.field("acquired", wallSeconds(r.AcquiredAt))
	l.field("released", wallSeconds(r.ReleasedAt))
	return "{" + l.String() + "}"
}

// alias names the machine whose own tenure this is, or who writes as this owner,
// or whose session it is.
func (w *world) alias(id string) string {
	for _, a := range w.actors {
		if id != "" && ownID(a.machine) == id {
			return a.name
		}
	}
	return id
}

func (w *world) aliases(ids, separator string) string {
	all := strings.Split(ids, separator)
	for i := range all {
		all[i] = w.alias(all[i])
	}
	return strings.Join(all, separator)
}
