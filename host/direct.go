package host

import (
	"context"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// direct makes the requests that no machine makes: looks of callers that take no part,
// and tidying. Each request has the limit that a machine's would have, since a caller's
// ctx need not end, and a store may be silent forever.
type direct struct{ store store.Store }

func (h *Host) direct() direct { return direct{h.verbs} }

func (d direct) get(ctx context.Context, key string) (store.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, core.RequestLimit)
	defer cancel()
	return d.store.Get(ctx, key)
}

func (d direct) list(ctx context.Context, prefix, after string) (page []store.Info, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, core.RequestLimit)
	defer cancel()
	return d.store.List(ctx, prefix, after, store.MaxPage)
}

func (d direct) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, core.RequestLimit)
	defer cancel()
	return d.store.Delete(ctx, key)
}
