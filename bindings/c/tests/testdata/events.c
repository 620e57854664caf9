/* events DIR1 DIR2: calls that are begun, and every kind of event. DIR1 and DIR2
 * are store URLs of empty directories. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define MS INT64_C(1000000)

static uint64_t a, b, elsewhere; /* hosts: two on one directory, one on another */
static const char *directory;    /* of a and b */
static mopslock_status seen = {.size = sizeof seen};
static mopslock_event e = {.size = sizeof e, .seen = &seen};

/* NEXT takes a host's next event and checks what it is; GIVES says its code. */
#define NEXT(host, what, result)                                       \
	do {                                                           \
		CHECK(mopslock_next(host, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK); \
		if (e.kind != (what) || e.code != (result)) {          \
			fprintf(stderr, "%s:%d: kind %d, code %d: %s\n", \
			        __FILE__, __LINE__, e.kind, e.code, e.text); \
			exit(1);                                       \
		}                                                      \
		CHECK((e.text[0] == 0) == (e.code == MOPSLOCK_OK));    \
		CHECK(e.size == sizeof e && e.seen == &seen && seen.size == sizeof seen); \
		puts(#result);                                         \
	} while (0)

/* QUIET: nothing has happened that would be told. */
#define QUIET(host)                                                    \
	do {                                                           \
		GIVES(MOPSLOCK_ETIMEOUT, mopslock_next(host, 0, &e));  \
		CHECK(e.kind == MOPSLOCK_EVENT_NONE && e.call == 0 && e.member == 0); \
	} while (0)

static uint64_t acquire(uint64_t host, const char *name, const mopslock_options *o)
{
	uint64_t call = 0;
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(host, name, o, &call));
	NEXT(host, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(call != 0 && e.call == call && e.member != 0 && seen.state == MOPSLOCK_STATE_NONE);
	CHECK(mopslock_check(e.member) == MOPSLOCK_OK);
	return e.member;
}

static void holder_of(uint64_t member, char *text)
{
	CHECK(mopslock_holder(member, text, MOPSLOCK_HOLDER_SIZE, NULL) == MOPSLOCK_OK);
}

/* steal makes the record another's: one character of the holder is changed. */
static void steal(const char *name, uint64_t lease)
{
	char path[4096], holder[MOPSLOCK_HOLDER_SIZE], record[8192];
	holder_of(lease, holder);
	snprintf(path, sizeof path, "%s/%s/lock.json", directory, name);
	FILE *f = fopen(path, "r+");
	CHECK(f != NULL);
	record[fread(record, 1, sizeof record - 1, f)] = 0;
	char *at = strstr(record, holder);
	CHECK(at != NULL);
	at[0] = at[0] == 'a' ? 'b' : 'a';
	rewind(f);
	CHECK(fputs(record, f) >= 0 && fclose(f) == 0);
}

/* What cannot be so is said at once, and nothing is begun. */
static void arguments(void)
{
	uint64_t call = 7, lease = 0;
	mopslock_options o = {.size = sizeof o, .seen = &seen};
	struct {
		mopslock_options known;
		int64_t unknown;
	} newer = {.known = {.size = sizeof newer}, .unknown = 1};
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, NULL, NULL, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, "n", NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, "n", &newer.known, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, "n", &o, &call)); /* seen */
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_accompany(a, "{}", &o, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_renew(a, "{}", &o, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_accompany(a, NULL, NULL, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_renew(a, NULL, NULL, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_release(1, -2, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_leave(1, -2, &call));
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_release(1, 0, NULL));
	CHECK(call == 7);
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_accompany(a, "{\"name\":", NULL, &call));
	CHECK(call == 0);
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_renew(a, "", NULL, &call));
	o = (mopslock_options){.size = sizeof o, .wait_ns = -2};
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, "n", &o, &call));
	o = (mopslock_options){.size = sizeof o, .blind = 2};
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_acquire(a, "n", &o, &call));
	o = (mopslock_options){.size = sizeof o, .timeout_ns = -2};
	CHECK(mopslock_acquire(a, "text", NULL, &lease) == MOPSLOCK_OK);
	char text[MOPSLOCK_LEASE_SIZE];
	CHECK(mopslock_lease_text(lease, text, sizeof text, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_renew(a, text, &o, &call));
	o = (mopslock_options){.size = sizeof o, .cancel = a};
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_acquire(a, "n", &o, &call));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_acquire(lease, "n", NULL, &call));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_release(a, 0, &call));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_leave(lease, 0, &call));
	CHECK(call == 0);

	/* Nobody is told of what no begun call made. */
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	QUIET(a);

	/* The rest is found by the host, and told once, too. */
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(a, "a//b", NULL, &call));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_EINVAL);
	CHECK(call != 0 && e.call == call && e.member == 0);
	uint64_t other = call;
	o = (mopslock_options){.size = sizeof o, .ttl_ns = 5 * MS, .margin_ns = -1};
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(a, "n", &o, &call));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_EINVAL);
	CHECK(call != other && strstr(e.text, "ttl") != NULL && strstr(e.text, "margin") != NULL);
	GIVES(MOPSLOCK_EHANDLE, mopslock_release(call, 0)); /* its number is no handle */
	GIVES(MOPSLOCK_EHANDLE, mopslock_next(call, 0, &e));
	QUIET(a);
}

/* The struct of the caller may be of any age, and so may the status that it names. */
static void sizes(void)
{
	struct {
		size_t size;
		int32_t kind, code;
		char beyond;
	} older = {.size = 16, .beyond = 'x'}; /* of a caller that knew no more */
	struct {
		mopslock_event known;
		int64_t unknown;
	} newer = {.known = {.size = sizeof newer}, .unknown = 1};
	struct {
		size_t size;
		int32_t state;
		char beyond;
	} small = {.size = 12, .beyond = 'x'};
	mopslock_event bad = {.size = 0};
	uint64_t call = 0;
	uint64_t lease = acquire(a, "sizes", NULL);
	mopslock_options o = {.size = 2 * sizeof(size_t), .wait_ns = MOPSLOCK_TRY}; /* which is beyond */
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, 0, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, -2, &e));
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, 0, &bad));
	bad.size = SIZE_MAX;
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, 0, &bad));
	bad = (mopslock_event){.size = sizeof bad, .seen = &(mopslock_status){.size = 1}};
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, 0, &bad));
	GIVES(MOPSLOCK_EINVAL, mopslock_next(a, 0, &newer.known));
	newer.unknown = 0;
	memset(&newer.known.text, 'x', sizeof newer.known.text);
	newer.known.seen = (mopslock_status *)&small;
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(a, "sizes", &o, &call)); /* waits */
	GIVES(MOPSLOCK_OK, mopslock_next(a, MOPSLOCK_FOREVER, &newer.known));
	CHECK(newer.known.kind == MOPSLOCK_EVENT_WAITING && newer.known.call == call && newer.known.text[0] == 0);
	CHECK(newer.known.size == sizeof newer && newer.unknown == 0);
	CHECK(small.state == MOPSLOCK_STATE_HELD && small.size == 12 && small.beyond == 'x');
	o = (mopslock_options){.size = sizeof o, .wait_ns = MOPSLOCK_TRY};
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(a, "sizes", &o, &call));
	GIVES(MOPSLOCK_OK, mopslock_next(a, MOPSLOCK_FOREVER, (mopslock_event *)&older));
	CHECK(older.kind == MOPSLOCK_EVENT_CALL && older.code == MOPSLOCK_EHELD);
	CHECK(older.size == 16 && older.beyond == 'x');
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK); /* it waits no more */
	GIVES(MOPSLOCK_OK, mopslock_release(e.member, MOPSLOCK_FOREVER));
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	QUIET(a);
}

/* A lease from its begin to its end, and who wants it meanwhile. */
static void waiting(void)
{
	char ours[MOPSLOCK_HOLDER_SIZE];
	uint64_t cancel = 0, call = 0, release = 0, lease;
	mopslock_options o = {.size = sizeof o, .protocol = MOPSLOCK_PROTOCOL_LASTWRITER}; /* all that follow see it */
	lease = acquire(a, "wanted", &o);
	holder_of(lease, ours);
	CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
	o.cancel = cancel;
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(b, "wanted", &o, &call));
	NEXT(b, MOPSLOCK_EVENT_WAITING, MOPSLOCK_OK);
	CHECK(e.call == call && e.member == 0 && seen.state == MOPSLOCK_STATE_HELD && strcmp(seen.holder, ours) == 0);
	QUIET(b);
	GIVES(MOPSLOCK_OK, mopslock_cancel(cancel));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ECANCELLED);
	CHECK(e.call == call && e.member == 0 && e.reason == MOPSLOCK_REASON_CANCELLED);
	CHECK(seen.state == MOPSLOCK_STATE_NONE && strstr(e.text, "mopslock_cancel") != NULL);
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(b, "wanted", &o, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ECANCELLED);
	CHECK(mopslock_cancel_free(cancel) == MOPSLOCK_OK);

	o = (mopslock_options){.size = sizeof o, .wait_ns = MOPSLOCK_TRY};
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(b, "wanted", &o, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_EHELD);
	CHECK(e.reason == MOPSLOCK_REASON_HELD && e.member == 0);
	CHECK(seen.state == MOPSLOCK_STATE_HELD && strcmp(seen.holder, ours) == 0);

	/* Who waits gets it when it is released. */
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(b, "wanted", NULL, &call));
	NEXT(b, MOPSLOCK_EVENT_WAITING, MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_begin_release(lease, MOPSLOCK_FOREVER, &release));
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	CHECK(e.member == lease && e.call == 0);
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == release && e.member == 0);
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(lease));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_release(lease, 0, &release));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == call);
	lease = e.member;
	steal("wanted", lease);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_next(b, 1, &e)); /* nobody looks, for some 29 s */
	GIVES(MOPSLOCK_OK, mopslock_begin_release(lease, MOPSLOCK_FOREVER, &release));
	CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK && e.kind == MOPSLOCK_EVENT_ENDED);
	CHECK(e.member == lease && (e.code == MOPSLOCK_EENDED || e.code == MOPSLOCK_ELOST)); /* read by then */
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ELOST);
	CHECK(e.call == release && e.reason == MOPSLOCK_REASON_TAKEN && seen.state == MOPSLOCK_STATE_HELD);
	QUIET(a);
	QUIET(b);
}

/* A loss is told without being asked for. */
static void lost(void)
{
	char ours[MOPSLOCK_HOLDER_SIZE];
	uint64_t release = 0;
	mopslock_options o = {.size = sizeof o, .ttl_ns = 2500 * MS, .protocol = MOPSLOCK_PROTOCOL_LASTWRITER};
	uint64_t lease = acquire(a, "lost", &o);
	holder_of(lease, ours);
	steal("lost", lease);
	NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_ELOST);
	CHECK(e.member == lease && e.reason == MOPSLOCK_REASON_TAKEN && e.call == 0);
	CHECK(seen.state == MOPSLOCK_STATE_HELD && strcmp(seen.holder + 1, ours + 1) == 0 && seen.holder[0] != ours[0]);
	GIVES(MOPSLOCK_ELOST, mopslock_check(lease));
	GIVES(MOPSLOCK_OK, mopslock_begin_release(lease, MOPSLOCK_FOREVER, &release));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_ELOST); /* its end was told before */
	CHECK(e.call == release);
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(lease));
	QUIET(a);
}

/* A release that is given no time goes on, and the handle with it. */
static void late(void)
{
	uint64_t release = 0, lease = 0;
	int code = MOPSLOCK_OK;
	for (int i = 0; i < 100 && code == MOPSLOCK_OK; i++) { /* it may be as quick as that */
		lease = acquire(a, "late", NULL);
		CHECK(mopslock_begin_release(lease, 0, &release) == MOPSLOCK_OK);
		NEXT(a, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
		CHECK(mopslock_next(a, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
		CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.call == release);
		code = e.code;
	}
	GIVES(MOPSLOCK_ETIMEOUT, code);
	CHECK(strstr(e.text, "the handle is still good") != NULL);
	GIVES(MOPSLOCK_OK, mopslock_begin_release(lease, MOPSLOCK_FOREVER, &release));
	NEXT(a, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	QUIET(a);
}

static void companions(void)
{
	uint64_t call = 0, lease = acquire(a, "c", NULL), companion;
	char text[MOPSLOCK_LEASE_SIZE], copy[MOPSLOCK_LEASE_SIZE];
	mopslock_options o = {.size = sizeof o, .timeout_ns = 1};
	CHECK(mopslock_lease_text(lease, text, sizeof text, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_begin_accompany(elsewhere, text, NULL, &call));
	NEXT(elsewhere, MOPSLOCK_EVENT_CALL, MOPSLOCK_ECANNOT_MAINTAIN);
	CHECK(e.call == call && e.member == 0 && e.reason == MOPSLOCK_REASON_ABSENT);
	strcpy(copy, text);
	GIVES(MOPSLOCK_OK, mopslock_begin_accompany(b, copy, NULL, &call));
	memset(copy, 'x', sizeof copy); /* it was copied */
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	companion = e.member;
	CHECK(e.call == call && mopslock_check(companion) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_begin_renew(b, text, NULL, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == call && e.member == 0 && e.left_ns > 0 && e.left_ns < 88000 * MS);
	GIVES(MOPSLOCK_OK, mopslock_begin_renew(b, text, &o, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ETIMEOUT);
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_release(companion, 0, &call));
	GIVES(MOPSLOCK_OK, mopslock_begin_leave(companion, MOPSLOCK_FOREVER, &call));
	NEXT(b, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	CHECK(e.member == companion && e.reason == MOPSLOCK_REASON_NONE);
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_OK);
	CHECK(e.call == call);
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(companion));

	/* Every process that has the text can release it. */
	GIVES(MOPSLOCK_EINVAL, mopslock_release_text(b, NULL, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_release_text(b, "{}", NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_release_text(lease, text, NULL));
	GIVES(MOPSLOCK_OK, mopslock_release_text(elsewhere, text, NULL)); /* where it is gone */
	GIVES(MOPSLOCK_OK, mopslock_check(lease));
	GIVES(MOPSLOCK_OK, mopslock_release_text(b, text, NULL));
	mopslock_status status = {.size = sizeof status};
	CHECK(mopslock_inspect(b, "c", MOPSLOCK_FOREVER, &status) == MOPSLOCK_OK);
	CHECK(status.state == MOPSLOCK_STATE_RELEASED);
	GIVES(MOPSLOCK_OK, mopslock_release_text(b, text, NULL)); /* once more */
	GIVES(MOPSLOCK_OK, mopslock_begin_renew(b, text, NULL, &call));
	NEXT(b, MOPSLOCK_EVENT_CALL, MOPSLOCK_ELOST);
	CHECK(e.reason == MOPSLOCK_REASON_RELEASED && seen.state == MOPSLOCK_STATE_RELEASED && e.left_ns == 0);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) != MOPSLOCK_ETIMEOUT);
	CHECK(mopslock_next(a, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	CHECK(e.kind == MOPSLOCK_EVENT_ENDED && e.member == lease);

	/* But not another's, who got it when its holder had released it. */
	lease = acquire(b, "taken", NULL);
	CHECK(mopslock_lease_text(lease, text, sizeof text, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	NEXT(b, MOPSLOCK_EVENT_ENDED, MOPSLOCK_EENDED);
	CHECK(mopslock_acquire(b, "taken", NULL, &lease) == MOPSLOCK_OK);
	o = (mopslock_options){.size = sizeof o, .seen = &status};
	GIVES(MOPSLOCK_ELOST, mopslock_release_text(b, text, &o));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_TAKEN && status.state == MOPSLOCK_STATE_HELD);
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	QUIET(b);
}

enum { MANY = 200, ASKING = 3 };

/* What one thread of several on a queue has seen. */
struct told {
	uint64_t host;
	int acquired, ended, closed;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int released; /* of all threads */

/* asks releases what it is told of, until nothing will ever be told. */
static void *asks(void *of)
{
	struct told *t = of;
	mopslock_event event = {.size = sizeof event};
	uint64_t call;
	for (int i = 0; i < 3 * MANY + 1; i++) {
		t->closed = mopslock_next(t->host, MOPSLOCK_FOREVER, &event);
		if (t->closed != MOPSLOCK_OK)
			return NULL;
		if (event.kind == MOPSLOCK_EVENT_ENDED) {
			CHECK(event.code == MOPSLOCK_EENDED);
			t->ended++;
			continue;
		}
		CHECK(event.kind == MOPSLOCK_EVENT_CALL && event.code == MOPSLOCK_OK);
		if (event.member != 0) {
			t->acquired++;
			CHECK(mopslock_begin_release(event.member, MOPSLOCK_FOREVER, &call) == MOPSLOCK_OK);
			continue;
		}
		pthread_mutex_lock(&mutex);
		released++;
		pthread_cond_signal(&more);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* many: leases begun by one thread and ended by others; each event goes to one. */
static void many(const char *url, int threads)
{
	char name[32];
	uint64_t h = 0, call;
	pthread_t thread[ASKING];
	struct told told[ASKING];
	int acquired = 0, ended = 0;
	released = 0;
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	for (int i = 0; i < threads; i++) {
		told[i] = (struct told){.host = h};
		CHECK(pthread_create(&thread[i], NULL, asks, &told[i]) == 0);
	}
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "many/%d", i);
		CHECK(mopslock_begin_acquire(h, name, NULL, &call) == MOPSLOCK_OK);
	}
	pthread_mutex_lock(&mutex);
	while (released < MANY)
		pthread_cond_wait(&more, &mutex);
	pthread_mutex_unlock(&mutex);
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	for (int i = 0; i < threads; i++) {
		CHECK(pthread_join(thread[i], NULL) == 0);
		GIVES(MOPSLOCK_ECLOSED, told[i].closed);
		acquired += told[i].acquired, ended += told[i].ended;
	}
	CHECK(acquired == MANY && ended == MANY && released == MANY);
}

/* A close ends what was begun, and its end can still be taken. */
static void closing(const char *url)
{
	enum { SOME = 5 };
	uint64_t h = 0, call = 0, held[SOME], waiting[SOME];
	int ended = 0, closed = 0;
	char name[32];
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	for (int i = 0; i < SOME; i++) {
		snprintf(name, sizeof name, "closing/%d", i);
		held[i] = acquire(h, name, NULL);
	}
	for (int i = 0; i < SOME; i++) {
		snprintf(name, sizeof name, "closing/%d", i);
		GIVES(MOPSLOCK_OK, mopslock_begin_acquire(h, name, NULL, &waiting[i]));
		NEXT(h, MOPSLOCK_EVENT_WAITING, MOPSLOCK_OK);
		CHECK(e.call == waiting[i]);
	}
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_ECLOSED, mopslock_begin_acquire(h, "n", NULL, &call));
	GIVES(MOPSLOCK_EHANDLE, mopslock_begin_release(held[0], 0, &call));
	while (ended + closed < 2 * SOME) { /* no time is given: all of it is there */
		GIVES(MOPSLOCK_OK, mopslock_next(h, 0, &e));
		if (e.kind == MOPSLOCK_EVENT_ENDED) {
			GIVES(MOPSLOCK_EENDED, e.code);
			ended++;
			continue;
		}
		CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.member == 0);
		GIVES(MOPSLOCK_ECLOSED, e.code);
		closed++;
	}
	CHECK(ended == SOME && closed == SOME);
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(h, MOPSLOCK_FOREVER, &e));
	CHECK(e.kind == MOPSLOCK_EVENT_NONE && e.text[0] == 0 && e.size == sizeof e);
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(h, 0, &e));

	/* One that nothing was begun on. */
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EHANDLE, mopslock_next(h + 8, 0, &e)); /* the next host's */
	QUIET(h);
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_ECLOSED, mopslock_next(h, 0, &e));
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	alarm(120); /* an event that never comes is a failure */
	directory = argv[1] + strlen("file://");
	CHECK(mopslock_open(argv[1], NULL, &a) == MOPSLOCK_OK && mopslock_open(argv[1], NULL, &b) == MOPSLOCK_OK);
	CHECK(mopslock_open(argv[2], NULL, &elsewhere) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EHANDLE, mopslock_next(0, 0, &e));
	arguments();
	sizes();
	waiting();
	lost();
	late();
	companions();
	many(argv[2], 1);
	many(argv[2], ASKING);
	closing(argv[2]);
	CHECK(mopslock_close(a, MOPSLOCK_FOREVER) == MOPSLOCK_OK && mopslock_close(b, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_close(elsewhere, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	return 0;
}
