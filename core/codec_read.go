package core

// The reading half of codec.go; codec_reader.go has the items. A reader is told which key may come next, one
// after the other in their order; what is left over when all were offered is a
// key that should not be there.

// fieldSet is a set of keys of one message, by their place in its order.
type fieldSet uint32

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
	d.openMap(inputKeys[:])
	if d.key(inMono, keyMono) {
		now.Mono = d.int()
	}
	if d.key(inWall, keyWall) {
		now.Wall = d.int()
	}
	if d.key(inKind, keyKind) {
		ev.Kind = EventKind(d.named(eventKindNames[:]))
	}
	if d.key(inWait, keyWait) {
		ev.Wait = Duration(d.nonzeroInt())
	}
	if d.key(inBrief, keyBrief) {
		ev.Brief = d.isTrue()
	}
	if d.key(inRequest, keyRequest) {
		ev.Request = RequestID(d.nonzeroUint())
	}
	if d.key(inOutcome, keyOutcome) {
		ev.Outcome = Outcome(d.named(outcomeNames[:]))
	}
	if d.key(inClass, keyClass) {
		ev.Class = Class(d.named(classNames[:]))
	}
	if d.key(inStamp, keyStamp) {
		ev.Stamp = d.nonzeroInt()
	}
	if d.key(inBody, keyBody) {
		ev.Body = d.bin()
	}
	d.closeMap(inputRules(ev.Kind))
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
	d.openMap(actionKeys[:])
	if d.key(actKind, keyKind) {
		a.Kind = ActionKind(d.named(actionKindNames[:]))
	}
	if d.key(actRequest, keyRequest) {
		a.Request = RequestID(d.nonzeroUint())
	}
	if d.key(actKey, keyKey) {
		if key := d.text(); buf.key != string(key) {
			buf.key = string(key)
		}
		a.Key = buf.key
	}
	if d.key(actLimit, keyLimit) {
		a.Limit = Duration(d.nonzeroInt())
	}
	if d.key(actType, keyType) {
		a.Type = LockFileType
		if contentType := d.text(); string(contentType) != LockFileType {
			a.Type = string(contentType)
		}
	}
	if d.key(actBody, keyBody) {
		a.Body = d.bin()
	}
	if d.key(actReason, keyReason) {
		a.Reason = Reason(d.named(reasonNames[:]))
	}
	if d.key(actClass, keyClass) {
		a.Class = Class(d.named(classNames[:]))
	}
	if d.key(actAt, keyAt) {
		a.At = d.nonzeroInt()
	}
	if d.key(actWall, keyWallNS) {
		a.Wall = d.nonzeroInt()
	}
	if d.key(actHolder, keyHolder) {
		if holder := d.text(); string(buf.holder) != string(holder) {
			buf.holder = HolderID(holder)
		}
		a.Holder = buf.holder
	}
	if d.key(actSight, keySight) {
		outer := d.openedMap
		a.Sight = sight
		d.sighting(sight)
		d.openedMap = outer
	}
	d.closeMap(actionRules(a.Kind))
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
	*s = Sighting{}
	d.openMap(sightKeys[:])
	if d.key(sightState, keyState) {
		s.State = Observation(d.named(observationNames[:]))
	}
	if d.key(sightHolder, keyHolder) {
		s.Holder = d.text()
	}
	if d.key(sightHost, keyHost) {
		s.Host = d.text()
	}
	if d.key(sightPID, keyPID) {
		s.PID = d.text()
	}
	if d.key(sightRemote, keyRemote) {
		s.Remote = d.isTrue()
	}
	if d.key(sightTTL, keyTTL) {
		s.TTL = Duration(d.nonzeroInt())
	}
	if d.key(sightWrittenAt, keyWrittenAt) {
		s.WrittenAt = d.nonzeroInt()
	}
	if d.key(sightAcquiredAt, keyAcquiredAt) {
		s.AcquiredAt = d.nonzeroInt()
	}
	if d.key(sightReleasedAt, keyReleasedAt) {
		s.ReleasedAt = d.nonzeroInt()
	}
	if d.key(sightLookAt, keyLookAt) {
		s.LookAt = d.nonzeroInt()
	}
	d.closeMap(fieldRules{1 << sightState, 1<<sightFields - 1})
}

// The places of a config's keys.
const (
	cfgMachine = iota
	cfgProtocol
	cfgName
	cfgTTL
	cfgMargin
	cfgAcquireMargin
	cfgFleetExpire
	cfgRenewal
	cfgExpiry
	cfgStampUnit
	cfgHolder
	cfgRole
	cfgHost
	cfgPID
	cfgTID
	cfgSeed
	cfgFields
)

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
	var cfg Config
	d.openMap(configKeys[:])
	for field, key := range configKeys {
		if d.key(fieldSet(field), key) {
			d.configField(field, &cfg)
		}
	}
	d.closeMap(fieldRules{0, 1<<cfgFields - 1})
	err := d.end()
	if err != nil {
		cfg = Config{}
	}
	*c = cfg
	return err
}

func (d *reader) configField(field int, c *Config) {
	switch field {
	case cfgMachine:
		c.Machine = MachineKind(d.named(machineKindNames[:]))
	case cfgProtocol:
		c.Protocol = Protocol(d.named(protocolNames[:]))
	case cfgName:
		c.Name = string(d.text())
	case cfgTTL:
		c.TTL = Duration(d.nonzeroInt())
	case cfgMargin:
		c.Margin = Duration(d.nonzeroInt())
	case cfgAcquireMargin:
		c.AcquireMargin = Duration(d.nonzeroInt())
	case cfgFleetExpire:
		c.FleetExpire = Duration(d.nonzeroInt())
	case cfgRenewal:
		c.Renewal = Renewal(d.named(renewalNames[:]))
	case cfgExpiry:
		c.Expiry = Expiry(d.named(expiryNames[:]))
	case cfgStampUnit:
		c.StampUnit = Duration(d.nonzeroInt())
	case cfgHolder:
		c.Holder = HolderID(d.text())
	case cfgRole:
		c.Role = Role(d.named(roleNames[:]))
	case cfgHost:
		c.Host = string(d.text())
	case cfgPID:
		c.PID = string(d.text())
	case cfgTID:
		c.TID = d.nonzeroUint()
	case cfgSeed:
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
