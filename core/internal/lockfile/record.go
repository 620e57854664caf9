// Package lockfile reads and writes lock.json, the record that mops and the protocol
// lastwriter keep under a name. It says what a record is; the machines judge whether
// the name is free.
package lockfile

import (
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// lock.json belongs to mops: we must read what mops writes, and what any other
// process wrote there before us. So the reader is lenient about fields (any order,
// any unknown one, the last of two with one name) and strict about JSON. The writer
// is in write.go.

// recordState is the state of a record, before its writer and its age are judged.
type recordState uint8

const (
	Absent   recordState = iota // there is no body; Parse never says so
	Empty                       // no bytes: another process's write may be under way
	Corrupt                     // PROTOCOL L3
	Released                    // free, whatever else is wrong in it
	Live                        // Writer, WrittenAt and Expire are good
)

// Record is a lock.json as it was read. It refers to the body, which must not change
// while the Record is in use. An instant of 0 is empty. An instant that was written
// as 0 is read as 1 ns, which no stamp can show. In a corrupt or released record the
// fields hold what could be read.
type Record struct {
	State recordState
	// NoExpiry: the only fault is that expire_s is absent, null or 0. To an acquirer
	// such a record is corrupt (or released); a companion says that there is no expiry.
	NoExpiry bool
	Remote   bool // the last write was a companion's
	Writer   jsontext.Text
	host     jsontext.Text
	pid      jsontext.Text

	WrittenAt      int64
	FirstWrittenAt int64
	AcquiredAt     int64
	ReleasedAt     int64
	Expire         core.Duration // expire_s, or 0 if that is not valid
	Count          int64         // write_count, or 0 if that is not valid
	Epoch          core.Epoch    // epoch, or 0 if that is not valid: only a bridge has one

	// nonce is writer_id, written_at and write_count as the body has them.
	nonce [3]jsontext.Token
}

// The fields that we read, in the order in which mops writes them.
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
	fieldEpoch
	recordFields
)

// Parse reads body into r. It never fails: r.State says what was wrong.
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
	r.Count, r.Epoch = countOf(&fields[fieldCount]), core.Epoch(countOf(&fields[fieldEpoch]))
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

// scanFields finds the fields in body. It returns false if body is not one JSON
// object.
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

// recordField returns the field that a key names, or -1.
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
	case "epoch":
		return fieldEpoch
	}
	return -1
}

// opaqueText returns a field that is only shown: a string, or a number as the body has it.
func opaqueText(t jsontext.Token) jsontext.Text {
	if t.Kind == jsontext.TokenString || t.Kind == jsontext.TokenNumber {
		return t.Raw
	}
	return nil
}

// countOf reads a write_count. One that is not valid is 0, and does not make the record corrupt.
func countOf(t *jsontext.Token) (n int64) {
	const digits = 18 // so many fit an int64
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

// expireOf reads expire_s. It returns 0 and true if that is absent, null or 0. ok is
// false if it is no number, not finite, negative, or above MaxTTL.
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

// Fingerprint returns a fingerprint of writer_id, written_at and write_count as the body
// has them. Two fingerprints that differ are of two writes. While the fingerprint
// stays the same, the record counts as unchanged.
func (r *Record) Fingerprint() uint64 {
	h := uint64(base.FnvOffset)
	for i := range r.nonce {
		h = base.FNV1a(h, r.nonce[i].Raw)
		// The kind parts one field from the next, and "1" from 1.
		h = (h ^ uint64(0x80|r.nonce[i].Kind)) * base.FnvPrime
	}
	return h
}

// Show copies a record into a sighting, whose buffers it uses again. A record may
// have 64 KiB, and one Step can show its sighting twice. So Show cuts the texts:
// whatever another process wrote there fits an answer.
func (r *Record) Show(s *core.Observed, state core.Observation) {
	s.State, s.Remote, s.TTL = state, r.Remote, r.Expire
	s.WrittenAt, s.AcquiredAt, s.ReleasedAt, s.RecheckAt = r.WrittenAt, r.AcquiredAt, r.ReleasedAt, 0
	s.Holder = r.Writer.AppendCut(s.Holder[:0], core.MaxHolder)
	s.Host = r.host.AppendCut(s.Host[:0], core.MaxText)
	s.PID = r.pid.AppendCut(s.PID[:0], core.MaxText)
}
