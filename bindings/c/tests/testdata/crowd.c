/* crowd: a thousand leases that are held, a thousand that are waited for, and a thousand
 * invocations that wait for one result cost memory, and no thread. */
#include <dirent.h>
#include <unistd.h>

#include "check.h"

enum { FEW = 50, CROWD = 1000, NOISE = 16 };

static uint64_t host;
static mopslock_event e = {.size = sizeof e};

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

/* begin begins the acquires of names from..to and takes an event of each. */
static void begin(int from, int to, int kind)
{
	char name[32];
	uint64_t call = 0;
	for (int i = from; i < to; i++) {
		snprintf(name, sizeof name, "%d", i);
		CHECK(mopslock_begin_acquire(host, name, NULL, &call) == MOPSLOCK_OK);
	}
	for (int i = from; i < to; i++) {
		CHECK(mopslock_next(host, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		CHECK(e.kind == kind && e.code == MOPSLOCK_OK);
	}
}

/* invoke begins so many invocations of one name, and takes an event of each. */
static void invoke(uint64_t *all, int from, int to)
{
	uint64_t call = 0;
	for (int i = from; i < to; i++) {
		CHECK(mopslock_invoke(host, "work", NULL, &all[i]) == MOPSLOCK_OK);
		CHECK(mopslock_begin_work(all[i], &call) == MOPSLOCK_OK);
	}
	for (int i = from; i < to; i++) {
		CHECK(mopslock_next(host, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		CHECK(e.kind == MOPSLOCK_EVENT_WAITING && e.code == MOPSLOCK_OK);
	}
}

/* invocations: one is at work, and all others get its result. */
static void invocations(void)
{
	static uint64_t all[CROWD];
	uint64_t first = 0, work = 0;
	CHECK(mopslock_open("mem://", NULL, &host) == MOPSLOCK_OK);
	CHECK(mopslock_invoke(host, "work", NULL, &first) == MOPSLOCK_OK);
	CHECK(mopslock_work(first, MOPSLOCK_FOREVER, NULL, &work) == MOPSLOCK_OK && work != 0);
	invoke(all, 0, FEW);
	int few = threads();
	invoke(all, FEW, CROWD);
	int many = threads();
	if (many > few + NOISE) {
		fprintf(stderr, "%d threads with %d invocations, %d with %d\n", few, FEW, many, CROWD);
		exit(1);
	}
	CHECK(mopslock_ended(work, 1, "x", 1, NULL) == MOPSLOCK_OK);
	for (int i = 0; i < CROWD; i++) {
		CHECK(mopslock_next(host, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.code == MOPSLOCK_OK && e.member == 0);
	}
	for (int i = 0; i < CROWD; i++)
		CHECK(mopslock_invocation_close(all[i], MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_close(host, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

int main(void)
{
	int ended = 0, cut = 0;
	alarm(120); /* an event that never comes is a failure */
	CHECK(mopslock_open("mem://", NULL, &host) == MOPSLOCK_OK);
	begin(0, FEW, MOPSLOCK_EVENT_CALL);
	begin(0, FEW, MOPSLOCK_EVENT_WAITING);
	int few = threads();
	begin(FEW, CROWD, MOPSLOCK_EVENT_CALL);
	begin(FEW, CROWD, MOPSLOCK_EVENT_WAITING);
	int all = threads();
	if (all > few + NOISE) {
		fprintf(stderr, "%d threads with %d leases, %d with %d\n", few, FEW, all, CROWD);
		return 1;
	}
	CHECK(mopslock_close(host, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	while (ended + cut < 2 * CROWD) {
		CHECK(mopslock_next(host, 0, &e) == MOPSLOCK_OK);
		ended += e.kind == MOPSLOCK_EVENT_ENDED && e.code == MOPSLOCK_EENDED;
		cut += e.kind == MOPSLOCK_EVENT_CALL && e.code == MOPSLOCK_ECLOSED;
	}
	CHECK(ended == CROWD && cut == CROWD);
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(host, 0, &e));
	invocations();
	return 0;
}
