//go:build cgo

/* The functions of mopslock.h: they check arguments, guard against forks, and keep the thread's
 * latest error. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mopslock.h"
#include "_cgo_export.h"

/* A thread's latest error. */
struct fault {
	char text[1024];
};

static int forked; /* set in a child while it has one thread, before fork returns */

__attribute__((unused)) static void in_child(void) { forked = 1; } /* unused on Windows, which has no fork */

/* A thread's latest error is stored under a key, not in a thread-local variable. Go's
 * objects ask for static TLS, and a process that loads libraries at run time has
 * only 1,664 bytes of it (glibc) for all of them. One such struct would fit, but then
 * a second library, or the copy that a forked child loads, could not be loaded. */
static pthread_key_t latest;

__attribute__((constructor)) static void prepare(void)
{
	if (pthread_atfork(NULL, NULL, in_child) != 0 || pthread_key_create(&latest, free) != 0)
		abort(); /* no memory or no key at load; going on could hang a child forever */
}

/* spare is for a thread that gets no memory. */
static struct fault spare;

static struct fault *this_fault(void)
{
	struct fault *mine = pthread_getspecific(latest);
	if (mine != NULL)
		return mine;
	mine = calloc(1, sizeof *mine);
	if (mine == NULL)
		return &spare;
	if (pthread_setspecific(latest, mine) != 0) {
		free(mine);
		return &spare;
	}
	return mine;
}

static int fail(int code, const char *text)
{
	struct fault *mine = this_fault();
	strncpy(mine->text, text, sizeof mine->text - 1);
	return code;
}

static int fail_forked(void)
{
	return fail(MOPSLOCK_EFORKED, "mopslock: this process was forked after the library was loaded, "
	                              "and the library does not work in such a child; load it in the child, or exec");
}

uint32_t mopslock_abi_version(void) { return MOPSLOCK_ABI_VERSION; }

size_t mopslock_last_error(char *text, size_t cap)
{
	const char *latest_text = this_fault()->text;
	size_t len = strlen(latest_text);
	if (text == NULL || cap == 0)
		return len;
	size_t end = len < cap ? len : cap - 1;
	while (end > 0 && end < len && ((unsigned char)latest_text[end] & 0xc0) == 0x80)
		end--; /* a character's middle */
	memcpy(text, latest_text, end);
	text[end] = 0;
	return len;
}

int mopslock_last_reason(void) { return 0; }

int mopslock_last_class(void) { return 0; }

/* said stores what the core's code means. The answer itself says more. */
static int said(int code)
{
	switch (code) {
	case MOPSLOCK_OK:
		return code;
	case MOPSLOCK_ESHORT:
		return fail(code, "mopslock: the buffer is too short for the answer");
	case MOPSLOCK_EHANDLE:
		return fail(code, "mopslock: no machine has this handle; it was never made, or dropped");
	}
	return fail(code, "mopslock: the core refused the message; its answer says why");
}

static int bad(const void *in, size_t in_len, const void *answer, const size_t *answer_len)
{
	return (in == NULL && in_len > 0) || answer == NULL || answer_len == NULL;
}

/* clip cuts a message that is too long: one byte too many is enough for the core to
 * refuse it. */
static size_t clip(size_t len) { return len <= MOPSLOCK_MAX_MESSAGE ? len : MOPSLOCK_MAX_MESSAGE + 1; }

/* room is the size of the caller's buffer, as far as Go takes it. A slice that is
 * longer than half of the address space, or reaches beyond its end, as one of
 * (size_t)-1 bytes does, is a panic in Go. */
static size_t room(const void *answer, size_t cap)
{
	size_t most = UINTPTR_MAX - (uintptr_t)answer;
	if (most > PTRDIFF_MAX)
		most = PTRDIFF_MAX;
	return cap < most ? cap : most;
}

static int fail_bad(void)
{
	return fail(MOPSLOCK_EINVAL, "mopslock: an argument is NULL that must not be");
}

int mopslock_new(const void *config, size_t config_len, uint64_t *handle,
                 void *answer, size_t answer_cap, size_t *answer_len)
{
	if (forked)
		return fail_forked();
	if (handle == NULL || bad(config, config_len, answer, answer_len))
		return fail_bad();
	return said(goCoreNew((void *)config, clip(config_len), handle, answer, room(answer, answer_cap), answer_len));
}

int mopslock_step(uint64_t handle, const void *input, size_t input_len,
                  void *answer, size_t answer_cap, size_t *answer_len)
{
	if (forked)
		return fail_forked();
	if (bad(input, input_len, answer, answer_len))
		return fail_bad();
	return said(goCoreStep(handle, (void *)input, clip(input_len), answer, room(answer, answer_cap), answer_len));
}

int mopslock_again(uint64_t handle, void *answer, size_t answer_cap, size_t *answer_len)
{
	if (forked)
		return fail_forked();
	if (bad(NULL, 0, answer, answer_len))
		return fail_bad();
	return said(goCoreAgain(handle, answer, room(answer, answer_cap), answer_len));
}

int mopslock_drop(uint64_t handle)
{
	if (forked)
		return fail_forked();
	return said(goCoreDrop(handle));
}
