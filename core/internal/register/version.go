package register

import (
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

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

// RegisterPrefix is the prefix of everything under a name.
func RegisterPrefix(name string) string { return name + "/" + core.RegisterDir + "/" }

// epochKey is the prefix of a version and its beats: fixed width of MAX - n, so
// that byte order is newest first.
func epochKey(prefix string, n core.Epoch) string {
	const hex = "0123456789abcdef"
	var digits [epochDigits]byte
	for i, inverse := epochDigits-1, ^uint64(n); i >= 0; i, inverse = i-1, inverse>>4 {
		digits[i] = hex[inverse&15]
	}
	return prefix + string(digits[:])
}

func VersionKey(prefix string, n core.Epoch) string { return epochKey(prefix, n) + versionFile }

func BeatKey(prefix string, n core.Epoch, owner string) string {
	return epochKey(prefix, n) + beatFile + owner
}

// SessionPrefix is that of all keys of a session.
func SessionPrefix(sid string) string { return core.SessionPrefix + sid + "/" }

func SessionKey(sid string) string { return SessionPrefix(sid) + "beat" }

// SessionSelfKey is the key of what a session makes once, as a version is made.
func SessionSelfKey(sid string) string { return SessionPrefix(sid) + "v" }

func CallPrefix(sid string) string { return core.SessionPrefix + sid + "/call/" }

func CallKey(sid string, k uint64) string {
	digits := [callDigits]byte{'0', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
	for i := len(digits) - 1; k > 0 && i >= 0; i, k = i-1, k/10 {
		digits[i] += byte(k % 10)
	}
	return core.SessionPrefix + sid + "/call/" + string(digits[:])
}

// parseCallKey is the K of a call, from its key.
func parseCallKey(sid string, key []byte) (k uint64, ok bool) {
	prefix := CallPrefix(sid)
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

// ParseRegisterKey takes a key of a list apart: which version, and whose beat;
// owner is empty for the version itself.
func ParseRegisterKey(prefix string, key []byte) (n core.Epoch, owner []byte, ok bool) {
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
	n = core.Epoch(^inverse)
	switch {
	case n == 0 || n > maxEpoch: // no chain grows so long: it is made up
		return 0, nil, false
	case string(rest) == versionFile:
		return n, nil, true
	case len(rest) > len(beatFile) && string(rest[:len(beatFile)]) == beatFile:
		return n, rest[len(beatFile):], true
	}
	return 0, nil, false
}

// ReadResult is what came of reading one of our own records.
type ReadResult uint8

const (
	ReadGood    ReadResult = iota
	ReadCorrupt            // not what we write
	ReadNewer              // by a newer mopslock
	ReadOther              // another kind of register
)

// Version is a decoded version. Its texts refer to the body.
type Version struct {
	n, origin      core.Epoch
	State          core.VersionState
	Tenure, owner  []byte
	Owners         []byte // what stands between the brackets
	Nonce          []byte
	ttl, margin    core.Duration // ttl 0 is until released or broken
	session        []byte
	alone          bool
	why, by        jsontext.Text
	host, pid      jsontext.Text
	label          jsontext.Text
	boot           []byte
	boottime, wall int64

	Lease           bool // its kind, once that was read
	semaphore       bool // and then:
	capacity, width uint64
	Limit           uint64
	permits         []byte // what stands between the brackets

	ext []byte // as it stands, or nil
}

// BeatRecord is a decoded beat, of an owner or of a session, or a call.
type BeatRecord struct {
	nonce       []byte
	owner, Name []byte
	Epoch       core.Epoch
	ttl         core.Duration
	boot        []byte
	boottime    int64
}

// fields reads the fields of one record, one after the other.
type fields struct {
	s    jsontext.Scanner
	more bool // a field must follow
	bad  bool
}

// openFields begins a record, and reads its v.
func openFields(body []byte) (f fields, result ReadResult) {
	f.s.B = body
	if len(body) > core.MaxRecord || !utf8.Valid(body) {
		return f, ReadCorrupt
	}
	f.s.SkipSpace()
	f.bad = !f.s.Take('{')
	f.s.SkipSpace()
	f.more = true
	switch v := f.number("v"); {
	case f.bad || v == 0:
		return f, ReadCorrupt
	case v > core.RecordVersion:
		return f, ReadNewer
	}
	return f, ReadGood
}

// take reads the field if it comes next.
func (f *fields) take(name string) (t jsontext.Token) {
	if f.bad || !f.more {
		return t
	}
	before := f.s.I
	key, ok := f.s.Key()
	if !ok || string(key) != name {
		f.s.I = before
		return t
	}
	t, ok = f.s.Value(1)
	f.s.SkipSpace()
	f.more = f.s.Take(',')
	f.s.SkipSpace()
	f.bad = !ok
	return t
}

// need is take of a field that must be there, of one kind.
func (f *fields) need(name string, kind jsontext.Kind) []byte {
	t := f.take(name)
	f.bad = f.bad || t.Kind != kind
	return t.Raw
}

// id is a text that can stand in a key: no record must lead us elsewhere.
func (f *fields) id(name string) []byte {
	raw := f.need(name, jsontext.TokenString)
	f.bad = f.bad || !core.IsID(string(raw))
	return raw
}

// maybe is a text that may be absent.
func (f *fields) maybe(name string) jsontext.Text {
	t := f.take(name)
	f.bad = f.bad || t.Kind > jsontext.TokenString
	return t.Raw
}

func (f *fields) number(name string) (n uint64) {
	const digits = 19 // fit an int64, and nearly all of them
	raw := f.need(name, jsontext.TokenNumber)
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
	at := f.s.I
	if f.take(name).Kind == jsontext.TokenAbsent {
		return 0, false
	}
	f.s.I, f.more = at, true
	return f.number(name), true
}

func (f *fields) seconds(name string) core.Duration {
	raw := f.need(name, jsontext.TokenNumber)
	if f.bad {
		return 0
	}
	nanos, ok := jsontext.ParseSeconds(raw, int64(core.MaxTTL))
	f.bad = f.bad || !ok
	return core.Duration(nanos)
}

// close reports whether the record was read to its end and nothing was wrong. The last
// field of any record may be ext (PROTOCOL S2.1), in which nothing is read.
func (f *fields) close() (ext []byte, result ReadResult) {
	if t := f.take("ext"); t.Kind != jsontext.TokenAbsent {
		ext = t.Raw
		f.bad = t.Kind != jsontext.TokenNested || ext[0] != '{' || len(ext) > core.MaxExt
	}
	end := f.s.Take('}')
	f.s.SkipSpace()
	if f.bad || f.more || !end || f.s.I != len(f.s.B) {
		return nil, ReadCorrupt
	}
	return ext, ReadGood
}

// ParseVersion reads the body of version n.
func ParseVersion(body []byte, n core.Epoch, v *Version) ReadResult {
	*v = Version{}
	f, result := openFields(body)
	if result != ReadGood {
		return result
	}
	kind := f.id("kind")
	v.Lease, v.semaphore = string(kind) == kindLease, string(kind) == kindSemaphore
	v.n = core.Epoch(f.number("n"))
	var ok bool
	v.State, ok = core.VersionStateOf(f.id("state"))
	v.Tenure = f.id("tenure")
	v.origin = core.Epoch(f.number("origin"))
	v.owner = f.id("owner")
	list := f.need("owners", jsontext.TokenNested)
	v.Nonce = f.id("nonce")
	v.ttl, v.margin = f.seconds("ttl_s"), f.seconds("margin_s")
	v.session = f.maybe("session")
	alone := f.take("alone")
	v.alone = alone.Kind == jsontext.TokenTrue
	v.why, v.by = f.maybe("why"), f.maybe("by")
	v.host, v.pid, v.label = f.maybe("host"), f.maybe("pid"), f.maybe("label")
	v.boot = f.maybe("boot")
	v.boottime = int64(f.number("boottime_ns"))
	at := f.take("at")
	if v.semaphore {
		v.capacity, v.width = f.number("capacity"), f.number("width")
		v.Limit, _ = f.maybeNumber("limit")
		v.permits = f.need("permits", jsontext.TokenNested)
	}
	if v.ext, result = f.close(); result != ReadGood {
		return result
	}
	if v.semaphore {
		if core.CheckView(uint32(min(v.capacity, core.MaxCapacity+1)), uint32(min(v.width, core.MaxWidth+1))) != nil || !isPermits(v.permits) {
			return ReadCorrupt
		}
		v.permits = v.permits[1 : len(v.permits)-1]
	}
	switch {
	case !v.semaphore && !v.Lease, v.semaphore != (v.State == core.VersionValue),
		!ok || v.n != n || v.origin == 0 || v.origin > n || len(v.Tenure) == 0 || len(v.owner) == 0,
		alone.Kind != jsontext.TokenTrue && alone.Kind != jsontext.TokenFalse, !at.Stamp(&v.wall), !isOwners(list),
		len(v.Nonce) == 0, v.boottime < 0 || v.boottime > core.MaxClockRange, v.ttl > 0 && v.margin >= v.ttl, len(v.session) > 0 && v.ttl == 0,
		!core.IsID(string(v.session)) || !core.IsID(string(v.boot)):
		return ReadCorrupt
	}
	v.Owners = list[1 : len(list)-1]
	return ReadGood
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
		id, left, ok = NextOwner(left)
		ok = ok && len(id) > 0 && core.IsID(string(id))
		count++
	}
	return ok && count <= core.MaxOwners+1
}

// NextOwner takes the first id off a list as it stands between the brackets.
func NextOwner(list []byte) (id, rest []byte, ok bool) {
	if list[0] != '"' {
		return nil, nil, false
	}
	end := 1 + jsontext.SkipOrdinary(list[1:], 0)
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
		id, rest, ok := NextOwner(left)
		if !ok {
			return
		}
		each(string(id))
		left = rest
	}
}

// moreOwners stands at the end of a list that has no room: there may be others.
// No owner is alone there, and beats are found by listing.
const moreOwners = "..."

func HasMoreOwners(list string) (more bool) {
	eachOwner(list, func(id string) { more = more || id == moreOwners })
	return more
}

// WithOwner is the list with an id in it.
func WithOwner(list, owner string) string {
	there, count := false, 0
	eachOwner(list, func(id string) { there, count = there || id == owner, count+1 })
	if count == core.MaxOwners && !there {
		owner = moreOwners
	}
	switch {
	case there || count > core.MaxOwners:
		return list
	case list == "":
		return `"` + owner + `"`
	}
	return list + `, "` + owner + `"`
}

// WithoutOwner is the list without an id.
func WithoutOwner(list, owner string) string {
	left := ""
	eachOwner(list, func(id string) {
		if id != owner {
			left = WithOwner(left, id)
		}
	})
	return left
}

// IsAlone reports that only owner is in the list.
func IsAlone(list, owner string) bool { return list == `"`+owner+`"` }

// parseBeat reads the beat of an owner.
func parseBeat(body []byte, b *BeatRecord) ReadResult {
	*b = BeatRecord{}
	f, result := openFields(body)
	if result != ReadGood {
		return result
	}
	b.nonce, b.owner = f.id("nonce"), f.id("owner")
	f.number("seq")
	return b.end(&f)
}

// parseSessionBeat reads the beat of a session.
func parseSessionBeat(body []byte, b *BeatRecord) ReadResult {
	*b = BeatRecord{}
	f, result := openFields(body)
	if result != ReadGood {
		return result
	}
	b.nonce = f.id("nonce")
	b.ttl = f.seconds("ttl_s")
	f.seconds("margin_s")
	return b.end(&f)
}

// ParseCall reads a call to a session.
func ParseCall(body []byte, b *BeatRecord) ReadResult {
	*b = BeatRecord{}
	f, result := openFields(body)
	if result != ReadGood {
		return result
	}
	b.nonce = f.id("nonce")
	b.Name = f.need("name", jsontext.TokenString)
	b.Epoch = core.Epoch(f.number("epoch"))
	return b.end(&f)
}

// end reads what all of them end in.
func (b *BeatRecord) end(f *fields) ReadResult {
	b.boot = f.maybe("boot")
	b.boottime = int64(f.number("boottime_ns"))
	if _, result := f.close(); result != ReadGood || b.boottime < 0 || b.boottime > core.MaxClockRange {
		return ReadCorrupt
	}
	return ReadGood
}
