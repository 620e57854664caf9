// Package store is what mopslock asks of a place that keeps objects: six verbs
// and one number. Sub-packages bring the places: local (file://), mem (mem://),
// s3, gs and azblob; importing one of them registers its URL scheme for Open.
//
// The verbs hold small bodies in memory. Stores that are a Streamer, as all of
// ours are, also move bodies of many gigabytes, through a bounded buffer.
//
// Package store itself keeps no object and retries nothing. It does not judge
// what an unknown outcome means: that is the core's work, and the nonce in
// every body is how it is settled.
package store

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Bounds of the verbs.
const (
	// MaxBody is how many bytes of an object a Get returns at most: one more
	// than a record may have, so that "too long" can be told from "just fits".
	MaxBody = core.MaxRecord + 1
	// MaxKey is the length of the longest key in bytes, which is S3's.
	MaxKey = 1024
	// MaxPage is the longest page of a List, in objects.
	MaxPage = 1000
)

// Store keeps small objects under keys: UTF-8 text with "/" between segments
// (see CheckKey). Every method may be called by many goroutines at once.
//
// An error is always an *Error. Outcomes are three, as everywhere in mopslock:
// yes (nil), no (errors.Is ErrAbsent or ErrExists), and unknown (any other
// error): a write that failed with any other error may have been applied, may
// be applied later, or never. Read it back and compare nonces.
//
// A write whose ctx is past its deadline is not begun. How late one can still
// land after that differs: a local directory checks the clock right before the
// one system call that applies the write; a server may apply what was sent.
type Store interface {
	// Get reads the object, or its first MaxBody bytes. ErrAbsent: there is none.
	Get(ctx context.Context, key string) (Object, error)

	// Put writes the object whole, whether or not there was one. Readers see
	// the old body or the new, never a part. contentType is kept where the
	// store can ("" is application/octet-stream).
	Put(ctx context.Context, key string, body []byte, contentType string) error

	// Create writes the object if there is none, and has exactly one winner.
	// ErrExists: the store says that there is one. That is the store's word
	// only: whoever sends the request again after a lost answer (an SDK, a
	// proxy, NFS) is told "exists" of its own success. So the caller reads it
	// back and compares the nonce before it believes that it lost.
	Create(ctx context.Context, key string, body []byte, contentType string) error

	// Exists reports whether there is an object at key.
	Exists(ctx context.Context, key string) (bool, error)

	// List returns, in byte order, up to limit objects whose keys begin with
	// prefix (which need not end at a slash) and are greater than after. A
	// limit below 1 or above MaxPage is MaxPage. more: there may be others
	// beyond the page; ask again with after = its last key (a page is empty
	// only when more is false).
	List(ctx context.Context, prefix, after string, limit int) (page []Info, more bool, err error)

	// Delete removes the object. Deleting an absent one is fine.
	Delete(ctx context.Context, key string) error

	// StampUnit is the resolution of every Stamp: the true instant lies within
	// [Stamp, Stamp+StampUnit) of the store's clock. It may become finer while
	// the store is open, never coarser.
	StampUnit() time.Duration

	// Close ends what the store runs in the background and waits for it.
	// Verbs after Close fail.
	Close() error
}

// Watcher is implemented by stores that can tell when an object may have
// changed: local directories.
type Watcher interface {
	// Watch calls notify, from a goroutine of the store, whenever the object
	// at key may have been made, changed or removed. Notices are hints: some
	// come for nothing, several changes may give one, and on network
	// filesystems none may come, so poll besides. Read the object after Watch
	// has returned: what changed before it is not told. notify must not block
	// and must not call Close; it may call stop. After stop (which may be called twice) at most one call that was under
	// way still comes. An error means that nothing is watched.
	Watch(key string, notify func()) (stop func(), err error)
}

// KeyChecker is implemented by stores that cannot keep every key that CheckKey
// allows. Ask it before the first request: the error is an *Error with ErrKey.
type KeyChecker interface {
	CheckKey(key string) error
}

// SteppingClock is implemented by stores whose stamps are of a clock that may be
// set while leases are held, such as this machine's wall clock. Nobody's lease
// is called dead by such a clock.
type SteppingClock interface {
	SteppingClock()
}

// Orderly is implemented by stores that may keep two promises: a Put that has not been
// applied when its ctx ends never is, so that no late one lies on top of a newer one;
// and stamps are of this machine's wall clock. Orderly reports whether this place keeps
// them. It may do I/O, and hang. Only there are leases judged by the clock of a common
// boot: a late beat shows an older time than the one that it lies upon, and a stamp tells
// whether a boottime is of our clock.
type Orderly interface {
	Orderly() bool
}

// Object is what Get found.
type Object struct {
	// Body is the object's bytes, at most MaxBody of them. It is the caller's.
	Body []byte
	// Stamp is the store's modification time in nanoseconds since 1970 UTC, cut
	// to what the store tells (see StampUnit); 0 where it told none.
	Stamp int64
	// Type is the content type, "" where the store keeps none (directories).
	Type string
}

// Info is one object of a List.
type Info struct {
	Key   string
	Size  int64 // bytes
	Stamp int64 // as Object.Stamp
}

// PageSize returns the limit that a List works with: limit itself if it is
// within 1 and MaxPage, MaxPage otherwise.
func PageSize(limit int) int {
	if limit < 1 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Overdue returns why a write under ctx must not be applied at the instant
// now, or nil if it may.
//
// ctx.Err alone does not tell. Its timer is a goroutine's work, and a process
// that was stopped has run no goroutine:
//
//	us:    write temp ── SIGSTOP ═════════════════════ SIGCONT ── rename!
//	timer:                        (deadline passes)               ▲  cancel ctx
//	other:                              takes the lease ── held   │
//	                                    this rename would be a late write
//
// So the clocks are read. Both of them: the monotonic clock does not count the
// time that a machine was suspended, the wall clock does; a wall clock that was
// stepped forward costs one write that is tried again.
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
