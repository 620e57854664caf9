/* strict DIR: what strict has beside lastwriter, on the store URL of an empty directory. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "check.h"

#define S INT64_C(1000000000)

static uint64_t a, b; /* two processes, as far as the store can tell */

static uint64_t held(uint64_t host, const char *name, mopslock_options o)
{
	uint64_t lease = 0;
	o.size = sizeof o;
	CHECK(mopslock_acquire(host, name, &o, &lease) == MOPSLOCK_OK);
	return lease;
}

static uint64_t token_of(uint64_t member)
{
	uint64_t token = 0;
	CHECK(mopslock_fencing_token(member, &token) == MOPSLOCK_OK);
	return token;
}

static uint64_t epoch_of(uint64_t member)
{
	uint64_t epoch = 0;
	CHECK(mopslock_epoch(member, &epoch) == MOPSLOCK_OK);
	return epoch;
}

static int protocol_of(uint64_t member)
{
	int protocol = -1;
	CHECK(mopslock_protocol(member, &protocol) == MOPSLOCK_OK);
	return protocol;
}

static void protocols(void)
{
	mopslock_options last = {.protocol = MOPSLOCK_PROTOCOL_LASTWRITER};
	mopslock_options bad = {.size = sizeof bad, .protocol = 3};
	uint64_t lease = held(a, "old", last), number = 0;
	CHECK(protocol_of(lease) == MOPSLOCK_PROTOCOL_LASTWRITER && token_of(lease) == 0 && epoch_of(lease) == 0);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	lease = held(b, "old", (mopslock_options){0}); /* its lock.json says whose it is */
	CHECK(protocol_of(lease) == MOPSLOCK_PROTOCOL_LASTWRITER);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	lease = held(b, "a/lock", (mopslock_options){0}); /* no name is special */
	CHECK(protocol_of(lease) == MOPSLOCK_PROTOCOL_STRICT);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);

	for (uint64_t tenure = 0, before = 0; tenure < 3; tenure++, before = number) {
		lease = held(tenure % 2 ? a : b, "new", (mopslock_options){.label = "third floor"});
		number = token_of(lease);
		CHECK(protocol_of(lease) == MOPSLOCK_PROTOCOL_STRICT && number > before && epoch_of(lease) == number);
		CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	}
	GIVES(MOPSLOCK_EHANDLE, mopslock_fencing_token(lease, &number));
	GIVES(MOPSLOCK_EINVAL, mopslock_fencing_token(lease, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &bad, &lease));
	bad = (mopslock_options){.size = sizeof bad, .session = 2};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &bad, &lease));
	bad = (mopslock_options){.size = sizeof bad, .session = 1, .ttl_ns = MOPSLOCK_ENDLESS};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &bad, &lease));
	bad = (mopslock_options){.size = sizeof bad, .protocol = MOPSLOCK_PROTOCOL_LASTWRITER, .ttl_ns = MOPSLOCK_ENDLESS};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &bad, &lease));
	bad = (mopslock_options){.size = sizeof bad, .label = "two\nlines"};
	GIVES(MOPSLOCK_EINVAL, mopslock_acquire(a, "n", &bad, &lease));
}

static void companions(void)
{
	char text[MOPSLOCK_LEASE_SIZE], id[64];
	int64_t left = 0;
	mopslock_status s = {.size = sizeof s};
	uint64_t lease = held(a, "joined", (mopslock_options){.label = "third floor"}), companion = 0;
	CHECK(mopslock_inspect(b, "joined", MOPSLOCK_FOREVER, &s) == MOPSLOCK_OK && strcmp(s.label, "third floor") == 0);
	CHECK(mopslock_lease_text(lease, text, sizeof text, NULL) == MOPSLOCK_OK);
	CHECK(strstr(text, "\"protocol\":\"strict\"") != NULL && strstr(text, "\"epoch\":1,\"token\":1") != NULL);
	GIVES(MOPSLOCK_OK, mopslock_accompany(b, text, NULL, &companion));
	CHECK(token_of(companion) == token_of(lease) && epoch_of(companion) == 2);
	GIVES(MOPSLOCK_OK, mopslock_inspect(b, "joined", MOPSLOCK_FOREVER, &s));
	CHECK(s.protocol == MOPSLOCK_PROTOCOL_STRICT && s.epoch == 2 && s.token == 1 && s.state == MOPSLOCK_STATE_HELD);
	CHECK(strlen(s.companions) == 36 && s.session[0] == 0 && s.left_ns > 50 * S);
	GIVES(MOPSLOCK_OK, mopslock_session(lease, id, sizeof id, NULL));
	CHECK(id[0] == 0);
	GIVES(MOPSLOCK_OK, mopslock_leave(companion, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_OK, mopslock_renew(b, text, NULL, &left));
	CHECK(left > 50 * S);
	GIVES(MOPSLOCK_OK, mopslock_release_text(b, text, NULL));
	GIVES(MOPSLOCK_OK, mopslock_inspect(b, "joined", MOPSLOCK_FOREVER, &s));
	CHECK(s.state == MOPSLOCK_STATE_RELEASED && s.epoch > 2);
	/* It is what the holder wants, too, unless it was told before: then the lease was lost. */
	int code = mopslock_release(lease, MOPSLOCK_FOREVER);
	CHECK(code == MOPSLOCK_OK || (code == MOPSLOCK_ELOST && mopslock_last_reason() == MOPSLOCK_REASON_RELEASED));
}

static void sessions(void)
{
	char first[64], second[64];
	mopslock_status s = {.size = sizeof s};
	mopslock_options on = {.session = 1, .ttl_ns = 5 * S};
	uint64_t one = held(a, "s/1", on), two = held(a, "s/2", on);
	CHECK(mopslock_session(one, first, sizeof first, NULL) == MOPSLOCK_OK);
	CHECK(mopslock_session(two, second, sizeof second, NULL) == MOPSLOCK_OK);
	CHECK(first[0] != 0 && strcmp(first, second) == 0);
	CHECK(mopslock_inspect(b, "s/1", MOPSLOCK_FOREVER, &s) == MOPSLOCK_OK && strcmp(s.session, first) == 0);
	CHECK(mopslock_release(one, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_release(two, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

static void breaks(void)
{
	int reason = 0;
	int64_t left = 0;
	mopslock_status s = {.size = sizeof s};
	mopslock_break_options why = {.size = sizeof why, .why = "it is stuck", .seen = &s};
	uint64_t lease = held(a, "b", (mopslock_options){.ttl_ns = 3 * S});
	GIVES(MOPSLOCK_EINVAL, mopslock_break(b, "b", &(mopslock_break_options){.size = sizeof why})); /* no reason */
	GIVES(MOPSLOCK_EINVAL, mopslock_break(b, "b", &(mopslock_break_options){.size = sizeof why, .why = "x", .now = 2}));
	GIVES(MOPSLOCK_EINVAL, mopslock_break(b, NULL, &why));
	GIVES(MOPSLOCK_OK, mopslock_break(b, "b", &why));
	CHECK(s.state == MOPSLOCK_STATE_BROKEN && strcmp(s.why, "it is stuck") == 0 && strchr(s.by, '@') != NULL);
	CHECK(s.epoch == 2 && s.token == 1);
	GIVES(MOPSLOCK_ELOST, mopslock_wait(lease, 30 * S, &reason));
	CHECK(reason == MOPSLOCK_REASON_BROKEN);
	GIVES(MOPSLOCK_ELOST, mopslock_release(lease, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EVACANT, mopslock_break(b, "nobody", &why));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_VACANT);

	lease = held(a, "h", (mopslock_options){.ttl_ns = 60 * S});
	mopslock_break_options whose = {.size = sizeof whose, .why = "it is stuck", .seen = &s, .holder = "another"};
	GIVES(MOPSLOCK_EHELD, mopslock_break(b, "h", &whose));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_HELD && s.state == MOPSLOCK_STATE_HELD && s.epoch == 1);
	CHECK(mopslock_check(lease) == MOPSLOCK_OK);
	char holder[MOPSLOCK_HOLDER_SIZE];
	strcpy(holder, s.holder);
	whose.holder = holder;
	GIVES(MOPSLOCK_OK, mopslock_break(b, "h", &whose));
	CHECK(s.state == MOPSLOCK_STATE_BROKEN && strcmp(s.holder, holder) == 0);
	/* A caller of version 5 gives no holder, and breaks the present one. */
	whose.size = offsetof(mopslock_break_options, holder);
	whose.holder = "another";
	held(a, "older", (mopslock_options){.ttl_ns = 60 * S});
	GIVES(MOPSLOCK_OK, mopslock_break(b, "older", &whose));

	lease = held(a, "endless", (mopslock_options){.ttl_ns = MOPSLOCK_ENDLESS});
	CHECK(mopslock_left(lease, &left) == MOPSLOCK_OK && left == INT64_MAX);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

static void guard(void)
{
	char body[64], holder[MOPSLOCK_HOLDER_SIZE], next[MOPSLOCK_HOLDER_SIZE];
	size_t n = 7;
	int won = 7;
	mopslock_slot s = {.size = sizeof s};
	uint64_t lease = held(a, "g", (mopslock_options){0}), token = token_of(lease);
	CHECK(mopslock_holder(lease, holder, sizeof holder, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_guarded_read(a, "object", MOPSLOCK_FOREVER, body, sizeof body, &n, &s));
	CHECK(n == 0 && s.number == 0 && s.written == 0);
	GIVES(MOPSLOCK_OK, mopslock_guarded_update(a, "object", token, holder, NULL, 0, "one", 3, MOPSLOCK_FOREVER, &s));
	CHECK(s.number == 1 && s.token == token && strcmp(s.holder, holder) == 0 && strlen(s.nonce) == 32);
	GIVES(MOPSLOCK_EHELD, mopslock_guarded_update(a, "object", token, holder, "two", 3, "x", 1, MOPSLOCK_FOREVER, &s));
	GIVES(MOPSLOCK_OK, mopslock_guarded_write(b, "object", token, holder, "two", 3, MOPSLOCK_FOREVER, NULL));
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);

	lease = held(b, "g", (mopslock_options){0});
	CHECK(mopslock_holder(lease, next, sizeof next, NULL) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ESHORT, mopslock_guarded_raise(b, "object", token_of(lease), next, MOPSLOCK_FOREVER, body, 2, &n, &s));
	CHECK(n == 3);
	GIVES(MOPSLOCK_ESTALE, mopslock_guarded_write(a, "object", token, holder, "late", 4, MOPSLOCK_FOREVER, &s));
	CHECK(s.token == token_of(lease) && strcmp(s.holder, next) == 0 && s.number == 3);
	GIVES(MOPSLOCK_OK, mopslock_guarded_read(a, "object", MOPSLOCK_FOREVER, body, sizeof body, &n, &s));
	CHECK(n == 3 && memcmp(body, "two", 3) == 0 && s.written == 2 && s.stamp_ns > 0);

	GIVES(MOPSLOCK_EVACANT, mopslock_read_once(a, "result", MOPSLOCK_FOREVER, body, sizeof body, &n, NULL));
	GIVES(MOPSLOCK_OK, mopslock_create_once(b, "result", token_of(lease), next, "42", 2, MOPSLOCK_FOREVER, &won, &s));
	CHECK(won == 1);
	GIVES(MOPSLOCK_OK, mopslock_create_once(a, "result", token, holder, "41", 2, MOPSLOCK_FOREVER, &won, &s));
	CHECK(won == 0 && strcmp(s.holder, next) == 0);
	GIVES(MOPSLOCK_OK, mopslock_read_once(a, "result", MOPSLOCK_FOREVER, body, sizeof body, &n, NULL));
	CHECK(n == 2 && memcmp(body, "42", 2) == 0);

	GIVES(MOPSLOCK_EINVAL, mopslock_guarded_write(a, "object", 0, holder, "x", 1, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_guarded_write(a, "object", token, holder, NULL, 1, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_guarded_write(a, "object", token, holder, "", MOPSLOCK_GUARDED_MAX + 1, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_guarded_write(a, "//", token, holder, "x", 1, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EINVAL, mopslock_guarded_write(a, "object", token, NULL, "x", 1, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EUNFIT, mopslock_read_once(a, "g/_mopslock/fffffffffffffffe/v", MOPSLOCK_FOREVER, body, sizeof body, &n, NULL));
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_guarded_read(a, "object", 0, body, sizeof body, &n, NULL));
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	alarm(120); /* to hang is to fail */
	CHECK(mopslock_open(argv[1], NULL, &a) == MOPSLOCK_OK && mopslock_open(argv[1], NULL, &b) == MOPSLOCK_OK);
	protocols();
	companions();
	sessions();
	breaks();
	guard();
	CHECK(mopslock_close(a, MOPSLOCK_FOREVER) == MOPSLOCK_OK && mopslock_close(b, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ECLOSED, mopslock_guarded_read(a, "object", MOPSLOCK_FOREVER, NULL, 0, NULL, NULL));
	return 0;
}
