// Package wire has the messages of package core as plain structs, for
// encoding/json and for msgpack/v5 with the struct tag "json". Fields are in the
// order of the keys, and zero values are left out, so that msgpack/v5 with compact
// integers writes the same bytes as the core. In JSON, bytes are base64, and a
// reader needs all 64 bits of an integer.
//
// It decides nothing and checks nothing. Package core reads the messages, and
// core/schema.go and core/action.go say what each field means.
package wire

import "strconv"

// Config makes a machine; it is core.Config.
type Config struct {
	Machine         string `json:"machine,omitempty"`
	Protocol        string `json:"protocol,omitempty"`
	Name            string `json:"name,omitempty"`
	TTL             int64  `json:"ttl_ns,omitempty"`
	Margin          int64  `json:"margin_ns,omitempty"`
	AcquireMargin   int64  `json:"acquire_margin_ns,omitempty"`
	FleetExpire     int64  `json:"fleet_expire_ns,omitempty"`
	Renewal         string `json:"renewal,omitempty"`
	Expiry          string `json:"expiry,omitempty"`
	StampUnit       int64  `json:"stamp_unit_ns,omitempty"`
	Holder          string `json:"holder,omitempty"`
	Role            string `json:"role,omitempty"`
	OnSession       bool   `json:"on_session,omitempty"`
	Owner           string `json:"owner,omitempty"`
	Epoch           uint64 `json:"epoch,omitempty"`
	Boot            string `json:"boot,omitempty"`
	StampSpread     int64  `json:"stamp_spread_ns,omitempty"`
	LastEpoch       uint64 `json:"last_epoch,omitempty"`
	LastAt          int64  `json:"last_at_ns,omitempty"`
	SeenFingerprint uint64 `json:"seen_print,omitempty"`
	SeenSince       int64  `json:"seen_since_ns,omitempty"`
	LockFilePresent bool   `json:"beside,omitempty"`
	Why             string `json:"why,omitempty"`
	Now             bool   `json:"now,omitempty"`
	Label           string `json:"label,omitempty"`
	MemoFailures    bool   `json:"memo_failures,omitempty"`
	WithoutLease    bool   `json:"without_lease,omitempty"`
	Creates         bool   `json:"creates,omitempty"`
	OwnStore        bool   `json:"own_store,omitempty"`
	NoCreate        bool   `json:"no_create,omitempty"`
	NoList          bool   `json:"no_list,omitempty"`
	Probes          bool   `json:"probes,omitempty"`
	Samples         bool   `json:"samples,omitempty"`
	Watches         bool   `json:"watches,omitempty"`
	Remembers       bool   `json:"remembers,omitempty"`
	InFlight        uint64 `json:"in_flight,omitempty"`
	Transfers       uint64 `json:"transfers,omitempty"`
	Host            string `json:"host,omitempty"`
	PID             string `json:"pid,omitempty"`
	TID             uint64 `json:"tid,omitempty"`
	Seed            []byte `json:"seed,omitempty"`
}

// Input is the arguments of one Step: core.Instant and core.Event.
type Input struct {
	Mono    int64  `json:"mono"`
	Wall    int64  `json:"wall"`
	Kind    string `json:"kind"`
	Wait    int64  `json:"wait_ns,omitempty"`
	Brief   bool   `json:"brief,omitempty"`
	Request uint64 `json:"request,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Result  bool   `json:"result,omitempty"`
	Class   string `json:"class,omitempty"`
	Stamp   int64  `json:"stamp_ns,omitempty"`

	Entries []Entry `json:"entries,omitempty"`
	More    bool    `json:"more,omitempty"`
	Body    []byte  `json:"body,omitempty"`
	Epoch   uint64  `json:"epoch,omitempty"`

	Permit     uint64 `json:"permit,omitempty"`
	Capacity   uint64 `json:"capacity,omitempty"`
	Width      uint64 `json:"width,omitempty"`
	Weight     uint64 `json:"weight,omitempty"`
	Spare      uint64 `json:"spare,omitempty"`
	StoreLimit uint64 `json:"store_limit,omitempty"`
	Label      string `json:"label,omitempty"`
	Holder     string `json:"holder,omitempty"`

	Session      string `json:"session,omitempty"`
	SessionUntil int64  `json:"session_until_ns,omitempty"`
	SessionEnd   string `json:"session_end,omitempty"`
	StoreStamp   int64  `json:"store_stamp_ns,omitempty"`
	StoreAt      int64  `json:"store_at_ns,omitempty"`

	Claim      uint64  `json:"claim,omitempty"`
	Key        string  `json:"key,omitempty"`
	RetryAfter int64   `json:"retry_after_ns,omitempty"`
	Terms      *Config `json:"terms,omitempty"`
}

// Entry is one object of a list, core.Entry: an array of two, also in JSON.
type Entry struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by msgpack/v5

	Key   string
	Stamp int64
}

// MarshalJSON implements json.Marshaler without importing it.
func (e Entry) MarshalJSON() ([]byte, error) {
	out := []byte(`["`)
	for _, c := range []byte(e.Key) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			const digits = "0123456789abcdef"
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(strconv.AppendInt(append(out, `",`...), e.Stamp, 10), ']'), nil
}

// Answer is the answer to a Config or an Input; it is core.Answer. Either State
// or Error is set.
type Answer struct {
	State   string   `json:"state,omitempty"`
	Idle    bool     `json:"idle,omitempty"`
	Actions []Action `json:"actions,omitempty"`
	Error   string   `json:"error,omitempty"`
	Text    string   `json:"text,omitempty"`
}

// Action is one thing that the host must do or is told; it is core.Action.
type Action struct {
	Kind       string `json:"kind"`
	Request    uint64 `json:"request,omitempty"`
	Key        string `json:"key,omitempty"`
	After      string `json:"after,omitempty"`
	Count      uint64 `json:"count,omitempty"`
	Limit      int64  `json:"limit_ns,omitempty"`
	Type       string `json:"type,omitempty"`
	Body       []byte `json:"body,omitempty"`
	Overwrites bool   `json:"overwrites,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Class      string `json:"class,omitempty"`
	At         int64  `json:"at_ns,omitempty"`
	Wall       int64  `json:"wall_ns,omitempty"`
	Epoch      uint64 `json:"epoch,omitempty"`
	Token      uint64 `json:"token,omitempty"`
	Holder     string `json:"holder,omitempty"`
	Session    string `json:"session,omitempty"`
	Observed   *Sight `json:"sight,omitempty"`
	Permit     uint64 `json:"permit,omitempty"`
	Total      uint64 `json:"total,omitempty"`
	Claim      uint64 `json:"claim,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	On         uint64 `json:"on,omitempty"`
	Origin     string `json:"origin,omitempty"`
	Took       int64  `json:"took_ns,omitempty"`
	Verb       string `json:"verb,omitempty"`
	TTL        int64  `json:"ttl_ns,omitempty"`
	Purpose    string `json:"purpose,omitempty"`
}

// Sight is a lease as one read of its record shows it; it is core.Observed.
type Sight struct {
	State       string `json:"state"`
	Holder      string `json:"holder,omitempty"`
	Host        string `json:"host,omitempty"`
	PID         string `json:"pid,omitempty"`
	Remote      bool   `json:"remote,omitempty"`
	TTL         int64  `json:"ttl_ns,omitempty"`
	WrittenAt   int64  `json:"written_at_ns,omitempty"`
	AcquiredAt  int64  `json:"acquired_at_ns,omitempty"`
	ReleasedAt  int64  `json:"released_at_ns,omitempty"`
	RecheckAt   int64  `json:"look_at_ns,omitempty"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	Companions  string `json:"companions,omitempty"`
	Label       string `json:"label,omitempty"`
	Session     string `json:"session,omitempty"`
	Why         string `json:"why,omitempty"`
	By          string `json:"by,omitempty"`
	Left        int64  `json:"left_ns,omitempty"`
	StoreClock  bool   `json:"store_clock,omitempty"`
	Fingerprint uint64 `json:"print,omitempty"`
	Since       int64  `json:"since_ns,omitempty"`
	Capacity    uint64 `json:"capacity,omitempty"`
	Width       uint64 `json:"width,omitempty"`
	Held        uint64 `json:"held,omitempty"`
	Limit       uint64 `json:"limit,omitempty"`
	Permits     string `json:"permits,omitempty"`
	Dead        string `json:"dead,omitempty"`
}
