//go:build cgo && !mopslock_core

/* The C side of the host's functions. Begun calls and events are in events.c. */

#include "arguments.h"
#include "_cgo_export.h"

int mopslock_open(const char *url, const mopslock_open_options *options, uint64_t *host)
{
	mopslock_open_options o;
	ENTER(url != NULL && host != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	*host = 0;
	return goOpen((char *)url, &o, host, this_fault());
}

int mopslock_close(uint64_t host, int64_t timeout_ns)
{
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goClose(host, timeout_ns, this_fault());
}

int mopslock_cancel_new(uint64_t *cancel)
{
	ENTER(cancel != NULL, NO_NULL);
	*cancel = goCancelNew();
	return MOPSLOCK_OK;
}

int mopslock_cancel(uint64_t cancel)
{
	ENTER(1, NULL);
	return goCancel(cancel, this_fault());
}

int mopslock_cancel_free(uint64_t cancel)
{
	ENTER(1, NULL);
	return goCancelFree(cancel, this_fault());
}

/* SEEING ends acquire and the calls on a lease's text: it writes options->seen. */
#define SEEING(call)                                                     \
	do {                                                             \
		mopslock_status seen;                                    \
		memset(&seen, 0, sizeof seen);                           \
		mopslock_status *theirs = o.seen;                        \
		o.seen = &seen;                                          \
		int code = (call);                                       \
		if (theirs != NULL)                                      \
			give(theirs, &seen, sizeof seen);                \
		return code;                                             \
	} while (0)

int mopslock_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *lease)
{
	mopslock_options o;
	ENTER(name != NULL && lease != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	*lease = 0;
	SEEING(goAcquire(host, (char *)name, &o, lease, this_fault()));
}

int mopslock_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                       uint64_t *companion)
{
	mopslock_options o;
	ENTER(lease_text != NULL && companion != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	*companion = 0;
	SEEING(goAccompany(host, (char *)lease_text, &o, companion, this_fault()));
}

int mopslock_renew(uint64_t host, const char *lease_text, const mopslock_options *options, int64_t *left_ns)
{
	mopslock_options o;
	int64_t left;
	ENTER(lease_text != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	SEEING(goRenew(host, (char *)lease_text, &o, left_ns != NULL ? left_ns : &left, this_fault()));
}

int mopslock_release_text(uint64_t host, const char *lease_text, const mopslock_options *options)
{
	mopslock_options o;
	ENTER(lease_text != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	SEEING(goReleaseText(host, (char *)lease_text, &o, this_fault()));
}

int mopslock_release(uint64_t lease, int64_t timeout_ns)
{
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goRelease(lease, timeout_ns, this_fault());
}

int mopslock_leave(uint64_t companion, int64_t timeout_ns)
{
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goLeave(companion, timeout_ns, this_fault());
}

int mopslock_check(uint64_t member)
{
	ENTER(1, NULL);
	return goCheck(member, this_fault());
}

int mopslock_wait(uint64_t member, int64_t timeout_ns, int *reason)
{
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	int code = goWait(member, timeout_ns, this_fault());
	if (reason != NULL)
		*reason = this_fault()->reason;
	return code;
}

int mopslock_left(uint64_t member, int64_t *left_ns)
{
	ENTER(left_ns != NULL, NO_NULL);
	return goLeft(member, left_ns, this_fault());
}

int mopslock_holder(uint64_t member, char *text, size_t cap, size_t *len)
{
	size_t n;
	ENTER(text != NULL || cap == 0, NO_NULL);
	return goHolder(member, text, cap, len != NULL ? len : &n, this_fault());
}

int mopslock_fencing_token(uint64_t member, uint64_t *token)
{
	uint64_t epoch;
	int protocol;
	ENTER(token != NULL, NO_NULL);
	return goVersion(member, token, &epoch, &protocol, this_fault());
}

int mopslock_epoch(uint64_t member, uint64_t *epoch)
{
	uint64_t token;
	int protocol;
	ENTER(epoch != NULL, NO_NULL);
	return goVersion(member, &token, epoch, &protocol, this_fault());
}

int mopslock_protocol(uint64_t member, int *protocol)
{
	uint64_t token, epoch;
	ENTER(protocol != NULL, NO_NULL);
	return goVersion(member, &token, &epoch, protocol, this_fault());
}

int mopslock_session(uint64_t member, char *text, size_t cap, size_t *len)
{
	size_t n;
	ENTER(text != NULL || cap == 0, NO_NULL);
	return goSession(member, text, cap, len != NULL ? len : &n, this_fault());
}

int mopslock_break(uint64_t host, const char *name, const mopslock_break_options *options)
{
	mopslock_break_options o;
	ENTER(name != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	SEEING(goBreak(host, (char *)name, &o, this_fault()));
}

int mopslock_lease_text(uint64_t lease, char *text, size_t cap, size_t *len)
{
	size_t n;
	ENTER(text != NULL || cap == 0, NO_NULL);
	return goLeaseText(lease, text, cap, len != NULL ? len : &n, this_fault());
}

int mopslock_inspect(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status)
{
	mopslock_status found;
	ENTER(name != NULL && status != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(sized(status), NO_STRUCT);
	memset(&found, 0, sizeof found);
	int code = goInspect(host, (char *)name, timeout_ns, &found, this_fault());
	if (code == MOPSLOCK_OK)
		give(status, &found, sizeof found);
	return code;
}

/* called_for calls the caller's function for Go, which can only call C functions by name. */
int called_for(const struct visitor *v, const char *name, const mopslock_status *status, int code)
{
	return v->visit(v->arg, name, status, code);
}

int mopslock_list(uint64_t host, const char *prefix, int64_t timeout_ns, mopslock_visit visit, void *arg)
{
	struct visitor v = {visit, arg};
	ENTER(visit != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goList(host, prefix != NULL ? (char *)prefix : "", timeout_ns, &v, this_fault());
}
