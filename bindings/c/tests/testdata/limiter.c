/* limiter: what every function of the limiter returns, what is held after it, and that
 * calls that are begun cost no thread. */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { CROWD = 1000, NOISE = 16 };
#define S INT64_C(1000000000)

static uint64_t limiter, holder, other;

static uint64_t held_of(const char *name)
{
	uint64_t held = 99;
	CHECK(mopslock_limiter_held(limiter, name, &held, NULL) == MOPSLOCK_OK);
	return held;
}

static uint64_t waiting_of(const char *name)
{
	uint64_t waiting = 99;
	CHECK(mopslock_limiter_held(limiter, name, NULL, &waiting) == MOPSLOCK_OK);
	return waiting;
}

static void counters_are(const char *name, size_t count, const uint32_t *want)
{
	uint32_t counters[8];
	size_t n = 99;
	CHECK(mopslock_limiter_counters(limiter, name, counters, 8, &n) == MOPSLOCK_OK);
	CHECK(n == count && (n == 0 || memcmp(counters, want, n * sizeof *want) == 0));
}

/* acquires: canal_lock's own timeline, and whatever else one call can come to. */
static void acquires(void)
{
	static const uint32_t width[] = {1, 1, 2, 1, 2}, after[][2] = {{1}, {2}, {3}, {4}, {4, 1}};
	uint64_t permits[5], held = 0, permit = 7;
	for (int i = 0; i < 5; i++) {
		int code = i == 3 ? MOPSLOCK_EFULL : MOPSLOCK_OK;
		CHECK(mopslock_limiter_acquire(holder, "db", 3, width[i], 1, MOPSLOCK_TRY, 0, &permits[i], &held) == code);
		CHECK(held == (uint64_t)(i < 3 ? i + 1 : i) && (permits[i] == 0) == (code != MOPSLOCK_OK));
		counters_are("db", i < 4 ? 1 : 2, after[i]);
	}
	GIVES(MOPSLOCK_EFULL, mopslock_limiter_acquire(holder, "db", 3, 1, 1, MOPSLOCK_TRY, 0, &permit, &held));
	CHECK(permit == 0 && held == 4 && mopslock_last_reason() == MOPSLOCK_REASON_FULL);
	GIVES(MOPSLOCK_EFULL, mopslock_limiter_acquire(other, "db", 3, 1, 1, 1000000, 0, &permit, &held)); /* 1 ms */
	CHECK(permit == 0 && held == 4 && waiting_of("db") == 0);
	GIVES(MOPSLOCK_ETOO_HEAVY, mopslock_limiter_acquire(holder, "db", 3, 1, 4, 0, 0, &permit, NULL));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_TOO_HEAVY);
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_acquire(holder, "db", 0, 1, 1, 0, 0, &permit, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_acquire(holder, "db", 1, 65537, 1, 0, 0, &permit, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_acquire(holder, "db", 1, 1, 1, -2, 0, &permit, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_acquire(holder, NULL, 1, 1, 1, 0, 0, &permit, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_acquire(holder, "db", 1, 1, 1, 0, 0, NULL, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_acquire(limiter, "db", 1, 1, 1, 0, 0, &permit, NULL));
	GIVES(MOPSLOCK_OK, mopslock_limiter_release(permits[0]));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_release(permits[0]));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_release(permits[3]));
	CHECK(held_of("db") == 3);
	GIVES(MOPSLOCK_OK, mopslock_limiter_acquire(other, "db", 3, 2, 3, 0, 0, &permit, &held));
	CHECK(held == 6);
	GIVES(MOPSLOCK_OK, mopslock_limiter_release(permit));
	CHECK(held_of("db") == 3);
}

static void slots(void)
{
	uint64_t slot = 0, held = 0, permit = 0;
	uint32_t counters[1];
	size_t n = 0;
	GIVES(MOPSLOCK_OK, mopslock_limiter_slot(other, "s", &slot));
	GIVES(MOPSLOCK_OK, mopslock_limiter_slot_try(slot, 2, 2, 0, &held));
	CHECK(held == 1);
	GIVES(MOPSLOCK_OK, mopslock_limiter_slot_try(slot, 2, 2, 3, NULL));
	GIVES(MOPSLOCK_EFULL, mopslock_limiter_slot_try(slot, 2, 2, 1, &held));
	CHECK(held == 4);
	GIVES(MOPSLOCK_ETOO_HEAVY, mopslock_limiter_slot_try(slot, 2, 2, 5, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_slot_try(slot, 2, 0, 1, NULL));
	GIVES(MOPSLOCK_OK, mopslock_limiter_acquire(other, "s", 5, 1, 1, MOPSLOCK_TRY, 0, &permit, NULL));
	GIVES(MOPSLOCK_ESHORT, mopslock_limiter_counters(limiter, "s", NULL, 0, &n));
	CHECK(n == 2 || n == 1);
	GIVES(MOPSLOCK_OK, mopslock_limiter_slot_release(slot, 4));
	GIVES(MOPSLOCK_EOUT_OF_BUCKETS, mopslock_limiter_slot_release(slot, 2));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_OUT_OF_BUCKETS && held_of("s") == 1);
	GIVES(MOPSLOCK_OK, mopslock_limiter_release(permit));
	GIVES(MOPSLOCK_EOUT_OF_BUCKETS, mopslock_limiter_slot_release(slot, 0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_release(slot));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_slot_try(permit, 1, 1, 1, NULL));
	CHECK(mopslock_limiter_counters(limiter, "never", counters, 1, &n) == MOPSLOCK_OK && n == 0);
}

struct waiter {
	uint64_t holder, cancel, permit, held;
	int code;
};

static void *waits(void *to)
{
	struct waiter *w = to;
	w->code = mopslock_limiter_acquire(w->holder, "one", 1, 1, 1, 0, w->cancel, &w->permit, &w->held);
	return NULL;
}

static pthread_t begin(struct waiter *w)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, waits, w) == 0);
	while (waiting_of("one") == 0)
		sched_yield();
	return thread;
}

static void cancels(void)
{
	uint64_t first = 0, cancel = 0, freed = 0, permit = 0;
	struct waiter w = {.holder = holder};
	CHECK(mopslock_limiter_acquire(other, "one", 1, 1, 1, MOPSLOCK_TRY, 0, &first, NULL) == MOPSLOCK_OK);
	pthread_t thread = begin(&w); /* granted, as soon as there is room */
	CHECK(mopslock_limiter_release(first) == MOPSLOCK_OK && pthread_join(thread, NULL) == 0);
	CHECK(w.code == MOPSLOCK_OK && w.held == 1 && mopslock_limiter_release(w.permit) == MOPSLOCK_OK);

	CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
	CHECK(mopslock_limiter_acquire(other, "one", 1, 1, 1, MOPSLOCK_TRY, 0, &first, NULL) == MOPSLOCK_OK);
	w.cancel = cancel;
	thread = begin(&w);
	CHECK(mopslock_cancel(cancel) == MOPSLOCK_OK && pthread_join(thread, NULL) == 0);
	GIVES(MOPSLOCK_ECANCELLED, w.code);
	CHECK(w.permit == 0 && waiting_of("one") == 0);
	GIVES(MOPSLOCK_ECANCELLED, mopslock_limiter_acquire(holder, "free", 1, 1, 1, MOPSLOCK_TRY, cancel, &permit, NULL));
	CHECK(held_of("free") == 0 && mopslock_cancel_free(cancel) == MOPSLOCK_OK);

	CHECK(mopslock_limiter_holder(limiter, &w.holder) == MOPSLOCK_OK);
	w.cancel = 0;
	CHECK(mopslock_limiter_acquire(w.holder, "more", 9, 1, 5, MOPSLOCK_TRY, 0, &permit, NULL) == MOPSLOCK_OK);
	thread = begin(&w);
	GIVES(MOPSLOCK_OK, mopslock_limiter_holder_free(w.holder, &freed));
	CHECK(pthread_join(thread, NULL) == 0 && freed == 5 && held_of("more") == 0);
	GIVES(MOPSLOCK_EENDED, w.code);
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_release(permit));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_holder_free(w.holder, NULL));
	CHECK(held_of("one") == 1 && mopslock_limiter_release(first) == MOPSLOCK_OK);
}

static int threads(void)
{
	int count = 0;
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks != NULL);
	while (readdir(tasks) != NULL)
		count++;
	closedir(tasks);
	return count - 2; /* . and .. */
}

/* begun: a thousand waits, one thread, and each is granted when the one before lets go. */
static void begun(void)
{
	static uint64_t calls[CROWD];
	mopslock_event e = {.size = sizeof e};
	uint64_t first = 0, last = 0, freed = 0, call = 0;
	CHECK(mopslock_limiter_acquire(other, "crowd", 1, 1, 1, MOPSLOCK_TRY, 0, &first, NULL) == MOPSLOCK_OK);
	int few = threads();
	for (int i = 0; i < CROWD; i++)
		CHECK(mopslock_begin_limiter_acquire(holder, "crowd", 1, 1, 1, 0, 0, &calls[i]) == MOPSLOCK_OK);
	while (waiting_of("crowd") != CROWD)
		sched_yield();
	if (threads() > few + NOISE) {
		fprintf(stderr, "%d threads with none, %d with %d\n", few, threads(), CROWD);
		exit(1);
	}
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_next(limiter, 0, &e));
	last = first;
	for (int i = 0; i < CROWD; i++) {
		CHECK(mopslock_limiter_release(last) == MOPSLOCK_OK && held_of("crowd") == 1);
		CHECK(mopslock_next(limiter, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.code == MOPSLOCK_OK && e.held == 1);
		last = e.member;
	}
	CHECK(mopslock_begin_limiter_acquire(other, "crowd", 1, 1, 1, MOPSLOCK_TRY, 0, &call) == MOPSLOCK_OK);
	CHECK(mopslock_next(limiter, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	CHECK(e.call == call && e.code == MOPSLOCK_EFULL && e.member == 0 && e.held == 1 && e.reason == MOPSLOCK_REASON_FULL);
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_limiter_acquire(other, "crowd", 1, 1, 1, -3, 0, &call));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_limiter_acquire(limiter, "crowd", 1, 1, 1, 0, 0, &call));
	CHECK(mopslock_limiter_holder_free(holder, &freed) == MOPSLOCK_OK && freed == 4); /* three of acquires, and the last */
}

static void ends(void)
{
	mopslock_event e = {.size = sizeof e};
	uint64_t call = 0, permit = 0, held = 0;
	CHECK(mopslock_limiter_acquire(other, "end", 1, 1, 1, MOPSLOCK_TRY, 0, &permit, NULL) == MOPSLOCK_OK);
	CHECK(mopslock_begin_limiter_acquire(other, "end", 1, 1, 1, 0, 0, &call) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EINVAL, mopslock_limiter_new(2, &call));
	GIVES(MOPSLOCK_OK, mopslock_limiter_free(limiter));
	CHECK(mopslock_next(limiter, 0, &e) == MOPSLOCK_OK && e.code == MOPSLOCK_EENDED && e.call == call);
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(limiter, MOPSLOCK_FOREVER, &e));
	GIVES(MOPSLOCK_ECLOSED, mopslock_limiter_free(limiter));
	GIVES(MOPSLOCK_ECLOSED, mopslock_limiter_held(limiter, "end", &held, NULL));
	GIVES(MOPSLOCK_ECLOSED, mopslock_limiter_holder(limiter, &held));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_release(permit));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_holder_free(other, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_limiter_free(INT64_C(1) << 60));
}

int main(void)
{
	alarm(120); /* to hang is to fail */
	CHECK(mopslock_limiter_new(0, &limiter) == MOPSLOCK_OK);
	CHECK(mopslock_limiter_holder(limiter, &holder) == MOPSLOCK_OK);
	CHECK(mopslock_limiter_holder(limiter, &other) == MOPSLOCK_OK);
	acquires();
	slots();
	cancels();
	begun();
	ends();
	return 0;
}
