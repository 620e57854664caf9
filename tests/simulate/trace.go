package simulate

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// fold adds numbers and a text to the hash.
func (w *simulation) fold(text string, numbers ...uint64) {
	w.folded = w.folded[:0]
	for _, n := range numbers {
		w.folded = binary.LittleEndian.AppendUint64(w.folded, n)
	}
	w.folded = append(w.folded, text...)
	_, _ = w.hash.Write(w.folded)
}

// note adds a Step to the hash, and to the trace in words.
func (w *simulation) note(p *process, ev *core.Event, actions []core.Action) {
	w.fold("", uint64(w.Now), uint64(p.number)<<32|ev.Claim, uint64(ev.Kind)<<32|uint64(ev.Outcome)<<16|uint64(ev.Class))
	for i := range actions {
		a := &actions[i]
		w.fold(a.Key, uint64(a.Kind)<<32|uint64(a.Reason), uint64(a.At))
	}
	if !w.opts.Trace {
		return
	}
	w.say("%s: %s%s -> %s", p, of(p, ev.Claim), strings.Join(words(*ev), ", "), p.host.Client)
	for _, a := range actions {
		until := ""
		if a.At > 0 {
			until = fmt.Sprintf(" until %v", time.Duration(p.computer.trueAt(a.At)).Round(time.Microsecond))
		}
		if a.At = 0; a.Kind != core.ActionWake {
			w.say("    %s%s%s", of(p, a.Claim), strings.Join(words(a), ", "), until)
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
	w.fold("", uint64(w.Now), uint64(r.action.Request)<<16|uint64(reply.Outcome))
	if w.opts.Trace {
		w.say("the store takes %s's %s of %s: %s", r.process, r.action.Kind, r.action.Key, reply.Outcome)
	}
}

// traced is how many of the last events are kept in words.
const traced = 40

func (w *simulation) say(format string, args ...any) {
	if !w.opts.Trace {
		return
	}
	line := fmt.Sprintf("%12v  ", time.Duration(w.Now).Round(time.Microsecond)) + fmt.Sprintf(format, args...)
	w.stats.Last = append(w.stats.Last, line)
	if len(w.stats.Last) > traced {
		w.stats.Last = w.stats.Last[1:]
	}
}

var humps = regexp.MustCompile("([a-z])([A-Z])")

// words are the fields of a struct that are not zero, with their values.
func words(of any) (all []string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		field, name := v.Field(i), strings.ToLower(humps.ReplaceAllString(v.Type().Field(i).Name, "$1 $2"))
		if field.IsZero() {
			continue
		}
		switch value := field.Interface().(type) {
		case []byte:
			const most = 400
			text := strings.Join(strings.Fields(string(value)), " ")
			all = append(all, name+" "+text[:min(len(text), most)])
		case []core.Entry:
			all = append(all, strconv.Itoa(len(value))+" entries")
		case *core.Config, *core.Observed:
		default:
			all = append(all, fmt.Sprintf("%s %v", name, value))
		}
	}
	return all
}
