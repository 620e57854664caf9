/*
 * mopslock.h: leases (expiring exclusive claims) and semaphores kept in any blob store, and a
 * limiter of what one process does at once.
 *
 * Two libraries have this header. libmopslock has all of it. libmopslock-core has only the
 * first part, the core: no I/O, no clock, a fraction of the size. Load one of the two into a
 * process: each brings a Go runtime. Both also work beside each other, as do copies of one (on
 * Linux the Python package does so). Each knows only the handles that it made itself.
 *
 * THE RULES FOR ALL OF IT
 *
 * Ownership. The library writes only into memory that the caller gives, and it keeps no pointer
 * beyond the call. It names what it makes by handles. A handle is a number, never a pointer. No
 * handle is given twice, 0 is none, and a stale handle is an error (MOPSLOCK_EHANDLE), not a
 * crash. So the caller frees no memory, but it gives handles back. Otherwise what they name stays
 * until the process ends. To give back:
 *
 *     a machine            mopslock_drop
 *     a host               mopslock_close, with everything that was made on it
 *     a lease, a permit    mopslock_release
 *     a companion          mopslock_leave
 *     a cancel handle      mopslock_cancel_free
 *     an invocation        mopslock_invocation_close, with its works
 *     a result's reader    mopslock_result_close
 *     a limiter            mopslock_limiter_free, with its holders
 *     a limiter's holder   mopslock_limiter_holder_free, with its permits and slots
 *     a limiter's permit   mopslock_limiter_release
 *
 * The loss of a lease gives nothing back: release also a lost lease.
 *
 * Strings. Strings in and out are UTF-8 and end with NUL. A string that comes out is valid UTF-8.
 * If it is cut to fit, it is cut between two characters.
 *
 * Units. Durations are nanoseconds in int64_t, and their names end in _ns. Instants are
 * nanoseconds since 1970, UTC. Sizes and lengths are bytes.
 *
 * Errors. A function that can fail returns MOPSLOCK_OK (0) or a negative code of enum
 * mopslock_code. Act on the code. mopslock_last_error has a text for people, mopslock_last_reason
 * the cause in the core's terms, and mopslock_last_class how the store failed, if it did. All
 * three are about the latest call that failed in this thread. A call that succeeds leaves them
 * alone.
 *
 * Threads. Any thread may call any function at any time, also with a handle that another thread
 * is using. A call that waits blocks only its own thread. Do not cancel a thread (pthread_cancel)
 * or jump out of it (longjmp) while it is inside a call.
 *
 * fork. The Go runtime does not survive fork(): the child has only one of the threads that the
 * runtime needs. So in a child every function that can return a code returns MOPSLOCK_EFORKED at
 * once. The functions that return no code (version, last error) work. exec() in the child is fine:
 * a new program is a new process image. The runtime starts when the library is loaded, not at the
 * first call. So a process that is linked with the library can use it in no forked child, even if
 * the parent never called it. A process that loads the library with dlopen() may fork before that,
 * and load it in the child. The parent goes on undisturbed. As always, a vfork() child must call
 * nothing but exec() and _exit().
 *
 * Signals. At load the Go runtime installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and
 * SIGURG, and no others. If one of the first four does not come from Go code, the runtime hands it
 * on to the handler that was there before, or does what the signal does by default. The runtime
 * uses SIGURG to interrupt its own threads. A handler that you install can run on a Go thread,
 * whose stack is small: give it SA_ONSTACK, and SA_RESTART, or the runtime may crash. The runtime
 * adds SA_ONSTACK to the handlers that it finds. Call no function of this header from a signal
 * handler: set a flag, and call from a thread.
 *
 * Environment. Each mopslock_open takes over the process's environment as it is at that moment,
 * with the changes by setenv() and unsetenv(). Call neither of them in another thread meanwhile.
 * Open hosts keep their credentials. Every open looks at AWS_... . For GOOGLE_... and AZURE_...
 * the process keeps what the first open of such a URL found, for AZURE_... even if that open
 * failed. The first request reads the proxies (HTTPS_PROXY, NO_PROXY) and SSL_CERT_FILE. The Go
 * runtime's own variables, such as GOMAXPROCS and GOMEMLIMIT, count only as they were when the
 * process started.
 *
 * Unloading. The library cannot be unloaded; dlclose() does nothing.
 *
 * Evolution. Functions, constants and fields are only ever added. A struct begins with its size,
 * so that old callers work with new libraries: set it to sizeof the struct, and set the fields
 * that you do not need to zero. A caller that uses something newer than the library gets
 * MOPSLOCK_EINVAL.
 */
#ifndef MOPSLOCK_H
#define MOPSLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something is added here. 3: strict and the guard. 4: invocations. 5: semaphores
 * and the limiter. 6: the holder of a break. */
#define MOPSLOCK_ABI_VERSION 6

/* The version that the loaded library was built as. If it is below MOPSLOCK_ABI_VERSION, the
 * library lacks something of this header. */
uint32_t mopslock_abi_version(void);

/* What happened. The numbers never change. */
enum mopslock_code {
	MOPSLOCK_OK = 0,

	/* Any function. */
	MOPSLOCK_EINVAL = -1,  /* an argument is invalid; nothing was done */
	MOPSLOCK_EHANDLE = -2, /* the handle names nothing, or something of another kind */
	MOPSLOCK_ESHORT = -3,  /* the buffer is too short; the function says how long it must be */
	MOPSLOCK_EFORKED = -4, /* this is a forked child: see fork above */

	/* The core. */
	MOPSLOCK_ECONTRACT = -16, /* the answer is an error: the caller broke the contract */

	/* The host. Each function says what the state is after each. */
	MOPSLOCK_EHELD = -32,         /* another holds the lease, or was faster */
	MOPSLOCK_ETIMEOUT = -33,      /* the given time is over */
	MOPSLOCK_ECANCELLED = -34,    /* mopslock_cancel was called */
	MOPSLOCK_ECLOSED = -35,       /* the host is closed or closing */
	MOPSLOCK_ELOST = -36,         /* the lease is no longer ours: stop what it guards */
	MOPSLOCK_EENDED = -37,        /* this process releases the lease or leaves it, or has done so */
	MOPSLOCK_ECANNOT_MAINTAIN = -38, /* there is nothing that a companion could keep alive */
	MOPSLOCK_EUNAUTHORIZED = -39, /* the store refuses us: check the credentials and their rights */
	MOPSLOCK_ENOSTORE = -40,      /* there is no such bucket, container or directory */
	MOPSLOCK_EUNREACHABLE = -41,  /* the store does not answer: check the URL and the network */
	MOPSLOCK_ESTORE = -42,        /* the store fails in another way; mopslock_last_class says how */
	MOPSLOCK_EENGINE = -43,       /* the WASM engine failed; try again, or use the native engine */
	MOPSLOCK_EUNFIT = -44,        /* the store, or what is in it, cannot serve the request: the store does
	                               * not honour create-if-absent, or a newer version or another program
	                               * wrote there */
	MOPSLOCK_EVACANT = -45,       /* there is nothing: no holder to break, no result to read */
	MOPSLOCK_ESTALE = -46,        /* a newer tenure has written: stop what the lease guarded */
	MOPSLOCK_EUNKNOWN = -47,      /* the write may have been applied, may be applied later, or never: read */
	MOPSLOCK_ENORESULT = -48,     /* the work has ended, and there is no result */
	MOPSLOCK_EFULL = -49,         /* there is no room for a permit by the caller's view */
	MOPSLOCK_ETOO_HEAVY = -50,    /* the caller's view never has room for the permit; nothing was asked */
	MOPSLOCK_ECROWDED = -51,      /* a semaphore's record has no room for another holder */
	MOPSLOCK_EOUT_OF_BUCKETS = -52 /* what was to be released is not held; nothing has changed */
};

/* Why. MOPSLOCK_ELOST has one of the first five reasons; the other codes are noted beside the
 * reason. For MOPSLOCK_ENORESULT see mopslock_work. */
enum mopslock_reason {
	MOPSLOCK_REASON_NONE = 0,
	MOPSLOCK_REASON_TAKEN = 1,       /* the record now belongs to another tenure */
	MOPSLOCK_REASON_BROKEN = 2,      /* it was broken */
	MOPSLOCK_REASON_RELEASED = 3,    /* others released it; with EENDED: we did, and the store has confirmed */
	MOPSLOCK_REASON_UNREACHABLE = 4, /* no renewal in time; with E(store): it never answered */
	MOPSLOCK_REASON_EXPIRED = 5,     /* this process was paused past the deadline */

	MOPSLOCK_REASON_HELD = 16,      /* EHELD: another holds it */
	MOPSLOCK_REASON_RACED = 17,     /* EHELD: another was faster */
	MOPSLOCK_REASON_CANCELLED = 18, /* ECANCELLED */
	MOPSLOCK_REASON_UNUSABLE = 19,  /* the store cannot be used; the code says why */
	MOPSLOCK_REASON_LIMIT = 20,     /* ETIMEOUT: the wait ended while the store failed */
	MOPSLOCK_REASON_NEWER = 21,     /* EUNFIT: a newer mopslock has written there */
	MOPSLOCK_REASON_KIND = 22,      /* EUNFIT: the name is in use for something else: a lease's name is no
	                                 * semaphore's, and the reverse */
	MOPSLOCK_REASON_VACANT = 23,    /* EVACANT: there is no holder */
	MOPSLOCK_REASON_FULL = 24,      /* EFULL */
	MOPSLOCK_REASON_TOO_HEAVY = 25, /* ETOO_HEAVY */
	MOPSLOCK_REASON_CROWDED = 26,   /* ECROWDED */
	MOPSLOCK_REASON_OUT_OF_BUCKETS = 27, /* EOUT_OF_BUCKETS */

	MOPSLOCK_REASON_ABSENT = 32,         /* ECANNOT_MAINTAIN: there is no record */
	MOPSLOCK_REASON_NO_EXPIRY = 33,      /* ECANNOT_MAINTAIN: it never expires */
	MOPSLOCK_REASON_NEVER_ACQUIRED = 34, /* ECANNOT_MAINTAIN: its holder never acquired it */
	MOPSLOCK_REASON_UNREADABLE = 35,     /* ECANNOT_MAINTAIN: it could not be kept alive */

	MOPSLOCK_REASON_FAILED = 40, /* ENORESULT: the work failed */
	MOPSLOCK_REASON_NO_CREATE = 41,  /* of the core's client: the store ignores create-if-absent */
	MOPSLOCK_REASON_NO_SESSION = 42, /* of the core's client: the store takes no session's beat */
	MOPSLOCK_REASON_TERMS = 43,      /* of the core's client: the name's protocol has no such term */

	MOPSLOCK_REASON_TTL_DIFFERS = 48,  /* of the core's warnings */
	MOPSLOCK_REASON_CORRUPT_TAKEN = 49, /* of the core's warnings */
	MOPSLOCK_REASON_EMPTIED = 50,      /* of the core's warnings */
	MOPSLOCK_REASON_MIXED = 51,        /* of the core's warnings */
	MOPSLOCK_REASON_LOCK_FILE = 52     /* of the core's warnings */
};

/* How the store failed. With E(store) it is finer than the code. Other codes with a class are
 * ETIMEOUT of an acquire or invocation (reason LIMIT), ECANNOT_MAINTAIN (UNREADABLE) and ENORESULT
 * (UNREACHABLE, UNUSABLE): what the store said last. */
enum mopslock_class {
	MOPSLOCK_CLASS_NONE = 0,          /* it did not fail, or was not asked */
	MOPSLOCK_CLASS_OTHER = 1,         /* ESTORE: none of these; the text may say more */
	MOPSLOCK_CLASS_UNREACHABLE = 2,   /* EUNREACHABLE */
	MOPSLOCK_CLASS_THROTTLED = 3,     /* ESTORE: ask less often; this passes */
	MOPSLOCK_CLASS_UNAUTHORIZED = 4,  /* EUNAUTHORIZED */
	MOPSLOCK_CLASS_NO_SUCH_STORE = 5, /* ENOSTORE */
	MOPSLOCK_CLASS_READ_ONLY = 6,     /* ESTORE: it can be read, and a lease needs to write */
	MOPSLOCK_CLASS_FULL = 7,          /* ESTORE: no space is left, or the quota is used up */
	MOPSLOCK_CLASS_UNSUPPORTED = 8    /* told to the core's client: there is no such request */
};

/* Copies the text of this thread's latest error into text, at most cap bytes with its NUL, and
 * returns its length without the NUL. If that is cap or more, the text was cut. text may be NULL
 * if cap is 0. 1024 bytes hold every text. */
size_t mopslock_last_error(char *text, size_t cap);

/* The enum mopslock_reason of this thread's latest error, 0 if it has none. */
int mopslock_last_reason(void);

/* The enum mopslock_class of this thread's latest error, 0 if it has none. */
int mopslock_last_class(void);

/* ---------------------------------------------------------------------------
 * THE CORE: machines that decide, and do nothing else. In both libraries.
 *
 * Bring your own store, clocks and threads. You tell a machine in a message what happened, and it
 * answers in another message what is to be done. The Go package
 * github.com/mopslock/mopslock/core documents the messages and the loop to write; the bytes are the
 * same in every language.
 *
 * If several threads step one machine, its steps come one after another, in some order. Machines
 * do not wait for each other, except for short moments.
 * ------------------------------------------------------------------------- */

/* The longest message, in and out. A buffer of this many bytes is never too short. The core
 * refuses a longer message, as it refuses any malformed one. */
#define MOPSLOCK_MAX_MESSAGE 98304

/* mopslock_new makes a machine from a config and answers with its first state.
 *
 * OK         *handle is the machine. Drop it when it is idle and no longer needed.
 * ECONTRACT  there is no machine, *handle is 0, and the answer says why.
 * ESHORT     *answer_len is the room that the answer needs. If *handle is not 0, the machine
 *            exists, and mopslock_again has the answer. If it is 0, the answer is an error: call
 *            again with more room to read it.
 * EINVAL     an argument is NULL (config may be NULL if config_len is 0). Nothing was touched.
 * EFORKED    nothing was touched.
 */
int mopslock_new(const void *config, size_t config_len, uint64_t *handle,
                 void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_step gives a machine an input and writes its answer.
 *
 * OK         the answer is *answer_len bytes.
 * ECONTRACT  the same, but the answer is an error: the machine is unchanged.
 * EHANDLE    the same, and there is no such machine.
 * ESHORT     *answer_len is the room that the answer needs. The step HAS been made: do not repeat
 *            it, call mopslock_again. The bytes in answer are of no use.
 * EINVAL, EFORKED   as above; the machine did not get the input.
 *
 * input and answer may not overlap.
 */
int mopslock_step(uint64_t handle, const void *input, size_t input_len,
                  void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_again writes the answer of the handle's latest new or step once more. It returns what
 * that call would have returned with enough room. */
int mopslock_again(uint64_t handle, void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_drop forgets a machine. It returns OK, EHANDLE if there is none, or EFORKED. */
int mopslock_drop(uint64_t handle);

/* ---------------------------------------------------------------------------
 * THE HOST: leases on a store that the library itself talks to. libmopslock only.
 *
 * example/hold.c shows all that most programs need.
 *
 * A host is one store and one background thread of work: it renews in time everything that is
 * held, without the caller. A lease is held from mopslock_acquire to mopslock_release,
 * mopslock_close, or its loss. The loss of a lease cannot stop your code. Ask (mopslock_check,
 * mopslock_left) before anything that must not be done twice, or let a thread wait
 * (mopslock_wait).
 *
 * A member, in the names below, is a lease, a companion, a permit, or a work of an invocation.
 *
 * Store URLs: file:///directory, s3://bucket/prefix, gs://bucket/prefix,
 * azblob://container/prefix, and mem:// for tests, which excludes no other process.
 * ------------------------------------------------------------------------- */

#define MOPSLOCK_FOREVER (-1) /* as a timeout: no limit */
#define MOPSLOCK_TRY (-1)     /* as wait_ns: do not wait for another holder */

#define MOPSLOCK_ENDLESS (-1) /* as ttl_ns, strict: until it is released or broken */

#define MOPSLOCK_HOLDER_SIZE 513 /* room for a holder's id and its NUL */
#define MOPSLOCK_LEASE_SIZE 8192 /* room for a lease text, except with very long URLs */

typedef struct mopslock_open_options {
	size_t size;
	/* NULL or "native", or "wasm": the same core as a published WebAssembly module, some ten
	 * times slower. A process compiles it once, which takes a second, and keeps it in the
	 * user's cache directory, which makes the next time faster. */
	const char *engine;
	int64_t timeout_ns; /* 0: no limit. Some clouds look for credentials on the network,
	                     * and the first "wasm" compiles */
	int32_t in_flight;  /* requests under way at once, 2 or more; 0: 64 */
	int32_t reserved;   /* 0 */
} mopslock_open_options;

/* mopslock_open opens the store at a URL and starts a host on it. options may be NULL. It does
 * not ask the store anything yet: a missing store shows at the first acquire. *host is 0 after an
 * error.
 *
 * EINVAL     the URL is invalid, or there is no such engine; the text says why.
 * EENGINE
 * ETIMEOUT   timeout_ns is over, and there is no host. If the WASM engine was being compiled, for
 *            this call or for another, that goes on: call again. Nothing is done twice.
 * EUNAUTHORIZED ... ESTORE   from the store's driver.
 */
int mopslock_open(const char *url, const mopslock_open_options *options, uint64_t *host);

/* mopslock_close releases what the host holds, ends what waits (an acquire or a mopslock_work with
 * ECLOSED, a mopslock_wait with EENDED), and stops the host. From then on its handle and the
 * handles of everything made on it are void, whatever the function returns. Later calls with host
 * return ECLOSED, but mopslock_next does so only after it has delivered the last event.
 *
 * ETIMEOUT   something was not released within timeout_ns (MOPSLOCK_FOREVER: no limit). It expires
 *            by itself, a TTL after its last renewal. The host is closed all the same; there is
 *            nothing to call again.
 */
int mopslock_close(uint64_t host, int64_t timeout_ns);

/* A way to end calls from another thread. Give the handle to calls that take one, and cancel it
 * once for all of them. They return ECANCELLED, and so do later calls with the handle. Give it
 * back with mopslock_cancel_free. That does not disturb calls under way, but they can no longer be
 * cancelled. */
int mopslock_cancel_new(uint64_t *cancel);
int mopslock_cancel(uint64_t cancel);
int mopslock_cancel_free(uint64_t cancel);

enum mopslock_state {
	MOPSLOCK_STATE_NONE = 0, /* nothing was read */
	MOPSLOCK_STATE_VACANT = 1,
	MOPSLOCK_STATE_HELD = 2,
	MOPSLOCK_STATE_STALE = 3, /* its holder has not renewed it in time */
	MOPSLOCK_STATE_RELEASED = 4,
	MOPSLOCK_STATE_BROKEN = 5,
	MOPSLOCK_STATE_CORRUPT = 6
};

/* A lease as one read of its record shows it. Other processes wrote the texts. They stand here as
 * written, cut to fit, and they are not safe to show as they are. */
typedef struct mopslock_status {
	size_t size;
	int32_t state;        /* enum mopslock_state */
	int32_t companion;    /* 1: the last write was a companion's */
	int64_t ttl_ns;
	int64_t age_ns;       /* since the last write, by our wall clock against the writer's */
	int64_t left_ns;      /* of the TTL; negative once it is over */
	int64_t acquired_ns;  /* instants by the writers' clocks, 0 if unknown */
	int64_t written_ns;
	int64_t released_ns;
	char holder[MOPSLOCK_HOLDER_SIZE]; /* the tenure's id, fresh for each claim */
	char host[257];                    /* of the tenure's last writer; "" for a broken lease if it was not read */
	char pid[257];
	/* Since version 3. The following fields are strict's. left_ns is then by a clock that holder
	 * and reader have in common, or 0. age_ns is 0 if it is unknown. */
	uint64_t epoch;   /* the newest version; 0 if there is none */
	uint64_t token;   /* the tenure's fencing token */
	int32_t protocol; /* enum mopslock_protocol */
	int32_t store_clock; /* 1: left_ns is by the store's clock */
	char companions[513]; /* the ids of the others that keep the tenure alive, with commas */
	char label[129];
	char session[257]; /* the id of the session that keeps the lease alive */
	char why[513];     /* of a break: the reason that was given, */
	char by[513];      /* and the process that broke it, as pid@host */
	/* Since version 5, of a semaphore; capacity is 0 otherwise. A semaphore's state is HELD or
	 * VACANT. It has no holder of its own, and its TTL is 0: each permit depends on a session. */
	uint32_t capacity; /* the view of the caller that was let in last: so many permits */
	uint32_t width;    /* in each of so many buckets */
	uint64_t held;     /* the weights of all permits, summed */
	uint64_t limit;    /* of mopslock_set_limit; 0: none */
	uint64_t holders;  /* the number of permits; a caller that waits or was refused sees only how many
	                    * fit into 2 KiB */
} mopslock_status;

/* How a lease is kept.
 *
 * STRICT       at most one holder, as long as clock rates differ by less than 1 %, and a fencing
 *              token that never goes back. It needs a store that honours create-if-absent, which
 *              file, S3, GCS and Azure do.
 * LASTWRITER   the protocol of mops: on any store, and without these promises.
 * AUTO         LASTWRITER if the name has a NAME/lock.json, since an old client would not see a
 *              strict claim. Otherwise STRICT if the store honours create-if-absent, which is tested
 *              once. Otherwise LASTWRITER. mopslock_protocol says which one it is: tell your user
 *              if it is LASTWRITER. Ask for LASTWRITER from the start for a name that mops shares.
 */
enum mopslock_protocol {
	MOPSLOCK_PROTOCOL_AUTO = 0,
	MOPSLOCK_PROTOCOL_LASTWRITER = 1,
	MOPSLOCK_PROTOCOL_STRICT = 2
};

/* What a caller may ask of a lease. All processes on one name should use one TTL: under lastwriter
 * mops judges every holder by its own TTL, and a holder renews for the shortest TTL that it has
 * seen on the name. acquire_margin_ns, fleet_expire_ns and blind are for lastwriter alone; strict
 * ignores them. */
typedef struct mopslock_options {
	size_t size;
	int64_t ttl_ns;    /* from 50 ms (5 s if the store stamps whole seconds) to 30 days; 0: 60 s under
	                    * strict, otherwise 88 s; MOPSLOCK_ENDLESS */
	int64_t margin_ns; /* how much earlier than the TTL a holder gives up; 0: a tenth; below half */
	int64_t acquire_margin_ns; /* least time between claim and verification, up to TTL/2; 0: twice what the
	                            * claim took, and at least 50 ms if others also wait */
	int64_t fleet_expire_ns;   /* the TTL by which others on the name judge us; 0: 88 s; -1: no mops here */
	int32_t blind;    /* 1: renew without reading first, as mops does */
	int32_t observed; /* 1: another's lease expires only by what we saw on our own clock */
	int64_t wait_ns;  /* acquire: the longest to wait; 0: until it is held; MOPSLOCK_TRY: not at all.
	                   * invoke: the same, for a result or the lease */
	int64_t timeout_ns; /* accompany, renew, release_text: 0: no limit */
	uint64_t cancel;  /* 0, or of mopslock_cancel_new */
	mopslock_status *seen; /* NULL, or where to write which process holds it, or took it, after EHELD,
	                        * ETIMEOUT and ELOST; state is NONE if nothing was read */
	/* Since version 3. */
	int32_t protocol;  /* enum mopslock_protocol */
	int32_t session;   /* 1, strict: the host's session of this TTL and margin keeps it alive, by one
	                    * heartbeat for all its leases. They do not notice that their versions were
	                    * removed from the store. Not with MOPSLOCK_ENDLESS */
	const char *label; /* strict: shown to people, at most 128 printable bytes; or NULL */
	/* Since version 4. Only invoke and remote use them. */
	int32_t memo_failures; /* 1: the output of failing work is also stored. It is the result for all
	                        * callers that set 1; the others do not see it */
	int32_t without_lease; /* remote: 1: work also if the lease cannot be kept alive */
	/* Since version 5. Only permit and begin_permit use them. */
	uint32_t capacity; /* the caller's view: so many permits, from 1 to 1048576, */
	uint32_t width;    /* in each of so many buckets, from 1 to 65536 */
	uint32_t weight;   /* how many permits it takes, all or none; 0: one */
	uint32_t spare;    /* leaves so many permits to callers that spare fewer */
} mopslock_options;

/* mopslock_acquire takes the lease on a name, and waits while another holds it. options may be
 * NULL. After an error *lease is 0, nothing is held, and what a claim may have left in the store is
 * released or expires.
 *
 * EHELD      another holds it or was faster, and wait_ns is over. options->seen says which process.
 * ETIMEOUT   wait_ns is over, and the store was failing.
 * ECANCELLED, ECLOSED
 * ELOST      it was lost before it could be returned.
 * EUNFIT     strict was asked of a store that does not honour create-if-absent, or the name is in
 *            use for something else (reasons NEWER and KIND).
 * EINVAL     the name or an option is invalid. The text lists every bad one. Bad arguments that the
 *            core does not check (wait_ns, flags) are reported first and alone.
 * EUNAUTHORIZED, ENOSTORE, EENGINE   at once.
 * EUNREACHABLE, ESTORE   the store has answered no read, or taken no write, for 5 s. ESTORE at once
 *            if it is read-only or full.
 */
int mopslock_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *lease);

/* mopslock_release ends the lease. It also gives the handle back if the lease was lost before. OK:
 * the store has confirmed the release.
 *
 * ELOST      it had been lost before; mopslock_last_reason says how.
 * ECLOSED    the host was closed before the store confirmed: the lease is released or expires.
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over. The host goes on trying, and the
 *            handle stays valid: call again, or close the host.
 *
 * After all but ETIMEOUT the handle is void. The function takes leases and permits, not companions.
 * A permit that was not released in time ends with the host's session. */
int mopslock_release(uint64_t lease, int64_t timeout_ns);

/* mopslock_lease_text writes what another process needs to keep this lease alive, as one line of
 * JSON. Give it to that process as MOPSLOCK_LEASE in its environment. It names the store, so it is
 * as secret as the URL. *len, if len is not NULL, is its length; after ESHORT it is the room that
 * the text needs with its NUL. */
int mopslock_lease_text(uint64_t lease, char *text, size_t cap, size_t *len);

/* mopslock_accompany joins the lease of such a text and keeps it alive beside its holder, even after
 * the holder dies. It never releases the lease. Losing contact with the store does not end it: it
 * goes on trying, and mopslock_left is negative meanwhile. The text's store must be the host's,
 * which the library does not check. The text's TTL overrides the options'. After an error
 * *companion is 0, and nothing is kept alive.
 *
 * ELOST            the lease belongs to another tenure, or was released.
 * ECANNOT_MAINTAIN  there is nothing to keep alive, or the store could not be read for a TTL;
 *                  mopslock_last_reason says which.
 * EUNFIT           as mopslock_acquire.
 * EINVAL, ETIMEOUT, ECANCELLED, ECLOSED, EENGINE
 */
int mopslock_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                       uint64_t *companion);

/* mopslock_leave ends a companion and its handle, as mopslock_release ends a lease, but the lease
 * lives on. Its errors are those of mopslock_release. */
int mopslock_leave(uint64_t companion, int64_t timeout_ns);

/* mopslock_renew renews the lease of a text once, as a companion, and says for how long it is
 * valid. left_ns may be NULL. Its errors are those of accompany; it returns ELOST with reason
 * UNREACHABLE if no write was answered in time. */
int mopslock_renew(uint64_t host, const char *lease_text, const mopslock_options *options, int64_t *left_ns);

/* mopslock_release_text releases the lease of a text, as mopslock_release would in the process that
 * acquired it. That process then loses the lease, with reason RELEASED. The text's store must be
 * the host's, which the library does not check. OK: the lease is released, had been before, or is
 * gone.
 *
 * ELOST      the record belongs to another tenure (reason TAKEN), or was out of reach for the text's
 *            TTL (UNREACHABLE).
 * ETIMEOUT, ECANCELLED   the host goes on trying, for at most that TTL.
 * EINVAL, ECLOSED, EENGINE
 */
int mopslock_release_text(uint64_t host, const char *lease_text, const mopslock_options *options);

/* May the caller still rely on a member? mopslock_check looks at the clock itself, makes no request,
 * and is cheap.
 *
 * OK         yes.
 * ELOST      no, and mopslock_last_reason says why. That never changes again.
 * EENDED     no: this process is releasing it, or has released it, by mopslock_release, _leave or
 *            _close. The reason is NONE until the store has confirmed, then RELEASED. A companion
 *            releases nothing, so its reason is NONE.
 * ECLOSED    no: the host was closed before the store confirmed.
 * EHANDLE    as everywhere, once the handle is void.
 */
int mopslock_check(uint64_t member);

/* mopslock_wait blocks until mopslock_check would not return OK, and returns what it would return.
 * ETIMEOUT: after timeout_ns (MOPSLOCK_FOREVER: no limit) the member is still valid. *reason, if
 * reason is not NULL, is the enum mopslock_reason. A release, leave or close in another thread also
 * ends the wait, for a lease before anything is written. The code is then mostly EENDED with reason
 * NONE, or what mopslock_check returns a moment later. A wait that has begun goes on even if the
 * handle becomes void. */
int mopslock_wait(uint64_t member, int64_t timeout_ns, int *reason);

/* How long the caller may rely on a member without another renewal. The time that the machine sleeps
 * counts. It is negative past the deadline, and 0 or less once mopslock_check is not OK. Renewals
 * extend it. OK or EHANDLE. */
int mopslock_left(uint64_t member, int64_t *left_ns);

/* The id of a member's tenure; len as in mopslock_lease_text. OK, ESHORT (never with
 * MOPSLOCK_HOLDER_SIZE) or EHANDLE. */
int mopslock_holder(uint64_t member, char *text, size_t cap, size_t *len);

/* The fencing token: greater for each tenure of a name than for the one before, and the same for
 * all that keep one tenure alive. Hand it to whatever the lease guards, and let that refuse a
 * smaller one: see THE GUARD. Under lastwriter there is no token, and it is 0. OK or EHANDLE, as
 * the next three. */
int mopslock_fencing_token(uint64_t member, uint64_t *token);

/* The newest known version of the tenure. It grows when a companion joins or leaves. 0 under
 * lastwriter. */
int mopslock_epoch(uint64_t member, uint64_t *epoch);

/* How a member is kept: STRICT or LASTWRITER of enum mopslock_protocol. */
int mopslock_protocol(uint64_t member, int *protocol);

/* The id of the session that keeps a lease alive, "" for none. text, len and ESHORT are as in
 * mopslock_holder. */
int mopslock_session(uint64_t member, char *text, size_t cap, size_t *len);

/* mopslock_inspect reads the record of a name and takes no part in it. Set status->size. An unused
 * name is OK, and vacant.
 *
 * EINVAL, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: status is unchanged.
 */
int mopslock_inspect(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status);

typedef struct mopslock_break_options {
	size_t size;
	const char *why; /* stored with the break, for people: 1 to 512 printable bytes. Strict
	                  * requires it; lastwriter has no room for it, and it may be NULL */
	int32_t now;     /* 1: the name is free at once, even while its holder may still believe that
	                  * it holds it: the one way to two holders of a strict lease */
	int32_t protocol;   /* enum mopslock_protocol: whose lease; 0: whichever is there */
	int64_t timeout_ns; /* 0: no limit */
	mopslock_status *seen; /* NULL, or where to write what the name is then, or with EHELD which
	                        * process holds it */
	const char *holder; /* Since version 6. The holder whose lease is broken, by
	                     * mopslock_status.holder, and no other: pass the one that you have seen.
	                     * NULL or "" breaks the holder of the moment. Lastwriter reads the record
	                     * just before it writes it: a process that acquires between the two loses
	                     * the lease all the same */
} mopslock_break_options;

/* mopslock_break ends the lease of another process, on the record. The holder loses it at its next
 * renewal, or at once on a directory, with reason BROKEN. Under lastwriter the reason is RELEASED,
 * at the next renewal. Others can take the name when its last beat is a TTL old. An ENDLESS holder
 * that is out of contact goes on without knowing.
 *
 * EVACANT    there is no holder.
 * EHELD      another than options->holder holds it; nothing was done.
 * EUNFIT     as mopslock_acquire.
 * ETIMEOUT   it is unknown whether it was broken.
 * EINVAL, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE
 */
int mopslock_break(uint64_t host, const char *name, const mopslock_break_options *options);

/* The function that mopslock_list calls, in the thread that called mopslock_list. It may take its
 * time and call any function of this library, even close the host. name and status are valid until
 * it returns; status->size is the size in the library's header. code is OK, or why this one record
 * could not be read: then mopslock_last_error has the text, and the state is NONE. It returns 0 to
 * go on; any other value ends the list. In a forked child it must not return at all. */
typedef int (*mopslock_visit)(void *arg, const char *name, const mopslock_status *status, int code);

/* mopslock_list visits every lease whose name begins with prefix; NULL and "" mean all. They come in
 * byte order of the keys of their objects; one that vanishes meanwhile is left out. timeout_ns is
 * for all of it, with the visits.
 *
 * OK         all were visited, or visit has ended the list.
 * EINVAL, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: some may have been
 *            visited before, and the others were not.
 */
int mopslock_list(uint64_t host, const char *prefix, int64_t timeout_ns, mopslock_visit visit, void *arg);

/* CALLS THAT ARE BEGUN
 *
 * Thousands of leases, and thousands of callers that wait for one, need no thread each: begin the
 * calls, and let one thread ask for events. Neither a lease that is held nor a call that waits costs
 * a thread. The library itself has as many threads as requests are under way to a directory, and a
 * few more.
 *
 *     begin_acquire, begin_accompany, begin_renew, begin_release, begin_leave,
 *     begin_work, begin_invocation_close, begin_permit --> host
 *     host --> next: WAITING of an acquire, work or permit, CALL, and ENDED of what the call gave
 *
 * A limiter also has events: see begin_limiter_acquire.
 *
 * The events of one call come in that order. If a release or leave has ended a lease or companion,
 * its ENDED comes before the CALL of that release or leave. So no event about it follows that CALL,
 * unless the code is ETIMEOUT. If several threads ask, they get the events in that order, but the
 * library cannot order what they do with them.
 *
 * One thread can get an event before the begin_ function has returned in another thread. A program
 * that looks calls up by number must hold a lock of its own from before the begin_ function until it
 * has stored the number, and take that lock for each look-up.
 */

enum mopslock_event_kind {
	MOPSLOCK_EVENT_NONE = 0,
	MOPSLOCK_EVENT_CALL = 1,   /* a begun call has ended */
	MOPSLOCK_EVENT_ENDED = 2,  /* a member that a begun call gave can no longer be relied on:
	                            * mopslock_check would not return OK. Once for each, also after a
	                            * release, leave or close */
	MOPSLOCK_EVENT_WAITING = 3 /* a begun acquire, work or permit waits, and seen says for whom (state
	                            * NONE: unknown). It comes when the wait begins and at every change.
	                            * A thread that asks late gets only the latest one */
};

typedef struct mopslock_event {
	size_t size;
	int32_t kind;     /* enum mopslock_event_kind */
	int32_t code;     /* enum mopslock_code. CALL: what its namesake would have returned;
	                   * ENDED: what mopslock_check returns; WAITING: OK */
	int32_t reason;   /* enum mopslock_reason, of the code */
	int32_t store_class; /* enum mopslock_class, of the code */
	uint64_t call;    /* CALL, WAITING: which call. 0 in others */
	uint64_t member;  /* CALL of acquire, accompany, work, permit: what it gave, 0 after an error (and of
	                   * work with OK: there is a result); ENDED: which member */
	int64_t left_ns;  /* CALL of renew: how long the lease is valid, from now */
	mopslock_status *seen; /* in: NULL, or where to write what the namesake writes to options->seen.
	                        * Its state is NONE if there is nothing. The pointer stays as it is */
	char text[1024];  /* the text that mopslock_last_error would have; "" if the code is OK */
	uint64_t held;    /* Since version 5. CALL of permit and limiter_acquire: how many permits are
	                   * held on the name, with OK and with EFULL */
} mopslock_event;

/* These functions begin what their namesakes do, and return. OK: *call is a number that no other call
 * in this process has. One event of kind CALL will have it, at the latest when the host is closed.
 * Otherwise nothing was begun, there is no event, and *call is 0 or unchanged.
 *
 * The library copies its arguments. options->seen must be NULL, since an event has its own.
 * options->cancel and closing the host end a begun call, with ECANCELLED and ECLOSED. Do not rely on
 * a lease from the moment its release is begun.
 *
 * Some errors are returned at once: EINVAL for invalid arguments, an invalid lease text, or an
 * invalid flag, timeout or wait in the options; EHANDLE, also of the cancel handle; ECLOSED and
 * EFORKED. All others come as the event's code: EINVAL for an invalid name or invalid terms (TTL,
 * margins), ECANCELLED also if the cancel handle was cancelled before, and ECLOSED for a call begun
 * while the host was being closed.
 *
 * mopslock_begin_release and _leave take every lease, permit and companion, however it was made. The
 * handle is void after the event as it is after their namesakes. */
int mopslock_begin_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call);
int mopslock_begin_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                             uint64_t *call);
int mopslock_begin_renew(uint64_t host, const char *lease_text, const mopslock_options *options, uint64_t *call);
int mopslock_begin_release(uint64_t lease, int64_t timeout_ns, uint64_t *call);
int mopslock_begin_leave(uint64_t companion, int64_t timeout_ns, uint64_t *call);

/* mopslock_next takes the host's next event, or waits for one. Set event->size, and seen. The library
 * delivers each event once, to one of the threads that ask. The function leaves this thread's latest
 * error alone.
 *
 * OK         one event.
 * ETIMEOUT   there was none in timeout_ns (0: look and return; MOPSLOCK_FOREVER: no limit).
 * ECLOSED    the host is closed and every event was taken: none will ever come.
 * EHANDLE    this handle never was a host.
 * EINVAL, EFORKED   event was not touched. After the other errors kind is NONE, and the rest is zero.
 *
 * When mopslock_close returns, every call that was begun on the host has ended. Its events can still
 * be taken, until ECLOSED. There is one exception: if a call hangs in the system, on a dead mount,
 * when timeout_ns of the close is over, its event comes once the call returns, and ECLOSED after it.
 * Events that no thread takes stay in memory: at most three of every begun call, WAITING, CALL and
 * ENDED, some hundred bytes each. The last event frees everything. */
int mopslock_next(uint64_t host, int64_t timeout_ns, mopslock_event *event);

/* ---------------------------------------------------------------------------
 * INVOCATIONS: a piece of work that is done once, and whose result stays.
 *
 * The work has a name, and its result lies beside the lease: NAME/result. A caller that wants the
 * result invokes the name. If the result is there, the call ends. If another process is doing the
 * work, the caller waits for its result. Otherwise the caller gets the work to do:
 *
 *     invoke --> work:  OK, 0      there is a result: result_open, read, result_close
 *                       OK, work   do it now, or start a process that does it; its lease is kept alive
 *                                  |
 *     ended(work, ...) <-----------+ it has ended, and this is its output
 *     work:             OK, 0      the first result that was stored, ours or another's
 *                       ENORESULT  there is none, and the lease was given back
 *     invocation_close
 *
 * An orchestrator does not work itself. It starts a remote with the work's lease text
 * (mopslock_lease_text), as MOPSLOCK_LEASE in its environment. The remote begins with
 * mopslock_remote and goes the same way. It keeps the lease alive beside the orchestrator, even after
 * the orchestrator dies. It stores the result, and it never releases. So an orchestrator may call
 * mopslock_ended without a body: then the result is the remote's, and mopslock_work waits for it
 * while a remote lives. A remote that comes late, when the lease belongs to another tenure, is not
 * given the work. The first result wins and is never overwritten, with one exception: on a store that
 * does not honour create-if-absent, the later of two results stored at the same moment wins.
 *
 * A work is a handle that mopslock_check, _wait, _left, _holder, _fencing_token, _epoch, _protocol,
 * _session and _lease_text take. It stands for one attempt: if the lease is lost and won again, there
 * is a new work. A remote goes on if its lease was released or is out of contact (left is negative
 * then): check is not OK once the lease belongs to another tenure. A work without a lease
 * (without_lease) has no text, an empty holder, and 0 as token, epoch and left. Release and leave do
 * not take a work: it ends with its invocation.
 *
 * The library does not stop a work that has lost its lease. Ask mopslock_check of the work, or let a
 * thread wait, and stop it; then call mopslock_ended all the same.
 * ------------------------------------------------------------------------- */

/* mopslock_invoke begins to look for the result of a name, and to take its lease if there is no
 * result. It does not wait. options may be NULL. options->seen must be NULL, since mopslock_work has
 * its own. options->cancel works as mopslock_give_up does, for all invocations that have it. There is
 * always a TTL: MOPSLOCK_ENDLESS is invalid.
 *
 * OK         give *invocation back with mopslock_invocation_close.
 * EINVAL     the name or an option is invalid, as with mopslock_acquire. The last segment of the name
 *            cannot be "lock": the result would lie in a memo of mops.
 * EHANDLE, ECLOSED, EFORKED
 */
int mopslock_invoke(uint64_t host, const char *name, const mopslock_options *options, uint64_t *invocation);

/* mopslock_remote is for the process that an orchestrator has started. It begins to look for the
 * result of a name, and to join the lease of a text if there is no result. name may be NULL: the text
 * has it. lease_text may be NULL with options->without_lease. The text's store must be the host's,
 * which the library does not check. The text's TTL overrides the options'. wait_ns is ignored, since a
 * remote waits for no other holder. All else is as in mopslock_invoke. A text that is invalid, or of
 * another name, is EINVAL here. */
int mopslock_remote(uint64_t host, const char *name, const char *lease_text, const mopslock_options *options,
                    uint64_t *invocation);

/* mopslock_work waits for work to do, or for the end. seen is NULL, or where to write for whom the
 * call waits after ETIMEOUT, and which process decided it after EHELD, ELOST and ENORESULT; its state
 * is NONE if that is unknown. While a work is being done the call waits for the next one, or for the
 * output. If several threads ask, one of them gets the work, and all of them get the end.
 *
 * OK         *work is not 0: begin it now, and call mopslock_ended at its end.
 *            *work is 0: it is over, and there is a result.
 * ETIMEOUT   with reason NONE: timeout_ns (MOPSLOCK_FOREVER: no limit) is over. It goes on.
 *
 * All others but EINVAL, EHANDLE and EFORKED are its end without a result. What was held is released,
 * or is about to be. A caller that asks again gets the same code again.
 *
 * EHELD      another process is doing the work, and wait_ns is over.
 * ETIMEOUT   with reason LIMIT: wait_ns is over, and the store was failing.
 * ENORESULT  the work has ended, and there is no result. The reason is FAILED: the work failed, and
 *            the text says how; NONE: it succeeded, but no process stores a result; TAKEN, BROKEN,
 *            RELEASED or EXPIRED: the lease was lost before there was one; UNREACHABLE or UNUSABLE:
 *            the store did not take it, or could not be asked.
 * ELOST      a remote came late: the lease belongs to another tenure, or was released. Nothing was
 *            done.
 * ECANNOT_MAINTAIN  a remote found nothing to keep alive. Nothing was done.
 * ECANCELLED mopslock_give_up, or options->cancel.
 * EUNFIT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as
 *            mopslock_acquire.
 */
int mopslock_work(uint64_t invocation, int64_t timeout_ns, mopslock_status *seen, uint64_t *work);

/* mopslock_begin_work is mopslock_work as a begun call, without a limit: the event's member is the
 * work. It ends at the latest when the invocation is given up. */
int mopslock_begin_work(uint64_t invocation, uint64_t *call);

/* mopslock_ended says that a work has ended, and gives its output: len bytes at body (none at all: an
 * empty result), which the library copies, or the file at path. The file may be of any size, and must
 * stay unchanged until mopslock_work has returned what became of it. If both are NULL, this process
 * has nothing to store: an orchestrator finds what its remote has stored. well is 0 if the work
 * failed: then the output is stored if options->memo_failures was 1, and otherwise ignored.
 *
 * OK         mopslock_work says the rest. A file that cannot be read also shows there, as work that
 *            failed. Of an invocation that was given up nothing is stored.
 * EENDED     it was called for this work before.
 * EINVAL     both body and path, or a len without a body. The work has not ended.
 * EHANDLE
 */
int mopslock_ended(uint64_t work, int well, const void *body, size_t len, const char *path);

/* What an invocation has found. */
typedef struct mopslock_result {
	size_t size;
	int32_t failed; /* 1: it is the output of failing work */
	int32_t own;    /* 1: this invocation stored it */
	char key[641];  /* where it is in the store */
} mopslock_result;

/* mopslock_invocation_result describes the result. Set result->size. EVACANT: there is none, or none
 * yet. EINVAL, EHANDLE, EFORKED. After an error result is unchanged. */
int mopslock_invocation_result(uint64_t invocation, mopslock_result *result);

/* mopslock_result_open begins to read the result, from its beginning; call it as often as you like.
 * *length, if length is not NULL, is its length in bytes; -1: the store does not say. Give *reader
 * back with mopslock_result_close. It outlives its invocation, but not the host.
 *
 * EVACANT    there is no result, or another process has removed it.
 * EINVAL, EHANDLE, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: *reader is 0.
 */
int mopslock_result_open(uint64_t invocation, int64_t timeout_ns, uint64_t *reader, int64_t *length);

/* mopslock_result_read reads on: at most cap bytes into body, *len of them. If cap is not 0, *len 0 is
 * the end. It waits for at least one byte, not for all. One thread at a time reads; the others wait.
 * After an error but EINVAL the reader is of no more use. The bytes read so far are good; open the
 * result again for the rest.
 *
 * ETIMEOUT   nothing came in timeout_ns.
 * EINVAL, EHANDLE, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE
 */
int mopslock_result_read(uint64_t reader, int64_t timeout_ns, void *body, size_t cap, size_t *len);

/* mopslock_result_close gives a reader back. A read under way in another thread ends with ECANCELLED.
 * OK, EHANDLE, EFORKED. */
int mopslock_result_close(uint64_t reader);

/* mopslock_give_up gives an invocation up, and returns. If the invocation was not over, mopslock_work
 * returns ECANCELLED. What is held is released at once, so stop a work first: another process may
 * begin it. A remote's lease lives on. OK, EHANDLE, EFORKED. */
int mopslock_give_up(uint64_t invocation);

/* mopslock_invocation_close gives an invocation up if it is not over, waits until the lease was given
 * back, and ends its handle and those of its works.
 *
 * OK         nothing is held.
 * ELOST      the lease turned out to be lost when it was to be given back: it belongs to another
 *            tenure, was broken, or expires; mopslock_last_reason says which. A result stays a result.
 * ECLOSED    the host was closed before the store confirmed: the lease is released or expires.
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over. The host goes on trying, and the handle
 *            stays valid: call again, or close the host.
 *
 * After all but ETIMEOUT the handles are void. begin_invocation_close is the same as a begun call; the
 * event's code is what this function would have returned. */
int mopslock_invocation_close(uint64_t invocation, int64_t timeout_ns);
int mopslock_begin_invocation_close(uint64_t invocation, int64_t timeout_ns, uint64_t *call);

/* ---------------------------------------------------------------------------
 * SHARED SEMAPHORES: at most so many at once, of all processes that share a store.
 *
 * A name has no size. Each caller brings a view of it: capacity permits in each of width buckets. The
 * caller is let in if the permits held by everybody, plus its own, are no more than capacity x width.
 * So no caller exceeds a limit that it knows. Views may differ and change at any time, and a smaller
 * view evicts no holder. mopslock_set_limit stores a limit that caps all views.
 *
 * A permit depends on the host's session, one heartbeat for everything that the session keeps alive.
 * It is held until mopslock_release or mopslock_close, or it is lost with the session. Then the next
 * process that needs the room frees it. A permit is a member: mopslock_check, _wait, _left, _holder
 * (its id, fresh for each), _fencing_token (grows, but is the same for permits let in together),
 * _epoch (the same), _protocol (STRICT) and _session take it, and mopslock_release gives it back. It
 * has no lease text.
 *
 * It needs a store that honours create-if-absent. A name belongs to a lease or to a semaphore.
 * ------------------------------------------------------------------------- */

/* mopslock_permit takes a permit of the semaphore on a name, and waits while there is no room for it.
 * options may not be NULL: it has the view. wait_ns is 0 (until there is room), MOPSLOCK_TRY, or the
 * longest to wait. It also uses ttl_ns and margin_ns (of the session), observed, label, cancel and
 * seen; protocol must be AUTO or STRICT. A caller that spares s permits is let in only if s more would
 * still fit: they stay free for callers that spare fewer. Callers of one host that wait at the same
 * time are let in together, by one write. After an error *permit is 0, and nothing is held.
 *
 * EFULL      there is no room, and wait_ns is over; options->seen says how much is held.
 * ETOO_HEAVY weight and spare are more than capacity x width.
 * ECROWDED   the record has no room for another holder; it has room for about a thousand.
 * EUNFIT     the store does not honour create-if-absent; or reason KIND: the name is a lease's; or
 *            NEWER.
 * EINVAL     the name, the view or another option is invalid.
 * ELOST      it was lost before it could be returned.
 * ETIMEOUT, ECANCELLED, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as
 *            mopslock_acquire.
 */
int mopslock_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *permit);

/* mopslock_begin_permit is mopslock_permit as a begun call, as begin_acquire is mopslock_acquire.
 * mopslock_begin_release also takes permits. */
int mopslock_begin_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call);

/* How many permits were held on the name when this one was let in, counting it and those let in
 * together with it. OK or EHANDLE. */
int mopslock_permit_total(uint64_t permit, uint64_t *total);

/* mopslock_set_limit stores a limit: no view of the name counts for more. 0 removes it. It evicts no
 * holder. OK: the store has it.
 *
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over, and it is unknown whether the store has
 *            taken it.
 * EUNFIT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as mopslock_permit.
 * EINVAL, EHANDLE
 */
int mopslock_set_limit(uint64_t host, const char *name, uint64_t limit, int64_t timeout_ns);

/* One permit as the record shows it. Other processes wrote the texts, as those of a status. */
typedef struct mopslock_permit_holder {
	size_t size;
	uint64_t weight;
	int32_t stale;    /* 1: its session is dead, and the next process that needs the room frees it */
	int32_t reserved; /* 0 */
	char id[MOPSLOCK_HOLDER_SIZE];
	char session[257];
	char host[257];
	char pid[257];
	char label[129];
} mopslock_permit_holder;

/* The function that mopslock_inspect_holders calls, as mopslock_list calls a mopslock_visit. */
typedef int (*mopslock_visit_holder)(void *arg, const mopslock_permit_holder *holder);

/* mopslock_inspect_holders is mopslock_inspect, and it visits every permit if the name is a
 * semaphore's. Otherwise it visits nothing. It writes status before the visits; status may not be
 * NULL. */
int mopslock_inspect_holders(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status,
                             mopslock_visit_holder visit, void *arg);

/* ---------------------------------------------------------------------------
 * THE LIMITER: at most so many at once, of the threads of this process.
 *
 *     limiter_new --> limiter_holder --> limiter_acquire ... limiter_release
 *                                    \-> limiter_slot: slot_try ... slot_release
 *
 * Views are as with shared semaphores, each caller's own. The limiter touches no store and starts no
 * thread. A permit belongs to a limiter's holder: a handle of yours for a thread, a task or a
 * connection. Freeing the holder gives back everything that it has, so no permit can be forgotten.
 * The library does not know when a thread ends.
 *
 * capacity is from 1 to 1048576, width from 1 to 65536. weight is how many permits to take, all or
 * none; 0 is one. Otherwise EINVAL. held may be NULL; otherwise it says after OK and EFULL how many
 * permits of the name everybody holds. ECLOSED: the limiter was freed. EHANDLE: the holder, permit or
 * slot was freed. All functions return EFORKED in a forked child.
 * ------------------------------------------------------------------------- */

/* mopslock_limiter_new makes a limiter of which nothing is held. With fifo 0 each waiter is let in when
 * its own view has room, in the order of arrival among those that fit, and newcomers may overtake. With
 * fifo 1 no call overtakes: one that waits for many permits holds up all that came after it. */
int mopslock_limiter_new(int fifo, uint64_t *limiter);

/* mopslock_limiter_free frees a limiter with all its holders, as mopslock_limiter_holder_free does. Its
 * events that were not taken yet can still be taken: mopslock_next returns ECLOSED once there are
 * none. */
int mopslock_limiter_free(uint64_t limiter);

/* mopslock_limiter_holder makes an owner of permits. It costs some hundred bytes. */
int mopslock_limiter_holder(uint64_t limiter, uint64_t *holder);

/* mopslock_limiter_holder_free gives back everything that a holder holds, *freed permits (freed may be
 * NULL), its handle, and the handles of its permits and slots. Its calls that wait return EENDED. */
int mopslock_limiter_holder_free(uint64_t holder, uint64_t *freed);

/* mopslock_limiter_acquire takes permits of a name, if no more than capacity x width are held with
 * them. wait_ns: MOPSLOCK_TRY tries once; 0 waits until there is room, and blocks only the calling
 * thread; otherwise it is the longest to wait. cancel: 0, or of mopslock_cancel_new. After an error
 * *permit is 0, and nothing is held that was not held before.
 *
 * EFULL      there is no room, and the wait is over.
 * ETOO_HEAVY weight is more than capacity x width.
 * ECANCELLED also if cancel was cancelled before.
 * EENDED     the holder was freed meanwhile.
 * EINVAL, EHANDLE
 */
int mopslock_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width, uint32_t weight,
                             int64_t wait_ns, uint64_t cancel, uint64_t *permit, uint64_t *held);

/* mopslock_begin_limiter_acquire is the same as a begun call. A limiter has events as a host has, and
 * mopslock_next takes its handle. There is one event of kind CALL, whose member is the permit. So one
 * thread serves thousands that wait. The function returns at once EINVAL of invalid arguments, EHANDLE,
 * ECLOSED and EFORKED; all other codes are the event's. */
int mopslock_begin_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width,
                                   uint32_t weight, int64_t wait_ns, uint64_t cancel, uint64_t *call);

/* mopslock_limiter_release gives a permit back, and its handle. It returns OK, or EHANDLE if the permit
 * was released before, or its holder freed. */
int mopslock_limiter_release(uint64_t permit);

/* mopslock_limiter_slot resolves a name for a holder that uses it often. Calls with a slot look no name
 * up, and allocate nothing. The slot stays until its holder is freed. */
int mopslock_limiter_slot(uint64_t holder, const char *name, uint64_t *slot);

/* mopslock_limiter_slot_try takes permits or not, and never waits. These permits have no handle: give
 * them back by their number.
 * EFULL, ETOO_HEAVY, EENDED, EINVAL, EHANDLE */
int mopslock_limiter_slot_try(uint64_t slot, uint32_t capacity, uint32_t width, uint32_t weight, uint64_t *held);

/* mopslock_limiter_slot_release gives back so many permits of the slot's name. EOUT_OF_BUCKETS: its
 * holder does not hold so many, and nothing has changed. */
int mopslock_limiter_slot_release(uint64_t slot, uint32_t weight);

/* mopslock_limiter_held says how many permits of a name are held, and how many calls wait for some;
 * either may be NULL. */
int mopslock_limiter_held(uint64_t limiter, const char *name, uint64_t *held, uint64_t *waiting);

/* mopslock_limiter_counters writes canal_lock's counters of a name: what is held in each bucket that was
 * ever reached, and one more than the capacity of the latest grant where a caller has walked past a full
 * bucket since. There are at most 4096, and none for a name that is unknown or was forgotten. *len (len
 * may not be NULL) is how many there are. ESHORT: more than cap, and nothing was written. */
int mopslock_limiter_counters(uint64_t limiter, const char *name, uint32_t *counters, size_t cap, size_t *len);

/* ---------------------------------------------------------------------------
 * THE GUARD: objects on the same store that only the newest tenure can write.
 *
 * A lease cannot stop a process that was paused while it wrote. Here the store refuses its write, by
 * the fencing token:
 *
 *     A, token 5:  held -- read -- SIGSTOP ================= SIGCONT -- write: ESTALE
 *     B, token 6:                     TTL ... held -- write
 *
 * The lease on one name guards an object: tokens of two names mean nothing to each other. No other
 * program may write below the object's key, and nothing may expire there. The token has one limit: it
 * cannot know of a tenure that has not touched the object. So a process that takes a lease over and
 * reads before it writes begins with mopslock_guarded_raise. None of these functions checks whether
 * the lease is held: mopslock_check does.
 *
 * token and holder are mopslock_fencing_token and mopslock_holder of a strict lease, companion or work.
 * They do not change while it lasts. timeout_ns is as everywhere (MOPSLOCK_FOREVER: no limit). What is
 * read goes into body, which has room for cap bytes. *len is its length, or after ESHORT the room that
 * it needs. After ESHORT everything else was done, so read it with mopslock_guarded_read.
 * MOPSLOCK_GUARDED_MAX bytes are always enough. slot may be NULL; otherwise set slot->size. After OK,
 * ESHORT, ESTALE and EUNKNOWN it describes the slot in question, and unknown fields are zero.
 *
 * EINVAL     the key, the token, the holder or the body is invalid. token 0: the lease is kept by
 *            lastwriter, which has none.
 * ESTALE     a newer tenure has written, and slot says which. Nothing of ours was written, or will be.
 * EUNKNOWN   the write may have been applied, may be applied later, or never. Read: it was applied if
 *            the newest slot has slot->nonce. Any later write ends the doubt.
 * EUNFIT     the store has no create-if-absent; or what is there was written by another program, by a
 *            newer mopslock, or under the lease of another name.
 * EHELD      others were faster.
 * ETIMEOUT   before anything was sent.
 * ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: nothing was written.
 * ------------------------------------------------------------------------- */

#define MOPSLOCK_GUARDED_MAX 64512 /* bytes of a body */

/* One state of an object, as its writer left it. */
typedef struct mopslock_slot {
	size_t size;
	uint64_t number;  /* counts the writes of the object, from 1; 0: no write yet */
	uint64_t token;   /* of the tenure that wrote it */
	uint64_t written; /* the slot that first had this body; 0: there is no body */
	int64_t stamp_ns; /* when, by the store's clock, if it was read; 0: unknown */
	char holder[MOPSLOCK_HOLDER_SIZE]; /* the tenure's id */
	char nonce[65];   /* fresh for each write */
} mopslock_slot;

/* mopslock_guarded_read reads the newest slot. If the object was never written, it returns OK, and
 * *len and slot->written are 0. */
int mopslock_guarded_read(uint64_t host, const char *key, int64_t timeout_ns,
                          void *body, size_t cap, size_t *len, mopslock_slot *slot);

/* mopslock_guarded_write makes body the object's body, whatever was there. body may be NULL if len is
 * 0. */
int mopslock_guarded_write(uint64_t host, const char *key, uint64_t token, const char *holder,
                           const void *body, size_t len, int64_t timeout_ns, mopslock_slot *slot);

/* mopslock_guarded_update writes only if the object's body is still old, byte by byte; old NULL means
 * that the object was never written. EHELD, with reason RACED: the body has changed, and nothing was
 * written. Read it, and make a new body from it. */
int mopslock_guarded_update(uint64_t host, const char *key, uint64_t token, const char *holder,
                            const void *old, size_t old_len, const void *body, size_t len,
                            int64_t timeout_ns, mopslock_slot *slot);

/* mopslock_guarded_raise shuts out all older tenures, and reads what they left. It writes nothing if
 * this tenure has written already. */
int mopslock_guarded_raise(uint64_t host, const char *key, uint64_t token, const char *holder,
                           int64_t timeout_ns, void *body, size_t cap, size_t *len, mopslock_slot *slot);

/* mopslock_create_once makes an object that is never written again: a result. The first one wins,
 * whatever its token is. *won, if won is not NULL, is 1 if it was this one. slot describes the
 * winner. */
int mopslock_create_once(uint64_t host, const char *key, uint64_t token, const char *holder,
                         const void *body, size_t len, int64_t timeout_ns, int *won, mopslock_slot *slot);

/* mopslock_read_once reads such a result. EVACANT: there is none. */
int mopslock_read_once(uint64_t host, const char *key, int64_t timeout_ns,
                       void *body, size_t cap, size_t *len, mopslock_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
