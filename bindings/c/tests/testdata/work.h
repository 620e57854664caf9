/* What the programs about invocations share: hosts, and the common ends of works. */
#ifndef WORK_H
#define WORK_H

#include <unistd.h>

#include "check.h"

#define MS INT64_C(1000000)

/* Not every program needs all of it. */
#define SHARED __attribute__((unused)) static

SHARED uint64_t a, b, elsewhere; /* hosts: two on one directory, one on another */
SHARED const char *directory;    /* of a and b */
SHARED mopslock_status seen = {.size = sizeof seen};
SHARED const mopslock_options keeping = {.size = sizeof keeping, .memo_failures = 1};
SHARED const mopslock_options trying = {.size = sizeof trying, .wait_ns = MOPSLOCK_TRY};
SHARED const mopslock_options lasting = {.size = sizeof lasting, .ttl_ns = 10000 * MS}; /* until it is broken */

SHARED uint64_t invoke(uint64_t host, const char *name, const mopslock_options *o)
{
	uint64_t v = 0;
	GIVES(MOPSLOCK_OK, mopslock_invoke(host, name, o, &v));
	CHECK(v != 0);
	return v;
}

SHARED uint64_t remote(uint64_t host, const char *text, const mopslock_options *o)
{
	uint64_t v = 0;
	GIVES(MOPSLOCK_OK, mopslock_remote(host, NULL, text, o, &v));
	CHECK(v != 0);
	return v;
}

/* gives_work and over are the two good ends of mopslock_work. */
SHARED uint64_t gives_work(uint64_t v)
{
	uint64_t work = 0;
	GIVES(MOPSLOCK_OK, mopslock_work(v, MOPSLOCK_FOREVER, &seen, &work));
	CHECK(work != 0 && seen.state == MOPSLOCK_STATE_NONE);
	GIVES(MOPSLOCK_OK, mopslock_check(work));
	return work;
}

SHARED void over(uint64_t v)
{
	uint64_t work = 7;
	GIVES(MOPSLOCK_OK, mopslock_work(v, MOPSLOCK_FOREVER, NULL, &work));
	CHECK(work == 0);
}

/* fails is the other end, which is said again. */
SHARED void fails(uint64_t v, int code, int reason)
{
	uint64_t work = 7;
	for (int i = 0; i < 2; i++) {
		GIVES(code, mopslock_work(v, MOPSLOCK_FOREVER, &seen, &work));
		CHECK(work == 0 && mopslock_last_reason() == reason);
	}
}

SHARED void close_one(uint64_t v)
{
	GIVES(MOPSLOCK_OK, mopslock_invocation_close(v, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_invocation_close(v, MOPSLOCK_FOREVER));
}

SHARED void says(const char *what)
{
	char text[1024];
	mopslock_last_error(text, sizeof text);
	if (strstr(text, what) == NULL || strstr(text, "context ") != NULL) {
		fprintf(stderr, "the text is \"%s\", without \"%s\" or in words of Go\n", text, what);
		exit(1);
	}
}

/* is checks what a result is, and reads it in pieces of some bytes. */
SHARED void is(uint64_t v, const char *body, size_t len, size_t piece, int failed, int own)
{
	mopslock_result r = {.size = sizeof r};
	uint64_t reader = 0;
	int64_t length = 0;
	size_t n = 1, at = 0;
	char *bytes = malloc(len + piece);
	GIVES(MOPSLOCK_OK, mopslock_invocation_result(v, &r));
	CHECK(r.failed == failed && r.own == own && r.size == sizeof r);
	GIVES(MOPSLOCK_OK, mopslock_result_open(v, MOPSLOCK_FOREVER, &reader, &length));
	CHECK(reader != 0 && length == (int64_t)len);
	while (n > 0) {
		CHECK(mopslock_result_read(reader, MOPSLOCK_FOREVER, bytes + at, piece, &n) == MOPSLOCK_OK);
		CHECK(n <= piece && at + n <= len);
		at += n;
	}
	CHECK(at == len && memcmp(bytes, body, len) == 0);
	GIVES(MOPSLOCK_OK, mopslock_result_read(reader, 0, NULL, 0, &n));
	CHECK(n == 0);
	GIVES(MOPSLOCK_OK, mopslock_result_close(reader));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_close(reader));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_read(reader, 0, bytes, piece, &n));
	free(bytes);
}

SHARED void text_of(uint64_t work, char *text)
{
	GIVES(MOPSLOCK_OK, mopslock_lease_text(work, text, MOPSLOCK_LEASE_SIZE, NULL));
}

SHARED int state_of(const char *name)
{
	CHECK(mopslock_inspect(b, name, MOPSLOCK_FOREVER, &seen) == MOPSLOCK_OK);
	int state = seen.state;
	memset((char *)&seen + sizeof seen.size, 0, sizeof seen - sizeof seen.size);
	return state;
}

SHARED void open_all(int argc, char **argv)
{
	CHECK(argc == 3);
	alarm(120); /* a work that never comes is a failure */
	directory = argv[1] + strlen("file://");
	CHECK(mopslock_open(argv[1], NULL, &a) == MOPSLOCK_OK && mopslock_open(argv[1], NULL, &b) == MOPSLOCK_OK);
	CHECK(mopslock_open(argv[2], NULL, &elsewhere) == MOPSLOCK_OK);
}

SHARED int close_all(void)
{
	CHECK(mopslock_close(a, MOPSLOCK_FOREVER) == MOPSLOCK_OK && mopslock_close(b, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_close(elsewhere, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	return 0;
}

#endif
