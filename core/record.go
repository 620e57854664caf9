package core

import (
	"unicode/utf8"
)

// lock.json belongs to mops: what it writes, and what anybody else wrote there
// before us, must be read. So reading is lenient about fields (any order, any
// unknown one, the last of two with one name) and strict about JSON. Writing is
// in record_write.go.

// recordState is what a body is, before anybody asks whose it is and how old.
type recordState uint8

const (
	recordAbsent   recordState = iota // there is no body; parseRecord never says so
	recordEmpty                       // no bytes: somebody's write is under way
	recordCorrupt                     // not for us to judge: PROTOCOL L3
	recordReleased                    // free, whatever else is wrong in it
	recordLive                        // writer, writtenAt and expire are good
)

// record is a lock.json as it was read. It refers to the body, which must stand
// as long as it does. An instant of 0 is empty; what was really written at 0 is
// read as 1 ns later, which no stamp can show. In a corrupt or released record
// the fields hold what could be read.
type record struct {
	state recordState
	// noExpiry: nothing is wrong but that expire_s is absent, null or 0. Such a
	// record is corrupt (or released) to an acquirer; a companion says why.
	noExpiry bool
	remote   bool // the last write was a companion's
	writer   text
	host     text
	pid      text

	writtenAt      int64
	firstWrittenAt int64
	acquiredAt     int64
	releasedAt     int64
	expire         Duration // expire_s; 0 where that is no good one
	count          int64    // of write_count; 0 where that is odd

	// nonce is writer_id, written_at and write_count as they stand.
	nonce [3]jsonToken
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

// parseRecord reads body into r. It never fails: r.state says what was wrong.
func parseRecord(body []byte, r *record) {
	*r = record{state: recordCorrupt}
	if len(body) == 0 {
		r.state = recordEmpty
		return
	}
	var fields [recordFields]jsonToken
	if len(body) > MaxRecord || !utf8.Valid(body) || !scanFields(body, &fields) {
		return
	}
	r.nonce = [3]jsonToken{fields[fieldWriter], fields[fieldWrittenAt], fields[fieldCount]}
	r.host, r.pid = opaqueText(fields[fieldHost]), opaqueText(fields[fieldPID])
	r.count = countOf(&fields[fieldCount])
	name := &fields[fieldWriterName]
	r.remote = name.kind == tokenString && text(name.raw).equal(RemoteWriter)

	good := fields[fieldWriter].kind == tokenString && len(fields[fieldWriter].raw) > 0
	if good {
		r.writer = fields[fieldWriter].raw
	}
	good = fields[fieldWrittenAt].stamp(&r.writtenAt) && good
	good = fields[fieldFirstWrittenAt].stamp(&r.firstWrittenAt) && good
	good = fields[fieldAcquiredAt].stamp(&r.acquiredAt) && good
	good = fields[fieldReleasedAt].stamp(&r.releasedAt) && good
	expire, ok := expireOf(&fields[fieldExpire])
	r.expire = expire
	noExpiry := ok && expire == 0
	switch {
	case r.releasedAt != 0:
		r.state, r.noExpiry = recordReleased, noExpiry
	case good && ok && r.writtenAt != 0 && noExpiry:
		r.noExpiry = true
	case good && ok && r.writtenAt != 0:
		r.state = recordLive
	}
}

// scanFields finds the fields of the object that body is. It answers false if
// body is not one JSON object.
func scanFields(body []byte, fields *[recordFields]jsonToken) bool {
	s := scanner{b: body}
	s.skipSpace()
	if s.at() != '{' {
		return false
	}
	for more := s.open(); more; {
		key, value, goesOn, ok := s.element(true, 0)
		if !ok {
			return false
		}
		if field := recordField(key); field >= 0 {
			fields[field] = value // the last of each name counts, as in Python
		}
		more = goesOn
	}
	s.skipSpace()
	return s.i == len(body)
}

// recordField returns which field a key names, or -1.
func recordField(key text) int {
	if field := fieldNamed(key); field >= 0 {
		return field
	}
	const longest = 6 * len("first_acquired_at") // every letter as \u0000
	if len(key) > longest || key.plain() {
		return -1
	}
	var buf [longest]byte
	return fieldNamed(key.appendTo(buf[:0]))
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
func opaqueText(t jsonToken) text {
	if t.kind == tokenString || t.kind == tokenNumber {
		return t.raw
	}
	return nil
}

// countOf reads a write_count; whatever is odd about it, it is 0 and no fault.
func countOf(t *jsonToken) (n int64) {
	const digits = 18 // fit an int64
	if t.kind != tokenNumber || len(t.raw) > digits {
		return 0
	}
	for _, c := range t.raw {
		if c-'0' > 9 {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// expireOf reads expire_s. 0 and ok: absent, null or 0. Not ok: no number, not
// finite, negative, or above MaxTTL.
func expireOf(t *jsonToken) (d Duration, ok bool) {
	switch t.kind {
	case tokenAbsent, tokenNull:
		return 0, true
	case tokenNumber:
		nanos, ok := parseSeconds(t.raw, int64(MaxTTL))
		return Duration(nanos), ok
	}
	return 0, false
}

// print is a fingerprint of writer_id, written_at and write_count as they
// stand. Two prints that differ are two writes; a record whose print stays the
// same stands unchanged.
func (r *record) print() uint64 {
	h := uint64(fnvOffset)
	for i := range r.nonce {
		h = fnv1a(h, r.nonce[i].raw)
		// Between fields, and after a kind: "1" is not 1.
		h = (h ^ uint64(0x80|r.nonce[i].kind)) * fnvPrime
	}
	return h
}
