package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Handle is a lease as it is handed to another process: all that a companion
// needs, and, with Owner, all that the owner needs to come back to it.
type Handle struct {
	Name     string
	Store    string        // URL
	Protocol core.Protocol // 0 is lastwriter
	Holder   string
	Epoch    uint64   // the newest that was known; 0 under lastwriter
	Token    uint64   // the fencing token; 0 under lastwriter
	TTL      core.TTL // TTLEndless is written as 0
	Acquired time.Time
	// Owner marks the handle of the owner itself. It is never given to a
	// companion, which is another owner.
	Owner string
}

// handleJSON has the fields in the order in which they are written.
type handleJSON struct {
	Name     string   `json:"name"`
	Store    string   `json:"store"`
	Protocol string   `json:"protocol"`
	Holder   string   `json:"holder"`
	Epoch    uint64   `json:"epoch"`
	Token    uint64   `json:"token"`
	TTL      *seconds `json:"ttl_s"`
	Acquired string   `json:"first_acquired_at"`
	Owner    string   `json:"owner,omitempty"`
}

// seconds is a duration in JSON: a number of seconds.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

func (s *seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f < 0 || f > core.MaxTTL.Seconds() {
		return fmt.Errorf("ttl_s %v is not within 0 and 30 days", f)
	}
	*s = seconds(time.Duration(f*1e9 + 0.5))
	if f > 0 && *s == 0 { // which would mean another thing
		return fmt.Errorf("ttl_s %v is below a nanosecond", f)
	}
	return nil
}

// String is the handle as one line of JSON, as MOPSLOCK_LEASE carries it.
func (h Handle) String() string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	ttl := seconds(h.TTL.Duration())
	encoder.SetEscapeHTML(false) // a store's URL may have & in it, and people read this
	err := encoder.Encode(handleJSON{
		Name: h.Name, Store: h.Store, Protocol: h.protocol().String(), Holder: h.Holder,
		Epoch: h.Epoch, Token: h.Token, TTL: &ttl,
		Acquired: core.FormatStamp(h.Acquired.UnixNano()), Owner: h.Owner,
	})
	if err != nil {
		panic("mopslock: host: handle: " + err.Error()) // strings and numbers always marshal
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// protocol is how the lease is kept: a handle made by hand may leave it out.
func (h *Handle) protocol() core.Protocol { return cmp.Or(h.Protocol, core.ProtocolLastWriter) }

// ParseHandle reads what String wrote. It ignores fields that it does not know, so
// that a newer mopslock can add some. It lists every bad field, before any I/O.
func ParseHandle(text string) (Handle, error) {
	var j handleJSON
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&j); err != nil {
		return Handle{}, fmt.Errorf("mopslock: lease text: %w", err)
	}
	if strings.TrimSpace(text[decoder.InputOffset():]) != "" {
		return Handle{}, errors.New("mopslock: lease text: something follows the JSON object")
	}
	acquired, err := time.Parse(time.RFC3339, j.Acquired)
	var bad []error
	require := func(ok bool, what string) {
		if !ok {
			bad = append(bad, errors.New("mopslock: lease text: "+what))
		}
	}
	require(core.CheckName(j.Name) == nil, "name is missing or cannot be one")
	require(j.Store != "", "store is missing")
	protocol := core.ProtocolLastWriter
	for protocol < core.ProtocolBridge && protocol.String() != j.Protocol {
		protocol++
	}
	known := protocol.String() == j.Protocol
	require(known, "protocol is not strict, bridge or lastwriter")
	require(!known || !protocol.HasRegister() || j.Epoch > 0, "epoch is missing")
	require(j.Holder != "" && len(j.Holder) <= core.MaxHolder, "holder is missing")
	require(j.TTL != nil && (protocol == core.ProtocolStrict || *j.TTL > 0), "ttl_s is missing, or 0, which only strict has")
	require(err == nil && acquired.Equal(time.Unix(0, acquired.UnixNano())), "first_acquired_at is missing or is no time")
	if len(bad) > 0 {
		return Handle{}, errors.Join(bad...)
	}
	return Handle{
		Name: j.Name, Store: j.Store, Protocol: protocol, Holder: j.Holder, Epoch: j.Epoch, Token: j.Token,
		TTL: core.TTLOf(time.Duration(*j.TTL)), Acquired: acquired, Owner: j.Owner,
	}, nil
}
