/* environment unset|set: opens after changes of the process's own environment. It
 * is started with AWS_PROFILE, and with AZURE_STORAGE_ACCOUNT and _KEY if these are
 * to be unset, and else without. Nothing is asked of the clouds. */
#include <pthread.h>

#include "check.h"

extern char **environ;

static int opens(const char *url)
{
	uint64_t h = 0;
	int code = mopslock_open(url, NULL, &h);
	CHECK((h != 0) == (code == MOPSLOCK_OK));
	CHECK(code != MOPSLOCK_OK || mopslock_close(h, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	return code;
}

static int says(const char *what)
{
	char text[1024];
	mopslock_last_error(text, sizeof text);
	return strstr(text, what) != NULL;
}

/* What Azure's driver finds it finds once in a process. */
static void azure(int set)
{
	if (set) {
		CHECK(setenv("AZURE_STORAGE_ACCOUNT", "account", 1) == 0 && setenv("AZURE_STORAGE_KEY", "a2V5", 1) == 0);
		GIVES(MOPSLOCK_OK, opens("azblob://container"));
		return;
	}
	CHECK(unsetenv("AZURE_STORAGE_ACCOUNT") == 0 && unsetenv("AZURE_STORAGE_KEY") == 0);
	GIVES(MOPSLOCK_ESTORE, opens("azblob://container"));
	CHECK(says("AccountName is required") && mopslock_last_class() == MOPSLOCK_CLASS_OTHER);
}

/* A profile that no file has is an error, which names it. */
static void aws(void)
{
	const char *url = "s3://bucket?region=us-east-1";
	GIVES(MOPSLOCK_ESTORE, opens(url));
	CHECK(says("start"));
	for (int i = 0; i < 2; i++) {
		CHECK(setenv("AWS_PROFILE", "changed", 1) == 0);
		GIVES(MOPSLOCK_ESTORE, opens(url));
		CHECK(says("changed"));
		CHECK(unsetenv("AWS_PROFILE") == 0);
		GIVES(MOPSLOCK_OK, opens(url));
	}
	char put[] = "AWS_PROFILE=put";
	CHECK(putenv(put) == 0);
	GIVES(MOPSLOCK_ESTORE, opens(url));
	CHECK(says("put") && strcmp(getenv("AWS_PROFILE"), "put") == 0);
	CHECK(unsetenv("AWS_PROFILE") == 0);
}

static void *many(void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK(opens("mem://") == MOPSLOCK_OK);
	return arg;
}

/* Opens beside each other, and what they leave of the program's environment. */
static void together(void)
{
	enum { THREADS = 8, MOST = 1024 };
	pthread_t thread[THREADS];
	char *before[MOST];
	int n = 0;
	CHECK(setenv("NEW", "a=b", 1) == 0 && setenv("EMPTY", "", 1) == 0);
	for (; environ[n] != NULL; n++)
		CHECK(n < MOST && (before[n] = strdup(environ[n])) != NULL);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, many, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	for (int i = 0; i < n; i++)
		CHECK(environ[i] != NULL && strcmp(environ[i], before[i]) == 0);
	CHECK(environ[n] == NULL);
	while (n > 0)
		free(before[--n]);
}

/* Environments that setenv() does not make. */
static void odd(void)
{
	static char *own[] = {"nameless", "=", "=x", "AWS_PROFILE=first", "AWS_PROFILE=second", NULL};
	CHECK(clearenv() == 0);
	GIVES(MOPSLOCK_OK, opens("mem://"));
	CHECK(environ == NULL || *environ == NULL);
	environ = own;
	GIVES(MOPSLOCK_ESTORE, opens("s3://bucket?region=us-east-1"));
	CHECK(says("first"));
	environ = own + 5;
	GIVES(MOPSLOCK_OK, opens("mem://"));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	azure(strcmp(argv[1], "set") == 0);
	aws();
	together();
	odd();
	return 0;
}
