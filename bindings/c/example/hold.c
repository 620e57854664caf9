/* hold: only one of us runs this. Usage: hold file:///shared/directory NAME */
#include <mopslock.h>
#include <stdio.h>

static int failed(const char *what)
{
	char why[1024];
	mopslock_last_error(why, sizeof why);
	fprintf(stderr, "%s: %s\n", what, why);
	return 1;
}

/* work hands the token to what it changes, and that refuses a smaller one. */
static int work(uint64_t token, int step)
{
	if (step == 1)
		printf("token %llu\n", (unsigned long long)token);
	return printf("step %d\n", step) > 0 && step < 3;
}

int main(int argc, char **argv)
{
	uint64_t host = 0, lease = 0, token = 0;
	mopslock_status who = {.size = sizeof who};
	mopslock_options options = {.size = sizeof options, .wait_ns = MOPSLOCK_TRY, .seen = &who};
	if (argc != 3)
		return fprintf(stderr, "usage: hold URL NAME\n"), 2;
	if (mopslock_open(argv[1], NULL, &host) != MOPSLOCK_OK)
		return failed("open");

	int code = mopslock_acquire(host, argv[2], &options, &lease);
	if (code == MOPSLOCK_EHELD)
		fprintf(stderr, "not now: the other has %.1f s left\n", (double)who.left_ns / 1e9);
	else if (code != MOPSLOCK_OK)
		failed("acquire");

	if (code == MOPSLOCK_OK)
		code = mopslock_fencing_token(lease, &token);
	for (int step = 1; code == MOPSLOCK_OK && work(token, step); step++)
		code = mopslock_check(lease); /* before anything that must not be done twice */

	if (lease != 0 && (code = mopslock_release(lease, MOPSLOCK_FOREVER)) != MOPSLOCK_OK)
		failed("release"); /* the lease was lost, for example: another process may have begun */
	if (mopslock_close(host, 10 * INT64_C(1000000000)) != MOPSLOCK_OK)
		failed("close"); /* what is still held expires by itself */
	return code == MOPSLOCK_OK ? 0 : 1;
}
