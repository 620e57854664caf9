/* fork CONFIG: in a forked child every function says so, at once, and the parent
 * goes on. With a URL as second argument (libmopslock) the host's functions too;
 * -DHOST compiles them. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static unsigned char answer[1024];

#ifdef HOST
static int visited(void *arg, const char *name, const mopslock_status *status, int code)
{
	(void)arg, (void)name, (void)status, (void)code;
	exit(1);
}
#endif

static void child(struct hex config, uint64_t m)
{
	uint64_t other = 0;
	size_t n = 0;
	char text[1024];
	alarm(5); /* to hang is to fail */
	GIVES(MOPSLOCK_EFORKED, mopslock_new(config.at, config.len, &other, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_step(m, config.at, config.len, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_again(m, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_drop(m));
	CHECK(mopslock_last_error(text, sizeof text) > 0 && strstr(text, "forked") != NULL);
	CHECK(mopslock_abi_version() == MOPSLOCK_ABI_VERSION);
	CHECK(mopslock_last_reason() == 0 && mopslock_last_class() == 0);
#ifdef HOST
	int64_t left;
	mopslock_status status = {.size = sizeof status};
	mopslock_event event = {.size = sizeof event};
	GIVES(MOPSLOCK_EFORKED, mopslock_open("mem://", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_close(5, 0));
	GIVES(MOPSLOCK_EFORKED, mopslock_cancel_new(&other));
	GIVES(MOPSLOCK_EFORKED, mopslock_cancel(7));
	GIVES(MOPSLOCK_EFORKED, mopslock_cancel_free(7));
	GIVES(MOPSLOCK_EFORKED, mopslock_acquire(5, "n", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_release(6, 0));
	GIVES(MOPSLOCK_EFORKED, mopslock_lease_text(6, text, sizeof text, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_accompany(5, "{}", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_leave(6, 0));
	GIVES(MOPSLOCK_EFORKED, mopslock_renew(5, "{}", NULL, &left));
	GIVES(MOPSLOCK_EFORKED, mopslock_check(6));
	GIVES(MOPSLOCK_EFORKED, mopslock_wait(6, 0, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_left(6, &left));
	GIVES(MOPSLOCK_EFORKED, mopslock_left(6, NULL)); /* whatever the arguments */
	GIVES(MOPSLOCK_EFORKED, mopslock_new(NULL, 1, NULL, NULL, 0, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_step(1, NULL, 1, NULL, 0, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_open(NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_holder(6, text, sizeof text, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_inspect(5, "n", 0, &status));
	GIVES(MOPSLOCK_EFORKED, mopslock_list(5, NULL, 0, visited, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_list(5, NULL, -2, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_release_text(5, "{}", NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_release_text(5, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_acquire(5, "n", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_acquire(5, NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_accompany(5, "{}", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_accompany(5, NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_renew(5, "{}", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_renew(5, NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_release(6, 0, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_release(6, -2, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_leave(6, 0, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_leave(6, -2, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_next(5, MOPSLOCK_FOREVER, &event));
	GIVES(MOPSLOCK_EFORKED, mopslock_next(5, -2, NULL));
	int64_t length;
	mopslock_result result = {.size = sizeof result};
	GIVES(MOPSLOCK_EFORKED, mopslock_invoke(9, "n", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_invoke(9, NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_remote(9, "n", "{}", NULL, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_remote(9, NULL, NULL, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_work(12, 0, &status, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_work(12, -2, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_work(12, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_work(12, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_ended(10, 1, "x", 1, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_ended(10, 2, NULL, 1, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_invocation_result(12, &result));
	GIVES(MOPSLOCK_EFORKED, mopslock_invocation_result(12, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_result_open(12, 0, &other, &length));
	GIVES(MOPSLOCK_EFORKED, mopslock_result_open(12, -2, NULL, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_result_read(13, 0, text, sizeof text, &n));
	GIVES(MOPSLOCK_EFORKED, mopslock_result_read(13, -2, NULL, 1, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_result_close(13));
	GIVES(MOPSLOCK_EFORKED, mopslock_give_up(12));
	GIVES(MOPSLOCK_EFORKED, mopslock_invocation_close(12, 0));
	GIVES(MOPSLOCK_EFORKED, mopslock_invocation_close(12, -2));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_invocation_close(12, 0, &other));
	GIVES(MOPSLOCK_EFORKED, mopslock_begin_invocation_close(12, -2, NULL));
	CHECK(other == 0 && event.kind == MOPSLOCK_EVENT_NONE);
#endif
	fflush(stdout);
	exit(0); /* with what is done at exit */
}

static void fork_one(struct hex config, uint64_t m)
{
	fflush(stdout);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		child(config, m);
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	struct hex config = from_hex(argv[1]);
	uint64_t m = 0;
	size_t n = 0;
	fork_one(config, 1); /* before the first call, after the load */
	CHECK(mopslock_new(config.at, config.len, &m, answer, sizeof answer, &n) == MOPSLOCK_OK);
	fork_one(config, m);
	CHECK(mopslock_again(m, answer, sizeof answer, &n) == MOPSLOCK_OK);
	CHECK(mopslock_drop(m) == MOPSLOCK_OK);
	return 0;
}
