package core

import (
	"math/bits"
	"strconv"
)

//go:generate go run ./internal/gen -dir .
//go:generate go test ./machines -run ^TestVectors$ -update

// Messages carry configs, events and actions over the border of the core where the
// caller is not Go: WASM, C, a trace. They are msgpack
// (https://github.com/msgpack/msgpack/blob/master/spec.md), and canonical: one
// value has one message, so that engines can be compared byte for byte.
//
// A message is a config, an input or an answer: a map with string keys, in the order below.
// A field of value zero is left out, but never mono and wall. Durations and instants are
// integers of nanoseconds, enums their wire names, Body and Seed bin, all other text str.
//
//	config   machine protocol name ttl_ns margin_ns acquire_margin_ns
//	         fleet_expire_ns renewal expiry stamp_unit_ns holder role
//	         on_session owner epoch boot stamp_spread_ns last_epoch last_at_ns
//	         seen_print seen_since_ns beside why now label memo_failures
//	         without_lease creates own_store no_create no_list probes samples watches
//	         remembers in_flight transfers host pid tid seed
//	input    mono wall kind wait_ns brief request outcome result class stamp_ns
//	         entries more body epoch permit capacity width weight spare
//	         store_limit label holder session session_until_ns session_end
//	         store_stamp_ns store_at_ns claim key retry_after_ns terms
//	action   kind request key after count limit_ns type body overwrites reason
//	         class at_ns wall_ns epoch token holder session sight permit total
//	         claim protocol on origin took_ns verb ttl_ns purpose
//	sight    state holder host pid remote ttl_ns written_at_ns acquired_at_ns
//	         released_at_ns look_at_ns epoch token companions label session why
//	         by left_ns store_clock print since_ns capacity width held limit
//	         permits dead
//	answer   state idle actions, or error text
//
// terms is a config. entries is an array of arrays of two: an object's key and its stamp, which is not
// left out at 0. Long keys of a list may not all fit a message; see FitEntries.
//
// The reader (codec_read.go) is strict: a message that it accepts, written again, is
// the same bytes. The constants below are the rules, one for each way in which it can
// refuse a message. Their text is MessageError.Rule.
const (
	ruleLong      = "longer than 98304 bytes"
	ruleTruncated = "ends too early"
	ruleTrailing  = "goes on after its end"

	ruleMap   = "not a map"
	ruleArray = "not an array"
	ruleCount = "more actions than a step can return"
	ruleMany  = "more entries than a list can have"
	rulePair  = "entry is not a key and a stamp"

	ruleKeyType   = "key is not a string"
	ruleKeyOrder  = "key out of order"
	ruleDuplicate = "key stands twice"
	ruleUnknown   = "unknown key"
	ruleMissing   = "a key is missing that this kind must have"
	ruleNotOfKind = "a key is present that this kind must not have"

	ruleInt   = "not an integer"
	ruleRange = "integer out of range"
	ruleStr   = "not a string"
	ruleUTF8  = "string is not UTF-8"
	ruleBin   = "not binary"
	ruleSeed  = "seed is not 16 bytes"
	ruleBool  = "not a boolean"
	ruleName  = "name is not in the schema"
	ruleForm  = "not in its shortest form"
	ruleZero  = "zero value is not left out"
)

// MessageError says which rule a message broke, and where.
type MessageError struct {
	Rule   string
	Offset int // of the offending item's first byte
}

// Error returns the rule behind the package's name.
func (e *MessageError) Error() string {
	return "mopslock: message: " + e.Rule + " (at byte " + strconv.FormatInt(int64(e.Offset), 10) + ")"
}

// Is makes errors.Is(err, &Error{Code: ErrorMessage}) true, so that a host finds all
// of its own mistakes in one way.
func (e *MessageError) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == ErrorMessage && other.Text == ""
}

// Keys as a message has them: a fixstr header of the length, then the text.
const (
	keyMono    = "\xa4mono"
	keyWall    = "\xa4wall"
	keyKind    = "\xa4kind"
	keyWait    = "\xa7wait_ns"
	keyBrief   = "\xa5brief"
	keyRequest = "\xa7request"
	keyOutcome = "\xa7outcome"
	keyResult  = "\xa6result"
	keyClass   = "\xa5class"
	keyStamp   = "\xa8stamp_ns"
	keyEntries = "\xa7entries"
	keyMore    = "\xa4more"
	keyBody    = "\xa4body"

	keyPermit     = "\xa6permit"
	keyCapacity   = "\xa8capacity"
	keyWidth      = "\xa5width"
	keyWeight     = "\xa6weight"
	keySpare      = "\xa5spare"
	keyStoreLimit = "\xabstore_limit"
	keyTotal      = "\xa5total"

	keySession      = "\xa7session"
	keySessionUntil = "\xb0session_until_ns"
	keySessionEnd   = "\xabsession_end"
	keyStoreStamp   = "\xaestore_stamp_ns"
	keyStoreAt      = "\xabstore_at_ns"

	keyClaim      = "\xa5claim"
	keyRetryAfter = "\xaeretry_after_ns"
	keyTerms      = "\xa5terms"
	keyOn         = "\xa2on"
	keyOrigin     = "\xa6origin"
	keyTook       = "\xa7took_ns"
	keyVerb       = "\xa4verb"
	keyPurpose    = "\xa7purpose"

	keyKey    = "\xa3key"
	keyAfter  = "\xa5after"
	keyCount  = "\xa5count"
	keyLimit  = "\xa8limit_ns"
	keyType   = "\xa4type"
	keyOver   = "\xaaoverwrites"
	keyReason = "\xa6reason"
	keyAt     = "\xa5at_ns"
	keyWallNS = "\xa7wall_ns"
	keyEpoch  = "\xa5epoch"
	keyToken  = "\xa5token"
	keyHolder = "\xa6holder"
	keySight  = "\xa5sight"

	keyState      = "\xa5state"
	keyHost       = "\xa4host"
	keyPID        = "\xa3pid"
	keyRemote     = "\xa6remote"
	keyTTL        = "\xa6ttl_ns"
	keyWrittenAt  = "\xadwritten_at_ns"
	keyAcquiredAt = "\xaeacquired_at_ns"
	keyReleasedAt = "\xaereleased_at_ns"
	keyLookAt     = "\xaalook_at_ns"
	keyCompanions = "\xaacompanions"
	keyLabel      = "\xa5label"
	keyWhy        = "\xa3why"
	keyBy         = "\xa2by"
	keyLeft       = "\xa7left_ns"
	keyStoreClock = "\xabstore_clock"
	keyPrint      = "\xa5print"
	keySince      = "\xa8since_ns"
	keyHeld       = "\xa4held"
	keyMost       = "\xa5limit"
	keyPermits    = "\xa7permits"
	keyDead       = "\xa4dead"

	keyIdle    = "\xa4idle"
	keyActions = "\xa7actions"
	keyError   = "\xa5error"
	keyText    = "\xa4text"
)

// AppendInput appends the message of one Step's arguments: an instant and an
// event. It writes each field that is not zero. If an event has a field that its
// kind may not have, DecodeInput refuses the message.
func AppendInput(dst []byte, now Instant, ev *Event) []byte {
	m := openMap(dst)
	m.dst = appendInt(append(m.dst, keyMono...), now.Mono)
	m.dst = appendInt(append(m.dst, keyWall...), now.Wall)
	m.n = 2
	m.str(keyKind, ev.Kind.String())
	m.int(keyWait, int64(ev.Wait))
	m.bool(keyBrief, ev.Brief)
	m.uint(keyRequest, uint64(ev.Request))
	if ev.Outcome != 0 {
		m.str(keyOutcome, ev.Outcome.String())
	}
	m.bool(keyResult, ev.Result)
	if ev.Class != 0 {
		m.str(keyClass, ev.Class.String())
	}
	m.int(keyStamp, ev.Stamp)
	if n := len(ev.Entries); n > 0 {
		m.key(keyEntries)
		m.dst = appendArrayHeader(m.dst, n)
		for i := range ev.Entries {
			e := &ev.Entries[i]
			m.dst = appendString(append(m.dst, 0x92), e.Key)
			m.dst = appendInt(m.dst, e.Stamp)
		}
	}
	m.bool(keyMore, ev.More)
	m.bin(keyBody, ev.Body)
	m.uint(keyEpoch, uint64(ev.Epoch))
	if ev.Asks() {
		m.uint(keyPermit, ev.Permit)
		m.uint(keyCapacity, uint64(ev.Capacity))
		m.uint(keyWidth, uint64(ev.Width))
		m.uint(keyWeight, uint64(ev.Weight))
		m.uint(keySpare, uint64(ev.Spare))
		m.uint(keyStoreLimit, ev.StoreLimit)
		m.text(keyLabel, ev.Label)
		m.text(keyHolder, ev.Holder)
	}
	m.text(keySession, ev.Session)
	m.int(keySessionUntil, ev.SessionUntil)
	if ev.SessionEnd != 0 {
		m.str(keySessionEnd, ev.SessionEnd.String())
	}
	m.int(keyStoreStamp, ev.StoreStamp)
	m.int(keyStoreAt, ev.StoreAt)
	if ev.Claim != 0 || ev.RetryAfter != 0 || len(ev.Key) != 0 || ev.Terms != nil {
		m.uint(keyClaim, ev.Claim)
		m.text(keyKey, ev.Key)
		m.int(keyRetryAfter, int64(ev.RetryAfter))
		if ev.Terms != nil {
			m.key(keyTerms)
			m.dst = AppendConfig(m.dst, &Config{Terms: *ev.Terms})
		}
	}
	return m.close()
}

// Asks reports whether any field is set that only a semaphore or buckets use. Most
// inputs are answers and wakes: one test of all eight fields is cheaper than eight.
func (ev *Event) Asks() bool {
	return ev.Permit|ev.StoreLimit|uint64(ev.Capacity|ev.Width|ev.Weight|ev.Spare)|uint64(len(ev.Label)|len(ev.Holder)) != 0
}

// FitEntries returns how many of a list's first entries, MaxEntries at the most,
// fit the message of its answer. A host gives no more than these, and sets More
// if it leaves any out.
func FitEntries(entries []Entry) int {
	const (
		others = 4 << 10         // all other fields, with room to spare
		forms  = 1 + (1 + 2) + 9 // of the pair, its key and its stamp
	)
	left := MaxMessage - others
	for i := range entries {
		if left -= forms + len(entries[i].Key); left < 0 || i == MaxEntries {
			return i
		}
	}
	return len(entries)
}

// appendActions appends what one Step returned. Like AppendInput it writes each
// field that is not zero.
func appendActions(dst []byte, actions []Action) []byte {
	dst = appendArrayHeader(dst, len(actions))
	for i := range actions {
		dst = AppendAction(dst, &actions[i])
	}
	return dst
}

// AppendAction appends one action, as AppendAnswer writes it.
func AppendAction(dst []byte, a *Action) []byte {
	m := openMap(dst)
	m.str(keyKind, a.Kind.String())
	m.uint(keyRequest, uint64(a.Request))
	if uint64(len(a.Key)|len(a.After))|a.Count != 0 { // one test, since most actions have none; the same below
		m.str(keyKey, a.Key)
		m.str(keyAfter, a.After)
		m.uint(keyCount, a.Count)
	}
	m.int(keyLimit, int64(a.Limit))
	if len(a.Type)|len(a.Body) != 0 {
		m.str(keyType, a.Type)
		m.bin(keyBody, a.Body)
		m.bool(keyOver, a.Overwrites)
	}
	if a.Reason != 0 {
		m.str(keyReason, a.Reason.String())
	}
	if a.Class != 0 {
		m.str(keyClass, a.Class.String())
	}
	m.int(keyAt, a.At)
	m.int(keyWallNS, a.Wall)
	if a.Epoch|a.Token != 0 {
		m.uint(keyEpoch, uint64(a.Epoch))
		m.uint(keyToken, uint64(a.Token))
	}
	if len(a.Holder)|len(a.Session) != 0 {
		m.str(keyHolder, string(a.Holder))
		m.str(keySession, a.Session)
	}
	if a.Observed != nil {
		m.key(keySight)
		m.dst = appendObserved(m.dst, a.Observed)
	}
	if a.Permit|a.Total != 0 {
		m.uint(keyPermit, a.Permit)
		m.uint(keyTotal, a.Total)
	}
	if a.Claim|a.On|uint64(a.Protocol)|uint64(a.Origin)|uint64(a.Took)|uint64(a.Verb)|uint64(a.TTL)|uint64(a.Purpose) != 0 {
		m.uint(keyClaim, a.Claim)
		if a.Protocol != 0 {
			m.str(keyProtocol, a.Protocol.String())
		}
		m.uint(keyOn, a.On)
		if a.Origin != 0 {
			m.str(keyOrigin, a.Origin.String())
		}
		m.int(keyTook, int64(a.Took))
		if a.Verb != 0 {
			m.str(keyVerb, a.Verb.String())
		}
		m.int(keyTTL, int64(a.TTL))
		if a.Purpose != 0 {
			m.str(keyPurpose, a.Purpose.String())
		}
	}
	return m.close()
}

func appendObserved(dst []byte, s *Observed) []byte {
	m := openMap(dst)
	m.str(keyState, s.State.String())
	m.text(keyHolder, s.Holder)
	m.text(keyHost, s.Host)
	m.text(keyPID, s.PID)
	m.bool(keyRemote, s.Remote)
	m.int(keyTTL, int64(s.TTL))
	m.int(keyWrittenAt, s.WrittenAt)
	m.int(keyAcquiredAt, s.AcquiredAt)
	m.int(keyReleasedAt, s.ReleasedAt)
	m.int(keyLookAt, s.RecheckAt)
	m.uint(keyEpoch, uint64(s.Epoch))
	m.uint(keyToken, uint64(s.Token))
	m.text(keyCompanions, s.Companions)
	m.text(keyLabel, s.Label)
	m.text(keySession, s.Session)
	m.text(keyWhy, s.Why)
	m.text(keyBy, s.By)
	m.int(keyLeft, int64(s.Left))
	m.bool(keyStoreClock, s.StoreClock)
	m.uint(keyPrint, s.Fingerprint)
	m.int(keySince, s.Since)
	m.uint(keyCapacity, uint64(s.Capacity))
	m.uint(keyWidth, uint64(s.Width))
	m.uint(keyHeld, s.Held)
	m.uint(keyMost, s.Limit)
	m.text(keyPermits, s.Permits)
	m.text(keyDead, s.Dead)
	return m.close()
}

// mapWriter writes one map and counts its entries. Its methods leave out a value
// of zero.
type mapWriter struct {
	dst  []byte
	head int // where the map's header is
	n    int
}

func openMap(dst []byte) mapWriter {
	return mapWriter{dst: append(dst, 0x80), head: len(dst)}
}

// close writes the header, since the count is known only now.
func (m *mapWriter) close() []byte {
	if m.n < 16 {
		m.dst[m.head] |= byte(m.n)
		return m.dst
	}
	// A map16's header is two bytes longer.
	m.dst = append(m.dst, 0, 0)
	copy(m.dst[m.head+3:], m.dst[m.head+1:])
	copy(m.dst[m.head:], []byte{0xde, 0, byte(m.n)})
	return m.dst
}

// key begins an entry.
func (m *mapWriter) key(key string) {
	m.n++
	m.dst = append(m.dst, key...)
}

func (m *mapWriter) int(key string, v int64) {
	if v != 0 {
		m.n++
		m.dst = appendInt(append(m.dst, key...), v)
	}
}

func (m *mapWriter) uint(key string, v uint64) {
	if v != 0 {
		m.n++
		m.dst = appendUint(append(m.dst, key...), v)
	}
}

func (m *mapWriter) str(key, s string) {
	m.text(key, []byte(s)) // no copy is made: text only reads
}

// text is str for bytes that were read from a record.
func (m *mapWriter) text(key string, s []byte) {
	if len(s) > 0 {
		m.n++
		m.dst = appendString(append(m.dst, key...), s)
	}
}

func (m *mapWriter) bin(key string, b []byte) {
	if n := uint64(len(b)); n > 0 {
		m.key(key)
		m.dst = append(appendSized(m.dst, 0xc4, n, n), b...)
	}
}

func (m *mapWriter) bool(key string, v bool) {
	if v {
		m.key(key)
		m.dst = append(m.dst, 0xc3)
	}
}

func appendString(dst, s []byte) []byte {
	if n := uint64(len(s)); n < 32 {
		dst = append(dst, 0xa0|byte(n))
	} else {
		dst = appendSized(dst, 0xd9, n, n)
	}
	return append(dst, s...)
}

func appendArrayHeader(dst []byte, count int) []byte {
	n := uint64(count)
	if n < 16 {
		return append(dst, 0x90|byte(n))
	}
	return appendSized(dst, 0xdb, n, n|1<<8) // there is no form of one byte
}

func appendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	}
	return appendSized(dst, 0xd0, uint64(v), uint64(^v)<<1)
}

func appendUint(dst []byte, v uint64) []byte {
	if v < 1<<7 {
		return append(dst, byte(v))
	}
	return appendSized(dst, 0xcc, v, v)
}

// appendSized appends as many low bytes of v as size has, rounded up to 1, 2, 4
// or 8. A byte before them tells that width: first, first+1, first+2 or first+3.
func appendSized(dst []byte, first byte, v, size uint64) []byte {
	form := bits.Len64(uint64(bits.Len64(size)-1) / 8)
	width := 1 << form
	// It appends eight bytes and cuts off the surplus, which needs no loop.
	v <<= 64 - 8*width
	dst = append(dst, first+byte(form), byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32),
		byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	return dst[:len(dst)-8+width]
}
