/* What the C side and the Go side of the library share, and callers do not see. */
#ifndef MOPSLOCK_SHIM_H
#define MOPSLOCK_SHIM_H

#include "mopslock.h"

/* A thread's latest error. The Go side fills it whenever it returns a code. */
struct fault {
	int32_t reason, class;
	char text[1024];
};

/* What mopslock_list calls. Go does not look into it: arg may be no address. */
struct visitor {
	mopslock_visit visit;
	void *arg;
};

/* The tenure that writes a guarded object, and the bodies; below, where to read one to. */
struct writer {
	uint64_t token;
	char *holder;
	void *body;
	size_t len;
	void *old;
	size_t old_len;
};

struct reader {
	void *body;
	size_t cap;
	size_t *len;
};

/* What mopslock_inspect_holders calls, and where it writes the status before. */
struct holder_visitor {
	mopslock_visit_holder visit;
	void *arg;
	mopslock_status *status;
};

/* What is wanted of a limiter. */
struct permit_request {
	uint32_t capacity, width, weight;
	int64_t wait_ns;
	uint64_t cancel;
};

/* Everything but mopslock_* stays inside the library. */
#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN struct fault *this_fault(void);

/* fail stores an error and returns its code. */
HIDDEN int fail(int code, const char *text);

/* is_forked: this is a forked child, where the Go runtime must not be entered. */
HIDDEN int is_forked(void);
HIDDEN int fail_forked(void);

HIDDEN int called_for(const struct visitor *v, const char *name, const mopslock_status *status, int code);
HIDDEN void told_of(const struct holder_visitor *v, const mopslock_status *status);
HIDDEN int called_for_holder(const struct holder_visitor *v, const mopslock_permit_holder *holder);

#endif
