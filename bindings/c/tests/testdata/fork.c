/* fork CONFIG: in a forked child every function says so, at once, whatever its
 * arguments, and the parent goes on. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static unsigned char answer[1024];

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
	GIVES(MOPSLOCK_EFORKED, mopslock_new(NULL, 1, NULL, NULL, 0, NULL));
	GIVES(MOPSLOCK_EFORKED, mopslock_step(1, NULL, 1, NULL, 0, NULL));
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
