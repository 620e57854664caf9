package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// The longest name fits below a prefix with everything that is ever kept of it, or
// is refused at once: not when it is held and the first beat is due.
func TestLongestName(t *testing.T) {
	segment := strings.Repeat("n", core.MaxSegment)
	name := (segment + "/" + segment + "/" + segment)[:core.MaxName]
	room := store.MaxKey - len(longestKey(name))
	for more, want := range []error{nil, store.ErrKey} {
		bubble(t, func(w *world) {
			p, s := w.narrow(strings.Repeat("p", room+more-1) + "/")
			l, err := p.tryStrictly(name)
			if !errors.Is(err, want) {
				w.Fatalf("%d more: %v", more, err)
			}
			if err != nil {
				page, _, err := s.List(background, "", "", 0)
				w.ok(err)
				w.same("objects", len(page), 0)
				return
			}
			w.sleep(3 * minute)
			w.ok(l.Err())
			w.same("state", l.Left() > 0, true)
		})
	}
}
