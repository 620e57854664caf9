// Package core has the words of mopslock's state machines: what a machine is told and
// answers, its messages as bytes, its configuration and limits. Package machines makes
// the machines. An event goes in, actions come out; there is no I/O, no clock, no
// randomness and no goroutine. PROTOCOL.md beside this file has the rules, with their
// terms, their reasons and what is promised. This page has the loop and the edges.
//
// # The loop
//
// A host makes a machine with machines.New and a fresh random seed. Then it runs this
// loop, which example_test.go compiles and runs:
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
//   - begin no write after its Limit, as far as it can help that;
//   - copy Key, Body and Sight if they outlive the Step that returned them;
//   - take a Step without a wake as "no timer is set";
//   - under strict, tell with every event what it knows: the newest sample of the store's
//     clock, and for what stands on a session that session's id and deadline. The session
//     is stepped first. What it says (called, lost) its leases are told at once.
//
// It MAY send changed whenever a record may have changed, woke too early, and answers in
// any order. An answer to a request that the machine has abandoned changes nothing.
//
// acquire, accompany and begin have a meaning in idle. release, cancel and leave have one
// everywhere else; there release and cancel both end an attempt, and a terminal state
// ignores them. release in idle is for a machine made with Config.Holder. answer,
// changed, woke, and under strict called, are taken everywhere. Everything else is an
// error, and an error leaves the machine as it was.
package core
