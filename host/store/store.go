// Package store defines what mopslock asks of a place that keeps objects: six verbs
// and one number. Sub-packages bring the places: local (file://), mem (mem://), s3, gs
// and azblob. Importing one of them registers its URL scheme for Open.
//
// The verbs hold small bodies in memory. Stores that are a Streamer, as all of ours
// are, also move bodies of many gigabytes, through a bounded buffer.
//
// Package store itself keeps no object and retries nothing. It does not judge what an
// unknown outcome means. The core does that, by the nonce in every body.
package store

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Bounds of the verbs.
const (
	// MaxBody is how many bytes of an object a Get returns at most: one more than a
	// record may have, so that a caller can tell "too long" from "just fits".
	MaxBody = core.MaxRecord + 1
	// MaxKey is the length of the longest key in bytes: S3's limit.
	MaxKey = 1024
	// MaxPage is the longest page of a List, in objects.
	MaxPage = 1000
)

// Store keeps small objects under keys: UTF-8 text with "/" between segments
// (see CheckKey). Many goroutines may call any method at once.
//
// An error is always an *Error. There are three outcomes, as everywhere in mopslock:
// yes (nil), no (errors.Is ErrAbsent or ErrExists), and unknown (any other error). A
// write with an unknown outcome may have been applied, may be applied later, or never.
// Read the object back and compare nonces.
//
// A write does not begin after its ctx's deadline. Stores differ in how late a write
// that has begun can land: a local directory checks the clock right before the one
// system call that applies the write; a server may apply at any time what was sent.
type Store interface {
	// Get reads the object, or its first MaxBody bytes. ErrAbsent: there is none.
	Get(ctx context.Context, key string) (Object, error)

	// Put writes the whole object, whether or not there was one. Readers see the old
	// body or the new one, never a part. The store keeps contentType if it can ("" is
	// application/octet-stream). If ctx is Overwriting, there was one: a store with
	// directories makes none for it. ErrAbsent: its directory is gone.
	Put(ctx context.Context, key string, body []byte, contentType string) error

	// Create writes the object if there is none, and has exactly one winner.
	// ErrExists: the store says that there is one. That is only the store's word: an
	// SDK, a proxy or NFS that sends the request again after a lost answer is told
	// "exists" of its own success. So the caller reads the object back and compares
	// the nonce before it believes that it lost.
	Create(ctx context.Context, key string, body []byte, contentType string) error

	// Exists reports whether there is an object at key.
	Exists(ctx context.Context, key string) (bool, error)

	// List returns, in byte order, up to limit objects whose keys begin with prefix
	// (which need not end at a slash) and are greater than after. A limit below 1 or
	// above MaxPage means MaxPage. more says that others may follow the page: ask
	// again with after = its last key. If more is true, the page is not empty.
	List(ctx context.Context, prefix, after string, limit int) (page []Info, more bool, err error)

	// Delete removes the object. To delete an absent object is no error.
	Delete(ctx context.Context, key string) error

	// StampUnit is the resolution of every Stamp: the true instant lies within
	// [Stamp, Stamp+StampUnit) of the store's clock. It may become finer while
	// the store is open, never coarser.
	StampUnit() time.Duration

	// Close ends what the store runs in the background and waits for it.
	// Verbs after Close fail.
	Close() error
}

// Watcher is implemented by stores that can tell when an object may have changed:
// local directories.
type Watcher interface {
	// Watch calls notify, from a goroutine of the store, whenever the object at key
	// may have been made, changed or removed. Notices are hints: some come without a
	// change, several changes may give one, and on network filesystems none may come,
	// so also poll. Read the object after Watch has returned: it gives no notice of
	// earlier changes. notify must not block and must not call Close; it may call
	// stop. stop may be called twice; after it, at most one call that was under way
	// still comes. An error means that nothing is watched.
	Watch(key string, notify func()) (stop func(), err error)
}

// KeyChecker is implemented by stores that cannot keep every key that CheckKey
// allows. Ask it before the first request: the error is an *Error with ErrKey.
type KeyChecker interface {
	CheckKey(key string) error
}

// SteppingClock is implemented by stores whose stamps may be of a clock that is set while
// leases are held, such as this machine's wall clock. No lease is judged dead by such a
// clock.
type SteppingClock interface {
	// ClockSteps reports whether this store's clock may step, and why, in words for
	// people.
	ClockSteps() (steps bool, why string)
}

// ClockSteps asks a store. One that does not say has a clock that nobody sets.
func ClockSteps(s Store) (steps bool, why string) {
	if clock, ok := s.(SteppingClock); ok {
		return clock.ClockSteps()
	}
	return false, "the store says of no step"
}

// Orderly is implemented by stores that may keep two promises. First, a Put that is not
// applied when its ctx ends never is, so that a late one never replaces a newer one.
// Second, stamps are of this machine's wall clock. Orderly reports whether this place
// keeps both. It may do I/O, and hang. Leases are judged by the clock of a common boot
// only in such a place, for two reasons: a late beat would show an older time than the
// beat that it replaces, and a stamp tells whether a boottime is of our clock.
type Orderly interface {
	Orderly() bool
}

// Memory is implemented by stores that may lie in this machine's memory alone. InMemory
// reports whether this one does: its calls wait for no network and no disk, so they end at
// once, whatever happens. It may do I/O, and hang.
type Memory interface {
	InMemory() bool
}

// Object is what Get found.
type Object struct {
	// Body is the object's bytes, at most MaxBody of them. The caller may change it.
	Body []byte
	// Stamp is the store's modification time in nanoseconds since 1970 UTC, cut to
	// the store's resolution (see StampUnit). It is 0 if the store gave none.
	Stamp int64
	// Type is the content type, or "" if the store keeps none (directories).
	Type string
}

// Info is one object of a List.
type Info struct {
	Key   string
	Size  int64 // bytes
	Stamp int64 // as Object.Stamp
}

type overwriting struct{}

// Overwriting returns the context of a Put of an object that was there before. It is no
// argument of Put because only stores with directories ask, below all that wraps them.
func Overwriting(ctx context.Context) context.Context {
	return context.WithValue(ctx, overwriting{}, true)
}

// IsOverwriting reports whether a Put has a context of Overwriting.
func IsOverwriting(ctx context.Context) bool { return ctx.Value(overwriting{}) != nil }

// PageSize returns the limit that a List works with: limit itself if it is
// within 1 and MaxPage, MaxPage otherwise.
func PageSize(limit int) int {
	if limit < 1 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Overdue returns why a write under ctx must not be applied at the instant now, or nil
// if it may.
//
// ctx.Err alone does not tell. A goroutine runs its timer, and a process that was
// stopped has run no goroutine:
//
//	us:    write temp ── SIGSTOP ═════════════════════ SIGCONT ── rename!
//	timer:                        (deadline passes)               ▲  cancel ctx
//	other:                              takes the lease ── held   │
//	                                    this rename would be a late write
//
// So Overdue reads both clocks: the monotonic clock does not count the time that a
// machine was suspended, the wall clock does. If the wall clock was set forward, that
// costs one write, which the caller tries again.
func Overdue(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	if !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0)) {
		return context.DeadlineExceeded
	}
	return nil
}
