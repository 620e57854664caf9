package store

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
)

// The causes of an *Error, for errors.Is.
var (
	// ErrAbsent: there is no object at the key. A definite no.
	ErrAbsent = errors.New("no such object")
	// ErrExists: Create found an object. A definite no, on the store's word.
	ErrExists = errors.New("an object is already there")
	// ErrKey: this store cannot keep the key. It was not asked.
	ErrKey = errors.New("this key cannot be used")
	// ErrMoved: a directory store is not where it was when it was opened.
	ErrMoved = errors.New("the store's directory was removed, moved or unmounted, or another is in its place")
	// ErrURL: the store URL cannot be used; nothing was opened.
	ErrURL = errors.New("this store URL cannot be used")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Error is the one error type of all stores. Act on Class and on errors.Is,
// not on the text.
type Error struct {
	// Op is the verb: get, put, create, exists, list, delete, watch, open.
	Op string
	// Key is the object's key, a List's prefix, or an Open's URL without secrets.
	Key string
	// Class says why the outcome is unknown. It is core.ClassNone for the
	// definite answers ErrAbsent and ErrExists, and core.ClassOther for ErrBody
	// and ErrTooLarge, which are no fault of the store.
	Class core.Class
	// RetryAfter is how long a store that throttles asks the caller to wait, at most
	// MaxRetryAfter. It is 0 if the store did not say.
	RetryAfter time.Duration
	// Err is the cause, unchanged. Its own text may have a signed URL in it: show
	// the Error's text instead.
	Err error
}

// MaxRetryAfter bounds RetryAfter. A server that asks for more is out of reach, and
// callers find that out by their own deadlines.
const MaxRetryAfter = time.Minute

// Fail makes the Error of an operation.
func Fail(op, key string, class core.Class, err error) *Error {
	return &Error{Op: op, Key: key, Class: class, Err: err}
}

// Said is what was asked and what the store has said, without what to do about it and without
// the secrets of a URL.
func (e *Error) Said() string { return e.Op + " " + strconv.Quote(e.Key) + ": " + scrub(e.Err.Error()) }

// Error says what happened, to which object, and what to do, on one line and without
// the secrets of a URL.
func (e *Error) Error() string {
	text := "mopslock: store: " + e.Said()
	if advice := e.advice(); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// advice says what to do.
func (e *Error) advice() string {
	switch {
	case errors.Is(e.Err, ErrExists):
		return "read it back: it may be our own, of a request whose answer was lost"
	case errors.Is(e.Err, ErrBody):
		return "nothing was written; mend what it comes from and begin again"
	case errors.Is(e.Err, ErrTooLarge):
		return "nothing was written; choose another store, or say the size beforehand"
	case errors.Is(e.Err, ErrMoved):
		return "mount it or move it back; if what is there now is meant, start again"
	case errors.Is(e.Err, errors.ErrUnsupported):
		return "choose another store, or --protocol lastwriter"
	case errors.Is(e.Err, ErrAbsent), errors.Is(e.Err, ErrKey), errors.Is(e.Err, ErrURL), errors.Is(e.Err, ErrClosed):
		return ""
	}
	return classAdvice(e.Class, e.writes())
}

func classAdvice(class core.Class, writes bool) string {
	switch class {
	case core.ClassUnreachable:
		if writes {
			return "check the network and the endpoint; it may or may not have been applied: read it back"
		}
		return "check the network and the endpoint"
	case core.ClassThrottled:
		return "ask less often; it is tried again later"
	case core.ClassUnauthorized:
		return "check the credentials, and what they permit on this store"
	case core.ClassNoSuchStore:
		return "make the bucket, container or directory, or mend the store URL"
	case core.ClassReadOnly:
		return "make the store writable, or choose another one"
	case core.ClassFull:
		return "free some space or raise the quota"
	}
	if writes {
		return "it may or may not have been applied: read it back"
	}
	return ""
}

func (e *Error) writes() bool {
	return e.Op == "put" || e.Op == "create" || e.Op == "delete"
}

// maxText bounds, in bytes, how much of a cause's text is shown.
const maxText = 400

// scrub returns another program's error text in a form that is safe to show: one line,
// bounded, and every URL in it without userinfo and query, where SDKs put signatures.
func scrub(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "://")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteString("://")
		end := strings.IndexAny(rest, " \"'<>")
		if end < 0 {
			end = len(rest)
		}
		b.WriteString(scrubAuthority(rest[:end]))
		text = rest[end:]
	}
	out := strings.Join(strings.Fields(b.String()), " ")
	if len(out) > maxText {
		out = strings.ToValidUTF8(out[:maxText], "") + "…"
	}
	return out
}

// scrubAuthority scrubs the part of a URL behind "://".
func scrubAuthority(rest string) string {
	rest, _, hadQuery := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if hadQuery {
		rest += "?…"
	}
	return rest
}
