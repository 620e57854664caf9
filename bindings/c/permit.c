//go:build cgo && !mopslock_core

/* The C side of shared semaphores. */

#include "arguments.h"
#include "_cgo_export.h"

#define NO_SEEN "mopslock: options: seen: is not NULL; the event has its own"

int mopslock_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *permit)
{
	mopslock_options o;
	mopslock_status seen;
	ENTER(name != NULL && options != NULL && permit != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options) && sized(o.seen), NO_STRUCT);
	mopslock_status *theirs = o.seen;
	memset(&seen, 0, sizeof seen);
	o.seen = &seen;
	*permit = 0;
	int code = goPermit(host, (char *)name, &o, permit, this_fault());
	if (theirs != NULL)
		give(theirs, &seen, sizeof seen);
	return code;
}

int mopslock_begin_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call)
{
	mopslock_options o;
	ENTER(name != NULL && options != NULL && call != NULL, NO_NULL);
	ENTER(take(&o, sizeof o, options), NO_STRUCT);
	ENTER(o.seen == NULL, NO_SEEN);
	*call = 0;
	return goBeginPermit(host, (char *)name, &o, call, this_fault());
}

int mopslock_permit_total(uint64_t permit, uint64_t *total)
{
	ENTER(total != NULL, NO_NULL);
	return goPermitTotal(permit, total, this_fault());
}

int mopslock_set_limit(uint64_t host, const char *name, uint64_t limit, int64_t timeout_ns)
{
	ENTER(name != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	return goSetLimit(host, (char *)name, limit, timeout_ns, this_fault());
}

/* told_of writes the caller's status for Go, and called_for_holder calls its function. */
void told_of(const struct holder_visitor *v, const mopslock_status *status) { give(v->status, status, sizeof *status); }

int called_for_holder(const struct holder_visitor *v, const mopslock_permit_holder *holder)
{
	return v->visit(v->arg, holder);
}

int mopslock_inspect_holders(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status,
                             mopslock_visit_holder visit, void *arg)
{
	mopslock_status found;
	struct holder_visitor v = {visit, arg, status};
	ENTER(name != NULL && status != NULL && visit != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(sized(status), NO_STRUCT);
	memset(&found, 0, sizeof found);
	return goInspectHolders(host, (char *)name, timeout_ns, &found, &v, this_fault());
}
