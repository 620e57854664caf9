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
	r.count = fields[fieldCount].count()
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
	expire, ok := fields[fieldExpire].expire()
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
	if s.at() != '{' || !s.nested(0, fields) {
		return false
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

// count reads a write_count; whatever is odd about it, it is 0 and no fault.
func (t *jsonToken) count() (n int64) {
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

// stamp reads one of the stamps; 0 is an empty one, null and absent included.
func (t *jsonToken) stamp(to *int64) bool {
	if t.kind != tokenString || len(t.raw) == 0 {
		return t.kind <= tokenString || t.kind == tokenNull
	}
	wall, ok := parseStamp(t.raw)
	if !ok {
		const longest = 6 * len("2006-01-02T15:04:05.000000000+00:00:00")
		if len(t.raw) > longest || text(t.raw).plain() {
			return false
		}
		var buf [longest]byte
		wall, ok = parseStamp(text(t.raw).appendTo(buf[:0]))
	}
	if ok && wall == 0 {
		wall = 1
	}
	*to = wall
	return ok
}

// expire reads expire_s. 0 and ok: absent, null or 0. Not ok: no number, not
// finite, negative, or above MaxTTL.
func (t *jsonToken) expire() (d Duration, ok bool) {
	switch t.kind {
	case tokenAbsent, tokenNull:
		return 0, true
	case tokenNumber:
		return parseSeconds(t.raw)
	}
	return 0, false
}

// parseSeconds reads a JSON number of seconds exactly and rounds it to the
// nearest nanosecond, but nothing above 0 to 0. Not ok: negative, above MaxTTL.
func parseSeconds(b []byte) (Duration, bool) {
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	mantissa, integer, exponent := b, len(b), 0
	for i, c := range b {
		if c == 'e' || c == 'E' {
			mantissa, integer, exponent = b[:i], min(i, integer), parseExponent(b[i+1:])
			break
		}
		if c == '.' {
			integer = i
		}
	}
	// power is the decimal place, in nanoseconds, of the digit at hand.
	power := integer - 1 + exponent + 9
	ns, something := int64(0), false
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		digit := int64(c - '0')
		something = something || digit != 0
		switch {
		case power >= 0:
			ns = ns*10 + digit
		case power == -1 && digit >= 5:
			ns++
		}
		if ns > int64(MaxTTL) {
			return 0, false
		}
		power--
	}
	for ; power >= 0 && ns > 0; power-- {
		ns *= 10
		if ns > int64(MaxTTL) {
			return 0, false
		}
	}
	if something && ns == 0 {
		ns = 1
	}
	if negative && ns > 0 {
		return 0, false
	}
	return Duration(ns), true
}

// parseExponent reads what follows the e of a JSON number. What is beyond all
// use stays so: no mantissa of MaxRecord digits makes up for it.
func parseExponent(b []byte) int {
	const beyond = 1 << 24
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	n := 0
	for _, c := range b {
		n = min(n*10+int(c-'0'), beyond)
	}
	if negative {
		return -n
	}
	return n
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

// fingerprint is of a whole body, where print has nothing to hold on to.
func fingerprint(body []byte) uint64 { return fnv1a(fnvOffset, body) }

// FNV-1a, 64 bits, of Fowler, Noll and Vo.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x00000100000001b3
)

func fnv1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
