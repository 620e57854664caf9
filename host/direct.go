package host

import (
	"context"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/store"
)

// direct makes the requests that no claim makes: pages of a list, and what a sweep removes. Each
// request has the limit that the client's would have, since a caller's ctx need not end, and a
// store may be silent forever.
type direct struct{ store store.Store }

func (h *Host) direct() direct { return direct{h.verbs} }

func (d direct) get(ctx context.Context, key string) (store.Object, error) {
	ctx, cancel := loop.Within(ctx, core.RequestLimit)
	defer cancel()
	return d.store.Get(ctx, key)
}

func (d direct) list(ctx context.Context, prefix, after string) (page []store.Info, more bool, err error) {
	ctx, cancel := loop.Within(ctx, core.RequestLimit)
	defer cancel()
	return d.store.List(ctx, prefix, after, store.MaxPage)
}

func (d direct) remove(ctx context.Context, key string) error {
	ctx, cancel := loop.Within(ctx, core.RequestLimit)
	defer cancel()
	return d.store.Delete(ctx, key)
}
