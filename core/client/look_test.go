package client_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestLooks: what a name is, by either protocol, once, at every change, and broken.
func TestLooks(t *testing.T) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		b := newBucket()
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		q.begin(core.EventLook, core.Config{Name: "n"}, core.Event{})
		q.hears("1 seen vacant")
		watching := q.begin(core.EventWatch, core.Config{Name: "n"}, core.Event{})
		q.hears("2 seen vacant")
		p.begin(core.EventAcquire, core.Config{Name: "n", Protocol: protocol}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		p.hears("1 held")
		q.until(p.now + int64(2*core.Second))
		q.hears("2 seen held")
		q.begin(core.EventBreak, core.Config{Name: "n", Why: "stuck", Holder: "other"}, core.Event{})
		q.hears("3 refused held held")
		q.begin(core.EventBreak, core.Config{Name: "n", Why: "stuck"}, core.Event{})
		q.hears("4 broken")
		q.until(q.now + int64(2*core.Second))
		state := map[core.Protocol]string{core.ProtocolStrict: "broken", core.ProtocolLastWriter: "released"}[protocol]
		q.hears("2 seen " + state)
		p.until(p.now + int64(60*core.Second))
		p.hears("1 lost " + state + " " + state)
		q.begin(core.EventBreak, core.Config{Name: "n", Why: "stuck"}, core.Event{})
		q.hears("5 refused vacant " + state)
		q.do(core.Event{Kind: core.EventCancel, Claim: watching})
		q.hears("2 refused cancelled")
		q.do(core.Event{Kind: core.EventClose})
		q.hears("0 closed")
	}
}
