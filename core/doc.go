// Package core defines the vocabulary of mopslock's state machines: events and actions,
// their messages as bytes, configuration and limits. Package machines makes the machines.
// An event goes in, actions come out; there is no I/O, no clock, no randomness and no
// goroutine. PROTOCOL.md beside this file has the rules, with their terms, their reasons
// and what they promise. This page has the loop and the edges.
//
// # The loop
//
// A host makes a machine with machines.New and a fresh random seed. Then it runs this
// loop, which machines/example_test.go compiles and runs:
//
//	func loop(machine core.Machine, inbox chan core.Event, ask func(core.Action) core.Event, tell func(core.Action)) error {
//		var wake <-chan time.Time // none: no timer is set
//		for begun := false; !begun || !machine.Idle(); begun = true {
//			event := core.Event{Kind: core.EventWoke}
//			select {
//			case event = <-inbox: // a command, or the answer to a request
//			case <-wake:
//			}
//			actions, err := machine.Step(clock(), event) // clocks read now, after what the event tells of
//			if err != nil {
//				return err // the host broke the contract, and the machine is as it was
//			}
//			wake = nil
//			for _, a := range actions { // in order
//				switch {
//				case a.Kind.IsRequest():
//					a.Body = bytes.Clone(a.Body)    // it is the machine's own
//					go func() { inbox <- ask(a) }() // within a.Limit, whatever the store does
//				case a.Kind == core.ActionWake:
//					wake = time.After(time.Duration(a.At - clock().Mono))
//				default:
//					tell(a) // held, renewed, refused, lost, released, ...
//				}
//			}
//		}
//		return nil
//	}
//
// The host MUST
//
//   - read the clocks for each Step, after the event that it tells of;
//   - answer every request once, within its Limit: yes, no, or unknown (PROTOCOL T4);
//   - begin no write after its Limit, as far as it can prevent that;
//   - copy Key, Body and Observed if they outlive the Step that returned them;
//   - take a Step without a wake as "no timer is set";
//   - under strict, put into every event what it knows: the newest sample of the store's
//     clock and, for a machine on a session, that session's id and deadline. It steps the
//     session first, and tells the session's leases at once what that says (called, lost).
//
// It MAY send changed whenever a record may have changed, woke too early, and answers in
// any order. An answer to a request that the machine has abandoned changes nothing.
//
// A machine takes acquire, accompany and begin in idle. It takes release, cancel and leave
// everywhere else; there release and cancel both end an attempt, and a terminal state
// ignores them. It takes release in idle if it was made with Config.Holder. It takes answer,
// changed, woke and, under strict, called everywhere. Everything else is an error, and an
// error leaves the machine as it was.
package core
