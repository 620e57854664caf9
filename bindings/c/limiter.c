//go:build cgo && !mopslock_core

/* The C side of the limiter's functions. */

#include "arguments.h"
#include "_cgo_export.h"

#define NO_FLAG "mopslock: fifo: is 0 or 1"

int mopslock_limiter_new(int fifo, uint64_t *limiter)
{
	ENTER(limiter != NULL, NO_NULL);
	ENTER(fifo == 0 || fifo == 1, NO_FLAG);
	*limiter = goLimiterNew(fifo);
	return MOPSLOCK_OK;
}

int mopslock_limiter_free(uint64_t limiter)
{
	ENTER(1, NULL);
	return goLimiterFree(limiter, this_fault());
}

int mopslock_limiter_holder(uint64_t limiter, uint64_t *holder)
{
	ENTER(holder != NULL, NO_NULL);
	*holder = 0;
	return goLimiterHolder(limiter, holder, this_fault());
}

int mopslock_limiter_holder_free(uint64_t holder, uint64_t *freed)
{
	uint64_t n;
	ENTER(1, NULL);
	return goLimiterHolderFree(holder, freed != NULL ? freed : &n, this_fault());
}

int mopslock_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width, uint32_t weight,
                             int64_t wait_ns, uint64_t cancel, uint64_t *permit, uint64_t *held)
{
	uint64_t n;
	struct permit_request r = {capacity, width, weight, wait_ns, cancel};
	ENTER(name != NULL && permit != NULL, NO_NULL);
	*permit = 0;
	return goLimiterAcquire(holder, (char *)name, &r, permit, held != NULL ? held : &n, this_fault());
}

int mopslock_begin_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width,
                                   uint32_t weight, int64_t wait_ns, uint64_t cancel, uint64_t *call)
{
	struct permit_request r = {capacity, width, weight, wait_ns, cancel};
	ENTER(name != NULL && call != NULL, NO_NULL);
	*call = 0;
	return goBeginLimiterAcquire(holder, (char *)name, &r, call, this_fault());
}

int mopslock_limiter_release(uint64_t permit)
{
	ENTER(1, NULL);
	return goLimiterRelease(permit, this_fault());
}

int mopslock_limiter_slot(uint64_t holder, const char *name, uint64_t *slot)
{
	ENTER(name != NULL && slot != NULL, NO_NULL);
	*slot = 0;
	return goLimiterSlot(holder, (char *)name, slot, this_fault());
}

int mopslock_limiter_slot_try(uint64_t slot, uint32_t capacity, uint32_t width, uint32_t weight, uint64_t *held)
{
	uint64_t n;
	ENTER(1, NULL);
	return goLimiterSlotTry(slot, capacity, width, weight, held != NULL ? held : &n, this_fault());
}

int mopslock_limiter_slot_release(uint64_t slot, uint32_t weight)
{
	ENTER(1, NULL);
	return goLimiterSlotRelease(slot, weight, this_fault());
}

int mopslock_limiter_held(uint64_t limiter, const char *name, uint64_t *held, uint64_t *waiting)
{
	uint64_t a, b;
	ENTER(name != NULL, NO_NULL);
	return goLimiterHeld(limiter, (char *)name, held != NULL ? held : &a, waiting != NULL ? waiting : &b, this_fault());
}

int mopslock_limiter_counters(uint64_t limiter, const char *name, uint32_t *counters, size_t cap, size_t *len)
{
	ENTER(name != NULL && len != NULL && (counters != NULL || cap == 0), NO_NULL);
	return goLimiterCounters(limiter, (char *)name, counters, cap, len, this_fault());
}
