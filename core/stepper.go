package core

// Stepper is a machine as its host sees it, whichever engine runs it: events
// in, actions out, nothing else.
type Stepper interface {
	// Step tells the machine what happened and returns what is to be done, in
	// order. The actions and the bytes they refer to are the machine's own and
	// stand until its next Step. An *Error means that the host broke the
	// contract; the machine is then as it was before. Any other error is the
	// engine's own, and the machine is gone.
	Step(now Instant, ev Event) ([]Action, error)
	// Idle reports whether the machine waits for nothing: no timer set, no
	// request in flight. In a terminal state it then stays so for ever.
	Idle() bool
	// String is the state's name.
	String() string
}

// Machine is a machine of this package: it can be compared and copied, too.
type Machine interface {
	Stepper
	// AppendState appends the machine's whole dynamic state as canonical bytes:
	// two machines with equal Configs and equal bytes behave alike for ever.
	AppendState(dst []byte) []byte
	// Clone is an independent copy.
	Clone() Machine
}
