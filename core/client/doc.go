// Package client is all that one process does with one store, as one machine: commands
// and the store's answers in, requests and notices out. It does no I/O and reads no clock.
//
// # What a host does
//
//	loop:
//		event   := the next of: a command, an answer, a watched key changed, woke
//		actions := client.Step(both clocks, read now, event)
//		for each action, in order:
//			a request         begin it; its answer is an event, once, within Limit
//			abandon           nobody wants that request any more; it is answered all the same
//			watch, unwatch    tell of changes of Key
//			remember, forget  keep Body under Key for the next process of this boot
//			wake              the one timer; an answer without it means none
//			more              step again with woke, before anything else
//			others            tell the claim
//
// A host must read the clocks for each step after what it tells of; count suspended time
// in Mono; answer each request once; not begin to apply a write after its Limit; and
// believe no claim past its deadline, whatever it has heard. A call to the store that hangs past
// its Limit keeps its slot with the host until it comes back (PROTOCOL C7). If the engine fails, the
// client is gone: each of its claims ends at its deadline at the latest (C8). The rest is the client's.
//
// # Commands
//
// The host numbers its claims, upwards from 1. A command that begins a claim has new a
// number and Terms. A fault of the Terms is a *core.Error, and there is no claim then; its Code is
// ErrorTooHeavy if there can never be room for a permit, and otherwise ErrorConfig.
//
//	acquire    Wait, Body    the lease on Terms.Name; its end is refused, lost, released or left
//	accompany                keeps the lease of Terms.Holder alive, as a companion does
//	resume                   renews that lease once, as its owner or in Terms.Role: held, then left
//	permit     Wait, Body, Capacity, Width, Weight, Spare, Label
//	limit      StoreLimit    sets the limit of a semaphore: limited or refused
//	invoke     Wait, Body    the result of the work Terms.Name: found, or launch and then ended
//	remote                   does the work for the holder that Terms name
//	look                     reads the name once: seen, or refused
//	watch                    seen at once and at every change, warned once of reads that fail; until cancel, or refused by a store that can never be read
//	break                    ends another's lease: seen, if it can be read after that, and broken; or refused
//	release                  of a claim that exists: gives it back. With Terms, of a new
//	                         one: releases the lease of Terms.Holder
//	cancel                   gives the claim up, whatever has become of it: what is held is released, and
//	                         a release that is under way is hurried
//	leave                    ends it here, and writes nothing; a permit is given back
//	ended      Outcome, Result   what was launched has ended
//	close                    all claims, then the sessions, then what is for tidiness; closed
//
// What comes too late for a claim that has ended changes nothing.
//
// # Belief
//
// A claim that is held may be relied on until the later of its own deadline (At of held,
// renewed and deadline) and of the deadline of the session that it stands on (At of the
// session's held and renewed, whose number is On). A deadline without On is a fix: after
// a call, which says that somebody may have broken the name, the claim has only that
// instant. The next deadline or held with On ends it. Who reads without a lock loads the session's deadline
// first and the claim's second. Who releases, cancels or closes relies on nothing from then
// on, and who was told found, absent or refused neither: what is held is about to be given back.
package client
