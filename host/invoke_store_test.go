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
		_, err := a.invoke("n", returns("it", time.Second), Terms{TTL: minute})
		w.is(err, nil)
		b.store.on(func(c call) fault {
			if c.verb == "put" || c.verb == "create" {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		result, err := b.invoke("n", w.never, Terms{TTL: minute})
		w.is(err, nil)
		body, err := result.Bytes(background, 10)
		w.is(err, nil)
		w.same("result", string(body), "it")
		_, err = b.invoke("m", w.never, Terms{TTL: minute})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
	})
}

// The name of a mops memo itself is refused: its result would be taken for mops' own.
func TestInvokeMemo(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		_, err := p.Acquire(background, "memo/lock", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter}})
		w.is(err, nil)
		_, err = p.invoke("memo", w.never, Terms{TTL: minute})
		w.is(err, &Error{Kind: Unfit, Reason: core.ReasonKind})
	})
}
