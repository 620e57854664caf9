/* invoke DIR1 DIR2: pieces of work and their results. DIR1 and DIR2 are store URLs of
 * empty directories, as in remote.c and begin.c. */
#include "work.h"

static void arguments(void)
{
	uint64_t v = 7, work = 7;
	size_t n = 7;
	char byte = 0;
	mopslock_result bad = {.size = 0};
	mopslock_options o = {.size = sizeof o, .seen = &seen};
	struct {
		mopslock_options known;
		int64_t unknown;
	} newer = {.known = {.size = sizeof newer}, .unknown = 1};
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, NULL, NULL, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &o, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &newer.known, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, "n", "{}", &o, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, "n", NULL, NULL, &v));
	says("without_lease");
	o = (mopslock_options){.size = sizeof o, .without_lease = 1};
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, NULL, NULL, &o, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, "n", NULL, &o, NULL));
	CHECK(v == 7);
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, "n", "{}", NULL, &v));
	CHECK(v == 0);
	o.without_lease = 2;
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(a, "n", NULL, &o, &v));
	o = (mopslock_options){.size = sizeof o, .memo_failures = 2};
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &o, &v));
	o = (mopslock_options){.size = sizeof o, .wait_ns = -2};
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &o, &v));
	o = (mopslock_options){.size = sizeof o, .cancel = a};
	GIVES(MOPSLOCK_EHANDLE, mopslock_invoke(a, "n", &o, &v));
	GIVES(MOPSLOCK_EHANDLE, mopslock_invoke(0, "n", NULL, &v));
	CHECK(v == 0);
	GIVES(MOPSLOCK_EINVAL, mopslock_work(1, 0, NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_work(1, -2, NULL, &work));
	GIVES(MOPSLOCK_EINVAL, mopslock_work(1, 0, &(mopslock_status){.size = 1}, &work));
	CHECK(work == 7);
	GIVES(MOPSLOCK_EHANDLE, mopslock_work(a, 0, NULL, &work));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_work(1, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_work(a, &work));
	GIVES(MOPSLOCK_EINVAL, mopslock_ended(1, 2, NULL, 0, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_ended(1, 1, NULL, 1, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_ended(a, 1, NULL, 0, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_invocation_result(1, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_invocation_result(1, &bad));
	GIVES(MOPSLOCK_EINVAL, mopslock_result_open(1, 0, NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_result_open(1, -2, &v, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_open(a, 0, &v, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_result_read(1, 0, NULL, 1, &n));
	GIVES(MOPSLOCK_EINVAL, mopslock_result_read(1, 0, &byte, 1, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_result_read(1, -2, &byte, 1, &n));
	CHECK(n == 7);
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_read(a, 0, &byte, 1, &n));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_close(a));
	GIVES(MOPSLOCK_EHANDLE, mopslock_give_up(a));
	GIVES(MOPSLOCK_EINVAL, mopslock_invocation_close(1, -2));
	GIVES(MOPSLOCK_EHANDLE, mopslock_invocation_close(a, 0));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_invocation_close(1, 0, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_invocation_close(1, -2, &v));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_invocation_close(a, 0, &v));

	/* So are the name and the terms. */
	o = (mopslock_options){.size = sizeof o, .ttl_ns = 5 * MS, .margin_ns = -1};
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &o, &v));
	says("ttl"), says("margin");
	o = (mopslock_options){.size = sizeof o, .ttl_ns = MOPSLOCK_ENDLESS};
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "n", &o, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "a//b", NULL, &v));
	GIVES(MOPSLOCK_EINVAL, mopslock_invoke(a, "memo/lock", NULL, &v)); /* whose result would lie inside a memo of mops */
	says("memo/lock");
	CHECK(v == 0);
}

/* The first one gets the work, and everybody its result. */
static void first(void)
{
	uint64_t token = 0, epoch = 0, other = 0, v = invoke(a, "first", NULL), work = gives_work(v);
	int protocol = 0;
	int64_t left = 0;
	char holder[MOPSLOCK_HOLDER_SIZE];
	mopslock_result r = {.size = sizeof r};
	struct {
		size_t size;
		int32_t failed, own;
		char beyond;
	} older = {.size = 16, .failed = 7, .beyond = 'x'};
	GIVES(MOPSLOCK_OK, mopslock_fencing_token(work, &token));
	GIVES(MOPSLOCK_OK, mopslock_epoch(work, &epoch));
	GIVES(MOPSLOCK_OK, mopslock_protocol(work, &protocol));
	CHECK(token == 1 && epoch == 1 && protocol == MOPSLOCK_PROTOCOL_STRICT);
	GIVES(MOPSLOCK_OK, mopslock_left(work, &left));
	CHECK(left > 0 && left <= 60000 * MS);
	GIVES(MOPSLOCK_OK, mopslock_holder(work, holder, sizeof holder, NULL));
	CHECK(state_of("first") == MOPSLOCK_STATE_HELD);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_wait(work, 0, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_release(work, 0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_leave(work, 0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(v));
	GIVES(MOPSLOCK_EVACANT, mopslock_invocation_result(v, &r));
	GIVES(MOPSLOCK_EVACANT, mopslock_result_open(v, MOPSLOCK_FOREVER, &other, NULL));
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_work(v, 0, &seen, &other)); /* it is at work */
	says("the invocation goes on");
	CHECK(other == 0 && mopslock_last_reason() == MOPSLOCK_REASON_NONE && seen.state == MOPSLOCK_STATE_NONE);
	GIVES(MOPSLOCK_EINVAL, mopslock_ended(work, 1, "x", 1, "x"));
	char body[] = "the result here";
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, body, strlen(body), NULL));
	memset(body, 'x', strlen(body)); /* it was copied */
	GIVES(MOPSLOCK_EENDED, mopslock_ended(work, 0, NULL, 0, NULL));
	over(v);
	over(v);
	is(v, "the result here", 15, 4, 0, 1);
	GIVES(MOPSLOCK_OK, mopslock_invocation_result(v, &r));
	CHECK(strcmp(r.key, "first/result") == 0);
	GIVES(MOPSLOCK_OK, mopslock_invocation_result(v, (mopslock_result *)&older));
	CHECK(older.size == 16 && older.failed == 0 && older.own == 1 && older.beyond == 'x');
	GIVES(MOPSLOCK_OK, mopslock_give_up(v)); /* it is over */
	over(v);
	GIVES(MOPSLOCK_EENDED, mopslock_wait(work, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_OK, mopslock_result_open(v, MOPSLOCK_FOREVER, &other, NULL));
	close_one(v);
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(work));
	GIVES(MOPSLOCK_EHANDLE, mopslock_ended(work, 1, NULL, 0, NULL));
	size_t n = 0;
	GIVES(MOPSLOCK_OK, mopslock_result_read(other, MOPSLOCK_FOREVER, body, 4, &n)); /* it outlives it */
	CHECK(n > 0 && memcmp(body, "the ", n) == 0);
	GIVES(MOPSLOCK_OK, mopslock_result_close(other));
	CHECK(state_of("first") == MOPSLOCK_STATE_RELEASED);

	v = invoke(b, "first", &trying);
	over(v);
	is(v, "the result here", 15, 100, 0, 0);
	close_one(v);

	/* Who asks for lastwriter has no token, and who asks for a session stands on one. */
	mopslock_options o = {.size = sizeof o, .protocol = MOPSLOCK_PROTOCOL_LASTWRITER};
	v = invoke(a, "lastwriter", &o);
	work = gives_work(v);
	GIVES(MOPSLOCK_OK, mopslock_protocol(work, &protocol));
	GIVES(MOPSLOCK_OK, mopslock_fencing_token(work, &token));
	CHECK(protocol == MOPSLOCK_PROTOCOL_LASTWRITER && token == 0);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "x", 1, NULL));
	over(v);
	is(v, "x", 1, 1, 0, 1);
	close_one(v);
	o = (mopslock_options){.size = sizeof o, .session = 1};
	v = invoke(a, "session", &o);
	work = gives_work(v);
	GIVES(MOPSLOCK_OK, mopslock_session(work, holder, sizeof holder, NULL));
	CHECK(holder[0] != 0);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "x", 1, NULL));
	over(v);
	close_one(v);

	v = invoke(a, "empty", NULL);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 1, "", 0, NULL));
	over(v);
	is(v, "", 0, 1, 0, 1);
	close_one(v);
}

/* Work that fails leaves only a free lease, or its output. */
static void failing(void)
{
	uint64_t none = 7, v = invoke(a, "fails", NULL);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 0, "not kept", 8, NULL));
	GIVES(MOPSLOCK_ENORESULT, mopslock_work(v, MOPSLOCK_FOREVER, NULL, &none));
	fails(v, MOPSLOCK_ENORESULT, MOPSLOCK_REASON_FAILED);
	says("mopslock_ended said so");
	close_one(v);
	CHECK(state_of("fails") == MOPSLOCK_STATE_RELEASED);

	v = invoke(b, "fails", &keeping);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 0, "kept", 4, NULL));
	over(v);
	is(v, "kept", 4, 3, 1, 1);
	close_one(v);
	v = invoke(a, "fails", &keeping);
	over(v);
	is(v, "kept", 4, 100, 1, 0);
	close_one(v);

	v = invoke(a, "fails", NULL); /* who does not keep failures does not see any */
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 1, NULL, 0, "/no/such/file"));
	fails(v, MOPSLOCK_ENORESULT, MOPSLOCK_REASON_FAILED);
	says("/no/such/file");
	close_one(v);

	v = invoke(a, "nobody", &lasting); /* has stored anything, nor goes on */
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 1, NULL, 0, NULL));
	fails(v, MOPSLOCK_ENORESULT, MOPSLOCK_REASON_NONE);
	close_one(v);
}

/* A caller that is late waits, for as long as it likes. */
static void waiting(void)
{
	uint64_t v = invoke(a, "wanted", NULL), work = gives_work(v), other, cancel = 0, none = 7;
	char holder[MOPSLOCK_HOLDER_SIZE];
	CHECK(mopslock_holder(work, holder, sizeof holder, NULL) == MOPSLOCK_OK);
	other = invoke(b, "wanted", &trying);
	fails(other, MOPSLOCK_EHELD, MOPSLOCK_REASON_HELD);
	CHECK(seen.state == MOPSLOCK_STATE_HELD && strcmp(seen.holder, holder) == 0);
	close_one(other);

	other = invoke(b, "wanted", NULL);
	for (int i = 0; i < 10000 && seen.state != MOPSLOCK_STATE_HELD; i++) {
		CHECK(mopslock_work(other, MS, &seen, &none) == MOPSLOCK_ETIMEOUT);
		CHECK(none == 0 && mopslock_last_reason() == MOPSLOCK_REASON_NONE);
	}
	CHECK(seen.state == MOPSLOCK_STATE_HELD && strcmp(seen.holder, holder) == 0);
	GIVES(MOPSLOCK_OK, mopslock_give_up(other));
	fails(other, MOPSLOCK_ECANCELLED, MOPSLOCK_REASON_CANCELLED);
	close_one(other);

	CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
	mopslock_options o = {.size = sizeof o, .cancel = cancel};
	other = invoke(b, "wanted", &o);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_work(other, MS, NULL, &none));
	GIVES(MOPSLOCK_OK, mopslock_cancel(cancel));
	fails(other, MOPSLOCK_ECANCELLED, MOPSLOCK_REASON_CANCELLED);
	close_one(other);
	other = invoke(b, "wanted", &o); /* it was cancelled before */
	fails(other, MOPSLOCK_ECANCELLED, MOPSLOCK_REASON_CANCELLED);
	close_one(other);
	CHECK(mopslock_cancel_free(cancel) == MOPSLOCK_OK);

	o = (mopslock_options){.size = sizeof o, .wait_ns = 2000 * MS}; /* in which the store answers */
	other = invoke(b, "wanted", &o);
	fails(other, MOPSLOCK_EHELD, MOPSLOCK_REASON_HELD);
	close_one(other);
	other = invoke(b, "wanted", NULL);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "done", 4, NULL));
	over(v);
	over(other);
	is(other, "done", 4, 100, 0, 0);
	close_one(other);
	close_one(v);

	/* A close gives up, and the next one gets the work. */
	v = invoke(a, "left", NULL);
	work = gives_work(v);
	other = invoke(b, "left", NULL);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_work(other, MS, NULL, &none));
	close_one(v);
	close_one((gives_work(other), other));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(work));
}

/* A result that is a file, and longer than any buffer of its readers. */
static void big(void)
{
	enum { SIZE = 8 << 20 };
	char path[4096], piece[4];
	char *body = malloc(SIZE);
	uint64_t v = invoke(a, "big", NULL), one = 0, two = 0;
	size_t n = 0;
	for (int i = 0; i < SIZE; i++)
		body[i] = (char)(i * 2654435761u >> 13);
	snprintf(path, sizeof path, "%s/../work", directory);
	FILE *f = fopen(path, "w");
	CHECK(f != NULL && fwrite(body, 1, SIZE, f) == SIZE && fclose(f) == 0);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(v), 1, NULL, 0, path));
	over(v);
	CHECK(remove(path) == 0);
	is(v, body, SIZE, 4093, 0, 1);
	is(v, body, SIZE, SIZE + 1, 0, 1);

	/* Two at once, and one that is not read to its end. */
	GIVES(MOPSLOCK_OK, mopslock_result_open(v, 60000 * MS, &one, NULL));
	GIVES(MOPSLOCK_OK, mopslock_result_open(v, 60000 * MS, &two, NULL));
	for (int i = 0; i < 2; i++) {
		GIVES(MOPSLOCK_OK, mopslock_result_read(i == 0 ? one : two, 60000 * MS, piece, sizeof piece, &n));
		CHECK(n > 0 && memcmp(piece, body, n) == 0);
	}
	GIVES(MOPSLOCK_OK, mopslock_result_close(one));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_read(one, 0, piece, sizeof piece, &n));
	GIVES(MOPSLOCK_OK, mopslock_result_read(two, MOPSLOCK_FOREVER, piece, sizeof piece, &n));
	GIVES(MOPSLOCK_OK, mopslock_result_close(two));
	free(body);
	close_one(v);
}

int main(int argc, char **argv)
{
	open_all(argc, argv);
	arguments();
	first();
	failing();
	waiting();
	big();
	return close_all();
}
