package core

// The reading half of codec.go; codec_reader.go has the items, codec_sight.go the
// sightings. A reader is offered each key that a map may have, in their order. A key
// that is left over after all were offered should not be there.

// fieldSet is a set of keys of one message, by their place in its order.
type fieldSet uint64

// fieldRules says which keys a kind must and may have.
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
	inResult
	inClass
	inStamp
	inEntries
	inMore
	inBody
	inEpoch
	inPermit
	inCapacity
	inWidth
	inWeight
	inSpare
	inStoreLimit
	inLabel
	inHolder
	inSession
	inSessionUntil
	inSessionEnd
	inStoreStamp
	inStoreAt
	inClaim
	inKey
	inRetryAfter
	inTerms
	inFields
)

// inputKeys is never written.
var inputKeys = [...]string{
	keyMono, keyWall, keyKind, keyWait, keyBrief, keyRequest, keyOutcome, keyResult, keyClass, keyStamp, keyEntries, keyMore,
	keyBody, keyEpoch, keyPermit, keyCapacity, keyWidth, keyWeight, keySpare, keyStoreLimit, keyLabel, keyHolder, keySession, keySessionUntil, keySessionEnd, keyStoreStamp, keyStoreAt,
	keyClaim, keyKey, keyRetryAfter, keyTerms,
}

// inputRules follows the comments of Event.
func inputRules(kind EventKind) fieldRules {
	const (
		always = 1<<inMono | 1<<inWall | 1<<inKind
		known  = 1<<inClaim - 1<<inSession // what the host knows, in any event
		begins = 1<<inClaim | 1<<inTerms   // of a client's command
	)
	rules := fieldRules{always, always | known}
	switch kind {
	case EventBegin:
		rules.may |= 1 << inWait
	case EventAcquire:
		const view = 1<<inPermit | 1<<inCapacity | 1<<inWidth | 1<<inWeight | 1<<inSpare
		rules.may |= 1<<inWait | view | 1<<inLabel | 1<<inHolder | begins | 1<<inBody
	case EventAccompany:
		rules.may |= begins
	case EventPermit:
		rules.must |= begins
		rules.may |= begins | 1<<inWait | 1<<inCapacity | 1<<inWidth | 1<<inWeight | 1<<inSpare | 1<<inLabel | 1<<inBody
	case EventInvoke, EventWatch:
		rules.must |= begins
		rules.may |= begins | 1<<inWait | 1<<inBody
	case EventResume, EventRemote, EventLook, EventBreak:
		rules.must |= begins
		rules.may |= begins
	case EventChanged:
		rules.may |= 1 << inKey
	case EventLeave:
		rules.may |= 1 << inClaim
	case EventEnded:
		rules.must |= 1 << inOutcome
		rules.may |= 1<<inOutcome | 1<<inResult | 1<<inClaim
	case EventRelease:
		rules.may |= 1<<inBrief | 1<<inPermit | 1<<inWeight | 1<<inHolder | begins
	case EventCancel:
		rules.may |= 1<<inPermit | 1<<inClaim
	case EventLimit:
		rules.may |= 1<<inPermit | 1<<inStoreLimit | begins
	case EventDown:
		rules.must |= 1 << inHolder
		rules.may |= 1 << inHolder
	case EventAnswer:
		rules.must |= 1<<inRequest | 1<<inOutcome
		rules.may |= rules.must | 1<<inClass | 1<<inStamp | 1<<inEntries | 1<<inMore | 1<<inBody | 1<<inRetryAfter
	case EventCalled:
		rules.must |= 1 << inEpoch
		rules.may |= 1 << inEpoch
	}
	return rules
}

// DecodeInput reads the message of one Step's arguments into now and ev. Body,
// Session and the entries' keys refer to b. Entries itself uses the capacity that
// ev.Entries has. After an error, a *MessageError, both are zero, but ev.Entries
// keeps its capacity.
func DecodeInput(b []byte, now *Instant, ev *Event) error {
	d := newReader(b)
	room := ev.Entries[:0]
	*now, *ev = Instant{}, Event{Entries: room}
	d.openMap(inputKeys[:])
	if d.key(inMono, keyMono) {
		now.Mono = d.int()
	}
	if d.key(inWall, keyWall) {
		now.Wall = d.int()
	}
	if d.key(inKind, keyKind) {
		// Nearly every input is a wake, or the answer yes: for these there is no lookup.
		switch {
		case d.steps("\xa4woke"):
			ev.Kind = EventWoke
		case d.steps("\xa6answer"):
			ev.Kind = EventAnswer
		default:
			ev.Kind = EventKind(d.named(eventKindNames[:]))
		}
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
		if ev.Outcome = OutcomeYes; !d.steps("\xa3yes") {
			ev.Outcome = Outcome(d.named(outcomeNames[:]))
		}
	}
	if d.key(inResult, keyResult) {
		ev.Result = d.isTrue()
	}
	if d.key(inClass, keyClass) {
		ev.Class = Class(d.named(classNames[:]))
	}
	if d.key(inStamp, keyStamp) {
		ev.Stamp = d.nonzeroInt()
	}
	if d.key(inEntries, keyEntries) {
		ev.Entries = d.entries(room)
	}
	if d.key(inMore, keyMore) {
		ev.More = d.isTrue()
	}
	if d.key(inBody, keyBody) {
		ev.Body = d.bin()
	}
	if d.key(inEpoch, keyEpoch) {
		ev.Epoch = Epoch(d.nonzeroUint())
	}
	if d.left > 0 {
		d.known(ev) // most inputs end here
	}
	if d.left > 0 && d.seen < 1<<inSession { // known read nothing: other keys come first
		d.asked(ev)
		d.known(ev)
	}
	d.closeMap(inputRules(ev.Kind))
	if err := d.end(); err != nil {
		*now, *ev = Instant{}, Event{Entries: room}
		return err
	}
	return nil
}

// asked reads the fields that only a semaphore or buckets use; see Event.Asks.
func (d *reader) asked(ev *Event) {
	for field := fieldSet(inPermit); field < inSession; field++ {
		if !d.key(field, inputKeys[field]) {
			continue
		}
		switch field {
		case inPermit:
			ev.Permit = d.nonzeroUint()
		case inCapacity:
			ev.Capacity = d.nonzeroUint32()
		case inWidth:
			ev.Width = d.nonzeroUint32()
		case inWeight:
			ev.Weight = d.nonzeroUint32()
		case inSpare:
			ev.Spare = d.nonzeroUint32()
		case inStoreLimit:
			ev.StoreLimit = d.nonzeroUint()
		case inLabel:
			ev.Label = d.text()
		case inHolder:
			ev.Holder = d.text()
		}
	}
}

// known reads what the host knows, in an input of any kind, and what only a client is told.
func (d *reader) known(ev *Event) {
	for field := fieldSet(inSession); field < inFields; field++ {
		if !d.key(field, inputKeys[field]) {
			continue
		}
		switch field {
		case inSession:
			ev.Session = d.text()
		case inSessionUntil:
			ev.SessionUntil = d.nonzeroInt()
		case inSessionEnd:
			ev.SessionEnd = Reason(d.named(reasonNames[:]))
		case inStoreStamp:
			ev.StoreStamp = d.nonzeroInt()
		case inStoreAt:
			ev.StoreAt = d.nonzeroInt()
		case inClaim:
			ev.Claim = d.nonzeroUint()
		case inKey:
			ev.Key = d.text()
		case inRetryAfter:
			ev.RetryAfter = Duration(d.nonzeroInt())
		case inTerms:
			outer := d.openedMap
			ev.Terms = new(Config)
			d.config(ev.Terms)
			d.openedMap = outer
		}
	}
}

// entries reads what a list found into the capacity that to has.
func (d *reader) entries(to []Entry) []Entry {
	at := d.i
	n := d.openArray()
	switch {
	case n > MaxEntries:
		d.fail(ruleMany, at)
	case n == 0:
		d.fail(ruleZero, at) // unless something failed before
	}
	for ; n > 0 && d.rule == ""; n-- {
		at = d.i
		if d.openArray() != 2 {
			d.fail(rulePair, at) // unless something failed before
		}
		to = append(to, Entry{Key: d.text(), Stamp: d.int()})
	}
	return to
}

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
	actFields
)

// actionKeys is never written.
var actionKeys = [...]string{
	keyKind, keyRequest, keyKey, keyAfter, keyCount, keyLimit, keyType, keyBody, keyReason,
	keyClass, keyAt, keyWallNS, keyEpoch, keyToken, keyHolder, keySession, keySight,
	keyPermit, keyTotal, keyClaim, keyProtocol, keyOn, keyOrigin, keyTook,
}

// actionRules follows the comments of Action. An instant may always be left out,
// since 0 is also an instant. Of a client any action may be about a claim.
func actionRules(kind ActionKind) fieldRules {
	rules := machineRules(kind)
	rules.may |= 1 << actClaim
	switch kind {
	case ActionHeld:
		rules.may |= 1<<actProtocol | 1<<actOn | 1<<actOrigin | 1<<actTook
	case ActionRefused:
		rules.may |= 1<<actProtocol | 1<<actBody
	case ActionWarned:
		rules.may |= 1<<actClass | 1<<actBody
	case ActionLost:
		rules.may |= 1<<actProtocol | 1<<actOn | 1<<actClass
	case ActionReleased, ActionLeft, ActionSeen, ActionCannotMaintain, ActionRenewed, ActionDeadline, ActionAdopted, ActionContactLost, ActionWaiting, ActionBroken, ActionLimited:
		rules.may |= 1<<actProtocol | 1<<actOn
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
	case ActionPut, ActionCreate:
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
	case ActionOutage:
		return fieldRules{always, always | 1<<actClass}
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
}
