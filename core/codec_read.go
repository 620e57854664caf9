package core

// The reading half of codec.go; codec_reader.go has the items. A reader is told which key may come next, one
// after the other in their order; what is left over when all were offered is a
// key that should not be there.

// fieldSet is a set of keys of one message, by their place in its order.
type fieldSet uint32

func (s fieldSet) with(field int) fieldSet { return s | 1<<field }

// fieldRules is which keys a kind must and may have.
type fieldRules struct{ must, may fieldSet }

// The places of an input's keys.
const (
	inMono = iota
	inWall
	inKind
	inWait
	inBrief
	inRequest
	inOutcome
	inClass
	inStamp
	inBody
)

// inputKeys is never written.
var inputKeys = [...]string{
	keyMono, keyWall, keyKind, keyWait, keyBrief, keyRequest, keyOutcome, keyClass, keyStamp, keyBody,
}

// inputRules follows the comments of Event.
func inputRules(kind EventKind) fieldRules {
	const always = 1<<inMono | 1<<inWall | 1<<inKind
	switch kind {
	case EventAcquire:
		return fieldRules{always, always | 1<<inWait}
	case EventRelease:
		return fieldRules{always, always | 1<<inBrief}
	case EventAnswer:
		const must = always | 1<<inRequest | 1<<inOutcome
		return fieldRules{must, must | 1<<inClass | 1<<inStamp | 1<<inBody}
	}
	return fieldRules{always, always}
}

// DecodeInput reads the message of one Step's arguments into now and ev. Body
// refers to b. After an error, a *MessageError, both are zero.
func DecodeInput(b []byte, now *Instant, ev *Event) error {
	d := newReader(b)
	*now, *ev = Instant{}, Event{}
	d.openMap()
	var seen fieldSet
	if d.key(keyMono) {
		seen, now.Mono = seen.with(inMono), d.int()
	}
	if d.key(keyWall) {
		seen, now.Wall = seen.with(inWall), d.int()
	}
	if d.key(keyKind) {
		seen, ev.Kind = seen.with(inKind), named(&d, parseEventKind)
	}
	if d.key(keyWait) {
		seen, ev.Wait = seen.with(inWait), Duration(d.nonzeroInt())
	}
	if d.key(keyBrief) {
		seen, ev.Brief = seen.with(inBrief), d.isTrue()
	}
	if d.key(keyRequest) {
		seen, ev.Request = seen.with(inRequest), RequestID(d.nonzeroUint())
	}
	if d.key(keyOutcome) {
		seen, ev.Outcome = seen.with(inOutcome), named(&d, parseOutcome)
	}
	if d.key(keyClass) {
		seen, ev.Class = seen.with(inClass), named(&d, parseClass)
	}
	if d.key(keyStamp) {
		seen, ev.Stamp = seen.with(inStamp), d.nonzeroInt()
	}
	if d.key(keyBody) {
		seen, ev.Body = seen.with(inBody), d.bin()
	}
	d.closeMap(0, inputKeys[:], seen, inputRules(ev.Kind))
	if err := d.end(); err != nil {
		*now, *ev = Instant{}, Event{}
		return err
	}
	return nil
}

// The places of an action's keys.
const (
	actKind = iota
	actRequest
	actKey
	actLimit
	actType
	actBody
	actReason
	actClass
	actAt
	actWall
	actHolder
	actSight
)

// actionKeys is never written.
var actionKeys = [...]string{
	keyKind, keyRequest, keyKey, keyLimit, keyType, keyBody,
	keyReason, keyClass, keyAt, keyWallNS, keyHolder, keySight,
}

// actionRules follows the comments of Action. An instant may always be left
// out: 0 is one too.
func actionRules(kind ActionKind) fieldRules {
	const (
		always = 1 << actKind
		reason = always | 1<<actReason
		get    = always | 1<<actRequest | 1<<actKey | 1<<actLimit
		put    = get | 1<<actType | 1<<actBody
	)
	switch kind {
	case ActionGet:
		return fieldRules{get, get}
	case ActionPut:
		return fieldRules{put, put}
	case ActionWaiting:
		return fieldRules{always, always | 1<<actSight}
	case ActionHeld:
		const must = always | 1<<actHolder
		return fieldRules{must, must | 1<<actAt | 1<<actWall}
	case ActionRenewed, ActionDeadline, ActionWake:
		return fieldRules{always, always | 1<<actAt}
	case ActionRefused:
		return fieldRules{reason, reason | 1<<actClass | 1<<actSight}
	case ActionLost:
		return fieldRules{reason, reason | 1<<actSight}
	case ActionCannotMaintain:
		return fieldRules{reason, reason | 1<<actClass}
	case ActionWarned:
		return fieldRules{reason, reason | 1<<actKey | 1<<actSight}
	}
	return fieldRules{always, always}
}

// AnswerBuffer is room for the actions of one answer. Its zero value is ready;
// used again for the next answer of the same machine it saves allocations,
// because a machine's key and holder hardly change.
type AnswerBuffer struct {
	actions [MaxActions]Action
	sights  [MaxActions]Sighting
	key     string
	holder  HolderID
}

// actions reads what one Step returned; it stands in buf until that is used again.
func (d *reader) actions(buf *AnswerBuffer) []Action {
	at := d.i
	n := d.openArray()
	if n > MaxActions {
		d.fail(ruleCount, at)
		n = 0
	}
	for i := range n {
		buf.actions[i] = Action{}
		d.action(&buf.actions[i], &buf.sights[i], buf)
	}
	return buf.actions[:n]
}

func (d *reader) action(a *Action, sight *Sighting, buf *AnswerBuffer) {
	start := d.i
	d.openMap()
	var seen fieldSet
	if d.key(keyKind) {
		seen, a.Kind = seen.with(actKind), named(d, parseActionKind)
	}
	if d.key(keyRequest) {
		seen, a.Request = seen.with(actRequest), RequestID(d.nonzeroUint())
	}
	if d.key(keyKey) {
		if key := d.text(); buf.key != string(key) {
			buf.key = string(key)
		}
		seen, a.Key = seen.with(actKey), buf.key
	}
	if d.key(keyLimit) {
		seen, a.Limit = seen.with(actLimit), Duration(d.nonzeroInt())
	}
	if d.key(keyType) {
		a.Type = LockFileType
		if contentType := d.text(); string(contentType) != LockFileType {
			a.Type = string(contentType)
		}
		seen = seen.with(actType)
	}
	if d.key(keyBody) {
		seen, a.Body = seen.with(actBody), d.bin()
	}
	if d.key(keyReason) {
		seen, a.Reason = seen.with(actReason), named(d, parseReason)
	}
	if d.key(keyClass) {
		seen, a.Class = seen.with(actClass), named(d, parseClass)
	}
	if d.key(keyAt) {
		seen, a.At = seen.with(actAt), d.nonzeroInt()
	}
	if d.key(keyWallNS) {
		seen, a.Wall = seen.with(actWall), d.nonzeroInt()
	}
	if d.key(keyHolder) {
		if holder := d.text(); string(buf.holder) != string(holder) {
			buf.holder = HolderID(holder)
		}
		seen, a.Holder = seen.with(actHolder), buf.holder
	}
	if d.key(keySight) {
		seen, a.Sight = seen.with(actSight), sight
		outer := d.left
		d.sighting(sight)
		d.left = outer
	}
	d.closeMap(start, actionKeys[:], seen, actionRules(a.Kind))
}

// The places of a sight's keys.
const (
	sightState = iota
	sightHolder
	sightHost
	sightPID
	sightRemote
	sightTTL
	sightWrittenAt
	sightAcquiredAt
	sightReleasedAt
	sightLookAt
	sightFields
)

// sightKeys is never written.
var sightKeys = [...]string{
	keyState, keyHolder, keyHost, keyPID, keyRemote, keyTTL,
	keyWrittenAt, keyAcquiredAt, keyReleasedAt, keyLookAt,
}

func (d *reader) sighting(s *Sighting) {
	start := d.i
	*s = Sighting{}
	d.openMap()
	var seen fieldSet
	if d.key(keyState) {
		seen, s.State = seen.with(sightState), named(d, parseObservation)
	}
	if d.key(keyHolder) {
		seen, s.Holder = seen.with(sightHolder), d.text()
	}
	if d.key(keyHost) {
		seen, s.Host = seen.with(sightHost), d.text()
	}
	if d.key(keyPID) {
		seen, s.PID = seen.with(sightPID), d.text()
	}
	if d.key(keyRemote) {
		seen, s.Remote = seen.with(sightRemote), d.isTrue()
	}
	if d.key(keyTTL) {
		seen, s.TTL = seen.with(sightTTL), Duration(d.nonzeroInt())
	}
	if d.key(keyWrittenAt) {
		seen, s.WrittenAt = seen.with(sightWrittenAt), d.nonzeroInt()
	}
	if d.key(keyAcquiredAt) {
		seen, s.AcquiredAt = seen.with(sightAcquiredAt), d.nonzeroInt()
	}
	if d.key(keyReleasedAt) {
		seen, s.ReleasedAt = seen.with(sightReleasedAt), d.nonzeroInt()
	}
	if d.key(keyLookAt) {
		seen, s.LookAt = seen.with(sightLookAt), d.nonzeroInt()
	}
	d.closeMap(start, sightKeys[:], seen, fieldRules{1 << sightState, 1<<sightFields - 1})
}

// configKeys is never written.
var configKeys = [...]string{
	keyMachine, keyProtocol, keyName, keyTTL, keyMargin, keyAcquireMargin, keyFleetExpire, keyRenewal,
	keyExpiry, keyStampUnit, keyHolder, keyRole, keyHost, keyPID, keyTID, keySeed,
}

// DecodeConfig reads the message of a Config; whether its values make a machine
// is for New to say. Its strings are copies. After an error, a *MessageError,
// c is zero.
func DecodeConfig(b []byte, c *Config) error {
	d := newReader(b)
	*c = Config{}
	d.openMap()
	var seen fieldSet
	for i, key := range configKeys {
		if d.key(key) {
			seen = seen.with(i)
			d.configField(key, c)
		}
	}
	d.closeMap(0, configKeys[:], seen, fieldRules{0, 1<<len(configKeys) - 1})
	if err := d.end(); err != nil {
		*c = Config{}
		return err
	}
	return nil
}

func (d *reader) configField(key string, c *Config) {
	switch key {
	case keyMachine:
		c.Machine = named(d, parseMachineKind)
	case keyProtocol:
		c.Protocol = named(d, parseProtocol)
	case keyName:
		c.Name = string(d.text())
	case keyTTL:
		c.TTL = Duration(d.nonzeroInt())
	case keyMargin:
		c.Margin = Duration(d.nonzeroInt())
	case keyAcquireMargin:
		c.AcquireMargin = Duration(d.nonzeroInt())
	case keyFleetExpire:
		c.FleetExpire = Duration(d.nonzeroInt())
	case keyRenewal:
		c.Renewal = named(d, parseRenewal)
	case keyExpiry:
		c.Expiry = named(d, parseExpiry)
	case keyStampUnit:
		c.StampUnit = Duration(d.nonzeroInt())
	case keyHolder:
		c.Holder = HolderID(d.text())
	case keyRole:
		c.Role = named(d, parseRole)
	case keyHost:
		c.Host = string(d.text())
	case keyPID:
		c.PID = string(d.text())
	case keyTID:
		c.TID = d.nonzeroUint()
	case keySeed:
		d.seed(&c.Seed)
	}
}

func (d *reader) seed(to *[16]byte) {
	at := d.i
	seed := d.bin()
	if d.rule == "" && len(seed) != len(to) {
		d.fail(ruleSeed, at)
	}
	copy(to[:], seed)
	if *to == [16]byte{} {
		d.fail(ruleZero, at)
	}
}
