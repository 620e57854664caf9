//go:build cgo && !mopslock_core

/* The C side of the functions that begin a call, and of mopslock_next. */

#include "arguments.h"
#include "_cgo_export.h"

#define NO_SEEN "mopslock: options: seen: is not NULL; the event has its own"

int mopslock_begin_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call)
{
	mopslock_options o;
	ENTER(name != NULL && call != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	*call = 0;
	return goBeginAcquire(host, (char *)name, &o, call, this_fault());
}

int mopslock_begin_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                             uint64_t *call)
{
	mopslock_options o;
	ENTER(lease_text != NULL && call != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	*call = 0;
	return goBeginAccompany(host, (char *)lease_text, &o, call, this_fault());
}

int mopslock_begin_renew(uint64_t host, const char *lease_text, const mopslock_options *options, uint64_t *call)
{
	mopslock_options o;
	ENTER(lease_text != NULL && call != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	*call = 0;
	return goBeginRenew(host, (char *)lease_text, &o, call, this_fault());
}

int mopslock_begin_release(uint64_t lease, int64_t timeout_ns, uint64_t *call)
{
	ENTER(call != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	*call = 0;
	return goBeginRelease(lease, timeout_ns, call, this_fault());
}

int mopslock_begin_leave(uint64_t companion, int64_t timeout_ns, uint64_t *call)
{
	ENTER(call != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	*call = 0;
	return goBeginLeave(companion, timeout_ns, call, this_fault());
}

int mopslock_next(uint64_t host, int64_t timeout_ns, mopslock_event *event)
{
	mopslock_event e;
	mopslock_status seen;
	ENTER(event != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(take(&e, sizeof e, event) && sized(e.seen), NO_STRUCT);
	mopslock_status *theirs = e.seen;
	memset(&e, 0, sizeof e);
	memset(&seen, 0, sizeof seen);
	e.seen = &seen;
	int code = goNext(host, timeout_ns, &e, this_fault());
	e.seen = theirs;
	if (theirs != NULL)
		give(theirs, &seen, sizeof seen);
	give(event, &e, sizeof e);
	return code;
}
