package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
)

// failure completes the error of how something has ended, or was refused, by the client's
// notice. e.Err is why the latest request for it has failed, or an *EngineError. protocol is by
// which it was to be kept, or 0.
func (h *Host) failure(e *Error, a *core.Action, protocol core.Protocol) error {
	if e.Reason, e.Class = a.Reason, a.Class; e.Class == core.ClassUnsupported {
		e.Class = core.ClassOther
	}
	if _, engine := errors.AsType[*EngineError](e.Err); !engine {
		switch {
		case e.Class == core.ClassNone:
			e.Err = nil
		case e.Err == nil: // it was asked for several: a session, a semaphore, how the store is
			_, e.Err = h.loop.Cause()
		}
	}
	switch a.Reason {
	case core.ReasonTerms:
		return badTerms(string(a.Body))
	case core.ReasonNoCreate:
		e.Kind, e.Reason = Incompatible, core.ReasonNone
		if len(a.Body) > 0 {
			e.Err = errors.New(string(a.Body))
		}
	case core.ReasonNoSession:
		if e.Reason = core.ReasonUnusable; e.Class == core.ClassUnreachable || e.Class == core.ClassThrottled {
			e.Reason = core.ReasonUnreachable
		}
	case core.ReasonNewer, core.ReasonKind:
		if e.Kind != Lost {
			e.Kind = Incompatible
		}
	}
	if s := a.Observed; s != nil {
		seen := newStatus(e.Name, cmp.Or(a.Protocol, protocol, protocolOf(s)), s, h.clock.Now())
		e.Seen = &seen
	}
	return e
}

// protocolOf is by which protocol a record is that was seen: only those of strict have
// versions.
func protocolOf(s *core.Observed) core.Protocol {
	if s.Epoch != 0 || s.Capacity != 0 {
		return core.ProtocolStrict
	}
	return core.ProtocolLastWriter
}

// waitedFor is whom a claim waits for.
func (h *Host) waitedFor(name string, s *core.Observed) Status {
	return newStatus(name, protocolOf(s), s, h.clock.Now())
}

// outcomeOf is what became of an acquire, in a word; "" if nothing did.
func outcomeOf(ctx context.Context, err error) string {
	e, ours := errors.AsType[*Error](err)
	_, engine := errors.AsType[*EngineError](err)
	switch {
	case err == nil:
		return "held"
	case !ours && (ctx.Err() != nil || errors.Is(err, ErrClosed)), ours && e.Reason == core.ReasonCancelled:
		return "cancelled"
	case !ours && !engine:
		return ""
	case !ours, e.Class.Permanent(), e.Reason == core.ReasonUnreachable, e.Reason == core.ReasonUnusable, e.Reason == core.ReasonUnreadable:
		return "unavailable"
	case e.Kind == Incompatible, e.Reason == core.ReasonCrowded:
		return "unfit"
	case e.Kind == Lost:
		return "lost"
	}
	return "refused"
}
