package core

import "unicode/utf8"

// What strict keeps under a name is a chain of versions, each an object made
// once by create and never written again, and beside each version the beats of
// its owners. This file has their keys and their records, as PROTOCOL S2 and S3 say:
// JSON that a person can read, its fields in one order, read strictly.

// The parts of the keys below a name, and the kinds of record.
const (
	versionFile   = "/v"
	beatFile      = "/b."
	epochDigits   = 16
	maxEpoch      = 1 << 62
	callDigits    = 10
	kindLease     = "lease"
	kindSemaphore = "semaphore"
)

// registerPrefix is the prefix of everything under a name.
func registerPrefix(name string) string { return name + "/" + RegisterDir + "/" }

// epochKey is the prefix of a version and its beats: fixed width of MAX - n, so
// that byte order is newest first.
func epochKey(prefix string, n Epoch) string {
	const hex = "0123456789abcdef"
	var digits [epochDigits]byte
	for i, inverse := epochDigits-1, ^uint64(n); i >= 0; i, inverse = i-1, inverse>>4 {
		digits[i] = hex[inverse&15]
	}
	return prefix + string(digits[:])
}

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func versionKey(prefix string, n Epoch) string { return epochKey(prefix, n) + versionFile }

func beatKey(prefix string, n Epoch, owner string) string {
	return epochKey(prefix, n) + beatFile + owner
}

func sessionKey(sid string) string { return SessionPrefix + sid + "/beat" }

func callPrefix(sid string) string { return SessionPrefix + sid + "/call/" }

func callKey(sid string, k uint64) string {
	digits := [callDigits]byte{'0', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
	for i := len(digits) - 1; k > 0 && i >= 0; i, k = i-1, k/10 {
		digits[i] += byte(k % 10)
	}
	return SessionPrefix + sid + "/call/" + string(digits[:])
}

// parseCallKey is the K of a call, from its key.
func parseCallKey(sid string, key []byte) (k uint64, ok bool) {
	prefix := callPrefix(sid)
	if len(key) != len(prefix)+callDigits || string(key[:len(prefix)]) != prefix {
		return 0, false
	}
	for _, c := range key[len(prefix):] {
		if c-'0' > 9 {
			return 0, false
		}
		k = k*10 + uint64(c-'0')
	}
	return k, true
}

// parseRegisterKey takes a key of a list apart: which version, and whose beat;
// owner is empty for the version itself.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func parseRegisterKey(prefix string, key []byte) (n Epoch, owner []byte, ok bool) {
	if len(key) < len(prefix)+epochDigits+len(versionFile) || string(key[:len(prefix)]) != prefix {
		return 0, nil, false
	}
	inverse := uint64(0)
	for _, c := range key[len(prefix) : len(prefix)+epochDigits] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, nil, false
		}
		inverse = inverse<<4 | uint64(c)
	}
	rest := key[len(prefix)+epochDigits:]
	n = Epoch(^inverse)
	switch {
	case n == 0 || n > maxEpoch: // no chain grows so long: somebody made it up
		return 0, nil, false
	case string(rest) == versionFile:
		return n, nil, true
	case len(rest) > len(beatFile) && string(rest[:len(beatFile)]) == beatFile:
		return n, rest[len(beatFile):], true
	}
	return 0, nil, false
}

// readResult is what came of reading one of our own records.
type readResult uint8

const (
	readGood    readResult = iota
	readCorrupt            // not what we write
	readNewer              // by a newer mopslock
	readOther              // another kind of register
)

// version is a decoded version. Its texts refer to the body.
type version struct {
	n, origin      Epoch
	state          VersionState
	tenure, owner  []byte
	owners         []byte // what stands between the brackets
	nonce          []byte
	ttl, margin    Duration // ttl 0 is until released or broken
	session        []byte
	alone          bool
	why, by        text
	host, pid      text
	label          text
	boot           []byte
	boottime, wall int64

	lease           bool // its kind, once that was read
	semaphore       bool // and then:
	capacity, width uint64
	limit           uint64
	permits         []byte // what stands between the brackets
}

// beat is a decoded beat, of an owner or of a session, or a call.
type beat struct {
	nonce       []byte
	owner, name []byte
	epoch       Epoch
	ttl         Duration
	boot        []byte
	boottime    int64
}

// fields reads the fields of one record, one after the other.
type fields struct {
	s    scanner
	more bool // a field must follow
	bad  bool
}

// openFields begins a record, and reads its v.
func openFields(body []byte) (f fields, result readResult) {
	f.s.b = body
	if len(body) > MaxRecord || !utf8.Valid(body) {
		return f, readCorrupt
	}
	f.s.skipSpace()
	f.bad = !f.s.take('{')
	f.s.skipSpace()
	f.more = true
	switch v := f.number("v"); {
	case f.bad || v == 0:
		return f, readCorrupt
	case v > RecordVersion:
		return f, readNewer
	}
	return f, readGood
}

// take reads the field if it comes next.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) take(name string) (t jsonToken) {
	if f.bad || !f.more {
		return t
	}
	before := f.s.i
	key, ok := f.s.key()
	if !ok || string(key) != name {
		f.s.i = before
		return t
	}
	t, ok = f.s.value(1)
	f.s.skipSpace()
	f.more = f.s.take(',')
	f.s.skipSpace()
	f.bad = !ok
	return t
}

// need is take of a field that must be there, of one kind.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) need(name string, kind tokenKind) []byte {
	t := f.take(name)
	f.bad = f.bad || t.kind != kind
	return t.raw
}

// id is a text that can stand in a key: nobody's record must lead us elsewhere.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) id(name string) []byte {
	raw := f.need(name, tokenString)
	f.bad = f.bad || !IsID(string(raw))
	return raw
}

// maybe is a text that may be absent.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) maybe(name string) text {
	t := f.take(name)
	f.bad = f.bad || t.kind > tokenString
	return t.raw
}

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) number(name string) (n uint64) {
	const digits = 19 // fit an int64, and nearly all of them
	raw := f.need(name, tokenNumber)
	if len(raw) > digits {
		f.bad = true
		return 0
	}
	for _, c := range raw {
		f.bad = f.bad || c-'0' > 9
		n = n*10 + uint64(c-'0')
	}
	return n
}

// maybeNumber is a number that may be absent.
func (f *fields) maybeNumber(name string) (n uint64, there bool) {
	at := f.s.i
	if f.take(name).kind == tokenAbsent {
		return 0, false
	}
	f.s.i, f.more = at, true
	return f.number(name), true
}

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (f *fields) seconds(name string) Duration {
	raw := f.need(name, tokenNumber)
	if f.bad {
		return 0
	}
	nanos, ok := parseSeconds(raw, int64(MaxTTL))
	f.bad = f.bad || !ok
	return Duration(nanos)
}

// close reports whether the record was read to its end and nothing was wrong.
func (f *fields) close() readResult {
	end := f.s.take('}')
	f.s.skipSpace()
	if f.bad || f.more || !end || f.s.i != len(f.s.b) {
		return readCorrupt
	}
	return readGood
}

// parseVersion reads the body of version n.
func parseVersion(body []byte, n Epoch, v *version) readResult {
	*v = version{}
	f, result := openFields(body)
	if result != readGood {
		return result
	}
	kind := f.id("kind")
	v.lease, v.semaphore = string(kind) == kindLease, string(kind) == kindSemaphore
	v.n = Epoch(f.number("n"))
	var ok bool
	v.state, ok = VersionStateOf(f.id("state"))
	v.tenure = f.id("tenure")
	v.origin = Epoch(f.number("origin"))
	v.owner = f.id("owner")
	list := f.need("owners", tokenNested)
	v.nonce = f.id("nonce")
	v.ttl, v.margin = f.seconds("ttl_s"), f.seconds("margin_s")
	v.session = f.maybe("session")
	alone := f.take("alone")
	v.alone = alone.kind == tokenTrue
	v.why, v.by = f.maybe("why"), f.maybe("by")
	v.host, v.pid, v.label = f.maybe("host"), f.maybe("pid"), f.maybe("label")
	v.boot = f.maybe("boot")
	v.boottime = int64(f.number("boottime_ns"))
	at := f.take("at")
	if v.semaphore {
		v.capacity, v.width = f.number("capacity"), f.number("width")
		v.limit, _ = f.maybeNumber("limit")
		v.permits = f.need("permits", tokenNested)
	}
	if result = f.close(); result != readGood {
		return result
	}
	if v.semaphore {
		if CheckView(uint32(min(v.capacity, MaxCapacity+1)), uint32(min(v.width, MaxWidth+1))) != nil || !isPermits(v.permits) {
			return readCorrupt
		}
		v.permits = v.permits[1 : len(v.permits)-1]
	}
	switch {
	case !v.semaphore && !v.lease, v.semaphore != (v.state == VersionValue),
		!ok || v.n != n || v.origin == 0 || v.origin > n || len(v.tenure) == 0 || len(v.owner) == 0,
		alone.kind != tokenTrue && alone.kind != tokenFalse, !at.stamp(&v.wall), !isOwners(list),
		len(v.nonce) == 0, v.boottime < 0 || v.boottime > MaxClockRange, v.ttl > 0 && v.margin >= v.ttl, len(v.session) > 0 && v.ttl == 0,
		!IsID(string(v.session)) || !IsID(string(v.boot)):
		return readCorrupt
	}
	v.owners = list[1 : len(list)-1]
	return readGood
}

// isOwners reports whether list is an array of ids, as appendOwners writes it.
func isOwners(list []byte) bool {
	if len(list) < 2 || list[0] != '[' {
		return false
	}
	count, ok := 0, true
	left := list[1 : len(list)-1]
	for len(left) > 0 && ok {
		var id []byte
		id, left, ok = nextOwner(left)
		ok = ok && len(id) > 0 && IsID(string(id))
		count++
	}
	return ok && count <= MaxOwners+1
}

// nextOwner takes the first id off a list as it stands between the brackets.
func nextOwner(list []byte) (id, rest []byte, ok bool) {
	if list[0] != '"' {
		return nil, nil, false
	}
	end := 1 + skipOrdinary(list[1:], 0)
	if end >= len(list) || list[end] != '"' {
		return nil, nil, false
	}
	id, rest = list[1:end], list[end+1:]
	if len(rest) > 0 {
		if len(rest) < 4 || rest[0] != ',' || rest[1] != ' ' {
			return nil, nil, false
		}
		rest = rest[2:]
	}
	return id, rest, true
}

// eachOwner calls each with every id of a list.
func eachOwner(list string, each func(id string)) {
	for left := []byte(list); len(left) > 0; {
		id, rest, ok := nextOwner(left)
		if !ok {
			return
		}
		each(string(id))
		left = rest
	}
}

// moreOwners stands at the end of a list that has no room: there may be others.
// Nobody is alone beside it, and beats are found by listing.
const moreOwners = "..."

func hasMoreOwners(list string) (more bool) {
	eachOwner(list, func(id string) { more = more || id == moreOwners })
	return more
}

// withOwner is the list with an id in it.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func withOwner(list, owner string) string {
	there, count := false, 0
	eachOwner(list, func(id string) { there, count = there || id == owner, count+1 })
	if count == MaxOwners && !there {
		owner = moreOwners
	}
	switch {
	case there || count > MaxOwners:
		return list
	case list == "":
		return `"` + owner + `"`
	}
	return list + `, "` + owner + `"`
}

// withoutOwner is the list without an id.
func withoutOwner(list, owner string) string {
	left := ""
	eachOwner(list, func(id string) {
		if id != owner {
			left = withOwner(left, id)
		}
	})
	return left
}

// isAlone reports that nobody but owner is in the list.
func isAlone(list, owner string) bool { return list == `"`+owner+`"` }

// parseBeat reads the beat of an owner.
func parseBeat(body []byte, b *beat) readResult {
	*b = beat{}
	f, result := openFields(body)
	if result != readGood {
		return result
	}
	b.nonce, b.owner = f.id("nonce"), f.id("owner")
	f.number("seq")
	return b.end(&f)
}

// parseSessionBeat reads the beat of a session.
func parseSessionBeat(body []byte, b *beat) readResult {
	*b = beat{}
	f, result := openFields(body)
	if result != readGood {
		return result
	}
	b.nonce = f.id("nonce")
	b.ttl = f.seconds("ttl_s")
	f.seconds("margin_s")
	return b.end(&f)
}

// parseCall reads a call to a session.
func parseCall(body []byte, b *beat) readResult {
	*b = beat{}
	f, result := openFields(body)
	if result != readGood {
		return result
	}
	b.nonce = f.id("nonce")
	b.name = f.need("name", tokenString)
	b.epoch = Epoch(f.number("epoch"))
	return b.end(&f)
}

// end reads what all of them end in.
func (b *beat) end(f *fields) readResult {
	b.boot = f.maybe("boot")
	b.boottime = int64(f.number("boottime_ns"))
	if result := f.close(); result != readGood || b.boottime < 0 || b.boottime > MaxClockRange {
		return readCorrupt
	}
	return readGood
}
