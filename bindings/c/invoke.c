//go:build cgo && !mopslock_core

/* The C side of invocations, their works and results. */

#include "arguments.h"
#include "_cgo_export.h"

#define NO_SEEN "mopslock: options: seen: is not NULL; mopslock_work has its own"
#define NO_LEASE "mopslock: lease_text: is NULL, which options: without_lease asks for"
#define NO_NAME "mopslock: name and lease_text: are both NULL"
#define NO_FLAG "mopslock: well: is 0 or 1"
#define NO_RESULT "mopslock: result: its size is not set"

int mopslock_invoke(uint64_t host, const char *name, const mopslock_options *options, uint64_t *invocation)
{
	mopslock_options o;
	ENTER(name != NULL && invocation != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	*invocation = 0;
	return goInvoke(host, (char *)name, &o, invocation, this_fault());
}

int mopslock_remote(uint64_t host, const char *name, const char *lease_text, const mopslock_options *options,
                    uint64_t *invocation)
{
	mopslock_options o;
	ENTER(invocation != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	ENTER(lease_text != NULL || o.without_lease != 0, NO_LEASE);
	ENTER(lease_text != NULL || name != NULL, NO_NAME);
	*invocation = 0;
	return goRemote(host, (char *)name, (char *)lease_text, &o, invocation, this_fault());
}

int mopslock_work(uint64_t invocation, int64_t timeout_ns, mopslock_status *seen, uint64_t *work)
{
	mopslock_status found;
	ENTER(work != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(sized(seen), NO_STRUCT);
	memset(&found, 0, sizeof found);
	*work = 0;
	int code = goWork(invocation, timeout_ns, &found, work, this_fault());
	if (seen != NULL)
		give(seen, &found, sizeof found);
	return code;
}

int mopslock_begin_work(uint64_t invocation, uint64_t *call)
{
	ENTER(call != NULL, NO_NULL);
	*call = 0;
	return goBeginWork(invocation, call, this_fault());
}

int mopslock_ended(uint64_t work, int well, const void *body, size_t len, const char *path)
{
	ENTER(well == 0 || well == 1, NO_FLAG);
	ENTER(body != NULL || len == 0, NO_NULL);
	return goEnded(work, well, (void *)body, len, (char *)path, this_fault());
}

int mopslock_invocation_result(uint64_t invocation, mopslock_result *result)
{
	mopslock_result r;
	ENTER(result != NULL, NO_NULL);
	ENTER(result->size >= sizeof result->size && result->size <= STRUCT_MAX, NO_RESULT);
	memset(&r, 0, sizeof r);
	int code = goInvocationResult(invocation, &r, this_fault());
	if (code == MOPSLOCK_OK)
		give(result, &r, sizeof r);
	return code;
}

int mopslock_result_open(uint64_t invocation, int64_t timeout_ns, uint64_t *reader, int64_t *length)
{
	int64_t n;
	ENTER(reader != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	*reader = 0;
	return goResultOpen(invocation, timeout_ns, reader, length != NULL ? length : &n, this_fault());
}

int mopslock_result_read(uint64_t reader, int64_t timeout_ns, void *body, size_t cap, size_t *len)
{
	ENTER(len != NULL && (body != NULL || cap == 0), NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	*len = 0;
	return goResultRead(reader, timeout_ns, body, cap, len, this_fault());
}

int mopslock_result_close(uint64_t reader)
{
	ENTER(1, NULL);
	return goResultClose(reader, this_fault());
}

int mopslock_give_up(uint64_t invocation)
{
	ENTER(1, NULL);
	return goGiveUp(invocation, this_fault());
}

int mopslock_invocation_close(uint64_t invocation, int64_t timeout_ns)
{
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goInvocationClose(invocation, timeout_ns, this_fault());
}

int mopslock_begin_invocation_close(uint64_t invocation, int64_t timeout_ns, uint64_t *call)
{
	ENTER(call != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	*call = 0;
	return goBeginInvocationClose(invocation, timeout_ns, call, this_fault());
}
