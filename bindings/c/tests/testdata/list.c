/* list DIR: mopslock_list on the store URL of an empty directory, with records of
 * every sort in it. */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static const char *directory;
static uint64_t host;

static char *path(const char *name, const char *file)
{
	static char at[4096];
	snprintf(at, sizeof at, "%s/%s%s", directory, name, file);
	return at;
}

struct seen {
	int count, stop; /* after so many; 0: never */
	char names[256];
	int states[8], codes[8];
};

static int look(void *arg, const char *name, const mopslock_status *status, int code)
{
	struct seen *s = arg;
	mopslock_status again = {.size = sizeof again};
	CHECK(s->count < 8 && status->size == sizeof *status);
	strcat(strcat(s->names, name), " ");
	s->states[s->count] = status->state, s->codes[s->count] = code;
	if (code != MOPSLOCK_OK) {
		char why[1024];
		mopslock_last_error(why, sizeof why);
		CHECK(status->holder[0] == 0 && strstr(why, name) != NULL);
	} else { /* any function may be called */
		CHECK(mopslock_inspect(host, name, MOPSLOCK_FOREVER, &again) == MOPSLOCK_OK);
		CHECK(again.state == status->state && strcmp(again.holder, status->holder) == 0);
		CHECK((again.state == MOPSLOCK_STATE_CORRUPT) == (again.holder[0] == 0));
	}
	return ++s->count == s->stop;
}

/* slow takes much longer than the list may. */
static int slow(void *lease, const char *name, const mopslock_status *status, int code)
{
	(void)name, (void)status, (void)code;
	CHECK(mopslock_wait(*(uint64_t *)lease, 500 * INT64_C(1000000), NULL) == MOPSLOCK_ETIMEOUT);
	return 0;
}

static int closes(void *arg, const char *name, const mopslock_status *status, int code)
{
	(void)name, (void)status, (void)code;
	CHECK(arg == (void *)5); /* not an address, and nobody looks */
	int closed = mopslock_close(host, MOPSLOCK_FOREVER);
	CHECK(closed == MOPSLOCK_OK || closed == MOPSLOCK_ECLOSED);
	return 0;
}

static int never(void *arg, const char *name, const mopslock_status *status, int code)
{
	(void)arg, (void)status, (void)code;
	fprintf(stderr, "%s was visited\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	uint64_t lease = 0;
	struct seen s = {.count = 0};
	CHECK(argc == 2);
	alarm(120); /* to hang is to fail */
	directory = argv[1] + strlen("file://");
	CHECK(mopslock_open(argv[1], NULL, &host) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_list(host, NULL, MOPSLOCK_FOREVER, never, NULL));
	const char *names[] = {"b", "a/y", "a/x"};
	for (int i = 0; i < 3; i++)
		CHECK(mopslock_acquire(host, names[i], NULL, &lease) == MOPSLOCK_OK);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mkdir(path("a/corrupt", ""), 0700) == 0 && mkdir(path("a/io", ""), 0700) == 0);
	FILE *f = fopen(path("a/corrupt", "/lock.json"), "w");
	CHECK(f != NULL && fputs("{", f) >= 0 && fclose(f) == 0);
	/* A file that is there, and whose first page cannot be read. */
	CHECK(symlink("/proc/self/mem", path("a/io", "/lock.json")) == 0);

	GIVES(MOPSLOCK_OK, mopslock_list(host, NULL, MOPSLOCK_FOREVER, look, &s));
	CHECK(s.count == 5 && strcmp(s.names, "a/corrupt a/io a/x a/y b ") == 0);
	CHECK(s.states[0] == MOPSLOCK_STATE_CORRUPT && s.codes[0] == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ESTORE, s.codes[1]);
	CHECK(s.states[1] == MOPSLOCK_STATE_NONE);
	CHECK(s.states[2] == MOPSLOCK_STATE_RELEASED && s.states[3] == MOPSLOCK_STATE_HELD);
	CHECK(s.codes[2] == MOPSLOCK_OK && s.codes[3] == MOPSLOCK_OK && s.codes[4] == MOPSLOCK_OK);
	s = (struct seen){.stop = 2};
	GIVES(MOPSLOCK_OK, mopslock_list(host, "", MOPSLOCK_FOREVER, look, &s));
	CHECK(s.count == 2 && strcmp(s.names, "a/corrupt a/io ") == 0);
	s = (struct seen){.stop = 0};
	GIVES(MOPSLOCK_OK, mopslock_list(host, "a/x", MOPSLOCK_FOREVER, look, &s));
	CHECK(strcmp(s.names, "a/x ") == 0);

	GIVES(MOPSLOCK_EINVAL, mopslock_list(host, NULL, 0, NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_list(host, NULL, -2, never, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_list(host, "a//", MOPSLOCK_FOREVER, never, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_list(lease, NULL, 0, never, NULL));
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_list(host, NULL, 0, never, NULL));
	CHECK(mopslock_acquire(host, "slow", NULL, &lease) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_list(host, "slow", 20 * INT64_C(1000000), slow, &lease));
	mopslock_list(host, "b", MOPSLOCK_FOREVER, closes, (void *)5);
	GIVES(MOPSLOCK_ECLOSED, mopslock_list(host, NULL, MOPSLOCK_FOREVER, never, NULL));
	return 0;
}
