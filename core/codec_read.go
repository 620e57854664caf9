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
			outer, at := d.openedMap, d.i
			var cfg Config
			d.config(&cfg)
			terms := cfg.Terms
			if ev.Terms, d.openedMap = &terms, outer; cfg != (Config{Terms: terms}) {
				d.fail(ruleNotOfKind, at) // it is the client's own
			}
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
