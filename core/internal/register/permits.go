package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/jsontext"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// A version of a semaphore carries its value: what is held, and by whom. A permit
// is an object of one line; what it has in common with the one before it is left
// out, and so is a weight of 1: that is how a record of 64 KiB has room for about
// a thousand of them. People's texts, host, pid and label, go first when it is full.

// Value is what a version of a semaphore says. Its zero value is that nothing is held.
type Value struct {
	Capacity, Width uint32 // of the last commit
	Limit           uint64 // that caps everybody's view; 0 is none
	Permits         []PermitEntry
	Ext             string // of the version, as it stands; each commit copies it
}

// PermitEntry is one holder. Its texts stand as in a record, escaped.
type PermitEntry struct {
	ID, Session      string
	Weight           uint64
	Host, PID, Label string
}

// Take makes the value that of a version.
func (v *Value) Take(from *Version) {
	v.Capacity, v.Width, v.Limit = uint32(from.capacity), uint32(from.width), from.Limit
	v.Permits, v.Ext = appendPermits(v.Permits[:0], from.permits), string(from.ext)
}

// Held is what all permits weigh together.
func (v *Value) Held() (sum uint64) {
	for i := range v.Permits {
		sum += v.Permits[i].Weight
	}
	return sum
}

// Find is the place of a permit, or -1.
func (v *Value) Find(id string) int {
	for i := range v.Permits {
		if v.Permits[i].ID == id {
			return i
		}
	}
	return -1
}

// Add puts a permit behind the others of its session.
func (v *Value) Add(p PermitEntry) {
	at := len(v.Permits)
	for i := range v.Permits {
		if v.Permits[i].Session == p.Session {
			at = i + 1
		}
	}
	v.Permits = append(v.Permits, PermitEntry{})
	copy(v.Permits[at+1:], v.Permits[at:])
	v.Permits[at] = p
}

// Remove takes the permits out that unwanted names.
func (v *Value) Remove(unwanted func(*PermitEntry) bool) {
	kept := v.Permits[:0]
	for i := range v.Permits {
		if !unwanted(&v.Permits[i]) {
			kept = append(kept, v.Permits[i])
		}
	}
	v.Permits = kept
}

// CopyOf is a value of its own with the same in it.
func CopyOf(v *Value) Value {
	twin := *v
	twin.Permits = append(make([]PermitEntry, 0, len(v.Permits)+1), v.Permits...)
	return twin
}

// Terse takes the texts for people out of what is too long for a record.
func (v *Value) Terse() {
	for i := range v.Permits {
		p := &v.Permits[i]
		p.Host, p.PID, p.Label = "", "", ""
	}
}

// recordRoom is what a record of a semaphore has room for beside its permits: its
// other fields, with texts of MaxText bytes of which each may take six, and an ext.
const recordRoom = core.MaxRecord - (2*6*core.MaxText + 6*core.MaxLabel + 6*core.MaxSegment + 1<<10)

// Fits reports whether a record has room for the value.
func (v *Value) Fits(scratch []byte) ([]byte, bool) {
	if len(v.Permits) > core.MaxPermits {
		return scratch, false
	}
	w := jsontext.Writer(scratch[:0])
	WritePermits(&w, v.Permits)
	return w, len(w) <= recordRoom
}

// writeValue writes what only a semaphore's version has.
func writeValue(w *jsontext.Writer, v *Value) {
	w.Number("\",\n  \"capacity\": ", uint64(v.Capacity))
	w.Number(",\n  \"width\": ", uint64(v.Width))
	if v.Limit != 0 {
		w.Number(",\n  \"limit\": ", v.Limit)
	}
	w.Raw(",\n  \"permits\": [")
	WritePermits(w, v.Permits)
	w.Raw("]")
}

func WritePermits(w *jsontext.Writer, all []PermitEntry) {
	before := PermitEntry{}
	for i := range all {
		p := &all[i]
		if i > 0 {
			w.Raw(",")
		}
		w.Raw("\n    {\"id\": \"")
		w.Raw(p.ID)
		w.Raw("\"")
		writeChanged(w, ", \"session\": \"", p.Session, before.Session)
		if p.Weight != 1 {
			w.Number(", \"weight\": ", p.Weight)
		}
		writeChanged(w, ", \"host\": \"", p.Host, before.Host)
		writeChanged(w, ", \"pid\": \"", p.PID, before.PID)
		writeChanged(w, ", \"label\": \"", p.Label, before.Label)
		w.Raw("}")
		before = *p
	}
}

// writeChanged writes a text that is left out where it is that of the permit before.
func writeChanged(w *jsontext.Writer, before, s, last string) {
	if s != last {
		w.Raw(before)
		w.Raw(s)
		w.Raw("\"")
	}
}

// EscapedText is s as it stands in a record, cut to a number of bytes.
func EscapedText(s string, most int) string {
	return string(jsontext.AppendText(nil, s[:octets.Cut(s, most)]))
}

// permitReader reads permits one after the other from between their brackets.
type permitReader struct {
	f    fields
	last permitText
}

// permitText is a permit as it stands in the record that it is read from.
type permitText struct {
	id, session      []byte
	weight           uint64
	host, pid, label jsontext.Text
}

func readPermits(raw []byte) permitReader {
	return permitReader{f: fields{s: jsontext.Scanner{B: raw}}}
}

// next reads the next permit into last. It is false at the end, and where what
// follows is no permit: f.bad then.
func (r *permitReader) next() bool {
	f := &r.f
	first := f.s.I == 0
	f.s.SkipSpace()
	if f.bad || f.s.I == len(f.s.B) {
		return false
	}
	if !first {
		f.bad = !f.s.Take(',')
		f.s.SkipSpace()
	}
	f.bad = f.bad || !f.s.Take('{')
	f.s.SkipSpace()
	f.more = true
	p := &r.last
	p.id = f.id("id")
	if owner := f.take("owner"); owner.Kind > jsontext.TokenString { // the session's own, where it is absent
		f.bad = true
	}
	if session := f.maybe("session"); session != nil {
		p.session = session
	}
	p.weight = 1
	if weight, there := f.maybeNumber("weight"); there {
		p.weight = weight
	}
	for _, field := range [...]struct {
		name string
		to   *jsontext.Text
	}{{"host", &p.host}, {"pid", &p.pid}, {"label", &p.label}} {
		if t := f.maybe(field.name); t != nil {
			*field.to = t
		}
	}
	f.bad = f.bad || f.more || !f.s.Take('}') || len(p.id) == 0 || len(p.session) == 0 ||
		!core.IsID(string(p.session)) || p.weight == 0 || p.weight > 1<<36
	f.s.SkipSpace()
	return !f.bad
}

// isPermits reports whether raw is an array of permits.
func isPermits(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '[' {
		return false
	}
	r := readPermits(raw[1 : len(raw)-1])
	count := 0
	for r.next() {
		count++
	}
	return !r.f.bad && count <= core.MaxPermits
}

// appendPermits appends what raw, from between the brackets, says.
func appendPermits(to []PermitEntry, raw []byte) []PermitEntry {
	r := readPermits(raw)
	before := PermitEntry{}
	same := func(now []byte, last string) string {
		if string(now) == last {
			return last
		}
		return string(now)
	}
	for r.next() {
		p := &r.last
		before = PermitEntry{
			ID: string(p.id), Session: same(p.session, before.Session), Weight: p.weight,
			Host: same(p.host, before.Host), PID: same(p.pid, before.PID), Label: same(p.label, before.Label),
		}
		to = append(to, before)
	}
	return to
}

// Permit is a holder of a semaphore as its record shows it. Its texts are
// another process's: escape them before they are shown.
type Permit struct {
	ID               core.HolderID
	Session          string
	Weight           uint64
	Host, PID, Label string
}

// EachPermit calls each with every permit of Observed.Permits, in the record's order.
func EachPermit(raw []byte, each func(Permit)) {
	for r := readPermits(raw); r.next(); {
		p := &r.last
		each(Permit{
			ID: core.HolderID(p.id), Session: string(p.session), Weight: p.weight,
			Host: string(p.host.AppendTo(nil)), PID: string(p.pid.AppendTo(nil)), Label: string(p.label.AppendTo(nil)),
		})
	}
}

// ShownPermits is as many whole permits of raw as so many bytes hold.
func ShownPermits(raw []byte, most int) []byte {
	if len(raw) <= most {
		return raw
	}
	end := 0
	for r := readPermits(raw); r.next() && r.f.s.I <= most; {
		end = r.f.s.I
	}
	return raw[:end]
}
