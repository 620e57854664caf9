// Package fence keeps objects that only the newest tenure of a lease can
// write. No lease can stop a process that was paused while it wrote. Here the
// store refuses that write by the fencing token, which grows from each tenure of
// a name to the next:
//
//	A, token 5:  held ── read ── SIGSTOP ═════════════════════ SIGCONT ── write: *StaleError
//	B, token 6:                      TTL … held ── write ── write …
//
// An object is a chain of slots. Each slot is made with the store's create and
// never written again, so that it has exactly one winner. A writer reads the newest
// slot, sees no greater token than its own, and creates the next slot:
//
//	A, token 5:  newest is 7 (token 5) ────────────────────── create 8: exists ── newest is 8 (token 6): stale
//	B, token 6:      newest is 7 (token 5) ── create 8: won
//
// If another writes between our read of slot n and our create of slot n+1, the
// create fails. So tokens never go back along the chain, and no update is lost
// between two that both succeeded.
//
// The token cannot know of a tenure that has not touched the object. A zombie may
// write until its successor has written, or has called Raise. So a holder that takes
// a lease over, and reads before it writes, begins with Raise:
//
//	A, token 5:  ──────────────────── write: done ─────────────────── write: *StaleError
//	B, token 6:   held ── Read: old                ── Raise ── Read: A's, and from here on only B's
//
// Package fence does not check whether a lease is held: ask Lease.Err first, or
// work under Lease.Context. It guards nothing but its own objects. The lease on one
// name guards one object; tokens of two names cannot be compared. Nothing else may
// write or expire objects below the object's key.
package fence

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Bounds, and their relations.
const (
	// MaxBody is how many bytes a caller can keep in an object. With the head they
	// are within the 64 KiB that a store returns. Keep more in an object of its own,
	// made with a fresh name, and write that name here.
	MaxBody = 63 << 10

	maxHead = 1 << 10

	// requestLimit is the time limit of one request. A write that has not begun by then never does.
	requestLimit = 10 * time.Second
	// patience is how long a read proves that a slot is free, and how long a create
	// proves that its slot cannot have been collected. A later result is confirmed.
	patience = 15 * time.Second
	// A slot is collected only if its successor is older than keepFor, by the store's
	// own stamps. The newest keepSlots slots are never collected.
	keepFor   = time.Minute
	keepSlots = 16
	// collectEach is the number of slots from one collection to the next. A collection
	// removes up to collectMost slots, so that it catches up.
	collectEach = 16
	collectMost = 64

	settleTries = 6                // creates of one slot whose fate is unknown
	maxRaces    = 1000             // slots lost to others, one after the other
	firstPause  = time.Second / 20 // before the second try, then doubled
	slotsAPage  = 16
)

// Tenure is the tenure under which an object is written.
type Tenure struct {
	// Token is the fencing token. It is never 0.
	Token uint64
	// Holder is the id of the tenure, which its companions share.
	Holder string
}

// Claim is anything that has a tenure: a *host.Lease or a *host.Companion.
type Claim interface {
	FencingToken() uint64
	Holder() string
}

// Of returns the tenure of a lease. Call it once, when the lease is held: token and
// holder do not change while the tenure lasts.
func Of(c Claim) Tenure { return Tenure{Token: c.FencingToken(), Holder: c.Holder()} }

func (t Tenure) check() error {
	var errs []error
	if t.Token == 0 {
		errs = append(errs, errors.New("mopslock: fence: token 0: this lease has no fencing token (lastwriter has none); take it with the strict protocol"))
	}
	if t.Holder == "" || len(t.Holder) > core.MaxHolder/2 || !utf8.ValidString(t.Holder) {
		errs = append(errs, fmt.Errorf("mopslock: fence: holder %.40q: the id of the tenure, 1 to %d bytes of UTF-8", t.Holder, core.MaxHolder/2))
	}
	return errors.Join(errs...)
}

// Slot is one state of an object, as its writer left it.
type Slot struct {
	// Number counts the writes of the object from 1. 0 means that the object was
	// never written.
	Number uint64
	// Token and Holder are the tenure that wrote the slot.
	Token  uint64
	Holder string
	// Nonce is fresh for each write.
	Nonce string
	// After is the nonce of the slot before, which the writer had read. It is "" in
	// the first slot.
	After string
	// Written is the slot that first had this body: Number itself, or an earlier
	// one if a Raise copied it, or 0 if there was nothing to copy.
	Written uint64
	// Body is what the caller wrote. It is nil if nothing was written yet, and empty
	// but not nil if the caller wrote an empty body. Write and Update return the body
	// that they were given.
	Body []byte
	// Stamp is the store's modification time, ns since 1970, in a slot that was
	// read; see store.Store.StampUnit.
	Stamp int64
}

// Object is one guarded object. Many goroutines and many processes may call its
// methods at once.
type Object struct {
	store  store.Store
	key    string
	prefix string // of the slots
	now    func() time.Time
}

// Open returns the object at a key. It makes no request. The slots are at
// KEY/_fence/; on a local directory nothing else can be at KEY itself.
func Open(s store.Store, key string) (*Object, error) {
	s = store.Guard(s)
	o := &Object{store: s, key: key, prefix: key + "/_fence/", now: time.Now}
	if err := checkKey(s, o.slotKey(1)); err != nil {
		return nil, fmt.Errorf("mopslock: fence: object %q: %w", key, err)
	}
	return o, nil
}

func checkKey(s store.Store, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if checker, ok := s.(store.KeyChecker); ok {
		return checker.CheckKey(key)
	}
	return nil
}

// Read returns the newest slot. If there is none, it returns the zero Slot and no
// error. It costs a list and a get.
func (o *Object) Read(ctx context.Context) (Slot, error) { return o.newest(ctx) }

// Write makes body the body of the object, whatever was there, and returns the slot
// that has it. It costs a list, a get and a create. Each 16th write of an object also
// collects old slots, with a delete each.
//
// After any error but *UnknownError, nothing of body is in the object. A *StaleError
// says that a newer tenure has written: ours is over.
func (o *Object) Write(ctx context.Context, t Tenure, body []byte) (Slot, error) {
	if err := errors.Join(t.check(), checkBody(body)); err != nil {
		return Slot{}, err
	}
	return o.write(ctx, t, func(newest Slot) (Slot, error) {
		return Slot{Number: newest.Number + 1, Written: newest.Number + 1, Body: body}, nil
	})
}

// Update writes what change makes of the newest body, which is nil if nothing was
// written yet. If another process of the same tenure was faster, Update calls change
// again with what that one wrote; no slot has what change returned before. So an
// update counts once or, after any error but *UnknownError, not at all.
//
// change must not keep or alter its argument. Update returns change's error as it is.
func (o *Object) Update(ctx context.Context, t Tenure, change func(old []byte) ([]byte, error)) (Slot, error) {
	if err := t.check(); err != nil {
		return Slot{}, err
	}
	return o.write(ctx, t, func(newest Slot) (Slot, error) {
		body, err := change(newest.Body)
		if err == nil {
			err = checkBody(body)
		}
		return Slot{Number: newest.Number + 1, Written: newest.Number + 1, Body: body}, err
	})
}

// Raise ends all writes of older tenures, and returns the newest slot: its body is
// what they left. It writes nothing if this tenure has written already. It is for a
// holder that takes a lease over and reads before it writes.
func (o *Object) Raise(ctx context.Context, t Tenure) (Slot, error) {
	if err := t.check(); err != nil {
		return Slot{}, err
	}
	return o.write(ctx, t, func(newest Slot) (Slot, error) {
		if newest.Token == t.Token {
			return newest, nil
		}
		return Slot{Number: newest.Number + 1, Written: newest.Written, Body: newest.Body}, nil
	})
}

func checkBody(body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("mopslock: fence: a body of %d bytes, at most %d; keep it in an object of its own and write its name", len(body), MaxBody)
	}
	return nil
}
