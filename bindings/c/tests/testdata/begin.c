/* begin DIR1 DIR2: invocations by events, and the end of their host. */
#include <pthread.h>

#include "work.h"

/* NEXT takes a host's next event and checks what it is. */
static mopslock_event e = {.size = sizeof e, .seen = &seen};
#define NEXT(host, what, result)                                       \
	do {                                                           \
		CHECK(mopslock_next(host, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK); \
		if (e.kind != (what) || e.code != (result)) {          \
			fprintf(stderr, "%s:%d: kind %d, code %d: %s\n", \
			        __FILE__, __LINE__, e.kind, e.code, e.text); \
			exit(1);                                       \
		}                                                      \
	} while (0)
#define QUIET(host) GIVES(MOPSLOCK_ETIMEOUT, mopslock_next(host, 0, &e))

/* The same as calls that are begun. */
static void begun(void)
{
	uint64_t call = 0, other = 0, work, v = invoke(a, "begun", NULL), w;
	GIVES(MOPSLOCK_OK, mopslock_begin_work(v, &call));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(call != 0 && e.call == call && e.member != 0);
	work = e.member;
	w = invoke(b, "begun", NULL);
	GIVES(MOPSLOCK_OK, mopslock_begin_work(w, &call));
	NEXT(b, MOPSLOCK_EVENT_WAITING, MOPSLOCK_OK);
	CHECK(e.call == call && e.member == 0 && seen.state == MOPSLOCK_STATE_HELD);
	GIVES(MOPSLOCK_OK, mopslock_give_up(w));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ECANCELLED);
	CHECK(e.call == call && e.member == 0 && e.reason == MOPSLOCK_REASON_CANCELLED);
	GIVES(MOPSLOCK_OK, mopslock_begin_invocation_close(w, MOPSLOCK_FOREVER, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == call);
	GIVES(MOPSLOCK_EHANDLE, mopslock_give_up(w));

	/* Who asks is told whom is waited for, also if that was known before. */
	w = invoke(b, "begun", NULL);
	for (int i = 0; i < 10000 && seen.state != MOPSLOCK_STATE_HELD; i++)
		CHECK(mopslock_work(w, MS, &seen, &other) == MOPSLOCK_ETIMEOUT);
	GIVES(MOPSLOCK_OK, mopslock_begin_work(w, &other));
	NEXT(b, MOPSLOCK_EVENT_WAITING, MOPSLOCK_OK);
	CHECK(e.call == other);

	GIVES(MOPSLOCK_OK, mopslock_begin_work(v, &call));
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "begun", 5, NULL));
	for (int i = 0; i < 2; i++) { /* its end, and that of the lease */
		CHECK(mopslock_next(a, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		if (e.kind == MOPSLOCK_EVENT_ENDED)
			CHECK(e.member == work && e.code == MOPSLOCK_EENDED);
		else
			CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.call == call && e.member == 0 && e.code == MOPSLOCK_OK);
	}
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == other && e.member == 0);
	is(w, "begun", 5, 100, 0, 0);
	close_one(v);
	close_one(w);

	/* The end of a work is told before that of the close. */
	v = invoke(a, "given up", NULL);
	GIVES(MOPSLOCK_OK, mopslock_begin_work(v, &call));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	work = e.member;
	GIVES(MOPSLOCK_OK, mopslock_begin_invocation_close(v, MOPSLOCK_FOREVER, &call));
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	CHECK(e.member == work);
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == call);
	QUIET(a);
	QUIET(b);

	/* And a work without a lease has an end, too. */
	mopslock_options o = {.size = sizeof o, .without_lease = 1};
	GIVES(MOPSLOCK_OK, mopslock_remote(a, "leaseless", NULL, &o, &v));
	GIVES(MOPSLOCK_OK, mopslock_begin_work(v, &call));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	work = e.member;
	GIVES(MOPSLOCK_OK, mopslock_check(work));
	close_one(v);
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	CHECK(e.member == work);
	QUIET(a);
}

struct asking {
	uint64_t invocation;
	int code;
};

static void *asks(void *of)
{
	struct asking *t = of;
	uint64_t work = 0;
	t->code = mopslock_work(t->invocation, MOPSLOCK_FOREVER, NULL, &work);
	return NULL;
}

/* A close of the host ends all of it. */
static void closing(const char *url)
{
	uint64_t h = 0, v, w, x, work, reader = 0, call = 0, leaseless = 0;
	mopslock_options o = {.size = sizeof o, .without_lease = 1};
	struct asking t;
	pthread_t thread;
	size_t n = 0;
	char byte;
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	v = invoke(h, "closing", NULL);
	work = gives_work(v);
	w = invoke(h, "closing", NULL);
	t = (struct asking){.invocation = w};
	CHECK(pthread_create(&thread, NULL, asks, &t) == 0);
	x = invoke(h, "closing", NULL);
	GIVES(MOPSLOCK_OK, mopslock_begin_work(x, &call));
	GIVES(MOPSLOCK_OK, mopslock_remote(h, "leaseless too", NULL, &o, &leaseless));
	GIVES(MOPSLOCK_OK, mopslock_begin_work(leaseless, &leaseless));
	do
		CHECK(mopslock_next(h, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	while (e.call != leaseless); /* the other waits, and that is told when it comes */
	leaseless = e.member;
	CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.code == MOPSLOCK_OK && leaseless != 0);
	uint64_t r = invoke(elsewhere, "read", NULL);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(r), 1, "read", 4, NULL));
	over(r);
	GIVES(MOPSLOCK_OK, mopslock_result_open(r, MOPSLOCK_FOREVER, &reader, NULL));
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(t.code == MOPSLOCK_ECLOSED || t.code == MOPSLOCK_EHANDLE);
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(work));
	GIVES(MOPSLOCK_EHANDLE, mopslock_ended(work, 1, "x", 1, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_work(v, 0, NULL, &work));
	GIVES(MOPSLOCK_ECLOSED, mopslock_invoke(h, "n", NULL, &v));
	int told = 0, ended = 0;
	while (mopslock_next(h, 0, &e) == MOPSLOCK_OK) {
		told += e.kind == MOPSLOCK_EVENT_CALL && e.call == call && e.code == MOPSLOCK_ECLOSED;
		ended += e.kind == MOPSLOCK_EVENT_ENDED && e.member == leaseless && e.code != MOPSLOCK_OK;
	}
	CHECK(told == 1 && ended == 1);
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(h, 0, &e));
	CHECK(state_of("closing") == MOPSLOCK_STATE_RELEASED);

	GIVES(MOPSLOCK_OK, mopslock_result_read(reader, MOPSLOCK_FOREVER, &byte, 1, &n)); /* of another host */
	CHECK(mopslock_close(elsewhere, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_read(reader, MOPSLOCK_FOREVER, &byte, 1, &n));
	GIVES(MOPSLOCK_EHANDLE, mopslock_result_close(reader));
}

int main(int argc, char **argv)
{
	open_all(argc, argv);
	begun();
	closing(argv[1]);
	CHECK(mopslock_open(argv[2], NULL, &elsewhere) == MOPSLOCK_OK);
	return close_all();
}
