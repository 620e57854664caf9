/* core CONFIG ACQUIRE BADCONFIG: the codes of the core's functions, and what is
 * where after each. The arguments are messages in hex. */
#include "check.h"

static unsigned char answer[MOPSLOCK_MAX_MESSAGE], again[MOPSLOCK_MAX_MESSAGE], big[MOPSLOCK_MAX_MESSAGE + 2];

static size_t last(char *text, size_t cap) { return mopslock_last_error(text, cap); }

static void arguments(struct hex config, struct hex acquire, uint64_t m)
{
	uint64_t other = 7;
	size_t n = 7;
	GIVES(MOPSLOCK_EINVAL, mopslock_new(NULL, 1, &other, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_new(config.at, config.len, NULL, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_new(config.at, config.len, &other, NULL, 0, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_new(config.at, config.len, &other, answer, sizeof answer, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_step(m, NULL, 1, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_step(m, acquire.at, acquire.len, NULL, 9, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_step(m, acquire.at, acquire.len, answer, 9, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_again(m, NULL, 9, &n));
	CHECK(other == 7 && n == 7);
	GIVES(MOPSLOCK_ECONTRACT, mopslock_step(m, NULL, 0, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_ECONTRACT, mopslock_step(m, big, sizeof big, answer, (size_t)-1, &n));
	GIVES(MOPSLOCK_ECONTRACT, mopslock_step(m, big, (size_t)-1, answer, sizeof answer, &n));
	CHECK(n > 0 && memcmp(answer + 1, "\xa5" "error\xa7message", 14) == 0);
}

static void short_buffers(struct hex config, struct hex acquire, struct hex refused)
{
	uint64_t m = 0, none = 7;
	size_t need = 0, n = 0;
	memset(answer, 0xee, sizeof answer);
	GIVES(MOPSLOCK_ESHORT, mopslock_new(config.at, config.len, &m, answer, 3, &need));
	CHECK(m != 0 && need > 3 && answer[3] == 0xee);
	GIVES(MOPSLOCK_OK, mopslock_again(m, answer, need, &n));
	CHECK(n == need);

	memset(answer, 0xee, sizeof answer);
	GIVES(MOPSLOCK_ESHORT, mopslock_step(m, acquire.at, acquire.len, answer, 8, &need));
	CHECK(need > 8 && answer[8] == 0xee);
	GIVES(MOPSLOCK_ESHORT, mopslock_again(m, answer, need - 1, &n));
	CHECK(n == need && answer[need - 1] == 0xee);
	GIVES(MOPSLOCK_OK, mopslock_again(m, again, sizeof again, &n));
	CHECK(n == need);
	GIVES(MOPSLOCK_OK, mopslock_again(m, answer, need, &n));
	CHECK(n == need && memcmp(answer, again, n) == 0);
	GIVES(MOPSLOCK_ECONTRACT, mopslock_step(m, acquire.at, acquire.len, answer, sizeof answer, &n)); /* not twice */
	GIVES(MOPSLOCK_ECONTRACT, mopslock_again(m, answer, sizeof answer, &n));

	GIVES(MOPSLOCK_ESHORT, mopslock_new(refused.at, refused.len, &none, answer, 1, &need));
	CHECK(none == 0);
	none = 7;
	GIVES(MOPSLOCK_ECONTRACT, mopslock_new(refused.at, refused.len, &none, answer, need, &n));
	CHECK(none == 0 && n == need && memcmp(answer + 1, "\xa5" "error", 6) == 0);
	GIVES(MOPSLOCK_OK, mopslock_drop(m));
}

static void handles(struct hex acquire, uint64_t m)
{
	size_t n = 0;
	char text[64];
	GIVES(MOPSLOCK_OK, mopslock_drop(m));
	GIVES(MOPSLOCK_EHANDLE, mopslock_drop(m));
	GIVES(MOPSLOCK_EHANDLE, mopslock_drop(0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_again(m, answer, sizeof answer, &n));
	GIVES(MOPSLOCK_EHANDLE, mopslock_step(m, acquire.at, acquire.len, answer, sizeof answer, &n));
	answer[n] = 0;
	snprintf(text, sizeof text, "no machine has handle %llu;", (unsigned long long)m);
	CHECK(strstr((char *)answer, text) != NULL); /* the number that the caller knows */
	GIVES(MOPSLOCK_ESHORT, mopslock_step(m, acquire.at, acquire.len, answer, 2, &n));
}

static void last_errors(void)
{
	char text[1024];
	mopslock_drop(0);
	size_t len = last(text, sizeof text);
	CHECK(len > 20 && len == strlen(text) && len == last(NULL, 0));
	CHECK(mopslock_last_reason() == 0 && mopslock_last_class() == 0);
	memset(text, 'x', sizeof text);
	CHECK(last(text, 5) == len && strcmp(text, "mops") == 0 && text[5] == 'x');
	CHECK(last(text, 1) == len && text[0] == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	CHECK(mopslock_last_error(NULL, 0) == 0 && mopslock_last_reason() == 0 && mopslock_last_class() == 0);
	CHECK(mopslock_abi_version() == MOPSLOCK_ABI_VERSION);
	struct hex config = from_hex(argv[1]), acquire = from_hex(argv[2]), refused = from_hex(argv[3]);
	uint64_t m = 0;
	size_t n = 0;
	GIVES(MOPSLOCK_OK, mopslock_new(config.at, config.len, &m, answer, sizeof answer, &n));
	CHECK(m != 0 && n > 0 && mopslock_last_error(NULL, 0) == 0);
	arguments(config, acquire, m);
	short_buffers(config, acquire, refused);
	handles(acquire, m);
	last_errors();
	return 0;
}
