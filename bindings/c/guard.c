//go:build cgo && !mopslock_core

/* The C side of the guard's functions. */

#include "arguments.h"
#include "_cgo_export.h"

#define NO_SLOT "mopslock: slot: its size is not set"

/* SLOTTED ends all of them: it writes the slot, if the caller wants it. */
#define SLOTTED(call)                                            \
	do {                                                     \
		mopslock_slot s;                                 \
		memset(&s, 0, sizeof s);                         \
		int code = (call);                               \
		if (slot != NULL && (code == MOPSLOCK_OK ||      \
		    code == MOPSLOCK_ESHORT ||                   \
		    code == MOPSLOCK_ESTALE ||                   \
		    code == MOPSLOCK_EUNKNOWN))                  \
			give(slot, &s, sizeof s);                \
		return code;                                     \
	} while (0)

static int slotted(const mopslock_slot *s)
{
	return s == NULL || (s->size >= sizeof s->size && s->size <= STRUCT_MAX);
}

int mopslock_guarded_read(uint64_t host, const char *key, int64_t timeout_ns,
                          void *body, size_t cap, size_t *len, mopslock_slot *slot)
{
	size_t n = 0;
	struct reader r = {body, cap, len != NULL ? len : &n};
	ENTER(key != NULL && (body != NULL || cap == 0), NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	SLOTTED(goGuardedRead(host, (char *)key, timeout_ns, &r, &s, this_fault()));
}

int mopslock_guarded_write(uint64_t host, const char *key, uint64_t token, const char *holder,
                           const void *body, size_t len, int64_t timeout_ns, mopslock_slot *slot)
{
	struct writer w = {.token = token, .holder = (char *)holder, .body = (void *)body, .len = len};
	ENTER(key != NULL && holder != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	SLOTTED(goGuardedWrite(host, (char *)key, &w, timeout_ns, &s, this_fault()));
}

int mopslock_guarded_update(uint64_t host, const char *key, uint64_t token, const char *holder,
                            const void *old, size_t old_len, const void *body, size_t len,
                            int64_t timeout_ns, mopslock_slot *slot)
{
	struct writer w = {token, (char *)holder, (void *)body, len, (void *)old, old_len};
	ENTER(key != NULL && holder != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	SLOTTED(goGuardedUpdate(host, (char *)key, &w, timeout_ns, &s, this_fault()));
}

int mopslock_guarded_raise(uint64_t host, const char *key, uint64_t token, const char *holder,
                           int64_t timeout_ns, void *body, size_t cap, size_t *len, mopslock_slot *slot)
{
	size_t n = 0;
	struct reader r = {body, cap, len != NULL ? len : &n};
	struct writer w = {.token = token, .holder = (char *)holder};
	ENTER(key != NULL && holder != NULL && (body != NULL || cap == 0), NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	SLOTTED(goGuardedRaise(host, (char *)key, &w, timeout_ns, &r, &s, this_fault()));
}

int mopslock_create_once(uint64_t host, const char *key, uint64_t token, const char *holder,
                         const void *body, size_t len, int64_t timeout_ns, int *won, mopslock_slot *slot)
{
	int mine = 0;
	int *first = won != NULL ? won : &mine;
	struct writer w = {.token = token, .holder = (char *)holder, .body = (void *)body, .len = len};
	ENTER(key != NULL && holder != NULL, NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	*first = 0;
	SLOTTED(goCreateOnce(host, (char *)key, &w, timeout_ns, first, &s, this_fault()));
}

int mopslock_read_once(uint64_t host, const char *key, int64_t timeout_ns,
                       void *body, size_t cap, size_t *len, mopslock_slot *slot)
{
	size_t n = 0;
	struct reader r = {body, cap, len != NULL ? len : &n};
	ENTER(key != NULL && (body != NULL || cap == 0), NO_NULL);
	ENTER(timed(timeout_ns), NO_TIMEOUT);
	ENTER(slotted(slot), NO_SLOT);
	SLOTTED(goReadOnce(host, (char *)key, timeout_ns, &r, &s, this_fault()));
}
