package core

// The message of a Config; codec.go has the rules.

// The keys that only a Config has.
const (
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
	keyOnSession     = "\xaaon_session"
	keyOwner         = "\xa5owner"
	keyBoot          = "\xa4boot"
	keyStampSpread   = "\xafstamp_spread_ns"
	keyLastEpoch     = "\xaalast_epoch"
	keyLastAt        = "\xaalast_at_ns"
	keySeenPrint     = "\xaaseen_print"
	keySeenSince     = "\xadseen_since_ns"
	keyBeside        = "\xa6beside"
	keyNow           = "\xa3now"
	keyMemoFailures  = "\xadmemo_failures"
	keyWithoutLease  = "\xadwithout_lease"
	keyCreates       = "\xa7creates"
	keyOwnStore      = "\xa9own_store"
	keyNoCreate      = "\xa9no_create"
	keyNoList        = "\xa7no_list"
	keyProbes        = "\xa6probes"
	keySamples       = "\xa7samples"
	keyWatches       = "\xa7watches"
	keyRemembers     = "\xa9remembers"
	keyInFlight      = "\xa9in_flight"
	keyTransfers     = "\xa9transfers"
	keyTID           = "\xa3tid"
	keySeed          = "\xa4seed"
)

// AppendConfig appends the message of a Config as it is, without filling in defaults.
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
	m.bool(keyOnSession, c.OnSession)
	m.str(keyOwner, c.Owner)
	m.uint(keyEpoch, uint64(c.Epoch))
	m.str(keyBoot, c.Boot)
	m.int(keyStampSpread, int64(c.StampSpread))
	m.uint(keyLastEpoch, uint64(c.LastEpoch))
	m.int(keyLastAt, c.LastAt)
	m.uint(keySeenPrint, c.SeenFingerprint)
	m.int(keySeenSince, c.SeenSince)
	m.bool(keyBeside, c.LockFilePresent)
	m.str(keyWhy, c.Why)
	m.bool(keyNow, c.Now)
	m.str(keyLabel, c.Label)
	m.bool(keyMemoFailures, c.MemoFailures)
	m.bool(keyWithoutLease, c.WithoutLease)
	m.bool(keyCreates, c.Creates)
	m.bool(keyOwnStore, c.OwnStore)
	m.bool(keyNoCreate, c.NoCreate)
	m.bool(keyNoList, c.NoList)
	m.bool(keyProbes, c.Probes)
	m.bool(keySamples, c.Samples)
	m.bool(keyWatches, c.Watches)
	m.bool(keyRemembers, c.Remembers)
	m.uint(keyInFlight, c.InFlight)
	m.uint(keyTransfers, c.Transfers)
	m.str(keyHost, c.Host)
	m.str(keyPID, c.PID)
	m.uint(keyTID, c.TID)
	if c.Seed != [16]byte{} {
		m.bin(keySeed, c.Seed[:])
	}
	return m.close()
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
	cfgOnSession
	cfgOwner
	cfgEpoch
	cfgBoot
	cfgStampSpread
	cfgLastEpoch
	cfgLastAt
	cfgSeenFingerprint
	cfgSeenSince
	cfgBeside
	cfgWhy
	cfgNow
	cfgLabel
	cfgMemoFailures
	cfgWithoutLease
	cfgCreates
	cfgOwnStore
	cfgNoCreate
	cfgNoList
	cfgProbes
	cfgSamples
	cfgWatches
	cfgRemembers
	cfgInFlight
	cfgTransfers
	cfgHost
	cfgPID
	cfgTID
	cfgSeed
	cfgFields
)

// configKeys is never written.
var configKeys = [...]string{
	keyMachine, keyProtocol, keyName, keyTTL, keyMargin, keyAcquireMargin, keyFleetExpire, keyRenewal,
	keyExpiry, keyStampUnit, keyHolder, keyRole, keyOnSession, keyOwner, keyEpoch, keyBoot, keyStampSpread,
	keyLastEpoch, keyLastAt, keySeenPrint, keySeenSince, keyBeside, keyWhy, keyNow, keyLabel,
	keyMemoFailures, keyWithoutLease, keyCreates,
	keyOwnStore, keyNoCreate, keyNoList, keyProbes, keySamples, keyWatches, keyRemembers, keyInFlight, keyTransfers, keyHost, keyPID, keyTID, keySeed,
}

// DecodeConfig reads the message of a Config. It does not check whether the values
// make a machine; New does. The strings of c are copies. After an error, a
// *MessageError, c is zero.
func DecodeConfig(b []byte, c *Config) error {
	d := newReader(b)
	var cfg Config
	d.config(&cfg)
	err := d.end()
	if err != nil {
		cfg = Config{}
	}
	*c = cfg
	return err
}

func (d *reader) config(c *Config) {
	d.openMap(configKeys[:])
	for field, key := range configKeys {
		if d.key(fieldSet(field), key) {
			d.configField(field, c)
		}
	}
	d.closeMap(fieldRules{0, 1<<cfgFields - 1})
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
		c.TTL = TTL(d.nonzeroInt())
	case cfgMargin:
		c.Margin = Duration(d.nonzeroInt())
	case cfgAcquireMargin:
		c.AcquireMargin = Duration(d.nonzeroInt())
	case cfgFleetExpire:
		c.FleetExpire = TTL(d.nonzeroInt())
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
	case cfgOnSession:
		c.OnSession = d.isTrue()
	case cfgOwner:
		c.Owner = string(d.text())
	case cfgEpoch:
		c.Epoch = Epoch(d.nonzeroUint())
	case cfgBoot:
		c.Boot = string(d.text())
	case cfgStampSpread:
		c.StampSpread = Duration(d.nonzeroInt())
	case cfgLastEpoch:
		c.LastEpoch = Epoch(d.nonzeroUint())
	case cfgLastAt:
		c.LastAt = d.nonzeroInt()
	case cfgSeenFingerprint:
		c.SeenFingerprint = d.nonzeroUint()
	case cfgSeenSince:
		c.SeenSince = d.nonzeroInt()
	case cfgBeside:
		c.LockFilePresent = d.isTrue()
	case cfgWhy:
		c.Why = string(d.text())
	case cfgNow:
		c.Now = d.isTrue()
	case cfgLabel:
		c.Label = string(d.text())
	case cfgMemoFailures:
		c.MemoFailures = d.isTrue()
	case cfgWithoutLease:
		c.WithoutLease = d.isTrue()
	case cfgCreates:
		c.Creates = d.isTrue()
	case cfgHost:
		c.Host = string(d.text())
	case cfgPID:
		c.PID = string(d.text())
	case cfgTID:
		c.TID = d.nonzeroUint()
	case cfgSeed:
		d.seed(&c.Seed)
	default:
		d.clientField(field, c)
	}
}

// clientField reads what only a client's Config has.
func (d *reader) clientField(field int, c *Config) {
	switch field {
	case cfgOwnStore:
		c.OwnStore = d.isTrue()
	case cfgNoCreate:
		c.NoCreate = d.isTrue()
	case cfgNoList:
		c.NoList = d.isTrue()
	case cfgProbes:
		c.Probes = d.isTrue()
	case cfgSamples:
		c.Samples = d.isTrue()
	case cfgWatches:
		c.Watches = d.isTrue()
	case cfgRemembers:
		c.Remembers = d.isTrue()
	case cfgInFlight:
		c.InFlight = d.nonzeroUint()
	case cfgTransfers:
		c.Transfers = d.nonzeroUint()
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
