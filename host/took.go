package host

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Took is how long the work of siblings took that have a result: names with the
// same parent as name's, from the oldest object that is left of its leases to the
// result, by the store's stamps. It is one list of at most 1,000 objects, good
// for a guess that people are shown and for nothing else; none where that list
// does not tell. The error is the store's, or ErrClosed.
func (h *Host) Took(ctx context.Context, name string) ([]time.Duration, error) {
	if err := core.CheckName(name); err != nil {
		return nil, err
	}
	if h.loop.IsClosing() {
		return nil, ErrClosed
	}
	parent := name[:strings.LastIndexByte(name, '/')+1]
	page, _, err := h.direct().list(ctx, parent, "")
	if err != nil {
		if errors.Is(err, store.ErrClosed) {
			err = ErrClosed
		}
		return nil, err
	}
	h.reached.Store(true)
	oldest := map[string]int64{} // by sibling, of what is left of its leases
	var took []time.Duration
	for _, info := range page {
		sibling, file, ok := strings.Cut(info.Key[len(parent):], "/")
		stamp := knownStamp(info.Stamp)
		switch {
		case !ok || stamp == 0 || sibling == core.RegisterDir:
		case file == core.LockFile || isVersion(file):
			if first, seen := oldest[sibling]; !seen || stamp < first {
				oldest[sibling] = stamp
			}
		case file == core.ResultFile: // after the others, in byte order
			if first, seen := oldest[sibling]; seen && stamp > first {
				took = append(took, time.Duration(stamp-first))
			}
		}
	}
	return took, nil
}
