// Package lockfile reads and writes lock.json, the record that mops and the protocol
// lastwriter keep under a name. It says what a record is; whether the name is free is
// for the machines to judge.
package lockfile

import (
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// lock.json belongs to mops: what it writes, and what anybody else wrote there
// before us, must be read. So reading is lenient about fields (any order, any
// unknown one, the last of two with one name) and strict about JSON. Writing is
// in record_write.go.

// recordState is what a body is, before anybody asks whose it is and how old.
type recordState uint8

const (
	Absent   recordState = iota // there is no body; parseRecord never says so
	Empty                       // no bytes: somebody's write is under way
	Corrupt                     // not for us to judge: PROTOCOL L3
	Released                    // free, whatever else is wrong in it
	Live                        // writer, writtenAt and expire are good
)

// Record is a lock.json as it was read. It refers to the body, which must stand
// as long as it does. An instant of 0 is empty; what was really written at 0 is
// read as 1 ns later, which no stamp can show. In a corrupt or released record
// the fields hold what could be read.
type Record struct {
	State recordState
	// NoExpiry: nothing is wrong but that expire_s is absent, null or 0. Such a
	// record is corrupt (or released) to an acquirer; a companion says why.
	NoExpiry bool
	Remote   bool // the last write was a companion's
	Writer   jsontext.Text
	host     jsontext.Text
	pid      jsontext.Text

	WrittenAt      int64
	FirstWrittenAt int64
	AcquiredAt     int64
	ReleasedAt     int64
	Expire         core.Duration // expire_s; 0 where that is no good one
	Count          int64         // of write_count; 0 where that is odd

	// nonce is writer_id, written_at and write_count as they stand.
	nonce [3]jsontext.Token
}

// The fields that are looked at, in the order in which mops writes them.
const (
	fieldWriter = iota
	fieldWrittenAt
	fieldExpire
	fieldCount
	fieldHost
	fieldPID
	fieldFirstWrittenAt
	fieldAcquiredAt
	fieldReleasedAt
	fieldWriterName
	recordFields
)

// Parse reads body into r. It never fails: r.state says what was wrong.
func Parse(body []byte, r *Record) {
	*r = Record{State: Corrupt}
	if len(body) == 0 {
		r.State = Empty
		return
	}
	var fields [recordFields]jsontext.Token
	if len(body) > core.MaxRecord || !utf8.Valid(body) || !scanFields(body, &fields) {
		return
	}
	r.nonce = [3]jsontext.Token{fields[fieldWriter], fields[fieldWrittenAt], fields[fieldCount]}
	r.host, r.pid = opaqueText(fields[fieldHost]), opaqueText(fields[fieldPID])
	r.Count = countOf(&fields[fieldCount])
	name := &fields[fieldWriterName]
	r.Remote = name.Kind == jsontext.TokenString && jsontext.Text(name.Raw).Equal(core.RemoteWriter)

	good := fields[fieldWriter].Kind == jsontext.TokenString && len(fields[fieldWriter].Raw) > 0
	if good {
		r.Writer = fields[fieldWriter].Raw
	}
	good = fields[fieldWrittenAt].Stamp(&r.WrittenAt) && good
	good = fields[fieldFirstWrittenAt].Stamp(&r.FirstWrittenAt) && good
	good = fields[fieldAcquiredAt].Stamp(&r.AcquiredAt) && good
	good = fields[fieldReleasedAt].Stamp(&r.ReleasedAt) && good
	expire, ok := expireOf(&fields[fieldExpire])
	r.Expire = expire
	noExpiry := ok && expire == 0
	switch {
	case r.ReleasedAt != 0:
		r.State, r.NoExpiry = Released, noExpiry
	case good && ok && r.WrittenAt != 0 && noExpiry:
		r.NoExpiry = true
	case good && ok && r.WrittenAt != 0:
		r.State = Live
	}
}

// scanFields finds the fields of the object that body is. It answers false if
// body is not one JSON object.
func scanFields(body []byte, fields *[recordFields]jsontext.Token) bool {
	s := jsontext.Scanner{B: body}
	s.SkipSpace()
	if s.At() != '{' {
		return false
	}
	for more := s.Open(); more; {
		key, value, goesOn, ok := s.Element(true, 0)
		if !ok {
			return false
		}
		if field := recordField(key); field >= 0 {
			fields[field] = value // the last of each name counts, as in Python
		}
		more = goesOn
	}
	s.SkipSpace()
	return s.I == len(body)
}

// recordField returns which field a key names, or -1.
func recordField(key jsontext.Text) int {
	if field := fieldNamed(key); field >= 0 {
		return field
	}
	const longest = 6 * len("first_acquired_at") // every letter as \u0000
	if len(key) > longest || key.Plain() {
		return -1
	}
	var buf [longest]byte
	return fieldNamed(key.AppendTo(buf[:0]))
}

func fieldNamed(key []byte) int {
	switch string(key) {
	case "writer_id":
		return fieldWriter
	case "written_at":
		return fieldWrittenAt
	case "expire_s":
		return fieldExpire
	case "write_count":
		return fieldCount
	case "hostname":
		return fieldHost
	case "pid":
		return fieldPID
	case "first_written_at":
		return fieldFirstWrittenAt
	case "first_acquired_at":
		return fieldAcquiredAt
	case "released_at":
		return fieldReleasedAt
	case "writer_name":
		return fieldWriterName
	}
	return -1
}

// opaqueText is a field that is only shown: a string, or a number as it stands.
func opaqueText(t jsontext.Token) jsontext.Text {
	if t.Kind == jsontext.TokenString || t.Kind == jsontext.TokenNumber {
		return t.Raw
	}
	return nil
}

// countOf reads a write_count; whatever is odd about it, it is 0 and no fault.
func countOf(t *jsontext.Token) (n int64) {
	const digits = 18 // fit an int64
	if t.Kind != jsontext.TokenNumber || len(t.Raw) > digits {
		return 0
	}
	for _, c := range t.Raw {
		if c-'0' > 9 {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// expireOf reads expire_s. 0 and ok: absent, null or 0. Not ok: no number, not
// finite, negative, or above MaxTTL.
func expireOf(t *jsontext.Token) (d core.Duration, ok bool) {
	switch t.Kind {
	case jsontext.TokenAbsent, jsontext.TokenNull:
		return 0, true
	case jsontext.TokenNumber:
		nanos, ok := jsontext.ParseSeconds(t.Raw, int64(core.MaxTTL))
		return core.Duration(nanos), ok
	}
	return 0, false
}

// Print is a fingerprint of writer_id, written_at and write_count as they
// stand. Two prints that differ are two writes; a record whose print stays the
// same stands unchanged.
func (r *Record) Print() uint64 {
	h := uint64(base.FnvOffset)
	for i := range r.nonce {
		h = base.FNV1a(h, r.nonce[i].Raw)
		// Between fields, and after a kind: "1" is not 1.
		h = (h ^ uint64(0x80|r.nonce[i].Kind)) * base.FnvPrime
	}
	return h
}

// Show copies a record into a sighting, whose buffers are used again. A record
// has 64 KiB, and one Step can show its sighting twice: texts are cut, so that
// whatever somebody wrote there fits an answer.
func (r *Record) Show(s *core.Sighting, state core.Observation) {
	s.State, s.Remote, s.TTL = state, r.Remote, r.Expire
	s.WrittenAt, s.AcquiredAt, s.ReleasedAt, s.LookAt = r.WrittenAt, r.AcquiredAt, r.ReleasedAt, 0
	s.Holder = r.Writer.AppendCut(s.Holder[:0], core.MaxHolder)
	s.Host = r.host.AppendCut(s.Host[:0], core.MaxText)
	s.PID = r.pid.AppendCut(s.PID[:0], core.MaxText)
}
