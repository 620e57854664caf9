/* hammer: eight threads on one limiter, each with views of its own that change all the
 * time. No caller that is let in ever sees more than its own limit, and in the end nothing
 * is held. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 4000, NAMES = 2 };

static const char *names[NAMES] = {"a", "b"};
static uint64_t limiter;
static pthread_barrier_t start;

struct counts {
	unsigned seed;
	uint64_t granted, full;
};

/* one round: a permit by some view, by a handle, as a coin, or with a short wait. */
static void once(uint64_t holder, const uint64_t *slots, unsigned chance, struct counts *c)
{
	uint32_t capacity = 1 + chance % 3, width = 1 + chance / 3 % 2, weight = 1 + chance / 6 % 2;
	int name = chance / 12 % NAMES, way = chance / 24 % 3, code;
	uint64_t limit = (uint64_t)capacity * width, permit = 0, held = 0;
	if (weight > limit)
		return;
	if (way == 0)
		code = mopslock_limiter_slot_try(slots[name], capacity, width, weight, &held);
	else
		code = mopslock_limiter_acquire(holder, names[name], capacity, width, weight,
		                                way == 1 ? MOPSLOCK_TRY : 20000, 0, &permit, &held);
	CHECK(code == MOPSLOCK_OK || code == MOPSLOCK_EFULL);
	if (code == MOPSLOCK_EFULL) {
		c->full++;
		return;
	}
	CHECK(held >= weight && held <= limit);
	c->granted++;
	if (way == 0)
		CHECK(mopslock_limiter_slot_release(slots[name], weight) == MOPSLOCK_OK);
	else if (chance / 72 % 8 != 0) /* else its holder gives it back, in the end */
		CHECK(mopslock_limiter_release(permit) == MOPSLOCK_OK);
}

static void *run(void *to)
{
	struct counts *c = to;
	pthread_barrier_wait(&start);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t holder = 0, slots[NAMES];
		CHECK(mopslock_limiter_holder(limiter, &holder) == MOPSLOCK_OK);
		for (int n = 0; n < NAMES; n++)
			CHECK(mopslock_limiter_slot(holder, names[n], &slots[n]) == MOPSLOCK_OK);
		for (int n = 0; n < 3; n++)
			once(holder, slots, (unsigned)rand_r(&c->seed), c);
		CHECK(mopslock_limiter_holder_free(holder, NULL) == MOPSLOCK_OK);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct counts counts[THREADS] = {{0, 0, 0}}, sum = {0, 0, 0};
	uint64_t held = 0, waiting = 0;
	alarm(120); /* to hang is to fail */
	CHECK(mopslock_limiter_new(1, &limiter) == MOPSLOCK_OK);
	CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++) {
		counts[i].seed = 7u * (unsigned)i + 1;
		CHECK(pthread_create(&threads[i], NULL, run, &counts[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		sum.granted += counts[i].granted, sum.full += counts[i].full;
	}
	CHECK(sum.granted > 0 && sum.full > 0);
	for (int n = 0; n < NAMES; n++) {
		CHECK(mopslock_limiter_held(limiter, names[n], &held, &waiting) == MOPSLOCK_OK);
		CHECK(held == 0 && waiting == 0);
	}
	CHECK(mopslock_limiter_free(limiter) == MOPSLOCK_OK);
	return 0;
}
