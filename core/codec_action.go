package core

// How an answer's actions are read.

// The places of an action's keys.
const (
	actKind = iota
	actRequest
	actKey
	actAfter
	actCount
	actLimit
	actType
	actBody
	actOver
	actReason
	actClass
	actAt
	actWall
	actEpoch
	actToken
	actHolder
	actSession
	actSight
	actPermit
	actTotal
	actClaim
	actProtocol
	actOn
	actOrigin
	actTook
	actVerb
	actTTL
	actPurpose
	actFields
)

// actionKeys is never written.
var actionKeys = [...]string{
	keyKind, keyRequest, keyKey, keyAfter, keyCount, keyLimit, keyType, keyBody, keyOver, keyReason,
	keyClass, keyAt, keyWallNS, keyEpoch, keyToken, keyHolder, keySession, keySight,
	keyPermit, keyTotal, keyClaim, keyProtocol, keyOn, keyOrigin, keyTook, keyVerb, keyTTL, keyPurpose,
}

// actionRules follows the comments of Action. An instant may always be left out,
// since 0 is also an instant. Of a client any action may be about a claim.
func actionRules(kind ActionKind) fieldRules {
	rules := machineRules(kind)
	rules.may |= 1 << actClaim
	if kind.IsRequest() {
		rules.may |= 1 << actPurpose
	}
	switch kind {
	case ActionHeld:
		rules.may |= 1<<actProtocol | 1<<actOn | 1<<actOrigin | 1<<actTook | 1<<actTTL
	case ActionRefused:
		rules.may |= 1<<actProtocol | 1<<actBody
	case ActionWarned:
		rules.may |= 1<<actOn | 1<<actClass | 1<<actBody
	case ActionLost:
		rules.may |= 1<<actProtocol | 1<<actOn | 1<<actClass
	case ActionReleased, ActionLeft, ActionSeen, ActionCannotMaintain, ActionRenewed, ActionDeadline, ActionAdopted, ActionContactLost, ActionWaiting, ActionBroken, ActionLimited:
		rules.may |= 1<<actProtocol | 1<<actOn
	case ActionOutage:
		rules.may |= 1<<actClass | 1<<actCount | 1<<actVerb
	case ActionRecovered:
		rules.may |= 1<<actCount | 1<<actTook
	}
	return rules
}

// machineRules are those of a machine that is no client, and of what only a client says.
func machineRules(kind ActionKind) fieldRules {
	const (
		always = 1 << actKind
		reason = always | 1<<actReason
		get    = always | 1<<actRequest | 1<<actKey | 1<<actLimit
		put    = get | 1<<actType | 1<<actBody
		permit = 1 << actPermit
	)
	switch kind {
	case ActionGet, ActionExists, ActionDelete:
		return fieldRules{get, get}
	case ActionPut:
		return fieldRules{put, put | 1<<actOver}
	case ActionCreate:
		return fieldRules{put, put}
	case ActionCreateResult, ActionPutResult:
		const must = get | 1<<actType
		return fieldRules{must, must}
	case ActionFound:
		const must = always | 1<<actKey
		return fieldRules{must, must}
	case ActionAbsent:
		return fieldRules{always, reason | 1<<actClass}
	case ActionList:
		const must = get | 1<<actCount
		return fieldRules{must, must | 1<<actAfter}
	case ActionWaiting:
		return fieldRules{always, always | 1<<actSight | permit}
	case ActionHeld:
		const must = always | 1<<actHolder
		return fieldRules{must, must | 1<<actAt | 1<<actWall | 1<<actEpoch | 1<<actToken | 1<<actSession | permit | 1<<actTotal}
	case ActionRenewed, ActionDeadline, ActionWake:
		return fieldRules{always, always | 1<<actAt}
	case ActionRefused:
		return fieldRules{reason, reason | 1<<actClass | 1<<actSight | permit}
	case ActionLost:
		return fieldRules{reason, reason | 1<<actSight | permit}
	case ActionCannotMaintain:
		return fieldRules{reason, reason | 1<<actClass}
	case ActionWarned:
		return fieldRules{reason, reason | 1<<actKey | 1<<actSight}
	case ActionReleased:
		return fieldRules{always, always | 1<<actAt | 1<<actEpoch | permit}
	case ActionLimited:
		return fieldRules{always, always | permit | 1<<actEpoch}
	case ActionGranted:
		const must = always | 1<<actTotal
		return fieldRules{must, must}
	case ActionCounted:
		const must = always | 1<<actBody
		return fieldRules{must, must | 1<<actCount | 1<<actTotal}
	case ActionStoreClockSampled:
		return fieldRules{always, always | 1<<actAt | 1<<actWall}
	case ActionBroken:
		return fieldRules{always, always | 1<<actEpoch}
	case ActionAdopted:
		const must = always | 1<<actEpoch
		return fieldRules{must, must}
	case ActionCalled:
		const must = always | 1<<actKey | 1<<actEpoch
		return fieldRules{must, must}
	case ActionSeen:
		const must = always | 1<<actSight
		return fieldRules{must, must}
	case ActionAbandon:
		const must = always | 1<<actRequest
		return fieldRules{must, must}
	case ActionWatch, ActionUnwatch, ActionForget:
		const must = always | 1<<actKey
		return fieldRules{must, must}
	case ActionRemember:
		const must = always | 1<<actKey | 1<<actBody
		return fieldRules{must, must}
	case ActionTried:
		return fieldRules{always, reason | 1<<actBody}
	}
	return fieldRules{always, always}
}

// AnswerBuffer is room for the actions of one answer. Its zero value is ready. Use
// it again for the next answer of the same machine: that saves allocations, because
// a machine's keys, its holder and other texts hardly change.
type AnswerBuffer struct {
	actions  []Action // as many as a machine's answers have had
	observed []Observed

	texts [8]string // the latest; next is the place of the next one
	next  uint8
}

// text returns read as a string: one of the latest texts, if it is among them.
func (buf *AnswerBuffer) text(read []byte) string {
	for _, text := range buf.texts {
		if text == string(read) {
			return text
		}
	}
	text := string(read)
	buf.texts[buf.next%uint8(len(buf.texts))] = text
	buf.next++
	return text
}

// actions reads what one Step returned. The actions are in buf until that is used again.
func (d *reader) actions(buf *AnswerBuffer) []Action {
	at := d.i
	n := d.openArray()
	if n > MaxClientActions {
		d.fail(ruleCount, at)
		n = 0
	}
	if n > len(buf.actions) || buf.actions == nil {
		room := max(n, MaxActions)
		buf.actions, buf.observed = make([]Action, room), make([]Observed, room)
	}
	for i := range n {
		buf.actions[i] = Action{}
		d.action(&buf.actions[i], &buf.observed[i], buf)
	}
	return buf.actions[:n]
}

func (d *reader) action(a *Action, observed *Observed, buf *AnswerBuffer) {
	d.openMap(actionKeys[:])
	if d.key(actKind, keyKind) {
		a.Kind = ActionKind(d.named(actionKindNames[:]))
	}
	if d.key(actRequest, keyRequest) {
		a.Request = RequestID(d.nonzeroUint())
	}
	if d.key(actKey, keyKey) {
		a.Key = buf.text(d.text())
	}
	if d.key(actAfter, keyAfter) {
		a.After = buf.text(d.text())
	}
	if d.key(actCount, keyCount) {
		a.Count = d.nonzeroUint()
	}
	if d.key(actLimit, keyLimit) {
		a.Limit = Duration(d.nonzeroInt())
	}
	if d.key(actType, keyType) {
		a.Type = buf.text(d.text())
	}
	if d.key(actBody, keyBody) {
		a.Body = d.bin()
	}
	if d.key(actOver, keyOver) {
		a.Overwrites = d.isTrue()
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
	if d.key(actEpoch, keyEpoch) {
		a.Epoch = Epoch(d.nonzeroUint())
	}
	if d.key(actToken, keyToken) {
		a.Token = Epoch(d.nonzeroUint())
	}
	if d.key(actHolder, keyHolder) {
		a.Holder = HolderID(buf.text(d.text()))
	}
	if d.key(actSession, keySession) {
		a.Session = buf.text(d.text())
	}
	if d.key(actSight, keySight) {
		outer := d.openedMap
		a.Observed = observed
		d.observed(observed)
		d.openedMap = outer
	}
	if d.key(actPermit, keyPermit) {
		a.Permit = d.nonzeroUint()
	}
	if d.key(actTotal, keyTotal) {
		a.Total = d.nonzeroUint()
	}
	if d.left > 0 {
		d.ofClient(a)
	}
	d.closeMap(actionRules(a.Kind))
}

// ofClient reads what only a client says.
func (d *reader) ofClient(a *Action) {
	if d.key(actClaim, keyClaim) {
		a.Claim = d.nonzeroUint()
	}
	if d.key(actProtocol, keyProtocol) {
		a.Protocol = Protocol(d.named(protocolNames[:]))
	}
	if d.key(actOn, keyOn) {
		a.On = d.nonzeroUint()
	}
	if d.key(actOrigin, keyOrigin) {
		a.Origin = Origin(d.named(originNames[:]))
	}
	if d.key(actTook, keyTook) {
		a.Took = Duration(d.nonzeroInt())
	}
	if d.key(actVerb, keyVerb) {
		a.Verb = ActionKind(d.named(actionKindNames[:]))
	}
	if d.key(actTTL, keyTTL) {
		a.TTL = TTL(d.nonzeroInt())
	}
	if d.key(actPurpose, keyPurpose) {
		a.Purpose = Purpose(d.named(purposeNames[:]))
	}
}
