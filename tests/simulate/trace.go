package simulate

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

func (w *simulation) fold(x uint64) {
	w.folded = binary.LittleEndian.AppendUint64(w.folded[:0], x)
	_, _ = w.hash.Write(w.folded)
}

func (w *simulation) foldText(s string) {
	w.folded = append(w.folded[:0], s...)
	_, _ = w.hash.Write(w.folded)
}

// note adds a Step to the hash, and to the trace in words.
func (w *simulation) note(p *process, ev *core.Event, actions []core.Action) {
	w.fold(uint64(w.Now))
	w.fold(uint64(p.number)<<32 | ev.Claim)
	w.fold(uint64(ev.Kind)<<32 | uint64(ev.Outcome)<<16 | uint64(ev.Class))
	for i := range actions {
		a := &actions[i]
		w.fold(uint64(a.Kind)<<32 | uint64(a.Reason))
		w.fold(uint64(a.At))
		w.foldText(a.Key)
	}
	if w.trace == nil {
		return
	}
	w.say("%s: %s%s -> %s", p, of(p, ev.Claim), inWords(ev), p.host.Client)
	for i := range actions {
		if a := &actions[i]; a.Kind != core.ActionWake {
			w.say("    %s%s", of(p, a.Claim), actionInWords(p.computer, a))
		}
	}
}

// of names the claim that something is about.
func of(p *process, claim uint64) string {
	if u := p.unit(claim); u != nil {
		return u.label + " "
	}
	return ""
}

func (w *simulation) noteApply(r *request, reply *core.Event) {
	w.fold(uint64(w.Now))
	w.fold(uint64(r.action.Request)<<16 | uint64(reply.Outcome))
	if w.trace != nil {
		w.say("the store takes %s's %s of %s: %s", r.process, r.action.Kind, r.action.Key, reply.Outcome)
	}
}

// trace keeps the last events in words.
type trace struct {
	lines []string
	count int
}

// traced is how many are kept.
const traced = 40

func (w *simulation) say(format string, args ...any) {
	if t := w.trace; t != nil {
		line := fmt.Sprintf("%12v  ", time.Duration(w.Now).Round(time.Microsecond)) + fmt.Sprintf(format, args...)
		if len(t.lines) < traced {
			t.lines = append(t.lines, line)
		} else {
			t.lines[t.count%traced] = line
		}
		t.count++
	}
}

// last is what was said last, in order.
func (t *trace) last() []string {
	if t == nil {
		return nil
	}
	if t.count <= traced {
		return t.lines
	}
	return append(append([]string{}, t.lines[t.count%traced:]...), t.lines[:t.count%traced]...)
}

func inWords(ev *core.Event) string {
	switch ev.Kind {
	case core.EventAnswer:
		text := "answer " + ev.Outcome.String()
		if ev.Outcome == core.OutcomeUnknown {
			text += " (" + ev.Class.String() + ")"
		}
		if len(ev.Entries) > 0 {
			text += ", " + strconv.Itoa(len(ev.Entries)) + " entries"
		}
		if len(ev.Body) > 0 {
			text += " " + short(ev.Body)
		}
		return text
	case core.EventAcquire, core.EventInvoke, core.EventPermit:
		return ev.Kind.String() + ", wait " + ev.Wait.String()
	default:
		return ev.Kind.String()
	}
}

func actionInWords(c *computer, a *core.Action) string {
	words := []string{a.Kind.String()}
	add := func(on bool, format string, args ...any) {
		if on {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(a.Key != "", "%s", a.Key)
	add(a.Reason != 0, "%s", a.Reason)
	add(a.Epoch != 0, "epoch %d", a.Epoch)
	add(a.Token != 0, "token %d", a.Token)
	add(a.Holder != "", "tenure %s", a.Holder)
	add(a.On != 0, "on session %d", a.On)
	add(a.At > 0, "until %v", time.Duration(c.trueAt(a.At)).Round(time.Microsecond))
	add(len(a.Body) > 0, "%s", short(a.Body))
	return strings.Join(words, " ")
}

func short(body []byte) string {
	const most = 400
	text := strings.Join(strings.Fields(string(body)), " ")
	return text[:min(len(text), most)]
}
