package host

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Who may only read gets the result that is there; who would have to work is told
// that the store cannot be written.
func TestInvokeReadOnly(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		w.is(errOf(a.invoke("n", returns("it", time.Second), Terms{TTL: core.TTL(minute)})), nil)
		b.store.on(func(c call) fault {
			if c.verb == "put" || c.verb == "create" {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		result, err := b.invoke("n", w.never, Terms{TTL: core.TTL(minute)})
		w.is(err, nil)
		body, err := result.Bytes(background, 10)
		w.is(err, nil)
		w.same("result", string(body), "it")
		w.is(errOf(b.invoke("m", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: Refused, Reason: core.ReasonUnusable})
	})
}

// Where a caller may write, but not find out whether the store honours create-if-absent,
// it is told so: lastwriter, chosen without a word, would not exclude who found out.
func TestInvokeProtocolUnseen(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.when("create", cardKey, fault{class: core.ClassUnauthorized})
		w.is(errOf(p.invoke("m", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: Refused, Reason: core.ReasonUnusable})
		w.same("records", p.store.count("put", recordKey("m")), 0)
	})
}

// The name of a mops memo itself is refused: its result would be taken for mops' own.
func TestInvokeMemo(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.is(errOf(p.Acquire(background, "memo/lock", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter}})), nil)
		w.is(errOf(p.invoke("memo", w.never, Terms{TTL: core.TTL(minute)})), &Error{Kind: Unfit, Reason: core.ReasonKind})
	})
}
