package core

import (
	"fmt"
	"strconv"
	"strings"
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

// line collects "name=value" pairs of values that are not empty.
type line struct{ strings.Builder }

func (l *line) field(name, value string) {
	if value != "" && value != "none" {
		l.WriteString(" " + name + "=" + value)
	}
}

func (l *line) flag(name string, set bool) {
	if set {
		l.WriteString(" " + name)
	}
}

func formatEvent(ev Event) string {
	var l line
	l.WriteString(ev.Kind.String())
	if ev.Kind == EventAcquire {
		l.field("wait", ev.Wait.String())
	}
	l.flag("brief", ev.Brief)
	if ev.Kind == EventAnswer {
		fmt.Fprintf(&l, " #%d %s", ev.Request, ev.Outcome)
		l.field("class", ev.Class.String())
	}
	return l.String()
}

func (w *world) formatAction(a Action) string {
	var l line
	l.WriteString(a.Kind.String())
	switch a.Kind {
	case ActionGet:
		fmt.Fprintf(&l, " #%d limit=%s", a.Request, seconds(int64(a.Limit)))
	case ActionPut:
		fmt.Fprintf(&l, " #%d limit=%s %s", a.Request, seconds(int64(a.Limit)), w.formatBody(a.Body))
	case ActionHeld:
		fmt.Fprintf(&l, " deadline=%s acquired=%s holder=%s", seconds(a.At), wallSeconds(a.Wall), w.alias(string(a.Holder)))
	case ActionRenewed, ActionDeadline:
		fmt.Fprintf(&l, " deadline=%s", seconds(a.At))
	case ActionWake:
		fmt.Fprintf(&l, " at=%s", seconds(a.At))
	default:
		l.flag(a.Reason.String(), a.Reason != ReasonNone)
		l.field("class", a.Class.String())
		l.field("key", a.Key)
		l.field("sight", w.formatSight(a.Sight))
	}
	return l.String()
}

func (w *world) formatSight(s *Sighting) string {
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
	if s.LookAt != 0 {
		l.field("look", seconds(s.LookAt))
	}
	return "{" + l.String() + "}"
}

// formatBody shows what a record says.
func (w *world) formatBody(body []byte) string {
	var r record
	parseRecord(body, &r)
	var l line
	switch r.state {
	case recordEmpty:
		return "{empty}"
	case recordCorrupt:
		return fmt.Sprintf("{corrupt %d bytes}", len(body))
	}
	l.WriteString(w.alias(string(r.writer.appendTo(nil))))
	fmt.Fprintf(&l, " count=%d", r.count)
	l.flag("remote", r.remote)
	l.field("written", wallSeconds(r.writtenAt))
	l.field("expire", r.expire.String())
	l.field("first", wallSeconds(r.firstWrittenAt))
	l.field("acquired", wallSeconds(r.acquiredAt))
	l.field("released", wallSeconds(r.releasedAt))
	return "{" + l.String() + "}"
}

// alias names the machine whose own tenure this is.
func (w *world) alias(holder string) string {
	for _, a := range w.actors {
		if k := tenureOf(a.machine); k.cfg.Holder == "" && string(k.holder) == holder {
			return a.name
		}
	}
	return holder
}
