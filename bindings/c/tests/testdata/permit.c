/* permit DIR: shared semaphores on the store URL of an empty directory, by two hosts. */
#include <unistd.h>

#include "check.h"

#define S INT64_C(1000000000)

static uint64_t a, b;

static mopslock_options view(uint32_t capacity, uint32_t width)
{
	return (mopslock_options){.size = sizeof(mopslock_options), .capacity = capacity, .width = width, .wait_ns = MOPSLOCK_TRY};
}

static uint64_t taken(uint64_t host, const char *name, mopslock_options o)
{
	uint64_t permit = 0;
	CHECK(mopslock_permit(host, name, &o, &permit) == MOPSLOCK_OK && permit != 0);
	return permit;
}

struct found {
	int count, stop;
	uint64_t weight;
	char labels[64];
};

static int visit(void *to, const mopslock_permit_holder *holder)
{
	struct found *f = to;
	CHECK(holder->size == sizeof *holder && holder->stale == 0 && strlen(holder->id) == 36);
	CHECK(holder->session[0] != 0 && holder->host[0] != 0 && holder->pid[0] != 0);
	f->weight += holder->weight;
	strcat(strcat(f->labels, holder->label), ".");
	return ++f->count == f->stop;
}

static void shares(void)
{
	char id[MOPSLOCK_HOLDER_SIZE], text[MOPSLOCK_LEASE_SIZE];
	uint64_t total = 0, token = 0, epoch = 0, none = 7;
	int64_t left = 0;
	int protocol = 0, reason = 9;
	mopslock_status s = {.size = sizeof s};
	struct found f = {.count = 0};
	mopslock_options o = view(2, 2), tell = view(2, 2);
	o.weight = 3, o.label = "backup";
	uint64_t first = taken(a, "pool", o), second = taken(b, "pool", view(2, 2));
	CHECK(mopslock_permit_total(first, &total) == MOPSLOCK_OK && total == 3);
	CHECK(mopslock_permit_total(second, &total) == MOPSLOCK_OK && total == 4);
	CHECK(mopslock_fencing_token(first, &token) == MOPSLOCK_OK && token == 1);
	CHECK(mopslock_fencing_token(second, &token) == MOPSLOCK_OK && token == 2);
	CHECK(mopslock_epoch(second, &epoch) == MOPSLOCK_OK && epoch == 2);
	CHECK(mopslock_protocol(first, &protocol) == MOPSLOCK_OK && protocol == MOPSLOCK_PROTOCOL_STRICT);
	CHECK(mopslock_holder(first, id, sizeof id, NULL) == MOPSLOCK_OK && strlen(id) == 36);
	CHECK(mopslock_session(first, text, sizeof text, NULL) == MOPSLOCK_OK && text[0] != 0);
	CHECK(mopslock_left(first, &left) == MOPSLOCK_OK && left > 30 * S);
	GIVES(MOPSLOCK_OK, mopslock_check(first));
	GIVES(MOPSLOCK_EHANDLE, mopslock_lease_text(first, text, sizeof text, NULL));
	GIVES(MOPSLOCK_EHANDLE, mopslock_leave(first, MOPSLOCK_FOREVER));

	tell.seen = &s;
	GIVES(MOPSLOCK_EFULL, mopslock_permit(a, "pool", &tell, &none));
	CHECK(none == 0 && mopslock_last_reason() == MOPSLOCK_REASON_FULL);
	CHECK(s.state == MOPSLOCK_STATE_HELD && s.held == 4 && s.capacity == 2 && s.width == 2 && s.holders == 2 && s.limit == 0);

	memset(&s, 0, sizeof s), s.size = sizeof s;
	GIVES(MOPSLOCK_OK, mopslock_inspect(a, "pool", MOPSLOCK_FOREVER, &s));
	CHECK(s.held == 4 && s.holders == 2 && s.protocol == MOPSLOCK_PROTOCOL_STRICT && s.ttl_ns == 0);
	GIVES(MOPSLOCK_OK, mopslock_inspect_holders(a, "pool", MOPSLOCK_FOREVER, &s, visit, &f));
	CHECK(f.count == 2 && f.weight == 4 && strcmp(f.labels, "backup..") == 0);
	f = (struct found){.stop = 1};
	GIVES(MOPSLOCK_OK, mopslock_inspect_holders(a, "pool", MOPSLOCK_FOREVER, &s, visit, &f));
	CHECK(f.count == 1);
	GIVES(MOPSLOCK_EINVAL, mopslock_inspect_holders(a, "pool", MOPSLOCK_FOREVER, NULL, visit, &f));
	GIVES(MOPSLOCK_EINVAL, mopslock_inspect_holders(a, "pool", MOPSLOCK_FOREVER, &s, NULL, &f));

	GIVES(MOPSLOCK_OK, mopslock_release(first, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_check(first));
	GIVES(MOPSLOCK_OK, mopslock_check(second));
	GIVES(MOPSLOCK_OK, mopslock_release(second, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EHANDLE, mopslock_wait(second, 0, &reason));
	f = (struct found){.stop = 0};
	GIVES(MOPSLOCK_OK, mopslock_inspect_holders(b, "pool", MOPSLOCK_FOREVER, &s, visit, &f));
	CHECK(f.count == 0 && s.state == MOPSLOCK_STATE_VACANT && s.held == 0 && s.capacity == 2);
}

static void refusals(void)
{
	uint64_t none = 7, lease = 0, permit = 0;
	mopslock_options o = view(2, 2);
	GIVES(MOPSLOCK_EINVAL, mopslock_permit(a, "pool", NULL, &none));
	GIVES(MOPSLOCK_EINVAL, mopslock_permit(a, "pool", &(mopslock_options){.size = sizeof o}, &none)); /* no view */
	o.wait_ns = -2;
	GIVES(MOPSLOCK_EINVAL, mopslock_permit(a, "pool", &o, &none));
	o = view(2, 2), o.protocol = MOPSLOCK_PROTOCOL_LASTWRITER;
	GIVES(MOPSLOCK_EINVAL, mopslock_permit(a, "pool", &o, &none));
	o = view(2, 2), o.weight = 3, o.spare = 2;
	GIVES(MOPSLOCK_ETOO_HEAVY, mopslock_permit(a, "pool", &o, &none));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_TOO_HEAVY && none == 0);
	GIVES(MOPSLOCK_EHANDLE, mopslock_permit(lease, "pool", &o, &none));
	GIVES(MOPSLOCK_EHANDLE, mopslock_permit_total(a, &none));
	GIVES(MOPSLOCK_EINVAL, mopslock_permit_total(a, NULL));

	CHECK(mopslock_acquire(a, "leased", &(mopslock_options){.size = sizeof o, .protocol = MOPSLOCK_PROTOCOL_STRICT}, &lease) == MOPSLOCK_OK);
	o = view(2, 2);
	GIVES(MOPSLOCK_EUNFIT, mopslock_permit(b, "leased", &o, &none));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_KIND);
	permit = taken(a, "shared", view(1, 1));
	GIVES(MOPSLOCK_EUNFIT, mopslock_acquire(b, "shared", &(mopslock_options){.size = sizeof o, .protocol = MOPSLOCK_PROTOCOL_STRICT, .wait_ns = MOPSLOCK_TRY}, &none));
	CHECK(mopslock_last_reason() == MOPSLOCK_REASON_KIND);
	CHECK(mopslock_release(lease, MOPSLOCK_FOREVER) == MOPSLOCK_OK && mopslock_release(permit, MOPSLOCK_FOREVER) == MOPSLOCK_OK);

	o = view(1, 1), o.spare = 0;
	permit = taken(a, "kept", view(3, 1));
	o = view(3, 1), o.spare = 2; /* the last two are for others */
	GIVES(MOPSLOCK_EFULL, mopslock_permit(a, "kept", &o, &none));
	CHECK(mopslock_release(permit, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

static void limits(void)
{
	uint64_t none = 0;
	mopslock_options o = view(5, 1);
	mopslock_status s = {.size = sizeof s};
	o.seen = &s;
	GIVES(MOPSLOCK_OK, mopslock_set_limit(a, "capped", 2, MOPSLOCK_FOREVER));
	uint64_t first = taken(a, "capped", view(5, 1)), second = taken(b, "capped", view(5, 1));
	GIVES(MOPSLOCK_EFULL, mopslock_permit(a, "capped", &o, &none));
	CHECK(s.limit == 2 && s.held == 2);
	GIVES(MOPSLOCK_OK, mopslock_set_limit(b, "capped", 0, MOPSLOCK_FOREVER));
	uint64_t third = taken(a, "capped", view(5, 1));
	GIVES(MOPSLOCK_EINVAL, mopslock_set_limit(b, "capped", UINT64_MAX, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EINVAL, mopslock_set_limit(b, NULL, 1, MOPSLOCK_FOREVER));
	GIVES(MOPSLOCK_EINVAL, mopslock_set_limit(b, "capped", 1, -2));
	GIVES(MOPSLOCK_EHANDLE, mopslock_set_limit(first, "capped", 1, 0));
	GIVES(MOPSLOCK_EUNFIT, mopslock_set_limit(b, "leased", 1, MOPSLOCK_FOREVER));
	CHECK(mopslock_release(first, MOPSLOCK_FOREVER) == MOPSLOCK_OK && mopslock_release(second, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_release(third, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
}

static void begun(void)
{
	uint64_t call = 0, cancelled = 0, cancel = 0;
	mopslock_status s = {.size = sizeof s};
	mopslock_event e = {.size = sizeof e, .seen = &s};
	mopslock_options o = view(1, 1);
	CHECK(mopslock_cancel_new(&cancel) == MOPSLOCK_OK);
	uint64_t first = taken(a, "begun", view(1, 1));
	CHECK(mopslock_begin_permit(b, "begun", &o, &call) == MOPSLOCK_OK);
	CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	CHECK(e.kind == MOPSLOCK_EVENT_CALL && e.call == call && e.code == MOPSLOCK_EFULL && e.held == 1 && e.member == 0);
	CHECK(s.held == 1 && s.holders == 1);
	o.wait_ns = 0;
	CHECK(mopslock_begin_permit(b, "begun", &o, &call) == MOPSLOCK_OK);
	CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	CHECK(e.kind == MOPSLOCK_EVENT_WAITING && e.call == call && s.held == 1);
	o.cancel = cancel;
	CHECK(mopslock_begin_permit(b, "begun", &o, &cancelled) == MOPSLOCK_OK);
	CHECK(mopslock_cancel(cancel) == MOPSLOCK_OK);
	do
		CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	while (e.kind == MOPSLOCK_EVENT_WAITING);
	CHECK(e.call == cancelled && e.code == MOPSLOCK_ECANCELLED);
	CHECK(mopslock_release(first, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	do
		CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK);
	while (e.kind == MOPSLOCK_EVENT_WAITING);
	CHECK(e.call == call && e.code == MOPSLOCK_OK && e.member != 0 && e.held == 1);
	uint64_t permit = e.member;
	o.seen = &s, o.cancel = 0;
	GIVES(MOPSLOCK_EINVAL, mopslock_begin_permit(b, "begun", &o, &call)); /* the event has its own */
	CHECK(mopslock_begin_release(permit, MOPSLOCK_FOREVER, &call) == MOPSLOCK_OK);
	CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK && e.kind == MOPSLOCK_EVENT_ENDED && e.member == permit);
	CHECK(mopslock_next(b, MOPSLOCK_FOREVER, &e) == MOPSLOCK_OK && e.kind == MOPSLOCK_EVENT_CALL && e.code == MOPSLOCK_OK);
	CHECK(mopslock_cancel_free(cancel) == MOPSLOCK_OK);
}

static int listed(void *arg, const char *name, const mopslock_status *status, int code)
{
	CHECK(code == MOPSLOCK_OK && (strcmp(name, "leased") == 0) == (status->capacity == 0));
	++*(int *)arg;
	return 0;
}

int main(int argc, char **argv)
{
	int count = 0;
	uint64_t none = 0;
	mopslock_options o = view(1, 1);
	CHECK(argc == 2);
	alarm(120); /* to hang is to fail */
	CHECK(mopslock_open(argv[1], NULL, &a) == MOPSLOCK_OK && mopslock_open(argv[1], NULL, &b) == MOPSLOCK_OK);
	shares();
	refusals();
	limits();
	begun();
	GIVES(MOPSLOCK_OK, mopslock_list(a, NULL, MOPSLOCK_FOREVER, listed, &count));
	CHECK(count == 6);
	taken(a, "begun", view(1, 1)); /* closing gives it back */
	CHECK(mopslock_close(a, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	uint64_t permit = taken(b, "begun", view(1, 1));
	CHECK(mopslock_release(permit, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	CHECK(mopslock_close(b, MOPSLOCK_FOREVER) == MOPSLOCK_OK);
	GIVES(MOPSLOCK_ECLOSED, mopslock_permit(b, "begun", &o, &none));
	GIVES(MOPSLOCK_ECLOSED, mopslock_set_limit(b, "begun", 1, 0));
	return 0;
}
