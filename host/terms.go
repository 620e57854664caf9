package host

import (
	"errors"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host/internal/loop"
)

// Terms are what a caller may say about a lease. The zero value is good.
// All processes on one name should use one TTL: under lastwriter a holder renews for the
// shortest TTL that it has seen on the name, and mops judges all holders by its own.
type Terms struct {
	// Protocol is how the lease is kept. 0 is auto. Where the store honours create-if-absent, that is
	// bridge if the name has a lock.json, since an old client would not see a strict lease, and
	// otherwise strict. Elsewhere it is lastwriter, and the Host logs a warning. core.ProtocolStrict and
	// core.ProtocolBridge on a store that does not honour create-if-absent are an *Error of Kind
	// Incompatible.
	Protocol core.Protocol
	// TTL is how long the lease lives without a renewal; 0 is 60 s under strict
	// and 88 s under bridge and lastwriter. Between 50 ms (5 s on stores whose stamps have
	// whole seconds) and 30 days. core.TTLEndless, under strict only and not on a
	// session, is until it is released or broken.
	TTL core.TTL
	// Margin is how much earlier than the TTL the holder gives up; 0 is TTL/10. It
	// must be below TTL/2.
	Margin time.Duration

	// Session, under strict, keeps the lease by this Host's session of the same
	// TTL and Margin: one heartbeat for all leases on it, however many. Such
	// a lease does not notice that its versions were removed from the store.
	Session bool
	// Label is shown to people, under strict: at most 128 printable bytes.
	Label string
	// StampSpread, under strict, is how far the clocks of the store's front-ends
	// may disagree; 0 is 1 s, core.OneClock a store with one clock.
	StampSpread time.Duration

	// AcquireMargin, under lastwriter and bridge, is the least time between a put and its
	// verification; 0 is twice what the read and the write took, and
	// core.ContendedMargin at least after waiting for another. At most TTL/2.
	AcquireMargin time.Duration
	// FleetExpire, under lastwriter and bridge, is the TTL by which others on this name judge us
	// whatever our record says, as mops does; 0 is 88 s, core.TTLEndless is for names
	// without mops.
	FleetExpire core.TTL
	// Renewal, under lastwriter, is core.RenewalChecked (also for 0) or core.RenewalBlind.
	Renewal core.Renewal
	// Expiry says which clocks may call another's lease dead. 0 is
	// core.ExpiryWall under lastwriter, and under strict core.ExpiryCalibrated if the
	// store's clock can be relied on; core.ExpiryObserved trusts our own alone.
	Expiry core.Expiry
}

// terms returns those of a command about a name.
func (t *Terms) terms(name string) core.Terms {
	return core.Terms{
		Protocol: t.Protocol, Name: name, TTL: t.TTL, Margin: t.Margin, AcquireMargin: t.AcquireMargin, FleetExpire: t.FleetExpire,
		Renewal: t.Renewal, Expiry: t.Expiry, StampSpread: t.StampSpread, OnSession: t.Session, Label: t.Label,
	}
}

// begin begins a claim, for which a caller waits, after the store was asked whether it can keep
// the keys.
func (h *Host) begin(c loop.Claim, command core.Event, by *loop.Caller) error {
	if err := h.checkKeys(command.Terms.Name, command.Terms.Protocol); err != nil {
		return err
	}
	err := h.loop.Begin(c, command, by)
	if errors.Is(err, loop.ErrClosed) {
		return ErrClosed
	}
	if e, ok := errors.AsType[*Error](err); ok { // the store does not say what it is like
		e.Name = command.Terms.Name
	}
	return err
}

// refuse returns what is wrong with a command that the client has not been given, and with
// it what also is wrong: nil if nothing is.
func (h *Host) refuse(command core.Event, also error) error {
	if err := h.checkKeys(command.Terms.Name, command.Terms.Protocol); err != nil {
		return err
	}
	command.Claim, command.Wait = 1, 0
	unit, _ := h.units.ask(h.store.StampUnit)
	cfg := core.Config{Machine: core.MachineClient, StampUnit: unit, Seed: [16]byte{1}}
	client, err := machines.New(cfg) // of no engine: it says what is wrong, and asks nothing
	if err == nil {
		_, err = client.Step(h.clock.Now(), command)
	}
	return errors.Join(err, also)
}

func badTerms(text string) error { return &core.Error{Code: core.ErrorConfig, Text: text} }
