package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gocloud.dev/blob"

	"github.com/mopslock/mopslock/host/store"
)

// List implements store.Store. If the service can start behind a key (S3, GCS), a page
// is one request. Otherwise (Azure, mem) List reads from the start of prefix, 1,000 keys
// a request, and skips the keys up to after: all pages of a list of N keys together cost
// N²/2,000,000 requests.
//
// more is exact, except with a limit of MaxPage, where an empty page may follow. As soon
// as a service lists out of byte order (S3 Express), List returns an error.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	limit = store.PageSize(limit)
	page, more, err := s.list(ctx, prefix, after, limit)
	if err != nil {
		return nil, false, s.fail("list", prefix, err)
	}
	return page, more, nil
}

func (s *Store) list(ctx context.Context, prefix, after string, limit int) (page []store.Info, more bool, err error) {
	switch {
	case s.closed.Load():
		return nil, false, store.ErrClosed
	case store.CheckPrefix(prefix) != nil:
		return nil, false, store.CheckPrefix(prefix)
	case prefix != "" && s.checkEscapes(prefix) != nil:
		return nil, false, s.checkEscapes(prefix)
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	}
	opts, size := s.listOptions(prefix, after, limit)
	last := ""
	for token := blob.FirstPageToken; len(token) > 0; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		objects, next, err := s.bucket.ListPage(s.opts.Context(ctx), token, size, opts)
		if err != nil {
			return nil, false, err
		}
		for _, object := range objects {
			if last != "" && object.Key <= last {
				return nil, false, fmt.Errorf("%w: %q after %q", errOrder, object.Key, last)
			}
			last = object.Key
			if !strings.HasPrefix(object.Key, opts.Prefix) {
				return nil, false, fmt.Errorf("%w: %q", errForeign, object.Key)
			}
			key := strings.TrimPrefix(object.Key, s.opts.Prefix)
			if key <= after || s.checkKey(key) != nil {
				continue // a key that no verb takes, so not ours
			}
			if len(page) == limit {
				return page, true, nil
			}
			page = append(page, store.Info{Key: key, Size: object.Size, Stamp: s.stamp(object.ModTime)})
		}
		token = next
		if len(page) == limit && size == limit {
			return page, len(token) > 0, nil
		}
	}
	return page, false, nil
}

var errForeign = errors.New("this list is not of the prefix that was asked for")

var errOrder = fmt.Errorf("it does not list in byte order: %w", errors.ErrUnsupported)

// listOptions also returns how many keys to ask for in one request: one more than needed,
// to see whether there are more, or as many as possible if List has to skip some.
func (s *Store) listOptions(prefix, after string, limit int) (*blob.ListOptions, int) {
	opts := &blob.ListOptions{Prefix: s.opts.Prefix + prefix}
	size := min(limit+1, store.MaxPage)
	switch {
	case after == "":
	case s.opts.StartAfter == nil || s.checkEscapes(after) != nil:
		size = store.MaxPage
	default:
		size = min(limit+2, store.MaxPage) // GCS starts at the key, not behind it
		opts.BeforeList = func(as func(any) bool) error {
			s.opts.StartAfter(as, s.opts.Prefix+after)
			return nil
		}
	}
	return opts, size
}
