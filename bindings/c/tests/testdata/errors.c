/* errors DIR1 DIR2 S3: the host's functions with each of their codes. DIR1 and
 * DIR2 are store URLs of empty directories, S3 is http://ADDRESS of a server
 * that refuses everything: by the bucket's name it says how. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define MS INT64_C(1000000)

static uint64_t a, b, elsewhere; /* hosts: two on one directory, one on another */
static const char *directory;    /* of a and b */

static void arguments(void)
{
	uint64_t h = 7;
	char text[1024];
	mopslock_options o = {.size = sizeof o, .ttl_ns = 5 * MS, .margin_ns = -1};
	mopslock_open_options oo = {.size = sizeof oo, .engine = "steam"};
	struct {
		mopslock_options known;
		int64_t unknown;
	} newer = {.known = {.size = sizeof newer}, .unknown = 1};
	GIVES(MOPSLOCK_EINVAL, mopslock_open(NULL, NULL, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_open("mem://", NULL, NULL));
	CHECK(h == 7);
	GIVES(MOPSLOCK_EINVAL, mopslock_open("nowhere", NULL, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_open("ftp://x", NULL, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_open("mem://", &oo, &h));
	oo = (mopslock_open_options){.size = sizeof oo, .in_flight = -1};
	GIVES(MOPSLOCK_EINVAL, mopslock_open("mem://", &oo, &h));
	CHECK(h == 0);
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "a//b", NULL, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h));
	mopslock_last_error(text, sizeof text);
	CHECK(strstr(text, "ttl") != NULL && strstr(text, "margin") != NULL);
	o = (mopslock_options){.ttl_ns = 5000 * MS};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h)); /* no size */
	o.size = SIZE_MAX;
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h));
	mopslock_status unsized = {.size = 0};
	GIVES(MOPSLOCK_EINVAL, mopslock_inspect(a, "n", 0, &unsized));
	o = (mopslock_options){.size = sizeof o, .wait_ns = MOPSLOCK_TRY, .seen = &unsized};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h));
	o = (mopslock_options){.size = sizeof o, .wait_ns = -2};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h));
	o = (mopslock_options){.size = sizeof o, .blind = 2};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &o, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &newer.known, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_accompany(a, "{\"name\":", NULL, &h));
	GIVES(MOPSLOCK_EINVAL, mopslock_release(1, -2));
	CHECK(h == 0);
	newer.unknown = 0; /* newer, but asks for nothing that is new */
	GIVES(MOPSLOCK_OK, mopslock_acquire(a, "n", &newer.known, &h));
	GIVES(MOPSLOCK_OK, mopslock_release(h, MOPSLOCK_FOREVER));
	o.size = 2 * sizeof(size_t); /* older: knew of the TTL at most */
	GIVES(MOPSLOCK_OK, mopslock_acquire(a, "n", &o, &h));
	GIVES(MOPSLOCK_OK, mopslock_release(h, MOPSLOCK_FOREVER));
}

static void handles(void)
{
	uint64_t lease = 0, cancel = 0;
	int64_t left;
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(a));
	GIVES(MOPSLOCK_EHANDLE, mopslock_close(UINT64_MAX, 0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_left(12345678, &left));
	GIVES(MOPSLOCK_OK, mopslock_acquire(a, "handles", NULL, &lease));
	GIVES(MOPSLOCK_EHANDLE, mopslock_leave(lease, 0));
	GIVES(MOPSLOCK_EHANDLE, mopslock_cancel(lease));
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_release(lease, MOPSLOCK_FOREVER));
	for (int i = 0; i < 50; i++) {
		CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
		CHECK(mopslock_cancel_free(cancel) == MOPSLOCK_OK);
	}
	GIVES(MOPSLOCK_EHANDLE, mopslock_cancel_free(cancel));
	/* No host was closed yet: what is not one of the three never was one. */
	for (uint64_t h = 0; h < 300; h++)
		CHECK(h == a || h == b || h == elsewhere || mopslock_close(h, 0) == MOPSLOCK_EHANDLE);
}

/* says checks what the latest error tells people. */
static void says(const char *what)
{
	char text[1024];
	mopslock_last_error(text, sizeof text);
	if (strstr(text, what) == NULL || strstr(text, "context ") != NULL) {
		fprintf(stderr, "the text is \"%s\", without \"%s\" or in words of Go\n", text, what);
		exit(1);
	}
}

static void texts(uint64_t lease)
{
	char holder[MOPSLOCK_HOLDER_SIZE], text[MOPSLOCK_LEASE_SIZE];
	size_t n = 0, need = 0;
	GIVES(MOPSLOCK_OK, mopslock_holder(lease, holder, sizeof holder, &n));
	CHECK(n > 8 && n == strlen(holder));
	memset(text, 'x', sizeof text);
	GIVES(MOPSLOCK_ESHORT, mopslock_holder(lease, text, n, &need));
	CHECK(need == n + 1 && text[0] == 'x');
	GIVES(MOPSLOCK_ESHORT, mopslock_holder(lease, NULL, 0, NULL));
	GIVES(MOPSLOCK_ESHORT, mopslock_lease_text(lease, text, 5, &need));
	GIVES(MOPSLOCK_OK, mopslock_lease_text(lease, text, need, &n));
	CHECK(need == n + 1 && strstr(text, holder) != NULL && strlen(text) == n);
}

/* steal makes the record another's: one character of the holder is changed. It is again the holder's where a renewal
 * was between its read and its write meanwhile, and then it is stolen once more. */
static void steal(const char *name, uint64_t lease)
{
	char path[4096], holder[MOPSLOCK_HOLDER_SIZE], record[8192];
	CHECK(mopslock_holder(lease, holder, sizeof holder, NULL) == MOPSLOCK_OK);
	snprintf(path, sizeof path, "%s/%s/lock.json", directory, name);
	FILE *f = fopen(path, "r+");
	CHECK(f != NULL);
	record[fread(record, 1, sizeof record - 1, f)] = 0;
	char *at = strstr(record, holder);
	if (at != NULL) {
		at[0] = at[0] == 'a' ? 'b' : 'a';
		rewind(f);
		CHECK(fputs(record, f) >= 0);
	}
	CHECK(fclose(f) == 0);
}

static void held_and_lost(void)
{
	uint64_t lease = 0, other = 7;
	int reason = -1;
	char holder[MOPSLOCK_HOLDER_SIZE];
	mopslock_status who = {.size = sizeof who};
	mopslock_options o = {.size = sizeof o, .ttl_ns = 2500 * MS, .wait_ns = MOPSLOCK_TRY, .seen = &who,
		.protocol = MOPSLOCK_PROTOCOL_LASTWRITER};
	GIVES(MOPSLOCK_OK, mopslock_acquire(a, "n", &o, &lease));
	CHECK(who.state == MOPSLOCK_STATE_NONE);
	texts(lease);
	GIVES(MOPSLOCK_OK, mopslock_check(lease));
	int64_t left = -1;
	GIVES(MOPSLOCK_OK, mopslock_left(lease, &left));
	CHECK(left > 0 && left < 2500 * MS);
	CHECK(mopslock_holder(lease, holder, sizeof holder, NULL) == MOPSLOCK_OK);

	GIVES(MOPSLOCK_EHELD, mopslock_acquire(b, "n", &o, &other));
	CHECK(other == 0 && mopslock_last_reason() == MOPSLOCK_REASON_HELD);
	CHECK(who.state == MOPSLOCK_STATE_HELD && strcmp(who.holder, holder) == 0 && who.ttl_ns == 2500 * MS);
	CHECK(who.host[0] != 0 && who.pid[0] != 0 && who.acquired_ns > 0 && who.released_ns == 0 && !who.companion);
	o.wait_ns = 1500 * MS; /* which is also how long the store may take to answer */
	GIVES(MOPSLOCK_EHELD, mopslock_acquire(b, "n", &o, &other));

	GIVES(MOPSLOCK_ETIMEOUT, mopslock_wait(lease, 1, &reason));
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_wait(lease, 0, NULL));
	says("may still be relied on");
	CHECK(reason == MOPSLOCK_REASON_NONE);
	int ended = MOPSLOCK_ETIMEOUT;
	for (int i = 0; i < 600 && ended == MOPSLOCK_ETIMEOUT; i++) {
		steal("n", lease);
		ended = mopslock_wait(lease, 100 * MS, &reason);
	}
	GIVES(MOPSLOCK_ELOST, ended);
	CHECK(reason == MOPSLOCK_REASON_TAKEN && mopslock_last_reason() == MOPSLOCK_REASON_TAKEN);
	GIVES(MOPSLOCK_ELOST, mopslock_check(lease));
	GIVES(MOPSLOCK_ELOST, mopslock_release(lease, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(lease));
}

/* A release that is given no time goes on, and the handle with it. */
static void ended(void)
{
	uint64_t lease = 0;
	int code = MOPSLOCK_OK;
	for (int i = 0; i < 100 && code == MOPSLOCK_OK; i++) { /* it may be as quick as that */
		CHECK(mopslock_acquire(a, "ended", NULL, &lease) == MOPSLOCK_OK);
		code = mopslock_release(lease, 0);
	}
	GIVES(MOPSLOCK_ETIMEOUT, code);
	says("goes on trying, and the handle is still good");
	GIVES(MOPSLOCK_EENDED, mopslock_check(lease));
	GIVES(MOPSLOCK_EENDED, mopslock_wait(lease, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
}

static void companions(void)
{
	uint64_t lease = 0, companion = 7;
	int64_t left = -1;
	char text[MOPSLOCK_LEASE_SIZE], ours[MOPSLOCK_HOLDER_SIZE], theirs[MOPSLOCK_HOLDER_SIZE];
	mopslock_status status = {.size = sizeof status};
	CHECK(mopslock_acquire(a, "c", NULL, &lease) == MOPSLOCK_OK);
	CHECK(mopslock_lease_text(lease, text, sizeof text, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ECANNOT_MAINTAIN, mopslock_accompany(elsewhere, text, NULL, &companion));
	CHECK(companion == 0 && mopslock_last_reason() == MOPSLOCK_REASON_ABSENT);
	GIVES(MOPSLOCK_ECANNOT_MAINTAIN, mopslock_renew(elsewhere, text, NULL, NULL));
	GIVES(MOPSLOCK_OK, mopslock_accompany(b, text, NULL, &companion));
	GIVES(MOPSLOCK_OK, mopslock_check(companion));
	GIVES(MOPSLOCK_OK, mopslock_left(companion, &left));
	CHECK(left > 0);
	CHECK(mopslock_holder(lease, ours, sizeof ours, NULL) == MOPSLOCK_OK);
	CHECK(mopslock_holder(companion, theirs, sizeof theirs, NULL) == MOPSLOCK_OK && strcmp(ours, theirs) == 0);
	GIVES(MOPSLOCK_EHANDLE, mopslock_release(companion, 0)); /* a companion never releases */
	GIVES(MOPSLOCK_OK, mopslock_leave(companion, MOPSLOCK_FOREVER));
	left = -1;
	GIVES(MOPSLOCK_OK, mopslock_renew(b, text, NULL, &left));
	CHECK(left > 0);
	GIVES(MOPSLOCK_OK, mopslock_inspect(b, "c", MOPSLOCK_FOREVER, &status));
	CHECK(status.state == MOPSLOCK_STATE_HELD && status.companion == 1 && strcmp(status.holder, ours) == 0);
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_ELOST, mopslock_accompany(b, text, NULL, &companion));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_RELEASED);
	GIVES(MOPSLOCK_OK, mopslock_inspect(b, "c", MOPSLOCK_FOREVER, &status));
	CHECK(status.state == MOPSLOCK_STATE_RELEASED && status.released_ns > 0);
	struct {
		size_t size;
		int32_t state, companion;
		char beyond;
	} older = {.size = 16, .beyond = 'x'}; /* of a caller that knew no more */
	GIVES(MOPSLOCK_OK, mopslock_inspect(b, "nobody", MOPSLOCK_FOREVER, (mopslock_status *)&older));
	CHECK(older.state == MOPSLOCK_STATE_VACANT && older.size == 16 && older.beyond == 'x');
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_inspect(b, "c", 0, &status));
	says("nothing was changed");
}

static uint64_t cancel;

static void *waits(void *code)
{
	uint64_t lease = 7;
	mopslock_options o = {.size = sizeof o, .cancel = cancel};
	*(int *)code = mopslock_acquire(b, "taken", &o, &lease);
	CHECK(lease == 0);
	return NULL;
}

/* A cancel or a close ends each wait, whichever comes first. */
static void waiting(void)
{
	uint64_t lease = 0;
	int code = MOPSLOCK_OK;
	pthread_t thread;
	CHECK(mopslock_acquire(a, "taken", NULL, &lease) == MOPSLOCK_OK);
	CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
	CHECK(pthread_create(&thread, NULL, waits, &code) == 0);
	GIVES(MOPSLOCK_OK, mopslock_cancel(cancel));
	CHECK(pthread_join(thread, NULL) == 0 && code == MOPSLOCK_ECANCELLED);
	uint64_t other = 7;
	mopslock_options o = {.size = sizeof o, .cancel = cancel};
	GIVES(MOPSLOCK_ECANCELLED, mopslock_acquire(b, "taken", &o, &other));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_CANCELLED);
	says("mopslock_cancel was called");
	CHECK(mopslock_cancel_free(cancel) == MOPSLOCK_OK);
	cancel = 0;

	CHECK(pthread_create(&thread, NULL, waits, &code) == 0);
	GIVES(MOPSLOCK_OK, mopslock_close(b, MOPSLOCK_FOREVER));
	CHECK(pthread_join(thread, NULL) == 0 && code == MOPSLOCK_ECLOSED);
	GIVES(MOPSLOCK_ECLOSED, mopslock_acquire(b, "taken", NULL, &other));
	GIVES(MOPSLOCK_ECLOSED, mopslock_close(b, 0));
	GIVES(MOPSLOCK_OK, mopslock_check(lease)); /* of a, which is open */
}

struct wait {
	uint64_t lease;
	int code, reason;
};

static void *waits_for_end(void *of)
{
	struct wait *w = of;
	w->code = mopslock_wait(w->lease, MOPSLOCK_FOREVER, &w->reason);
	return NULL;
}

/* A close wakes who waits for a lease's end, and is no loss of the lease. */
static void closing(const char *url)
{
	uint64_t h = 0;
	struct wait w = {0, 0, -1};
	pthread_t thread;
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	CHECK(mopslock_acquire(h, "closing", NULL, &w.lease) == MOPSLOCK_OK);
	CHECK(pthread_create(&thread, NULL, waits_for_end, &w) == 0);
	CHECK(mopslock_wait(w.lease, 200 * MS, NULL) == MOPSLOCK_ETIMEOUT); /* by then the thread does */
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	CHECK(pthread_join(thread, NULL) == 0);
	GIVES(MOPSLOCK_EENDED, w.code);
	CHECK(w.reason == MOPSLOCK_REASON_NONE || w.reason == MOPSLOCK_REASON_RELEASED);

	int code = MOPSLOCK_OK;
	for (int i = 0; i < 100 && code == MOPSLOCK_OK; i++) { /* it may be as quick as that */
		CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
		CHECK(mopslock_acquire(h, "closing", NULL, &w.lease) == MOPSLOCK_OK);
		code = mopslock_close(h, 0);
	}
	GIVES(MOPSLOCK_ETIMEOUT, code);
	says("expires by itself, a TTL after its last renewal");
	GIVES(MOPSLOCK_ECLOSED, mopslock_close(h, 0));
}

/* What each kind of store failure looks like. */
static void stores(const char *server)
{
	static const struct {
		const char *bucket;
		int code, class;
	} cases[] = {
		{"denied", MOPSLOCK_EUNAUTHORIZED, MOPSLOCK_CLASS_UNAUTHORIZED},
		{"missing", MOPSLOCK_ENOSTORE, MOPSLOCK_CLASS_NO_SUCH_STORE},
		{"broken", MOPSLOCK_ESTORE, MOPSLOCK_CLASS_OTHER},
		{"slow", MOPSLOCK_ESTORE, MOPSLOCK_CLASS_THROTTLED},
		{"full", MOPSLOCK_ESTORE, MOPSLOCK_CLASS_FULL},
	};
	char url[512];
	uint64_t h = 0, lease = 7;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		mopslock_status status = {.size = sizeof status};
		snprintf(url, sizeof url, "s3://%s?endpoint=%s&region=us-east-1&use_path_style=true", cases[i].bucket, server);
		CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
		GIVES(cases[i].code, mopslock_inspect(h, "n", MOPSLOCK_FOREVER, &status));
		CHECK(status.state == MOPSLOCK_STATE_NONE && mopslock_last_class() == cases[i].class);
		GIVES(MOPSLOCK_EHANDLE, mopslock_check(h));
		CHECK(mopslock_last_class() == MOPSLOCK_CLASS_NONE);
		if (cases[i].class >= MOPSLOCK_CLASS_UNAUTHORIZED) { /* the others may pass */
			GIVES(cases[i].code, mopslock_acquire(h, "n", NULL, &lease));
			CHECK(lease == 0 && mopslock_last_reason() == MOPSLOCK_REASON_UNUSABLE);
			CHECK(mopslock_last_class() == cases[i].class);
			GIVES(MOPSLOCK_EINVAL, mopslock_acquire(h, "n", NULL, NULL));
			CHECK(mopslock_last_class() == MOPSLOCK_CLASS_NONE);
		}
		CHECK(mopslock_close(h, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
		puts(cases[i].code == MOPSLOCK_EUNAUTHORIZED ? "MOPSLOCK_EUNAUTHORIZED" :
		     cases[i].code == MOPSLOCK_ENOSTORE ? "MOPSLOCK_ENOSTORE" : "MOPSLOCK_ESTORE");
	}
	/* What was sent and refused may be there all the same, and cannot be read. */
	mopslock_slot slot = {.size = sizeof slot};
	snprintf(url, sizeof url, "s3://deaf?endpoint=%s&region=us-east-1&use_path_style=true", server);
	CHECK(mopslock_open(url, NULL, &h) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EUNKNOWN, mopslock_guarded_write(h, "k", 1, "me", "x", 1, MOPSLOCK_FOREVER, &slot));
	CHECK(slot.number == 1 && strlen(slot.nonce) == 32 && slot.token == 0);
	CHECK(mopslock_close(h, MOPSLOCK_FOREVER) == MOPSLOCK_OK);

	mopslock_status status = {.size = sizeof status};
	CHECK(mopslock_open("s3://b?endpoint=http://127.0.0.1:1&region=us-east-1&use_path_style=true", NULL, &h) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_EUNREACHABLE, mopslock_inspect(h, "n", MOPSLOCK_FOREVER, &status));
	CHECK(mopslock_last_class() == MOPSLOCK_CLASS_UNREACHABLE);
	CHECK(mopslock_close(h, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

/* A host whose directory becomes a file: what it has opened is away, and may come back. */
static void replaced(const char *url)
{
	char below[4096];
	uint64_t h = 0, lease = 7, call = 0;
	mopslock_event e = {.size = sizeof e};
	mopslock_status status = {.size = sizeof status};
	mopslock_options try_once = {.size = sizeof try_once, .wait_ns = MOPSLOCK_TRY}; /* who waits waits on */
	snprintf(below, sizeof below, "%s/replaced", url);
	const char *path = below + strlen("file://");
	CHECK(mopslock_open(below, NULL, &h) == MOPSLOCK_OK);
	CHECK(mopslock_inspect(h, "n", MOPSLOCK_FOREVER, &status) == MOPSLOCK_OK);
	CHECK(rmdir(path) == 0 && fclose(fopen(path, "w")) == 0);
	GIVES(MOPSLOCK_EUNREACHABLE, mopslock_inspect(h, "n", MOPSLOCK_FOREVER, &status));
	CHECK(mopslock_last_class() == MOPSLOCK_CLASS_UNREACHABLE);
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(h, "a//b", NULL, &lease));
	CHECK(mopslock_last_class() == MOPSLOCK_CLASS_NONE);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_acquire(h, "n", &try_once, &lease));
	CHECK(lease == 0 && mopslock_last_class() == MOPSLOCK_CLASS_UNREACHABLE);
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(h, "n", &try_once, &call));
	GIVES(MOPSLOCK_OK, mopslock_next(h, MOPSLOCK_FOREVER, &e));
	CHECK(e.code == MOPSLOCK_ETIMEOUT && e.store_class == MOPSLOCK_CLASS_UNREACHABLE);
	GIVES(MOPSLOCK_OK, mopslock_begin_acquire(h, "a//b", NULL, &call));
	GIVES(MOPSLOCK_OK, mopslock_next(h, MOPSLOCK_FOREVER, &e));
	CHECK(e.code == MOPSLOCK_EINVAL && e.store_class == MOPSLOCK_CLASS_NONE);
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
	CHECK(unlink(path) == 0);
}

static void wasm(const char *url)
{
	uint64_t h = 0, lease = 0, other = 0;
	mopslock_open_options o = {.size = sizeof o, .engine = "wasm"};
	mopslock_options try_once = {.size = sizeof try_once, .wait_ns = MOPSLOCK_TRY};
	/* Nothing is compiled yet, and that takes longer. Both are served by one
	 * compilation, and so is the third. */
	o.timeout_ns = MS;
	for (int i = 0; i < 2; i++) {
		h = 7;
		GIVES(MOPSLOCK_ETIMEOUT, mopslock_open(url, &o, &h));
		says("goes on");
		CHECK(h == 0);
	}
	o.timeout_ns = 0;
	GIVES(MOPSLOCK_OK, mopslock_open(url, &o, &h));
	GIVES(MOPSLOCK_OK, mopslock_acquire(h, "wasm", NULL, &lease));
	GIVES(MOPSLOCK_EHELD, mopslock_acquire(a, "wasm", &try_once, &other));
	GIVES(MOPSLOCK_OK, mopslock_release(lease, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_OK, mopslock_close(h, MOPSLOCK_FOREVER));
}

int main(int argc, char **argv)
{
	uint64_t lease = 0;
	CHECK(argc == 4);
	directory = argv[1] + strlen("file://");
	CHECK(mopslock_open(argv[1], NULL, &a) == MOPSLOCK_OK && mopslock_open(argv[1], NULL, &b) == MOPSLOCK_OK);
	CHECK(mopslock_open(argv[2], NULL, &elsewhere) == MOPSLOCK_OK && a != b);
	arguments();
	handles();
	held_and_lost();
	ended();
	companions();
	waiting();
	closing(argv[2]);
	stores(argv[3]);
	replaced(argv[2]);
	wasm(argv[1]);
	CHECK(mopslock_acquire(a, "open", NULL, &lease) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_close(a, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(lease)); /* ended with its host */
	GIVES(MOPSLOCK_OK, mopslock_close(elsewhere, MOPSLOCK_FOREVER));
	return 0;
}
