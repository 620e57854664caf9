/* threads CONFIG ACQUIRE WOKE: eight threads, each with machines of its own and
 * all with shared ones. Every call's outcome is counted, and the sums are exact. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, OWN = 50, SHARED = 64, ROUNDS = 200 };

static struct hex config, acquire, woke;
static uint64_t shared[SHARED];
static pthread_barrier_t start;

struct counts {
	uint64_t steps, acquired, refused, dropped;
};

static void step(uint64_t m, const struct hex *input, struct counts *c)
{
	unsigned char answer[1024];
	size_t n = 0;
	int code = mopslock_step(m, input->at, input->len, answer, sizeof answer, &n);
	CHECK(code == MOPSLOCK_OK || code == MOPSLOCK_ECONTRACT);
	c->steps++;
	if (input == &acquire && code == MOPSLOCK_OK)
		c->acquired++;
	else if (input == &acquire)
		c->refused++;
	CHECK(input == &acquire || code == MOPSLOCK_OK);
}

static uint64_t make(void)
{
	unsigned char answer[1024];
	uint64_t m = 0;
	size_t n = 0;
	CHECK(mopslock_new(config.at, config.len, &m, answer, sizeof answer, &n) == MOPSLOCK_OK && m != 0);
	return m;
}

static void *run(void *to)
{
	struct counts *c = to;
	pthread_barrier_wait(&start);
	for (int i = 0; i < OWN; i++) {
		uint64_t m = make();
		step(m, &acquire, c);
		step(m, &woke, c);
		CHECK(mopslock_drop(m) == MOPSLOCK_OK);
	}
	for (int i = 0; i < SHARED; i++)
		step(shared[i], &acquire, c); /* one thread's is the first, and good */
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < SHARED; i++)
			step(shared[i], &woke, c);
	pthread_barrier_wait(&start);
	for (int i = 0; i < SHARED; i++)
		c->dropped += mopslock_drop(shared[i]) == MOPSLOCK_OK;
	return NULL;
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	config = from_hex(argv[1]), acquire = from_hex(argv[2]), woke = from_hex(argv[3]);
	for (int i = 0; i < SHARED; i++)
		shared[i] = make();
	pthread_t threads[THREADS];
	struct counts counts[THREADS] = {{0, 0, 0, 0}}, sum = {0, 0, 0, 0};
	CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run, &counts[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		sum.steps += counts[i].steps, sum.acquired += counts[i].acquired;
		sum.refused += counts[i].refused, sum.dropped += counts[i].dropped;
	}
	CHECK(sum.steps == THREADS * (2 * OWN + SHARED + ROUNDS * SHARED));
	CHECK(sum.acquired == THREADS * OWN + SHARED);
	CHECK(sum.refused == (THREADS - 1) * SHARED);
	CHECK(sum.dropped == SHARED);
	return 0;
}
