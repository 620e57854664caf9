package fence

import (
	"errors"
	"fmt"
)

// The errors of this package, for errors.Is.
var (
	// ErrStale: a newer tenure has written the object. The error is a *StaleError.
	ErrStale = errors.New("a newer tenure has written")
	// ErrForeign: a tenure of another name has written the object.
	ErrForeign = errors.New("written under another name's lease")
	// ErrRaced: others of the same tenure wrote again and again; nothing of ours is there.
	ErrRaced = errors.New("faster")
	// ErrUnknown: the slot may or may not have been written. The error is an *UnknownError.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrCorrupt: the object is not one that package fence writes.
	ErrCorrupt = errors.New("not a slot")
	// ErrNewer: a newer mopslock wrote the object.
	ErrNewer = errors.New("written by a newer mopslock")
)

// StaleError says that the object belongs to a newer tenure. Nothing was written
// under this token, and nothing will be.
type StaleError struct {
	Key string
	// Token is the caller's.
	Token uint64
	// Newest is the slot of the newer tenure, without its body.
	Newest Slot
}

// Error says what happened, to which object, and what to do.
func (e *StaleError) Error() string {
	return fmt.Sprintf("mopslock: fence: %q not written: token %d is stale, %.80q has written slot %d with token %d; stop what the lease guarded",
		e.Key, e.Token, e.Newest.Holder, e.Newest.Number, e.Newest.Token)
}

// Is reports whether target is ErrStale.
func (*StaleError) Is(target error) bool { return target == ErrStale }

// UnknownError says that a write may have been applied, may be applied later, or
// never. To settle it, read: the write was applied if the newest slot, or the After
// of the slot that follows Number, has this Nonce. While the newest Number is
// smaller, the write can still land. Any other write or Raise ends that.
type UnknownError struct {
	Key    string
	Number uint64
	Nonce  string
	// Err is the store's answer, or the reason why the store was not asked again.
	Err error
}

// Error says what happened, to which object, and what to do.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("mopslock: fence: %q: slot %d may or may not have been written: %v; read it and compare the nonce before trying again",
		e.Key, e.Number, e.Err)
}

// Is reports whether target is ErrUnknown.
func (*UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

func foreign(key string, t Tenure, newest *Slot) error {
	return fmt.Errorf("mopslock: fence: %q not written: %w: slot %d has token %d, as we do, but of the tenure %.80q; guard an object by the lease on one name, and after that lease's objects were removed from the store use a fresh object",
		key, ErrForeign, newest.Number, t.Token, newest.Holder)
}

func unreadable(key string, kind error, why string) error {
	advice := "another program writes here, or something changed it; choose another key, or look at it and remove it"
	if errors.Is(kind, ErrNewer) {
		advice = "update this program"
	}
	return fmt.Errorf("mopslock: fence: %q: %w (%s); %s", key, kind, why, advice)
}
