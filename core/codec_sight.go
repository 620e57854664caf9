package core

// The places of the keys of the map sight, which is an Observed.
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
	sightEpoch
	sightToken
	sightCompanions
	sightLabel
	sightSession
	sightWhy
	sightBy
	sightLeft
	sightStoreClock
	sightPrint
	sightSince
	sightCapacity
	sightWidth
	sightHeld
	sightMost
	sightPermits
	sightDead
	sightFields
)

// sightKeys is never written.
var sightKeys = [...]string{
	keyState, keyHolder, keyHost, keyPID, keyRemote, keyTTL,
	keyWrittenAt, keyAcquiredAt, keyReleasedAt, keyLookAt, keyEpoch, keyToken, keyCompanions,
	keyLabel, keySession, keyWhy, keyBy, keyLeft, keyStoreClock, keyPrint, keySince,
	keyCapacity, keyWidth, keyHeld, keyMost, keyPermits, keyDead,
}

func (d *reader) observed(s *Observed) {
	*s = Observed{}
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
		s.RecheckAt = d.nonzeroInt()
	}
	if d.left > 0 {
		d.observedStrict(s)
	}
	d.closeMap(fieldRules{1 << sightState, 1<<sightFields - 1})
}

func (d *reader) observedStrict(s *Observed) {
	if d.key(sightEpoch, keyEpoch) {
		s.Epoch = Epoch(d.nonzeroUint())
	}
	if d.key(sightToken, keyToken) {
		s.Token = Epoch(d.nonzeroUint())
	}
	if d.key(sightCompanions, keyCompanions) {
		s.Companions = d.text()
	}
	if d.key(sightLabel, keyLabel) {
		s.Label = d.text()
	}
	if d.key(sightSession, keySession) {
		s.Session = d.text()
	}
	if d.key(sightWhy, keyWhy) {
		s.Why = d.text()
	}
	if d.key(sightBy, keyBy) {
		s.By = d.text()
	}
	if d.key(sightLeft, keyLeft) {
		s.Left = Duration(d.nonzeroInt())
	}
	if d.key(sightStoreClock, keyStoreClock) {
		s.StoreClock = d.isTrue()
	}
	if d.key(sightPrint, keyPrint) {
		s.Fingerprint = d.nonzeroUint()
	}
	if d.key(sightSince, keySince) {
		s.Since = d.nonzeroInt()
	}
	if d.key(sightCapacity, keyCapacity) {
		s.Capacity = d.nonzeroUint32()
	}
	if d.key(sightWidth, keyWidth) {
		s.Width = d.nonzeroUint32()
	}
	if d.key(sightHeld, keyHeld) {
		s.Held = d.nonzeroUint()
	}
	if d.key(sightMost, keyMost) {
		s.Limit = d.nonzeroUint()
	}
	if d.key(sightPermits, keyPermits) {
		s.Permits = d.text()
	}
	if d.key(sightDead, keyDead) {
		s.Dead = d.text()
	}
}
