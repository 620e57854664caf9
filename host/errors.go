package host

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mopslock/mopslock/core"
)

// Kind says how a lease ended, or did not begin.
type Kind uint8

// The kinds.
const (
	// NotAcquired: the lease was not acquired.
	NotAcquired Kind = iota + 1
	// Lost: the lease was held, or joined, and no longer is.
	Lost
	// NothingToJoin: a companion found nothing that it could keep alive.
	NothingToJoin
	// Ended: the caller released the lease, or its companion left.
	Ended
	// Incompatible: the store or a record cannot serve what was asked.
	Incompatible
	// NoResult: a piece of work has ended, and no process has stored its result.
	NoResult
)

// Error says why a lease or a permit was not acquired, or was lost. Act on Kind and
// Reason, by errors.As or by errors.Is with one of the values below, never on the text.
type Error struct {
	Kind   Kind
	Name   string
	Reason core.Reason
	// Class is what the store said last, when Reason is unreachable, unusable,
	// limit or unreadable.
	Class core.Class
	// Seen is the record that decided it, or nil: who holds the lease, who took it.
	Seen *Status
	// Err is the store's own error behind Class, or nil if it was silent; or an
	// *EngineError; of NoResult also the work's own error; of Incompatible what was seen.
	Err error

	of subject // what was asked for, for the text alone
}

// subject is what an Error is about.
type subject uint8

const (
	ofLease subject = iota
	ofPermit
	ofLimit
	ofMemo // a lease on a name that mops has a memo under
	ofBreak
	ofOwn  // a lease that the caller's own context is of
	ofRead // what was only read
)

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Values for errors.Is: an Error with this Kind, whatever its Reason.
var (
	ErrNotAcquired   = &Error{Kind: NotAcquired}
	ErrLost          = &Error{Kind: Lost}
	ErrNothingToJoin = &Error{Kind: NothingToJoin}
	ErrIncompatible  = &Error{Kind: Incompatible}
	ErrNoResult      = &Error{Kind: NoResult}
	// ErrFull: there is no room for a permit by the caller's view. The Error's Seen
	// says how much is held, what the store's limit is, and who the holders are.
	ErrFull = &Error{Kind: NotAcquired, Reason: core.ReasonFull}
	// ErrRecordFull: a semaphore's record has no room for another holder (it has room
	// for about a thousand), or one process has asked for more than that on one name.
	ErrRecordFull = &Error{Kind: NotAcquired, Reason: core.ReasonCrowded}
	// ErrWeightExceedsLimit: weight and spare are more than capacity x width. It comes before
	// any request, as a *core.Error.
	ErrWeightExceedsLimit = &core.Error{Code: core.ErrorTooHeavy}
	// ErrReleased is what Err says of a lease after its release.
	ErrReleased = &Error{Kind: Ended}
	// ErrClosed is returned by calls on a Host that is closed or closing.
	ErrClosed = closedError{}
)

// freesItself is what becomes of a record that cannot be read.
const freesItself = "it frees itself when it has stood for its TTL, and 60 s at least"

// errUnreadable is why there is no holder to break.
var errUnreadable = errors.New("the record is unreadable, so it names no holder; " + freesItself)

type closedError struct{}

func (closedError) Error() string { return "mopslock: host is closed" }

// waitError is why a caller's ctx has ended while it waited, and what for.
type waitError struct {
	of    *Error // for its text alone
	cause error
}

// Unwrap returns why ctx has ended, and that alone: the caller was not refused.
func (e *waitError) Unwrap() error { return e.cause }

// Error says which name was waited for, and who held it when it was last seen.
func (e *waitError) Error() string {
	text := e.of.headText() + ": waiting ended"
	switch {
	case e.of.Seen == nil:
	case e.of.of == ofLease:
		text += " while " + e.of.heldText()
	default:
		text += " while " + e.of.fullText()
	}
	return text + ": " + strings.TrimPrefix(e.cause.Error(), "mopslock: ")
}

// Is reports whether target asks for this error's Kind and, if it names one, Reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && (t.Reason == core.ReasonNone || t.Reason == e.Reason)
}

// Error says what happened, to what, and what to do about it.
func (e *Error) Error() string {
	text := e.headText()
	if engine, ok := errors.AsType[*EngineError](e.Err); ok {
		return text + e.engineText(engine)
	}
	switch e.Kind {
	case NotAcquired:
		return text + e.notHadText() + ": " + e.refusedText()
	case Lost:
		return text + " lost (" + e.Reason.String() + "): " + e.lostText()
	case NothingToJoin:
		return text + " cannot be maintained (" + e.Reason.String() + "): " + e.cannotText()
	case Incompatible:
		return text + " cannot be served: " + e.unfitText()
	case NoResult:
		return text + " has no result: " + e.absentText()
	}
	if e.Reason == core.ReasonReleased {
		return text + " released"
	}
	return text + " given up by this process"
}

// headText says what the error is about.
func (e *Error) headText() string {
	text := "mopslock: " + e.subjectText()
	if e.Name != "" {
		text += " " + strconv.Quote(e.Name)
	}
	return text
}

func (e *Error) subjectText() string {
	switch {
	case e.Kind == NoResult:
		return "work"
	case e.of == ofPermit:
		return "permit of"
	case e.of == ofLimit:
		return "limit of"
	}
	return "lease"
}

func (e *Error) notHadText() string {
	switch e.of {
	case ofLimit:
		return " not set"
	case ofBreak:
		return " not broken"
	}
	return " not acquired"
}

// stopText says what to do after the loss.
func (e *Error) stopText() string {
	if e.of == ofPermit {
		return "stop what the permit allows"
	}
	return "stop what the lease guards"
}

func (e *Error) engineText(engine *EngineError) string {
	text := map[Kind]string{
		NotAcquired: e.notHadText(), Lost: " lost (" + e.Reason.String() + ")", NothingToJoin: " cannot be maintained",
		NoResult: " has no result",
	}[e.Kind]
	text += ": the engine failed (" + engine.Err.Error() + ")"
	if e.Kind == Lost {
		return text + "; " + e.stopText()
	}
	return text + "; try again, or with the native engine"
}

func (e *Error) unfitText() string {
	switch {
	case e.Reason == core.ReasonNewer:
		return "its record was written by a newer mopslock; update this one"
	case e.Reason == core.ReasonKind && e.of == ofMemo:
		return "the name is that of a mops memo; choose another"
	case e.Reason == core.ReasonKind && !e.ofSemaphore():
		return "the name is that of a semaphore, of which there are permits; ask for a permit, or choose another name for the lease"
	case e.Reason == core.ReasonKind:
		return "the name is that of a lease, which has one holder; acquire the lease, or choose another name for the semaphore"
	case e.ofSemaphore():
		return "the store does not honour create-if-absent, which a semaphore needs; use another store" + e.evidenceText()
	default:
		return "the store does not honour create-if-absent, which strict needs; use lastwriter, or another store" + e.evidenceText()
	}
}

func (e *Error) ofSemaphore() bool { return e.of == ofPermit || e.of == ofLimit }

// evidenceText is what a process has seen of the store. The store's capability record may
// keep it for longer than it is true.
func (e *Error) evidenceText() string {
	if e.Err == nil {
		return ""
	}
	return " (seen: " + e.Err.Error() + "; once it is mended, have the doctor examine it)"
}

func (e *Error) refusedText() string {
	switch e.Reason {
	case core.ReasonHeld:
		switch e.of {
		case ofBreak:
			return e.heldText() + "; that is not the holder that was to be broken, so look again"
		case ofOwn:
			return "held by the lease of this very context; release that first"
		}
		return e.heldText() + "; wait for it, or try again later"
	case core.ReasonRaced:
		if e.Seen != nil {
			return "another was faster: " + e.seenText()
		}
		return "another was faster; try again"
	case core.ReasonFull:
		return e.fullText() + "; wait for room, or try again later"
	case core.ReasonCrowded:
		return "its record has no room for another holder; use several names, or fewer permits of more weight"
	case core.ReasonCancelled:
		return "cancelled"
	case core.ReasonVacant:
		return "nobody holds it"
	case core.ReasonUnreadable: // of a break
		return "its record is unreadable, so it names no holder; " + freesItself
	case core.ReasonUnreachable:
		return "the store does not answer" + e.storeText("; check its URL and the network")
	case core.ReasonUnusable:
		return "the store cannot be used" + e.storeText("; "+classAdvice(e.Class))
	case core.ReasonLimit:
		if e.Class != core.ClassNone {
			return "the wait was over while the store failed" + e.storeText("")
		}
		return "the wait was over; try again"
	default:
		return e.Reason.String()
	}
}

// heldText says who holds the lease. A lease that was broken, or released by one of its
// owners, is not free before its holder can have noticed.
func (e *Error) heldText() string {
	var how string
	switch {
	case e.Seen != nil && e.Seen.State == core.ObservedBroken:
		how = "broken" + e.brokenText()
	case e.Seen != nil && e.Seen.State == core.ObservedReleased:
		how = "released"
	default:
		return "held by " + e.seenText()
	}
	if e.Seen.Left > 0 {
		return how + ", and free in " + e.Seen.Left.Round(100*time.Millisecond).String() + " at the latest"
	}
	return how + ", and not free yet"
}

// fullText says how much of what is held, and by whom.
func (e *Error) fullText() string {
	switch {
	case e.Seen == nil:
		return "full"
	case e.Seen.State == core.ObservedCorrupt:
		return "full, held by an unreadable record"
	}
	text := "full, with " + strconv.FormatUint(e.Seen.Held, 10) + " held"
	if e.Seen.Limit != 0 {
		text += " and a limit of " + strconv.FormatUint(e.Seen.Limit, 10) + " in the store"
	}
	return text + ", by " + e.holdersText()
}

// holdersText names the first holders of a semaphore.
func (e *Error) holdersText() string {
	const named = 3
	if e.Seen == nil || len(e.Seen.Holders) == 0 {
		return "others"
	}
	var who []string
	for i := range e.Seen.Holders[:min(named, len(e.Seen.Holders))] {
		who = append(who, e.Seen.Holders[i].Who())
	}
	text := strings.Join(who, ", ")
	if more := len(e.Seen.Holders) - named; more > 0 {
		text += " and others"
	}
	return text
}

func (e *Error) lostText() string {
	switch e.Reason {
	case core.ReasonTaken:
		if e.of == ofPermit {
			return "somebody took it out of the record; " + e.stopText()
		}
		return "the record is now that of " + e.seenText() + "; " + e.stopText()
	case core.ReasonBroken:
		return "it was broken" + e.brokenText() + "; " + e.stopText()
	case core.ReasonReleased:
		return "somebody released it; " + e.stopText()
	case core.ReasonUnreachable:
		return "it could not be renewed before its deadline; " + e.stopText() + ", and check the store"
	case core.ReasonExpired:
		return "this process was paused past its deadline; " + e.stopText()
	default:
		return e.stopText()
	}
}

func (e *Error) brokenText() string {
	if e.Seen == nil {
		return ""
	}
	text := ""
	if e.Seen.By != "" {
		text += " by " + Printable(e.Seen.By)
	}
	if e.Seen.Why != "" {
		text += " (" + Printable(e.Seen.Why) + ")"
	}
	return text
}

func (e *Error) cannotText() string {
	switch e.Reason {
	case core.ReasonAbsent:
		return "there is no record under this name; is it the right store?"
	case core.ReasonNoExpiry:
		return "its record has no expiry, so there is nothing to keep alive"
	case core.ReasonNeverAcquired:
		return "its holder never finished acquiring it"
	default:
		return "its record could not be kept alive" + e.storeText("; "+classAdvice(e.Class))
	}
}

// absentText is why there is no result of a piece of work.
func (e *Error) absentText() string {
	own := ""
	if e.Err != nil {
		own = ": " + oneLine(strings.TrimPrefix(e.Err.Error(), "mopslock: "))
	}
	switch e.Reason {
	case core.ReasonNone:
		return "it has ended, nobody has stored what it came to, and nobody goes on with it; see what it said"
	case core.ReasonFailed:
		return "it failed" + cmp.Or(own, "; see what it said")
	case core.ReasonTaken, core.ReasonBroken:
		return "its lease became another's (" + e.Reason.String() + ") while it ran, so nothing of it was stored" + own
	case core.ReasonUnreachable, core.ReasonUnusable:
		return "the store did not take what it came to" + e.classText() + cmp.Or(own, "; "+classAdvice(e.Class))
	default:
		return "it has ended, and its lease was lost (" + e.Reason.String() + ")" + own
	}
}

// oneLine returns the caller's own error as it is, unless a terminal could take a part
// of it for a command.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Printable(text)
	}
	return text
}

// storeText is what the store said, which has its own advice, or otherwise the class
// and our advice.
func (e *Error) storeText(advice string) string {
	if e.Err == nil {
		return e.classText() + advice
	}
	return e.classText() + ": " + strings.TrimPrefix(e.Err.Error(), "mopslock: ")
}

func (e *Error) classText() string {
	if e.Class == core.ClassNone || e.Class == core.ClassOther {
		return ""
	}
	return " (" + e.Class.String() + ")"
}

func classAdvice(c core.Class) string {
	switch c {
	case core.ClassUnauthorized:
		return "check the credentials and their rights to read and write"
	case core.ClassNoSuchStore:
		return "make the bucket, container or directory first, or mend its name"
	case core.ClassReadOnly:
		return "a lease needs to write"
	case core.ClassFull:
		return "make room"
	default:
		return "check the store, its URL and the network"
	}
}

// seenText names the holder of the record, in text that is safe to show.
func (e *Error) seenText() string {
	if e.Seen == nil {
		return "another"
	}
	return e.Seen.Who()
}

// Who names the last writer of a record, escaped so that it is safe to show.
func (s *Status) Who() string {
	if s.Holder == "" {
		return "an unreadable record"
	}
	return who(s.Holder, s.Host, s.PID) + s.signText()
}

// signText says how long ago the lease was renewed. What is left of its TTL says nothing
// of a holder that renews it in time, at each third of the TTL.
func (s *Status) signText() string {
	renewed := max(0, s.TTL-s.Left)
	switch {
	case s.Left <= 0:
		return ""
	case renewed <= s.TTL/2:
		return fmt.Sprintf(", renewed %.1f s ago", renewed.Seconds())
	}
	return ", which can expire in " + s.Left.Round(100*time.Millisecond).String()
}

// Who names a holder, escaped so that it is safe to show.
func (p *PermitHolder) Who() string { return who(p.ID, p.Host, p.PID) }

func who(id, host, pid string) string {
	text := Printable(id)
	if host != "" {
		text += " on " + Printable(host)
		if pid != "" {
			text += " (pid " + Printable(pid) + ")"
		}
	}
	return text
}

// Printable returns another process's text as it can be shown. A text that a terminal
// could take for a command is escaped and quoted.
func Printable(text string) string {
	quoted := strconv.Quote(text)
	inside := quoted[1 : len(quoted)-1]
	if inside == text {
		return text
	}
	return quoted
}
