package core

// Stepper is a machine as its host sees it, whatever engine runs it: events in,
// actions out, nothing else.
type Stepper interface {
	// Step tells the machine what happened and returns what the host must do, in
	// order. The actions and the bytes to which they refer belong to the machine,
	// and are valid until its next Step. An *Error means that the host broke the
	// contract; the machine is then as it was before. Any other error is the
	// engine's own, and the machine is gone.
	Step(now Instant, ev Event) ([]Action, error)
	// Idle reports whether the machine waits for nothing: no timer is set, no
	// request is in flight. An idle machine in a terminal state stays idle forever.
	Idle() bool
	// String returns the state's name.
	String() string
}

// Machine is a Stepper that can also be compared and copied.
type Machine interface {
	Stepper
	// WriteState writes the machine's whole state: two machines whose states are written
	// alike behave alike forever.
	WriteState(w *StateWriter)
	// AppendState appends what WriteState writes.
	AppendState(dst []byte) []byte
	// Clone returns an independent copy.
	Clone() Machine
}
