/* remote DIR1 DIR2: works that go on elsewhere, and works whose lease is lost. */
#include "work.h"

/* An orchestrator and what it starts, as if that were another process. */
static void remotes(void)
{
	char text[MOPSLOCK_LEASE_SIZE], ours[MOPSLOCK_HOLDER_SIZE], theirs[MOPSLOCK_HOLDER_SIZE];
	uint64_t token = 0, v = invoke(a, "job", NULL), work = gives_work(v), r, begun, none = 7;
	mopslock_options o = {.size = sizeof o, .without_lease = 1};
	text_of(work, text);
	GIVES(MOPSLOCK_EINVAL, mopslock_remote(b, "another", text, NULL, &none));
	says("another");
	r = remote(elsewhere, text, NULL);
	fails(r, MOPSLOCK_ECANNOT_MAINTAIN, MOPSLOCK_REASON_ABSENT);
	close_one(r);
	r = remote(b, text, NULL);
	begun = gives_work(r);
	CHECK(mopslock_holder(work, ours, sizeof ours, NULL) == MOPSLOCK_OK);
	CHECK(mopslock_holder(begun, theirs, sizeof theirs, NULL) == MOPSLOCK_OK && strcmp(ours, theirs) == 0);
	GIVES(MOPSLOCK_OK, mopslock_fencing_token(begun, &token));
	CHECK(token == 1);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, NULL, 0, NULL)); /* it was started, and goes on */
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_work(v, MS, NULL, &none));
	GIVES(MOPSLOCK_OK, mopslock_ended(begun, 1, "by a remote", 11, NULL));
	over(r);
	is(r, "by a remote", 11, 100, 0, 1);
	over(v);
	is(v, "by a remote", 11, 100, 0, 0);
	GIVES(MOPSLOCK_EENDED, mopslock_wait(begun, MOPSLOCK_FOREVER, NULL));
	GIVES(MOPSLOCK_EENDED, mopslock_wait(work, MOPSLOCK_FOREVER, NULL));
	close_one(r);
	close_one(v);
	r = remote(b, text, NULL); /* once more, and the result is there */
	over(r);
	close_one(r);

	/* One that comes late is not given the work. */
	v = invoke(a, "late", NULL);
	text_of(gives_work(v), text);
	close_one(v);
	r = remote(b, text, NULL);
	fails(r, MOPSLOCK_ELOST, MOPSLOCK_REASON_RELEASED);
	close_one(r);
	v = invoke(a, "late", NULL);
	gives_work(v);
	r = remote(b, text, &o); /* whatever it was told: it is another's */
	fails(r, MOPSLOCK_ELOST, MOPSLOCK_REASON_TAKEN);
	close_one(r);
	close_one(v);

	/* A caller with memo_failures gets the failure of the other side. */
	v = invoke(a, "bad job", &keeping);
	text_of(gives_work(v), text);
	r = remote(b, text, NULL);
	work = gives_work(r);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 0, "no", 2, NULL));
	fails(r, MOPSLOCK_ENORESULT, MOPSLOCK_REASON_FAILED);
	GIVES(MOPSLOCK_EENDED, mopslock_wait(work, MOPSLOCK_FOREVER, NULL));
	close_one(r);
	r = remote(b, text, &keeping);
	GIVES(MOPSLOCK_OK, mopslock_ended(gives_work(r), 0, "no", 2, NULL));
	over(r);
	is(r, "no", 2, 100, 1, 1);
	close_one(r);
	close_one(v);

	/* Without a lease there is a work all the same. */
	GIVES(MOPSLOCK_OK, mopslock_remote(b, "alone", NULL, &o, &r));
	work = gives_work(r);
	CHECK(mopslock_holder(work, ours, sizeof ours, NULL) == MOPSLOCK_OK && ours[0] == 0);
	CHECK(mopslock_fencing_token(work, &token) == MOPSLOCK_OK && token == 0);
	GIVES(MOPSLOCK_EHANDLE, mopslock_lease_text(work, text, sizeof text, NULL));
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "alone", 5, NULL));
	over(r);
	is(r, "alone", 5, 100, 0, 1);
	close_one(r);
}

/* A remote whose lease was released goes on; one whose lease is another's does not. */
static void outlived(void)
{
	char text[MOPSLOCK_LEASE_SIZE];
	uint64_t v = invoke(a, "outlived", &lasting), r, work, none = 7;
	int reason = 0;
	int64_t left = 1;
	text_of(gives_work(v), text);
	r = remote(b, text, NULL);
	work = gives_work(r);
	close_one(v); /* releases it */
	for (int i = 0; i < 10000 && left > 0; i++) { /* until it has seen that */
		CHECK(mopslock_wait(work, MS, NULL) == MOPSLOCK_ETIMEOUT);
		CHECK(mopslock_left(work, &left) == MOPSLOCK_OK);
	}
	CHECK(left <= 0);
	GIVES(MOPSLOCK_OK, mopslock_check(work));
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "all the same", 12, NULL));
	over(r);
	is(r, "all the same", 12, 100, 0, 1);
	close_one(r);

	v = invoke(a, "broken", &lasting);
	text_of(gives_work(v), text);
	r = remote(b, text, NULL);
	work = gives_work(r);
	mopslock_break_options o = {.size = sizeof o, .why = "test", .now = 1};
	GIVES(MOPSLOCK_OK, mopslock_break(b, "broken", &o));
	GIVES(MOPSLOCK_ELOST, mopslock_wait(work, MOPSLOCK_FOREVER, &reason));
	CHECK(reason == MOPSLOCK_REASON_BROKEN);
	GIVES(MOPSLOCK_ELOST, mopslock_check(work));
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "not stored", 10, NULL));
	fails(r, MOPSLOCK_ENORESULT, MOPSLOCK_REASON_BROKEN);
	close_one(r);
	GIVES(MOPSLOCK_ETIMEOUT, mopslock_work(v, 0, NULL, &none)); /* its own is at work still */
	int code = mopslock_invocation_close(v, MOPSLOCK_FOREVER); /* it may have heard, or hears by that */
	CHECK(code == MOPSLOCK_OK || (code == MOPSLOCK_ELOST && mopslock_last_reason() == MOPSLOCK_REASON_BROKEN));
}

/* A lease that was lost, and won again: another work. */
static void lost(void)
{
	uint64_t was = 0, token = 0, v = invoke(a, "lost", &lasting), work = gives_work(v), again;
	mopslock_break_options o = {.size = sizeof o, .why = "test", .now = 1};
	int reason = 0;
	CHECK(mopslock_fencing_token(work, &was) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_OK, mopslock_break(b, "lost", &o));
	GIVES(MOPSLOCK_ELOST, mopslock_wait(work, MOPSLOCK_FOREVER, &reason));
	CHECK(reason == MOPSLOCK_REASON_BROKEN);
	GIVES(MOPSLOCK_OK, mopslock_ended(work, 1, "of one who lost it", 18, NULL)); /* is not stored */
	again = gives_work(v);
	CHECK(again != work && mopslock_fencing_token(again, &token) == MOPSLOCK_OK && token > was);
	GIVES(MOPSLOCK_ELOST, mopslock_check(work)); /* forever */
	GIVES(MOPSLOCK_EENDED, mopslock_ended(work, 1, NULL, 0, NULL));
	GIVES(MOPSLOCK_OK, mopslock_ended(again, 1, "new", 3, NULL));
	over(v);
	is(v, "new", 3, 100, 0, 1);
	close_one(v);
}

int main(int argc, char **argv)
{
	open_all(argc, argv);
	remotes();
	outlived();
	lost();
	return close_all();
}
