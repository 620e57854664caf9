package core

// A version of a semaphore carries its value: what is held, and by whom. A permit
// is an object of one line; what it has in common with the one before it is left
// out, and so is a weight of 1: that is how a record of 64 KiB has room for about
// a thousand of them. People's texts, host, pid and label, go first when it is full.

// value is what a version of a semaphore says. Its zero value is that nothing is held.
type value struct {
	capacity, width uint32 // of the last commit
	limit           uint64 // that caps everybody's view; 0 is none
	permits         []permit
}

// permit is one holder. Its texts stand as in a record, escaped.
type permit struct {
	id, session      string
	weight           uint64
	host, pid, label string
}

// take makes the value that of a version.
func (v *value) take(from *version) {
	v.capacity, v.width, v.limit = uint32(from.capacity), uint32(from.width), from.limit
	v.permits = appendPermits(v.permits[:0], from.permits)
}

// held is what all permits weigh together.
func (v *value) held() (sum uint64) {
	for i := range v.permits {
		sum += v.permits[i].weight
	}
	return sum
}

// find is the place of a permit, or -1.
func (v *value) find(id string) int {
	for i := range v.permits {
		if v.permits[i].id == id {
			return i
		}
	}
	return -1
}

// add puts a permit behind the others of its session.
func (v *value) add(p permit) {
	at := len(v.permits)
	for i := range v.permits {
		if v.permits[i].session == p.session {
			at = i + 1
		}
	}
	v.permits = append(v.permits, permit{})
	copy(v.permits[at+1:], v.permits[at:])
	v.permits[at] = p
}

// remove takes the permits out that unwanted names.
func (v *value) remove(unwanted func(*permit) bool) {
	kept := v.permits[:0]
	for i := range v.permits {
		if !unwanted(&v.permits[i]) {
			kept = append(kept, v.permits[i])
		}
	}
	v.permits = kept
}

// copyOf is a value of its own with the same in it.
func copyOf(v *value) value {
	twin := *v
	twin.permits = append(make([]permit, 0, len(v.permits)+1), v.permits...)
	return twin
}

// terse takes the texts for people out of what is too long for a record.
func (v *value) terse() {
	for i := range v.permits {
		p := &v.permits[i]
		p.host, p.pid, p.label = "", "", ""
	}
}

// recordRoom is what a record of a semaphore has room for beside its permits: its
// other fields, with texts of MaxText bytes of which each may take six.
const recordRoom = MaxRecord - (2*6*MaxText + 6*MaxLabel + 6*MaxSegment + 1<<10)

// fits reports whether a record has room for the value.
func (v *value) fits(scratch []byte) ([]byte, bool) {
	if len(v.permits) > MaxPermits {
		return scratch, false
	}
	w := recordWriter(scratch[:0])
	writePermits(&w, v.permits)
	return w, len(w) <= recordRoom
}

// writeValue writes what only a semaphore's version has.
func writeValue(w *recordWriter, v *value) {
	w.number("\",\n  \"capacity\": ", uint64(v.capacity))
	w.number(",\n  \"width\": ", uint64(v.width))
	if v.limit != 0 {
		w.number(",\n  \"limit\": ", v.limit)
	}
	w.raw(",\n  \"permits\": [")
	writePermits(w, v.permits)
	w.raw("]")
}

func writePermits(w *recordWriter, all []permit) {
	before := permit{}
	for i := range all {
		p := &all[i]
		if i > 0 {
			w.raw(",")
		}
		w.raw("\n    {\"id\": \"")
		w.raw(p.id)
		w.raw("\"")
		writeChanged(w, ", \"session\": \"", p.session, before.session)
		if p.weight != 1 {
			w.number(", \"weight\": ", p.weight)
		}
		writeChanged(w, ", \"host\": \"", p.host, before.host)
		writeChanged(w, ", \"pid\": \"", p.pid, before.pid)
		writeChanged(w, ", \"label\": \"", p.label, before.label)
		w.raw("}")
		before = *p
	}
}

// writeChanged writes a text that is left out where it is that of the permit before.
func writeChanged(w *recordWriter, before, s, last string) {
	if s != last {
		w.raw(before)
		w.raw(s)
		w.raw("\"")
	}
}

// escapedText is s as it stands in a record, cut to a number of bytes.
func escapedText(s string, most int) string {
	return string(appendText(nil, s[:cut(s, most)]))
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
	host, pid, label text
}

func readPermits(raw []byte) permitReader {
	return permitReader{f: fields{s: scanner{b: raw}}}
}

// next reads the next permit into last. It is false at the end, and where what
// follows is no permit: f.bad then.
func (r *permitReader) next() bool {
	f := &r.f
	first := f.s.i == 0
	f.s.skipSpace()
	if f.bad || f.s.i == len(f.s.b) {
		return false
	}
	if !first {
		f.bad = !f.s.take(',')
		f.s.skipSpace()
	}
	f.bad = f.bad || !f.s.take('{')
	f.s.skipSpace()
	f.more = true
	p := &r.last
	p.id = f.id("id")
	if owner := f.take("owner"); owner.kind > tokenString { // the session's own, where it is absent
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
		to   *text
	}{{"host", &p.host}, {"pid", &p.pid}, {"label", &p.label}} {
		if t := f.maybe(field.name); t != nil {
			*field.to = t
		}
	}
	f.bad = f.bad || f.more || !f.s.take('}') || len(p.id) == 0 || len(p.session) == 0 ||
		!IsID(string(p.session)) || p.weight == 0 || p.weight > 1<<36
	f.s.skipSpace()
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
	return !r.f.bad && count <= MaxPermits
}

// appendPermits appends what raw, from between the brackets, says.
func appendPermits(to []permit, raw []byte) []permit {
	r := readPermits(raw)
	before := permit{}
	same := func(now []byte, last string) string {
		if string(now) == last {
			return last
		}
		return string(now)
	}
	for r.next() {
		p := &r.last
		before = permit{
			id: string(p.id), session: same(p.session, before.session), weight: p.weight,
			host: same(p.host, before.host), pid: same(p.pid, before.pid), label: same(p.label, before.label),
		}
		to = append(to, before)
	}
	return to
}

// Permit is a holder of a semaphore as its record shows it. Its texts are somebody
// else's: escape them before they are shown.
type Permit struct {
	ID               HolderID
	Session          string
	Weight           uint64
	Host, PID, Label string
}

// EachPermit calls each with every permit of Sighting.Permits, in the record's order.
func EachPermit(raw []byte, each func(Permit)) {
	for r := readPermits(raw); r.next(); {
		p := &r.last
		each(Permit{
			ID: HolderID(p.id), Session: string(p.session), Weight: p.weight,
			Host: string(p.host.appendTo(nil)), PID: string(p.pid.appendTo(nil)), Label: string(p.label.appendTo(nil)),
		})
	}
}

// shownPermits is as many whole permits of raw as so many bytes hold.
func shownPermits(raw []byte, most int) []byte {
	if len(raw) <= most {
		return raw
	}
	end := 0
	for r := readPermits(raw); r.next() && r.f.s.i <= most; {
		end = r.f.s.i
	}
	return raw[:end]
}
