/* How the host's functions check their arguments before they call Go: forks, NULLs,
 * structs of any version. */
#ifndef MOPSLOCK_ARGUMENTS_H
#define MOPSLOCK_ARGUMENTS_H

#include <string.h>

#include "shim.h"

/* ENTER begins every function. In a forked child the code is EFORKED, whatever the
 * arguments. */
#define ENTER(good, what)                                    \
	do {                                                 \
		if (is_forked())                             \
			return fail_forked();                \
		if (!(good))                                 \
			return fail(MOPSLOCK_EINVAL, what);  \
	} while (0)

#define NO_NULL "mopslock: an argument is NULL that must not be"
#define NO_TIMEOUT "mopslock: a timeout is negative and not MOPSLOCK_FOREVER"
#define NO_STRUCT "mopslock: a struct's size is not set, or it sets fields that this library does not know"

/* No struct of ours will ever be longer: a larger size was never set. */
enum { STRUCT_MAX = 1 << 16 };

/* take copies a caller's struct into ours, which may be longer or shorter. Fields that
 * the caller's lacks become zero. Fields that only the caller's has must be zero:
 * otherwise it asks for something that we cannot do. It returns whether they are. */
static inline int take(void *ours, size_t known, const void *theirs)
{
	size_t size;
	memset(ours, 0, known);
	if (theirs == NULL)
		return 1;
	memcpy(&size, theirs, sizeof size);
	if (size < sizeof size || size > STRUCT_MAX)
		return 0;
	memcpy(ours, theirs, size < known ? size : known);
	for (size_t i = known; i < size; i++)
		if (((const char *)theirs)[i] != 0)
			return 0;
	return 1;
}

/* give is take in the other direction. */
static inline void give(void *theirs, const void *ours, size_t known)
{
	size_t size;
	memcpy(&size, theirs, sizeof size);
	memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size, (size < known ? size : known) - sizeof size);
	if (size > known)
		memset((char *)theirs + known, 0, size - known);
}

static inline int sized(const mopslock_status *s)
{
	return s == NULL || (s->size >= sizeof s->size && s->size <= STRUCT_MAX);
}

static inline int timed(int64_t timeout_ns) { return timeout_ns >= MOPSLOCK_FOREVER; }

#endif
