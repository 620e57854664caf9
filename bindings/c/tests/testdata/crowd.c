/* crowd: a thousand leases that are held and a thousand that are waited for cost
 * memory, and no thread. */
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
	return 0;
}
