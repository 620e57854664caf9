/* room: core.c with a Go side of its own, whose answer is longer than any that the
 * core gives. The caller gets all that it has room for; no limit of ours cuts it. */
#include "check.h"

int goCoreNew(void *config, size_t config_len, uint64_t *handle, void *answer, size_t cap, size_t *len);
int goCoreStep(uint64_t handle, void *input, size_t input_len, void *answer, size_t cap, size_t *len);
int goCoreAgain(uint64_t handle, void *answer, size_t cap, size_t *len);
int goCoreDrop(uint64_t handle);

#include "../../core.c"

static unsigned char longest[4 * MOPSLOCK_MAX_MESSAGE];

int goCoreAgain(uint64_t handle, void *answer, size_t cap, size_t *len)
{
	/* What unsafe.Slice of core.go takes. */
	CHECK(cap <= PTRDIFF_MAX && (uintptr_t)answer + cap >= (uintptr_t)answer);
	*len = sizeof longest;
	if (cap < sizeof longest)
		return MOPSLOCK_ESHORT;
	memset(answer, (int)handle, sizeof longest);
	return MOPSLOCK_OK;
}

int goCoreNew(void *config, size_t config_len, uint64_t *handle, void *answer, size_t cap, size_t *len)
{
	(void)config, (void)config_len;
	*handle = 1;
	return goCoreAgain(1, answer, cap, len);
}

int goCoreStep(uint64_t handle, void *input, size_t input_len, void *answer, size_t cap, size_t *len)
{
	(void)input, (void)input_len;
	return goCoreAgain(handle, answer, cap, len);
}

int goCoreDrop(uint64_t handle) { return handle == 1 ? MOPSLOCK_OK : MOPSLOCK_EHANDLE; }

int main(void)
{
	uint64_t m = 0;
	size_t n = 0;
	const size_t rooms[] = {sizeof longest, sizeof longest + 1, PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX};
	GIVES(MOPSLOCK_ESHORT, mopslock_new("", 0, &m, longest, MOPSLOCK_MAX_MESSAGE, &n));
	CHECK(m == 1 && n == sizeof longest);
	GIVES(MOPSLOCK_ESHORT, mopslock_again(m, longest, n - 1, &n));
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
		GIVES(MOPSLOCK_OK, mopslock_new("", 0, &m, longest, rooms[i], &n));
		GIVES(MOPSLOCK_OK, mopslock_step(m, "", 0, longest, rooms[i], &n));
		GIVES(MOPSLOCK_OK, mopslock_again(m, longest, rooms[i], &n));
		CHECK(n == sizeof longest && longest[n - 1] == 1);
	}
	return 0;
}
