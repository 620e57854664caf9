package core

import "math/bits"

//go:generate go run ./internal/gen -dir .
//go:generate go test . -run ^TestVectors$ -update

// Messages carry configs, events and actions over the border of the core where
// it is not called as Go: WASM, C, a trace. They are msgpack
// (https://github.com/msgpack/msgpack/blob/master/spec.md), and canonical: one
// value has one message, so that engines can be compared byte for byte.
//
// A message, a config, an input or an answer, is a map with string keys. Keys stand in the order below; a field at its zero value is left out (mono
// and wall never are). Durations and instants are integers of nanoseconds,
// enums their wire names, Body and Seed bin, all other text str.
//
//	config   machine protocol name ttl_ns margin_ns acquire_margin_ns
//	         fleet_expire_ns renewal expiry stamp_unit_ns holder role host pid
//	         tid seed
//	input    mono wall kind wait_ns brief request outcome class stamp_ns body
//	action   kind request key limit_ns type body reason class at_ns wall_ns
//	         holder sight
//	sight    state holder host pid remote ttl_ns written_at_ns acquired_at_ns
//	         released_at_ns look_at_ns
//	answer   state idle actions, or error text
//
// Reading (codec_read.go) is strict: what is read and written again is the same
// bytes. The rules, one for each way in which a message can be refused, are the
// constants below, and their text is MessageError.Rule.
const (
	ruleLong      = "longer than 98304 bytes"
	ruleTruncated = "ends too early"
	ruleTrailing  = "goes on after its end"

	ruleMap   = "not a map"
	ruleArray = "not an array"
	ruleCount = "more actions than a step can return"

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

// Error is the rule behind the package's name.
func (e *MessageError) Error() string {
	return "mopslock: message: " + e.Rule + " (at byte " + intText(int64(e.Offset)) + ")"
}

// Is makes errors.Is(err, &Error{Code: ErrorMessage}) true of it, so that a host
// asks for all that it did wrong in one way.
func (e *MessageError) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == ErrorMessage && other.Text == ""
}

// Keys as they stand in a message: a fixstr header of the length, then the text.
const (
	keyMono    = "\xa4mono"
	keyWall    = "\xa4wall"
	keyKind    = "\xa4kind"
	keyWait    = "\xa7wait_ns"
	keyBrief   = "\xa5brief"
	keyRequest = "\xa7request"
	keyOutcome = "\xa7outcome"
	keyClass   = "\xa5class"
	keyStamp   = "\xa8stamp_ns"
	keyBody    = "\xa4body"

	keyKey    = "\xa3key"
	keyLimit  = "\xa8limit_ns"
	keyType   = "\xa4type"
	keyReason = "\xa6reason"
	keyAt     = "\xa5at_ns"
	keyWallNS = "\xa7wall_ns"
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

	keyIdle    = "\xa4idle"
	keyActions = "\xa7actions"
	keyError   = "\xa5error"
	keyText    = "\xa4text"

	keyMachine       = "\xa7machine"
	keyProtocol      = "\xa8protocol"
	keyName          = "\xa4name"
	keyMargin        = "\xa9margin_ns"
	keyAcquireMargin = "\xb1acquire_margin_ns"
	keyFleetExpire   = "\xaffleet_expire_ns"
	keyRenewal       = "\xa7renewal"
	keyExpiry        = "\xa6expiry"
	keyStampUnit     = "\xadstamp_unit_ns"
	keyRole          = "\xa4role"
	keyTID           = "\xa3tid"
	keySeed          = "\xa4seed"
)

// AppendInput appends the message of one Step's arguments: an instant and an
// event. It writes whatever is not zero; an event that its kind's comment does
// not allow makes a message that DecodeInput refuses.
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
	if ev.Class != 0 {
		m.str(keyClass, ev.Class.String())
	}
	m.int(keyStamp, ev.Stamp)
	m.bin(keyBody, ev.Body)
	return m.close()
}

// appendActions appends what one Step returned. Like AppendInput it writes
// whatever is not zero.
func appendActions(dst []byte, actions []Action) []byte {
	if n := uint64(len(actions)); n < 16 {
		dst = append(dst, 0x90|byte(n))
	} else {
		dst = appendSized(dst, 0xdb, n, n|1<<8) // there is no form of one byte
	}
	for i := range actions {
		dst = appendAction(dst, &actions[i])
	}
	return dst
}

func appendAction(dst []byte, a *Action) []byte {
	m := openMap(dst)
	m.str(keyKind, a.Kind.String())
	m.uint(keyRequest, uint64(a.Request))
	m.str(keyKey, a.Key)
	m.int(keyLimit, int64(a.Limit))
	m.str(keyType, a.Type)
	m.bin(keyBody, a.Body)
	if a.Reason != 0 {
		m.str(keyReason, a.Reason.String())
	}
	if a.Class != 0 {
		m.str(keyClass, a.Class.String())
	}
	m.int(keyAt, a.At)
	m.int(keyWallNS, a.Wall)
	m.str(keyHolder, string(a.Holder))
	if a.Sight != nil {
		m.key(keySight)
		m.dst = appendSighting(m.dst, a.Sight)
	}
	return m.close()
}

func appendSighting(dst []byte, s *Sighting) []byte {
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
	m.int(keyLookAt, s.LookAt)
	return m.close()
}

// AppendConfig appends the message of a Config as it is, defaults not filled in.
func AppendConfig(dst []byte, c *Config) []byte {
	m := openMap(dst)
	if c.Machine != 0 {
		m.str(keyMachine, c.Machine.String())
	}
	if c.Protocol != 0 {
		m.str(keyProtocol, c.Protocol.String())
	}
	m.str(keyName, c.Name)
	m.int(keyTTL, int64(c.TTL))
	m.int(keyMargin, int64(c.Margin))
	m.int(keyAcquireMargin, int64(c.AcquireMargin))
	m.int(keyFleetExpire, int64(c.FleetExpire))
	if c.Renewal != 0 {
		m.str(keyRenewal, c.Renewal.String())
	}
	if c.Expiry != 0 {
		m.str(keyExpiry, c.Expiry.String())
	}
	m.int(keyStampUnit, int64(c.StampUnit))
	m.str(keyHolder, string(c.Holder))
	if c.Role != 0 {
		m.str(keyRole, c.Role.String())
	}
	m.str(keyHost, c.Host)
	m.str(keyPID, c.PID)
	m.uint(keyTID, c.TID)
	if c.Seed != [16]byte{} {
		m.bin(keySeed, c.Seed[:])
	}
	if m.n < 16 {
		return m.close()
	}
	// A map16's header is two bytes longer. Only a Config is so long.
	m.dst = append(m.dst, 0, 0)
	copy(m.dst[m.head+3:], m.dst[m.head+1:])
	copy(m.dst[m.head:], []byte{0xde, 0, byte(m.n)})
	return m.dst
}

// mapWriter writes one map and counts its entries. Its methods leave out what
// is zero.
type mapWriter struct {
	dst  []byte
	head int // where the map's header stands
	n    int
}

func openMap(dst []byte) mapWriter {
	return mapWriter{dst: append(dst, 0x80), head: len(dst)}
}

// close writes the header: the count is known only now. It is below 16 but in a
// Config, which closes itself.
func (m *mapWriter) close() []byte {
	m.dst[m.head] |= byte(m.n)
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

// text is str for what was read from a record.
func (m *mapWriter) text(key string, s []byte) {
	if len(s) > 0 {
		m.n++
		m.dst = append(appendStringHeader(append(m.dst, key...), len(s)), s...)
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

func appendStringHeader(dst []byte, n int) []byte {
	if n < 32 {
		return append(dst, 0xa0|byte(n))
	}
	return appendSized(dst, 0xd9, uint64(n), uint64(n))
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
// or 8, behind a first byte that says how many: first, or the next, and so on.
func appendSized(dst []byte, first byte, v, size uint64) []byte {
	form := bits.Len64(uint64(bits.Len64(size)-1) / 8)
	width := 1 << form
	// Eight bytes at once, and those too many taken back, need no loop.
	v <<= 64 - 8*width
	dst = append(dst, first+byte(form), byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32),
		byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	return dst[:len(dst)-8+width]
}
