package base

import "github.com/mopslock/mopslock/core"

// Reporting is a machine that says what it is doing. A client concludes that from nothing
// else: not from a wake, a verb under way or a text.
type Reporting interface {
	core.Machine
	// IsWaiting reports whether it waits for another's release.
	IsWaiting() bool
	// UsesChange reports whether it would look at once if it were told of a change.
	UsesChange() bool
	// IsTidying reports whether what it has under way removes superseded versions.
	IsTidying() bool
	// IsChecking reports whether it was told that the name is broken, and does not know yet.
	IsChecking() bool
	// WorkState is where a piece of work stands, and 0 of any other machine.
	WorkState() core.InvocationState
	// WatchKey is the key whose change it waits for, or "". If looks, it is about to know.
	WatchKey() (key string, looks bool)
	// Park is what it is at rest, or nil if it is not at rest.
	Park() Parked
	// Leftover is the key of an object that it has made and does not remove, or "".
	Leftover() string
}

// Parked is a machine at rest.
type Parked interface {
	WriteState(w *core.StateWriter)
	// Unpark is the machine as it was.
	Unpark() Reporting
}

// Quiet is embedded in a machine, which then has nothing to say but what it says itself.
type Quiet struct{}

func (Quiet) IsWaiting() bool                 { return false }
func (Quiet) UsesChange() bool                { return false }
func (Quiet) IsTidying() bool                 { return false }
func (Quiet) IsChecking() bool                { return false }
func (Quiet) WorkState() core.InvocationState { return 0 }
func (Quiet) WatchKey() (string, bool)        { return "", false }
func (Quiet) Park() Parked                    { return nil }
func (Quiet) Leftover() string                { return "" }
