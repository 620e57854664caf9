/*
 * mopslock.h: leases (expiring exclusive claims) and semaphores kept in any blob store, and a
 * limiter of what one process does at once.
 *
 * Two libraries have this header. libmopslock has all of it. libmopslock-core
 * has only the first part, the core: no I/O, no clock, a fraction of the size.
 * Load one of the two into a process: each brings a Go runtime. Both work beside
 * each other, as do copies of one (on Linux, where the Python package does so); what
 * one of them made, the other does not know.
 *
 * THE RULES FOR ALL OF IT
 *
 * Ownership. The library writes only into memory that the caller gives, and
 * keeps no pointer that it was given beyond the call. What it makes is named by
 * handles: numbers, never pointers. None is given twice, 0 is none, and a stale
 * one is an error (MOPSLOCK_EHANDLE), not a crash. So no memory is yours to free,
 * but handles are to be given back, or what they name stays until the process
 * ends: a machine with mopslock_drop, a host with mopslock_close, a lease or permit with
 * mopslock_release, a companion with mopslock_leave, a cancel handle with
 * mopslock_cancel_free, an invocation with mopslock_invocation_close, what reads a
 * result with mopslock_result_close, a limiter with mopslock_limiter_free, a holder of it with
 * mopslock_limiter_holder_free, and what it holds with mopslock_limiter_release. A host takes
 * all that was made on it with it, an invocation its works, a limiter its holders, and a holder
 * its permits. That a lease is lost gives nothing back: release it all the
 * same.
 *
 * Strings. What comes in is UTF-8 and ends with NUL. What goes out does too, is
 * valid UTF-8, and where it is cut to fit, it is cut between two characters.
 *
 * Units. Durations are nanoseconds in int64_t, and names say so: _ns. Instants
 * are nanoseconds since 1970, UTC. Sizes and lengths are bytes.
 *
 * Errors. A function that can fail returns MOPSLOCK_OK (0) or a negative code
 * of enum mopslock_code; act on that. mopslock_last_error has a text for people,
 * mopslock_last_reason what the core calls the cause, and mopslock_last_class how
 * the store failed, if it did. All are of the latest call that failed in this
 * thread; calls that succeed leave them alone.
 *
 * Threads. Every function may be called from any thread at any time, also with
 * a handle that another thread is using. A call that waits blocks its thread
 * only. Do not cancel a thread (pthread_cancel) or jump out of it (longjmp)
 * while it is inside a call.
 *
 * fork. The Go runtime does not survive fork(): the child has one thread of all
 * those that it needs. So in a child every function that can return a code
 * returns MOPSLOCK_EFORKED, at once; those that cannot (versions, last error)
 * work. exec() in the child is fine: a new program is a new process image. The
 * runtime starts when the library is loaded, not at the first call. So a process
 * that is linked with the library can use it in no forked child, whether it has
 * called it before or not; one that loads it with dlopen() may fork before that
 * and then load it in the child. The parent goes on undisturbed. A vfork() child
 * must call nothing but exec() and _exit(), as ever.
 *
 * Signals. At load the Go runtime installs handlers for SIGSEGV, SIGBUS, SIGFPE,
 * SIGPIPE and SIGURG, and no others. The first four are handed on to whatever
 * handler was there before, or do what they do by default, if they do not come
 * from Go code. SIGURG is how the runtime interrupts its own threads. A handler
 * that you install can run on a Go thread, whose stack is small: give it
 * SA_ONSTACK, and SA_RESTART, or the runtime may crash. The runtime adds
 * SA_ONSTACK to handlers that it finds. No function here may be called from a
 * signal handler: set a flag, and call from a thread.
 *
 * Environment. At each mopslock_open the library takes over the process's
 * environment as it is then, with what setenv() and unsetenv() have changed: do
 * neither in another thread meanwhile. Hosts that are open keep the credentials
 * that they have. AWS_... is looked at by every open. Of GOOGLE_... and AZURE_...
 * what the first open of such a URL found stays for all others of the process, for
 * AZURE_... also if that open failed. Proxies (HTTPS_PROXY, NO_PROXY) and
 * SSL_CERT_FILE are those of the first request. The Go runtime's own, GOMAXPROCS or
 * GOMEMLIMIT, only count as they were when the process started.
 *
 * Unloading. The library cannot be unloaded; dlclose() does nothing.
 *
 * Evolution. Functions, constants and fields are only ever added. A struct
 * begins with its size, so that old callers work with new libraries: set it to
 * sizeof the struct, and what you do not care for to zero. A caller that is
 * newer than the library, and uses what that does not know, gets MOPSLOCK_EINVAL.
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

/* What the loaded library was built as: compare it with MOPSLOCK_ABI_VERSION,
 * below which something of this header is missing. */
uint32_t mopslock_abi_version(void);

/* What happened. Numbers are for ever. */
enum mopslock_code {
	MOPSLOCK_OK = 0,

	/* Any function. */
	MOPSLOCK_EINVAL = -1,  /* an argument cannot be so; nothing was done */
	MOPSLOCK_EHANDLE = -2, /* the handle is of nothing, or not of what is wanted */
	MOPSLOCK_ESHORT = -3,  /* the buffer is too short; how long it must be was told */
	MOPSLOCK_EFORKED = -4, /* this is a forked child: see fork above */

	/* The core. */
	MOPSLOCK_ECONTRACT = -16, /* the answer is an error: the caller broke the contract */

	/* The host. The state after each is told at the functions. */
	MOPSLOCK_EHELD = -32,         /* another holds the lease, or was faster */
	MOPSLOCK_ETIMEOUT = -33,      /* the time that was given is over */
	MOPSLOCK_ECANCELLED = -34,    /* mopslock_cancel was called */
	MOPSLOCK_ECLOSED = -35,       /* the host is closed or closing */
	MOPSLOCK_ELOST = -36,         /* the lease is not ours any more: stop what it guards */
	MOPSLOCK_EENDED = -37,        /* this process releases the lease or leaves it, or has */
	MOPSLOCK_ECANNOT_MAINTAIN = -38, /* there is nothing that a companion could keep alive */
	MOPSLOCK_EUNAUTHORIZED = -39, /* the store refuses us: credentials, or their rights */
	MOPSLOCK_ENOSTORE = -40,      /* there is no such bucket, container or directory */
	MOPSLOCK_EUNREACHABLE = -41,  /* the store does not answer: URL, network */
	MOPSLOCK_ESTORE = -42,        /* the store fails otherwise; mopslock_last_class says how */
	MOPSLOCK_EENGINE = -43,       /* the WASM engine failed; try again, or natively */
	MOPSLOCK_EUNFIT = -44,        /* the store, or what is in it, cannot serve what was asked: it does not
	                               * honour create-if-absent, or a newer version or something else wrote
	                               * there */
	MOPSLOCK_EVACANT = -45,       /* there is nothing: nobody to break, no result to read */
	MOPSLOCK_ESTALE = -46,        /* a newer tenure has written: stop what the lease guarded */
	MOPSLOCK_EUNKNOWN = -47,      /* it may have been written, or may still be, or not: read it */
	MOPSLOCK_ENORESULT = -48,     /* the work has ended, and there is no result */
	MOPSLOCK_EFULL = -49,         /* there is no room for a permit by the caller's view */
	MOPSLOCK_ETOO_HEAVY = -50,    /* a permit that the caller's view never has room for; nothing was asked */
	MOPSLOCK_ECROWDED = -51,      /* a semaphore's record has no room for another holder */
	MOPSLOCK_EOUT_OF_BUCKETS = -52 /* what was to be released is not held; nothing has changed */
};

/* Why: with MOPSLOCK_ELOST the first five, with other codes as noted; with
 * MOPSLOCK_ENORESULT see mopslock_work. */
enum mopslock_reason {
	MOPSLOCK_REASON_NONE = 0,
	MOPSLOCK_REASON_TAKEN = 1,       /* the record is another's now */
	MOPSLOCK_REASON_BROKEN = 2,      /* somebody broke it */
	MOPSLOCK_REASON_RELEASED = 3,    /* somebody released it; with EENDED: we did, and the store has said so */
	MOPSLOCK_REASON_UNREACHABLE = 4, /* no renewal in time; with E(store): it never answered */
	MOPSLOCK_REASON_EXPIRED = 5,     /* this process was paused past the deadline */

	MOPSLOCK_REASON_HELD = 16,      /* EHELD: another holds it */
	MOPSLOCK_REASON_RACED = 17,     /* EHELD: another was faster */
	MOPSLOCK_REASON_CANCELLED = 18, /* ECANCELLED */
	MOPSLOCK_REASON_UNUSABLE = 19,  /* the store cannot be used; the code says why */
	MOPSLOCK_REASON_LIMIT = 20,     /* ETIMEOUT: the wait was over while the store failed */
	MOPSLOCK_REASON_NEWER = 21,     /* EUNFIT: a newer mopslock has written there */
	MOPSLOCK_REASON_KIND = 22,      /* EUNFIT: the name is in use for something else: a lease's is no
	                                 * semaphore's, nor the other way round */
	MOPSLOCK_REASON_VACANT = 23,    /* EVACANT: nobody holds it */
	MOPSLOCK_REASON_FULL = 24,      /* EFULL */
	MOPSLOCK_REASON_TOO_HEAVY = 25, /* ETOO_HEAVY */
	MOPSLOCK_REASON_CROWDED = 26,   /* ECROWDED */
	MOPSLOCK_REASON_OUT_OF_BUCKETS = 27, /* EOUT_OF_BUCKETS */

	MOPSLOCK_REASON_ABSENT = 32,         /* ECANNOT_MAINTAIN: there is no record */
	MOPSLOCK_REASON_NO_EXPIRY = 33,      /* ECANNOT_MAINTAIN: it never expires */
	MOPSLOCK_REASON_NEVER_ACQUIRED = 34, /* ECANNOT_MAINTAIN: its holder never had it */
	MOPSLOCK_REASON_UNREADABLE = 35,     /* ECANNOT_MAINTAIN: it could not be kept alive */

	MOPSLOCK_REASON_FAILED = 40, /* ENORESULT: the work failed */

	MOPSLOCK_REASON_TTL_DIFFERS = 48,  /* of the core's warnings */
	MOPSLOCK_REASON_CORRUPT_TAKEN = 49, /* of the core's warnings */
	MOPSLOCK_REASON_EMPTIED = 50,      /* of the core's warnings */
	MOPSLOCK_REASON_MIXED = 51         /* of the core's warnings */
};

/* How the store failed. With E(store) it is finer than the code. The others with one
 * are ETIMEOUT of an acquire or invocation (reason LIMIT), ECANNOT_MAINTAIN (UNREADABLE)
 * and ENORESULT (UNREACHABLE, UNUSABLE): what the store said last. */
enum mopslock_class {
	MOPSLOCK_CLASS_NONE = 0,          /* it did not, or was not asked */
	MOPSLOCK_CLASS_OTHER = 1,         /* ESTORE: none of these; the text may know */
	MOPSLOCK_CLASS_UNREACHABLE = 2,   /* EUNREACHABLE */
	MOPSLOCK_CLASS_THROTTLED = 3,     /* ESTORE: ask less often; this passes */
	MOPSLOCK_CLASS_UNAUTHORIZED = 4,  /* EUNAUTHORIZED */
	MOPSLOCK_CLASS_NO_SUCH_STORE = 5, /* ENOSTORE */
	MOPSLOCK_CLASS_READ_ONLY = 6,     /* ESTORE: it can be read, and a lease needs to write */
	MOPSLOCK_CLASS_FULL = 7           /* ESTORE: no space, or the quota is used up */
};

/* Copies the text of this thread's latest error into text, at most cap bytes
 * with its NUL, and returns its length without the NUL: if that is cap or more,
 * the text was cut. text may be NULL if cap is 0. 1024 bytes hold every text. */
size_t mopslock_last_error(char *text, size_t cap);

/* The enum mopslock_reason of this thread's latest error, 0 if it has none. */
int mopslock_last_reason(void);

/* The enum mopslock_class of this thread's latest error, 0 if it has none. */
int mopslock_last_class(void);

/* ---------------------------------------------------------------------------
 * THE CORE: machines that decide, and do nothing else. In both libraries.
 *
 * Bring your own store, clocks and threads: a machine is told what happened, in
 * a message, and answers what is to be done, in another. The messages and the
 * loop to write are the documentation of the Go package
 * github.com/mopslock/mopslock/core; the bytes are the same in every language.
 *
 * Whoever steps a machine from several threads gets its steps one after another
 * in some order. Machines do not wait for each other, but for short moments.
 * ------------------------------------------------------------------------- */

/* The longest message, in and out: a buffer of so many bytes is never short, and
 * a longer message is refused by the core, as any other that is malformed. */
#define MOPSLOCK_MAX_MESSAGE 98304

/* mopslock_new makes a machine of a config and answers with its first state.
 *
 * OK         *handle is the machine. Drop it when it is idle and done with.
 * ECONTRACT  there is no machine, *handle is 0, the answer says why.
 * ESHORT     *answer_len is the room that the answer needs. If *handle is not 0
 *            the machine is made, and mopslock_again has the answer. If it is 0
 *            the answer is an error; call again with more room to read it.
 * EINVAL     an argument is NULL (config may be if config_len is 0). Nothing was
 *            touched.
 * EFORKED    nothing was touched.
 */
int mopslock_new(const void *config, size_t config_len, uint64_t *handle,
                 void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_step gives a machine an input and writes its answer.
 *
 * OK         the answer is *answer_len bytes.
 * ECONTRACT  the same, but the answer is an error: the machine is as it was.
 * EHANDLE    the same, and there is no such machine.
 * ESHORT     *answer_len is the room that the answer needs. The step HAS been
 *            made: do not repeat it, call mopslock_again. What stands in answer
 *            is of no use.
 * EINVAL, EFORKED   as above; the machine has not heard of it.
 *
 * input and answer may not overlap.
 */
int mopslock_step(uint64_t handle, const void *input, size_t input_len,
                  void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_again writes the answer of the handle's latest new or step once
 * more, and returns what that returned, had there been room. */
int mopslock_again(uint64_t handle, void *answer, size_t answer_cap, size_t *answer_len);

/* mopslock_drop forgets a machine: OK, EHANDLE if there is none, EFORKED. */
int mopslock_drop(uint64_t handle);

/* ---------------------------------------------------------------------------
 * THE HOST: leases on a store that the library itself talks to. libmopslock only.
 *
 * See example/hold.c for all that most programs need.
 *
 * A host is one store and one background thread of work: it renews whatever is
 * held, in time, without the caller. A lease is held from mopslock_acquire to
 * mopslock_release, mopslock_close, or its loss. Losing a lease cannot stop
 * your code: ask (mopslock_check, mopslock_left) before what must not be done
 * twice, or let a thread wait (mopslock_wait).
 *
 * Store URLs: file:///directory, s3://bucket/prefix, gs://bucket/prefix,
 * azblob://container/prefix, and mem:// for tests, which excludes nobody.
 * ------------------------------------------------------------------------- */

#define MOPSLOCK_FOREVER (-1) /* as a timeout: no limit */
#define MOPSLOCK_TRY (-1)     /* as wait_ns: do not wait for another holder */

#define MOPSLOCK_ENDLESS (-1) /* as ttl_ns, strict: until it is released or broken */

#define MOPSLOCK_HOLDER_SIZE 513 /* room for a holder's id and its NUL */
#define MOPSLOCK_LEASE_SIZE 8192 /* room for a lease text, but for URLs that are very long */

typedef struct mopslock_open_options {
	size_t size;
	/* NULL or "native", or "wasm": the same core as a published WebAssembly module,
	 * some ten times slower. It is compiled once in a process, which takes a second,
	 * and kept in the user's cache directory, which makes the next time faster. */
	const char *engine;
	int64_t timeout_ns; /* 0: no limit. Some clouds look for credentials on the network,
	                     * and the first "wasm" compiles */
	int32_t in_flight;  /* requests under way at once; 0: 64 */
	int32_t reserved;   /* 0 */
} mopslock_open_options;

/* mopslock_open opens the store at a URL and starts a host on it. options may
 * be NULL. Nothing is asked of the store yet: one that is not there shows at the
 * first acquire. *host is 0 after an error.
 *
 * EINVAL     the URL cannot be one, or there is no such engine; the text says why.
 * EENGINE
 * ETIMEOUT   timeout_ns is over, and there is no host. If that was while the WASM
 *            engine was compiled, for this call or for another, it goes on: call
 *            again, and what is done by then is not done twice.
 * EUNAUTHORIZED ... ESTORE   from the store's driver.
 */
int mopslock_open(const char *url, const mopslock_open_options *options, uint64_t *host);

/* mopslock_close releases what the host holds, ends what waits (an acquire or a
 * mopslock_work with ECLOSED, a mopslock_wait with EENDED), and stops it. Its handle and
 * those of all that was made on it are void from then on, whatever is returned: later calls
 * with host say ECLOSED, but mopslock_next only once it has told what there is.
 *
 * ETIMEOUT   something was not released in timeout_ns (MOPSLOCK_FOREVER: no
 *            limit) and expires by itself, a TTL after its last renewal. The
 *            host is closed all the same; there is nothing to call again.
 */
int mopslock_close(uint64_t host, int64_t timeout_ns);

/* A way to end calls from another thread: give the handle to calls that take
 * one, and cancel it, once, for all of them. They return ECANCELLED, as do later
 * calls with it. Give it back with mopslock_cancel_free; calls under way are not
 * disturbed by that, and can be cancelled no more. */
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

/* A lease as one read of its record shows it. The texts are somebody else's: as
 * they were written, cut to fit, and not safe to show as they are. */
typedef struct mopslock_status {
	size_t size;
	int32_t state;        /* enum mopslock_state */
	int32_t companion;    /* 1: the last write was a companion's */
	int64_t ttl_ns;
	int64_t age_ns;       /* since the last write, by our wall clock against the writer's */
	int64_t left_ns;      /* of the TTL; negative once it is over */
	int64_t acquired_ns;  /* instants by the writers' clocks, 0 if not said */
	int64_t written_ns;
	int64_t released_ns;
	char holder[MOPSLOCK_HOLDER_SIZE]; /* the tenure's id, fresh for each claim */
	char host[257];                    /* of the tenure's last writer; of a broken lease "" if that was not read */
	char pid[257];
	/* Since version 3. What follows is strict's; left_ns is then by a clock that
	 * holder and looker have in common, or 0, and age_ns is 0 where nobody says. */
	uint64_t epoch;   /* the newest version; 0 where there is none */
	uint64_t token;   /* the tenure's fencing token */
	int32_t protocol; /* enum mopslock_protocol */
	int32_t store_clock; /* 1: left_ns is by the store's clock */
	char companions[513]; /* the ids of the other owners, with commas */
	char label[129];
	char session[257]; /* the id of the session that it stands on */
	char why[513];     /* of a break: the reason that was given, */
	char by[513];      /* and by whom, as pid@host */
	/* Since version 5, of a semaphore; capacity is 0 of all else. Its state is HELD or VACANT,
	 * it has no holder of its own, and its TTL is 0: each permit hangs on a session. */
	uint32_t capacity; /* the view of whoever was let in last: so many permits */
	uint32_t width;    /* in each of so many buckets */
	uint64_t held;     /* what all permits weigh together */
	uint64_t limit;    /* of mopslock_set_limit; 0: none */
	uint64_t holders;  /* how many permits there are; of whoever waits or was refused, how many
	                    * of them 2 KiB have room for */
} mopslock_status;

/* How a lease is kept.
 *
 * STRICT       at most one holder, as long as clock rates differ by less than 1 %, and a
 *              fencing token that never goes back. It needs a store that honours
 *              create-if-absent, which file, S3, GCS and Azure do.
 * LASTWRITER   what mops speaks: on any store, and without these promises.
 * AUTO         LASTWRITER where the name has a NAME/lock.json, since an old client would
 *              not see another's claim; else STRICT where the store honours
 *              create-if-absent, which is found out once; else LASTWRITER.
 *              mopslock_protocol tells what it has come to: tell your user if that is
 *              LASTWRITER. For a name that mops shares ask for it, from the start.
 */
enum mopslock_protocol {
	MOPSLOCK_PROTOCOL_AUTO = 0,
	MOPSLOCK_PROTOCOL_LASTWRITER = 1,
	MOPSLOCK_PROTOCOL_STRICT = 2
};

/* What a caller may say about a lease. Everybody on one name should use one TTL:
 * under lastwriter mops judges all by its own, and a holder renews for the shortest
 * that it has seen on the name. acquire_margin_ns, fleet_expire_ns and blind are for
 * lastwriter alone, and strict does not look at them. */
typedef struct mopslock_options {
	size_t size;
	int64_t ttl_ns;    /* 0: 60 s under strict, else 88 s. MOPSLOCK_ENDLESS. From 50 ms (5 s if the store stamps whole seconds) to 30 days */
	int64_t margin_ns; /* how much earlier than the TTL a holder gives up; 0: a tenth; below half */
	int64_t acquire_margin_ns; /* least time between claim and verification; 0: twice what the claim
	                            * took, and 50 ms at least where others wait, too; to TTL/2 */
	int64_t fleet_expire_ns;   /* by which TTL others here judge us; 0: 88 s; -1: no mops here */
	int32_t blind;    /* 1: renew without reading first, as mops does */
	int32_t observed; /* 1: another's lease expires only by what we saw on our own clock */
	int64_t wait_ns;  /* acquire: 0: until it is held; MOPSLOCK_TRY: not at all. invoke: so
	                   * for a result or the lease */
	int64_t timeout_ns; /* accompany, renew, release_text: 0: no limit */
	uint64_t cancel;  /* 0, or of mopslock_cancel_new */
	mopslock_status *seen; /* NULL, or where to tell who holds it, or took it, after EHELD,
	                        * ETIMEOUT and ELOST; state is NONE if nothing was read */
	/* Since version 3. */
	int32_t protocol;  /* enum mopslock_protocol */
	int32_t session;   /* 1, strict: kept by the host's session of this TTL and margin, one
	                    * heartbeat for all leases on it; they do not notice that their
	                    * versions were removed from the store. Not with MOPSLOCK_ENDLESS */
	const char *label; /* strict: shown to people, at most 128 printable bytes; or NULL */
	/* Since version 4. Only invoke and remote look at them. */
	int32_t memo_failures; /* 1: what failing work came to is kept, too, and is the result
	                        * of all who ask with 1; the others do not see it */
	int32_t without_lease; /* remote: 1: work also if the lease cannot be kept alive */
	/* Since version 5. Only permit and begin_permit look at them. */
	uint32_t capacity; /* the caller's view: so many permits, from 1 to 1048576, */
	uint32_t width;    /* in each of so many buckets, from 1 to 65536 */
	uint32_t weight;   /* how many it takes, all or none; 0: one */
	uint32_t spare;    /* leaves so many permits to those who spare fewer */
} mopslock_options;

/* mopslock_acquire takes the lease on a name, waiting while another holds it.
 * options may be NULL. After an error *lease is 0, nothing is held, and what a
 * claim may have left in the store is released or expires.
 *
 * EHELD      another holds it or was faster, and wait_ns is over. options->seen
 *            tells who.
 * ETIMEOUT   wait_ns is over, and the store was failing.
 * ECANCELLED, ECLOSED
 * ELOST      it was lost before it could be returned.
 * EUNFIT     strict was asked of a store that does not honour create-if-absent, or the
 *            name is in use for something else (reasons NEWER and KIND).
 * EINVAL     the name or an option cannot be so. The text lists every bad one,
 *            but what no core is asked about (wait_ns, flags) is said first, alone.
 * EUNAUTHORIZED, ENOSTORE, ESTORE, EENGINE   at once. EUNREACHABLE after 5 s of silence.
 */
int mopslock_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *lease);

/* mopslock_release ends the lease, and gives its handle back also when there is
 * no lease any more. OK: the store has said so.
 *
 * ELOST      it had been lost before; mopslock_last_reason says how.
 * ECLOSED    the host was closed before the store said so: it is released or
 *            expires.
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over. The host goes on
 *            trying, and the handle is still good: call again, or close the host.
 *
 * After all but ETIMEOUT the handle is void. It takes leases and permits, not companions. A
 * permit that has not been given back in time ends with the host's session. */
int mopslock_release(uint64_t lease, int64_t timeout_ns);

/* mopslock_lease_text writes what another process needs to keep this lease
 * alive, as one line of JSON: give it to the other as MOPSLOCK_LEASE in its
 * environment. It names the store, so it is as secret as the URL. *len, if len
 * is not NULL, is its length; after ESHORT the room that it needs with its NUL. */
int mopslock_lease_text(uint64_t lease, char *text, size_t cap, size_t *len);

/* mopslock_accompany joins the lease of such a text and keeps it alive beside
 * its holder, also when that dies. It never releases it. Losing contact with the
 * store does not end it: it goes on trying, and mopslock_left is negative
 * meanwhile. The text's store must be the host's, which nobody checks, and its
 * TTL wins over the options'. After an error *companion is 0, nothing is kept.
 *
 * ELOST            the lease is another's, or was released.
 * ECANNOT_MAINTAIN  there is nothing to keep alive, or the store could not be read
 *                  for a TTL; mopslock_last_reason says what.
 * EUNFIT           as mopslock_acquire.
 * EINVAL, ETIMEOUT, ECANCELLED, ECLOSED, EENGINE
 */
int mopslock_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                       uint64_t *companion);

/* mopslock_leave ends a companion and its handle, as mopslock_release does with
 * a lease, but the lease lives on. Errors are as there. */
int mopslock_leave(uint64_t companion, int64_t timeout_ns);

/* mopslock_renew renews the lease of a text once, as a companion, and tells how
 * long it is good for. left_ns may be NULL. Errors are those of accompany; ELOST
 * with reason unreachable if no write was answered in time. */
int mopslock_renew(uint64_t host, const char *lease_text, const mopslock_options *options, int64_t *left_ns);

/* mopslock_release_text releases the lease of a text, as mopslock_release would
 * where it was acquired; whoever holds it there loses it, with reason RELEASED. The
 * text's store must be the host's, which nobody checks. OK: the lease is released,
 * had been before, or is gone.
 *
 * ELOST      the record is another's (reason TAKEN), or was out of reach for the
 *            text's TTL (UNREACHABLE).
 * ETIMEOUT, ECANCELLED   the host goes on trying, for as long as that.
 * EINVAL, ECLOSED, EENGINE
 */
int mopslock_release_text(uint64_t host, const char *lease_text, const mopslock_options *options);

/* Of a lease, a companion, a work or a permit: may it still be relied on? It looks at the clock
 * itself, asks nobody, and is cheap.
 *
 * OK         yes.
 * ELOST      no, and mopslock_last_reason says why. For ever.
 * EENDED     no: this process is releasing it, or has, by mopslock_release, _leave
 *            or _close. The reason is NONE while the store has not said so, then
 *            RELEASED; of a companion, which releases nothing, NONE.
 * ECLOSED    no: the host was closed before the store said so.
 * EHANDLE    as ever, once the handle is void.
 */
int mopslock_check(uint64_t member);

/* mopslock_wait blocks until mopslock_check would not return OK, and returns
 * what it would. ETIMEOUT: after timeout_ns (MOPSLOCK_FOREVER: no limit) it is
 * still ours. *reason, if reason is not NULL, is the enum mopslock_reason. A
 * release, leave or close in another thread ends the wait as well, a lease's
 * before anything is written: mostly with EENDED and reason NONE, or with what
 * mopslock_check says a moment later. A wait that has begun is not disturbed by
 * the handle being void then. */
int mopslock_wait(uint64_t member, int64_t timeout_ns, int *reason);

/* How long a lease or companion may be relied on without another renewal, also
 * counting the time that the machine sleeps: negative past the deadline, and 0 or
 * less once mopslock_check is not OK. Renewals move it. OK or EHANDLE. */
int mopslock_left(uint64_t member, int64_t *left_ns);

/* The id of a lease's or companion's tenure; len as with mopslock_lease_text.
 * OK, ESHORT (never with MOPSLOCK_HOLDER_SIZE) or EHANDLE. */
int mopslock_holder(uint64_t member, char *text, size_t cap, size_t *len);

/* The fencing token of a lease or companion: greater from each tenure of a name to the
 * next, and the same for all who keep one alive. Hand it to whatever the lease guards,
 * and have that refuse a smaller one: see THE GUARD. 0 under lastwriter, which has none.
 * OK or EHANDLE, as the next three. */
int mopslock_fencing_token(uint64_t member, uint64_t *token);

/* The newest version of the tenure that is known: it grows when a companion joins or
 * leaves. 0 under lastwriter. */
int mopslock_epoch(uint64_t member, uint64_t *epoch);

/* How a lease or companion is kept: STRICT or LASTWRITER of enum mopslock_protocol. */
int mopslock_protocol(uint64_t member, int *protocol);

/* The id of the session that a lease stands on, "" for none; text and len, and ESHORT
 * beside the others, as with mopslock_holder. */
int mopslock_session(uint64_t member, char *text, size_t cap, size_t *len);

/* mopslock_inspect reads the record of a name and takes no part in it. Set
 * status->size. A name that nobody uses is OK, and vacant.
 *
 * EINVAL, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE:
 * status is as it was.
 */
int mopslock_inspect(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status);

typedef struct mopslock_break_options {
	size_t size;
	const char *why; /* kept with the break, for people: 1 to 512 printable bytes. Strict
	                  * wants it; lastwriter has no room for it, and it may be NULL */
	int32_t now;     /* 1: the name is free at once, also while its holder may still believe
	                  * that it holds it: the one way to two holders of a strict lease */
	int32_t protocol;   /* enum mopslock_protocol: whose lease; 0: whoever's is there */
	int64_t timeout_ns; /* 0: no limit */
	mopslock_status *seen; /* NULL, or where to tell what the name is then, or with EHELD who
	                        * holds it */
	const char *holder; /* Since version 6. The one whose lease is broken, by mopslock_status.holder,
	                     * and no other: pass the one that you have seen. NULL or "" breaks the
	                     * holder of the moment. Lastwriter reads the record just before it writes
	                     * it: a process that acquires between the two loses the lease all the same */
} mopslock_break_options;

/* mopslock_break ends somebody's lease, on the record. Its holder loses it when it
 * renews the next time, on a directory at once, with reason BROKEN (under lastwriter
 * RELEASED when it renews), and others can
 * take the name when its last sign of life is a TTL old. One without a TTL whose holder
 * is out of contact goes on without knowing.
 *
 * EVACANT    nobody holds it.
 * EHELD      another than options->holder holds it; nothing was done.
 * EUNFIT     as mopslock_acquire.
 * ETIMEOUT   nobody knows whether it was broken.
 * EINVAL, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE
 */
int mopslock_break(uint64_t host, const char *name, const mopslock_break_options *options);

/* What mopslock_list calls, in the thread that called that: it may take its time
 * and call any function of this library, also to close the host. name and status
 * are valid until it returns; status->size is what the library's header says. code
 * is OK, or why this one record could not be read: mopslock_last_error has the text
 * then, and the state is NONE. It returns 0 to go on, or ends the list. In a forked
 * child it must not return at all. */
typedef int (*mopslock_visit)(void *arg, const char *name, const mopslock_status *status, int code);

/* mopslock_list visits every lease whose name begins with prefix; NULL and "" are
 * before all. They come in byte order of the keys of what is kept of them; one that
 * vanishes meanwhile is left out. timeout_ns is for all of it, with the visits.
 *
 * OK         all were visited, or visit has ended the list.
 * EINVAL, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: some
 * may have been visited before, and the others were not.
 */
int mopslock_list(uint64_t host, const char *prefix, int64_t timeout_ns, mopslock_visit visit, void *arg);

/* CALLS THAT ARE BEGUN
 *
 * Thousands of leases, and thousands that wait for one, need no thread each: begin
 * the calls, and have one thread ask for events. What is held costs none, and what
 * waits costs none; the library's own threads are as many as requests are under
 * way to a directory, and a few.
 *
 *     begin_acquire, begin_accompany, begin_renew, begin_release, begin_leave,
 *     begin_work, begin_invocation_close, begin_permit --> host
 *     host --> next: WAITING of an acquire, work or permit, CALL, and ENDED of what the call gave
 *
 * A limiter has events too: see begin_limiter_acquire.
 *
 * One call's events come in that order. ENDED comes before the CALL of a release or
 * leave that has ended the same lease or companion, so that nothing is told of it after
 * that, unless the code is ETIMEOUT. Several threads that ask get events in that order,
 * but what they do with them is in none.
 *
 * An event can be told in one thread before the begin_ function has returned in
 * another. Who looks up calls by number has to hold a lock of his over the begin_
 * function and his own note of the number, and take it when he looks one up.
 */

enum mopslock_event_kind {
	MOPSLOCK_EVENT_NONE = 0,
	MOPSLOCK_EVENT_CALL = 1,   /* a begun call has ended */
	MOPSLOCK_EVENT_ENDED = 2,  /* a lease, companion, work or permit that a begun call gave can no longer
	                            * be relied on: mopslock_check would not say OK. Once for each,
	                            * also after a release, leave or close */
	MOPSLOCK_EVENT_WAITING = 3 /* a begun acquire, work or permit waits, and seen says for whom (state NONE:
	                            * not known): first, and at every change; only the latest is kept
	                            * for who asks late */
};

typedef struct mopslock_event {
	size_t size;
	int32_t kind;     /* enum mopslock_event_kind */
	int32_t code;     /* enum mopslock_code. CALL: what its namesake would have returned;
	                   * ENDED: what mopslock_check said; WAITING: OK */
	int32_t reason;   /* enum mopslock_reason, of the code */
	int32_t store_class; /* enum mopslock_class, of the code */
	uint64_t call;    /* CALL, WAITING: which. 0 in others */
	uint64_t member;  /* CALL of acquire, accompany, work, permit: what it gave, 0 after an error (and of
	                   * work with OK: there is a result); ENDED: which */
	int64_t left_ns;  /* CALL of renew: how long it is good for, from now */
	mopslock_status *seen; /* in: NULL, or where to tell what options->seen would be told; its
	                        * state is NONE if nothing. The pointer stays as it is */
	char text[1024];  /* what mopslock_last_error would say; "" if the code is OK */
	uint64_t held;    /* Since version 5. CALL of permit and limiter_acquire: how many permits are
	                   * held on the name, with OK and with EFULL */
} mopslock_event;

/* These begin what their namesakes do, and return. OK: *call is a number that no
 * other call in this process has, and one event of kind CALL will have it, at the
 * latest when the host is closed. All but OK: nothing was begun, there is no event,
 * and *call is 0 or as it was.
 *
 * What they are given is copied; options->seen must be NULL, since an event has its
 * own. A begun call is ended by options->cancel, or by closing the host: with
 * ECANCELLED or ECLOSED. From the moment a release is begun, do not rely on the lease.
 *
 * Returned at once are EINVAL where the arguments, the lease text or a flag, timeout
 * or wait of the options cannot be so, EHANDLE (of the cancel handle, too), ECLOSED and
 * EFORKED. All else comes as the event's code: EINVAL for a name or for terms (TTL,
 * margins) that cannot be so, ECANCELLED also if the cancel handle was cancelled
 * before, and ECLOSED for what was begun while the host was being closed.
 *
 * mopslock_begin_release and _leave take every lease, permit and companion, begun or not,
 * and the handle is void after the event as after their namesakes. */
int mopslock_begin_acquire(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call);
int mopslock_begin_accompany(uint64_t host, const char *lease_text, const mopslock_options *options,
                             uint64_t *call);
int mopslock_begin_renew(uint64_t host, const char *lease_text, const mopslock_options *options, uint64_t *call);
int mopslock_begin_release(uint64_t lease, int64_t timeout_ns, uint64_t *call);
int mopslock_begin_leave(uint64_t companion, int64_t timeout_ns, uint64_t *call);

/* mopslock_next takes the host's next event, or waits for one. Set event->size, and
 * seen. Each event is told once, to one of the threads that ask; it leaves this
 * thread's latest error alone.
 *
 * OK         one event.
 * ETIMEOUT   there was none in timeout_ns (0: look and return; MOPSLOCK_FOREVER: no
 *            limit).
 * ECLOSED    the host is closed and every event was taken: none will ever come.
 * EHANDLE    this never was a host.
 * EINVAL, EFORKED   event was not touched. After the other errors kind is NONE, and
 *            the rest is zero.
 *
 * What was begun on a host has ended when mopslock_close returns, and its events
 * can be taken then as before, until ECLOSED. (But for a call that hangs in the
 * system, on a dead mount, when timeout_ns of the close is over: its event comes once
 * that lets go, and ECLOSED after it.) Events that nobody takes stay in memory: at most
 * three of every call that was begun, WAITING, CALL and ENDED, some hundred bytes
 * each. With the last one everything goes. */
int mopslock_next(uint64_t host, int64_t timeout_ns, mopslock_event *event);

/* ---------------------------------------------------------------------------
 * INVOCATIONS: a piece of work that is done once, and whose result stays.
 *
 * The work has a name, and so has its result, which lies beside the lease: NAME/result.
 * Whoever wants the result invokes the name. If it is there, that is all; if another is
 * at work, one waits for his result; else one gets the work to do:
 *
 *     invoke --> work:  OK, 0      there is a result: result_open, read, result_close
 *                       OK, work   do it now, or start who does it; its lease is kept alive
 *                                  |
 *     ended(work, ...) <-----------+ it has ended, and this is what it came to
 *     work:             OK, 0      the first result that was stored, ours or another's
 *                       ENORESULT  there is none, and the lease was given back
 *     invocation_close
 *
 * An orchestrator does not work itself: it starts a remote with the work's lease text
 * (mopslock_lease_text), as MOPSLOCK_LEASE in its environment. The remote begins with
 * mopslock_remote and goes the same way. It keeps the lease alive beside the orchestrator,
 * and when that dies; it stores the result, and never releases. So an orchestrator's
 * ended may come without a body: then the result is the remote's, and mopslock_work waits
 * for it while a remote lives. One that comes late, when its lease is another's, is not
 * given the work. The first result wins, and is never written over; on a store that does
 * not honour create-if-absent the later of two that end in one moment does.
 *
 * A work is a handle that mopslock_check, _wait, _left, _holder, _fencing_token, _epoch,
 * _protocol, _session and _lease_text take. It stands for one attempt: a lease that was
 * lost and won again gives a new one. A remote goes on if its lease was released or is out
 * of contact (left is negative then): check is not OK when it is another's. One without a
 * lease (without_lease) has no text, an empty holder, and 0 for a token, an epoch and what
 * is left. Release and leave do not take a work: it goes with its invocation.
 *
 * What is not here: nobody stops a work that has lost its lease. Ask mopslock_check of
 * the work, or let a thread wait, and stop it; then say mopslock_ended all the same.
 * ------------------------------------------------------------------------- */

/* mopslock_invoke begins to look for the result of a name, and to take its lease if there
 * is none. It does not wait. options may be NULL; options->seen must be, since
 * mopslock_work has its own. options->cancel: as mopslock_give_up, for all that have it.
 * There is always a TTL: MOPSLOCK_ENDLESS cannot be.
 *
 * OK         *invocation is to be given back with mopslock_invocation_close.
 * EINVAL     the name or an option cannot be so, as with mopslock_acquire. The last segment
 *            of the name cannot be "lock": the result would lie in a memo of mops.
 * EHANDLE, ECLOSED, EFORKED
 */
int mopslock_invoke(uint64_t host, const char *name, const mopslock_options *options, uint64_t *invocation);

/* mopslock_remote begins what an orchestrator has started: to look for the result of a
 * name, and to join the lease of a text if there is none. name may be NULL: the text has
 * it. lease_text may be NULL with options->without_lease. The text's store must be the
 * host's, which nobody checks, and its TTL wins over the options'; wait_ns is not looked
 * at, since a remote waits for nobody. All else as mopslock_invoke; a text that cannot be
 * one, or of another name, is EINVAL here. */
int mopslock_remote(uint64_t host, const char *name, const char *lease_text, const mopslock_options *options,
                    uint64_t *invocation);

/* mopslock_work waits for work to do, or for the end. seen is NULL, or where to tell whom
 * is waited for after ETIMEOUT, and who decided it after EHELD, ELOST and ENORESULT; its
 * state is NONE if that is not known. While a work is being done it waits for the next one,
 * or for what it came to. Of several threads that ask one is given a work, and all are told
 * of the end.
 *
 * OK         *work is not 0: begin it now, and say mopslock_ended in the end.
 *            *work is 0: it is over, and there is a result.
 * ETIMEOUT   with reason NONE: timeout_ns (MOPSLOCK_FOREVER: no limit) is over. It goes on.
 *
 * All others but EINVAL, EHANDLE and EFORKED are its end without a result; what was held is
 * released, or is about to be. They are said again to who asks again.
 *
 * EHELD      another is at work, and wait_ns is over.
 * ETIMEOUT   with reason LIMIT: wait_ns is over, and the store was failing.
 * ENORESULT  the work has ended, and there is no result. The reason is FAILED: it was not
 *            done well, and the text says how; NONE: it was, but nobody stores a result;
 *            TAKEN, BROKEN, RELEASED or EXPIRED: the lease was lost before there was one;
 *            UNREACHABLE or UNUSABLE: the store did not take it, or could not be asked.
 * ELOST      a remote came late: the lease is another's, or was released. Nothing was done.
 * ECANNOT_MAINTAIN  a remote found nothing to keep alive. Nothing was done.
 * ECANCELLED mopslock_give_up, or options->cancel.
 * EUNFIT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as
 *            mopslock_acquire.
 */
int mopslock_work(uint64_t invocation, int64_t timeout_ns, mopslock_status *seen, uint64_t *work);

/* mopslock_begin_work is mopslock_work as a call that is begun, without a limit: the
 * event's member is the work. It ends at the latest when the invocation is given up. */
int mopslock_begin_work(uint64_t invocation, uint64_t *call);

/* mopslock_ended says that a work has ended, and what it came to: len bytes at body (none
 * at all: an empty result), which are copied, or the file at path, which may be of any
 * size and has to stay as it is until mopslock_work has said what became of it. If both
 * are NULL this process has nothing to store: an orchestrator finds what its remote has
 * stored. well is 0 if the work failed: what it came to is kept if
 * options->memo_failures was 1, and else not looked at.
 *
 * OK         mopslock_work says the rest. A file that cannot be read shows there, too, as
 *            work that failed. Nothing is stored of what was given up.
 * EENDED     it had been said before.
 * EINVAL     both body and path, or a len without a body. It has not ended.
 * EHANDLE
 */
int mopslock_ended(uint64_t work, int well, const void *body, size_t len, const char *path);

/* What an invocation has found. */
typedef struct mopslock_result {
	size_t size;
	int32_t failed; /* 1: it is what failing work came to */
	int32_t own;    /* 1: it was stored by this invocation */
	char key[641];  /* where it is in the store */
} mopslock_result;

/* mopslock_invocation_result tells of the result. Set result->size. EVACANT: there is
 * none, or none yet. EINVAL, EHANDLE, EFORKED. result is as it was after an error. */
int mopslock_invocation_result(uint64_t invocation, mopslock_result *result);

/* mopslock_result_open begins to read the result, from its beginning, as often as wanted.
 * *length, if length is not NULL, is how many bytes it has; -1: the store does not say.
 * *reader is to be given back with mopslock_result_close; it outlives its invocation, but
 * not the host.
 *
 * EVACANT    there is none, or somebody has removed it.
 * EINVAL, EHANDLE, ETIMEOUT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: *reader is 0.
 */
int mopslock_result_open(uint64_t invocation, int64_t timeout_ns, uint64_t *reader, int64_t *length);

/* mopslock_result_read reads on: at most cap bytes into body, *len of them; 0 is the end
 * if cap is not. It waits for at least one byte, not for all. One thread at a time reads;
 * the others wait. After an error but EINVAL the reader is of no more use: what was read
 * so far is good, and the rest is to be had by opening the result again.
 *
 * ETIMEOUT   nothing came in timeout_ns.
 * EINVAL, EHANDLE, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE
 */
int mopslock_result_read(uint64_t reader, int64_t timeout_ns, void *body, size_t cap, size_t *len);

/* mopslock_result_close gives a reader back; a read under way in another thread ends with
 * ECANCELLED. OK, EHANDLE, EFORKED. */
int mopslock_result_close(uint64_t reader);

/* mopslock_give_up gives an invocation up, and returns: mopslock_work says ECANCELLED, if
 * it was not over. What is held is released at once, so stop a work first: others may
 * begin it. A remote's lease lives on. OK, EHANDLE, EFORKED. */
int mopslock_give_up(uint64_t invocation);

/* mopslock_invocation_close gives an invocation up if it is not over, waits until the
 * lease was given back, and ends its handle and those of its works.
 *
 * OK         nothing is held.
 * ELOST      the lease was found lost when it was to be given back: it is another's, was
 *            broken, or expires; mopslock_last_reason says how. A result stays one.
 * ECLOSED    the host was closed before the store said so: it is released or expires.
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over. The host goes on
 *            trying, and the handle is still good: call again, or close the host.
 *
 * After all but ETIMEOUT the handles are void. begin_invocation_close is the same as a
 * call that is begun; the event's code says what would have been returned. */
int mopslock_invocation_close(uint64_t invocation, int64_t timeout_ns);
int mopslock_begin_invocation_close(uint64_t invocation, int64_t timeout_ns, uint64_t *call);

/* ---------------------------------------------------------------------------
 * SHARED SEMAPHORES: at most so many at once, of all processes that share a store.
 *
 * A name has no size. Each caller brings a view of it, capacity permits in each of width
 * buckets, and is let in if with it no more than capacity x width are held, by everybody. So
 * no limit is ever exceeded by a caller who knew it, views may differ and change at any time,
 * and a smaller one evicts nobody. mopslock_set_limit keeps one in the store that caps all.
 *
 * A permit hangs on the host's session, one heartbeat for all that stands on it: it is held
 * until mopslock_release or mopslock_close, or lost with the session, and then whoever needs
 * the room frees it. It is a member: mopslock_check, _wait, _left, _holder (its id, fresh for
 * each), _fencing_token (grows, but is the same for those let in together), _epoch (the
 * same), _protocol (STRICT) and _session take it, and mopslock_release gives it back. It has
 * no lease text.
 *
 * It takes a store that honours create-if-absent. A name is a lease's or a semaphore's.
 * ------------------------------------------------------------------------- */

/* mopslock_permit takes a permit of the semaphore on a name, waiting while there is no room
 * for it. options may not be NULL: it has the view. wait_ns is 0 until there is room,
 * MOPSLOCK_TRY, or the longest to wait for it. Of the others ttl_ns and margin_ns (of the
 * session), observed, label, cancel and seen are looked at; protocol must be AUTO or STRICT.
 * Who spares s permits is let in only where s are left over: a share that is kept for those
 * who spare fewer. Whoever of a host waits at the same time is let in together, by one write.
 * After an error *permit is 0, and nothing is held.
 *
 * EFULL      there is no room, and wait_ns is over; options->seen tells how much is held.
 * ETOO_HEAVY weight and spare are more than capacity x width.
 * ECROWDED   the record has no room for another holder, which it has for about a thousand.
 * EUNFIT     the store does not honour create-if-absent; or reason KIND: the name is a
 *            lease's; or NEWER.
 * EINVAL     the name, the view or another option cannot be so.
 * ELOST      it was lost before it could be returned.
 * ETIMEOUT, ECANCELLED, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as
 *            mopslock_acquire.
 */
int mopslock_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *permit);

/* mopslock_begin_permit is mopslock_permit as a call that is begun, as begin_acquire is
 * mopslock_acquire. mopslock_begin_release takes permits, too. */
int mopslock_begin_permit(uint64_t host, const char *name, const mopslock_options *options, uint64_t *call);

/* How many permits were held on the name when this one was let in, with it and with those
 * let in together. OK or EHANDLE. */
int mopslock_permit_total(uint64_t permit, uint64_t *total);

/* mopslock_set_limit keeps a limit in the store: nobody's view of the name counts for more. 0
 * removes it. It evicts nobody. OK: the store has it.
 *
 * ETIMEOUT   timeout_ns (MOPSLOCK_FOREVER: no limit) is over, and it is unknown whether the
 *            store has taken it.
 * EUNFIT, ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE, EENGINE   as mopslock_permit.
 * EINVAL, EHANDLE
 */
int mopslock_set_limit(uint64_t host, const char *name, uint64_t limit, int64_t timeout_ns);

/* One permit as the record shows it. The texts are somebody else's, as those of a status. */
typedef struct mopslock_permit_holder {
	size_t size;
	uint64_t weight;
	int32_t stale;    /* 1: its session is dead, and whoever needs the room frees it */
	int32_t reserved; /* 0 */
	char id[MOPSLOCK_HOLDER_SIZE];
	char session[257];
	char host[257];
	char pid[257];
	char label[129];
} mopslock_permit_holder;

/* What mopslock_inspect_holders calls, as mopslock_list calls a mopslock_visit. */
typedef int (*mopslock_visit_holder)(void *arg, const mopslock_permit_holder *holder);

/* mopslock_inspect_holders is mopslock_inspect, and visits every permit if the name is a
 * semaphore's; of all else nothing is visited. status is told before, and may not be NULL. */
int mopslock_inspect_holders(uint64_t host, const char *name, int64_t timeout_ns, mopslock_status *status,
                             mopslock_visit_holder visit, void *arg);

/* ---------------------------------------------------------------------------
 * THE LIMITER: at most so many at once, of the threads of this process.
 *
 *     limiter_new --> limiter_holder --> limiter_acquire ... limiter_release
 *                                    \-> limiter_slot: slot_try ... slot_release
 *
 * Views are as with shared semaphores, each caller's own. Nothing here touches a store or
 * starts a thread. A permit belongs to a holder, a handle of yours for a thread, a task or a
 * connection; all that a holder has is given back when it is freed, which is how to be sure
 * that nothing is forgotten. The library does not know when a thread ends.
 *
 * Capacity is from 1 to 1048576, width from 1 to 65536, weight how many permits are meant, all
 * or none, 0 is one; else EINVAL. held may be NULL, else it tells how many permits of the name
 * are held by everybody, after OK and EFULL. ECLOSED: the limiter was freed; EHANDLE: so was
 * the holder, permit or slot. All return EFORKED in a forked child.
 * ------------------------------------------------------------------------- */

/* mopslock_limiter_new makes a limiter of which nothing is held. fifo 0: each waiter is let in
 * when his own view has room, in the order of arrival among those that fit, and newcomers may
 * overtake. 1: nobody overtakes; one that waits for much keeps all waiting that came after. */
int mopslock_limiter_new(int fifo, uint64_t *limiter);

/* mopslock_limiter_free frees a limiter with all its holders, as mopslock_limiter_holder_free.
 * Events of it that were not taken can be: mopslock_next says ECLOSED once there are none. */
int mopslock_limiter_free(uint64_t limiter);

/* mopslock_limiter_holder makes an owner of permits. It costs some hundred bytes. */
int mopslock_limiter_holder(uint64_t limiter, uint64_t *holder);

/* mopslock_limiter_holder_free gives back all that a holder holds, *freed permits (freed may
 * be NULL), and its handle, and those of its permits and slots. Its calls that wait return
 * EENDED. */
int mopslock_limiter_holder_free(uint64_t holder, uint64_t *freed);

/* mopslock_limiter_acquire takes permits of a name, if with them no more than capacity x width
 * are held. wait_ns: MOPSLOCK_TRY tries once; 0 waits until there is room, and blocks the
 * calling thread only; else the longest to wait. cancel: 0, or of mopslock_cancel_new. After an
 * error *permit is 0, and nothing is held that was not before.
 *
 * EFULL      there is no room, and the wait is over.
 * ETOO_HEAVY weight is more than capacity x width.
 * ECANCELLED also if cancel was cancelled before.
 * EENDED     the holder was freed meanwhile.
 * EINVAL, EHANDLE
 */
int mopslock_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width, uint32_t weight,
                             int64_t wait_ns, uint64_t cancel, uint64_t *permit, uint64_t *held);

/* mopslock_begin_limiter_acquire is the same as a call that is begun: a limiter has events as
 * a host has, and mopslock_next takes its handle. There is one event of kind CALL, whose
 * member is the permit. So one thread serves thousands that wait. Returned at once are EINVAL
 * of what cannot be so, EHANDLE, ECLOSED and EFORKED; all else is the event's code. */
int mopslock_begin_limiter_acquire(uint64_t holder, const char *name, uint32_t capacity, uint32_t width,
                                   uint32_t weight, int64_t wait_ns, uint64_t cancel, uint64_t *call);

/* mopslock_limiter_release gives a permit back, and its handle: OK or EHANDLE, of what was
 * released before, also by freeing its holder. */
int mopslock_limiter_release(uint64_t permit);

/* mopslock_limiter_slot resolves a name for a holder that uses it often: what is done with a
 * slot looks no name up, and allocates nothing. It stays until its holder is freed. */
int mopslock_limiter_slot(uint64_t holder, const char *name, uint64_t *slot);

/* mopslock_limiter_slot_try takes permits or not, and never waits. They have no handle: they
 * are like coins of the holder, given back by their number.
 * EFULL, ETOO_HEAVY, EENDED, EINVAL, EHANDLE */
int mopslock_limiter_slot_try(uint64_t slot, uint32_t capacity, uint32_t width, uint32_t weight, uint64_t *held);

/* mopslock_limiter_slot_release gives back so many permits of the slot's name. EOUT_OF_BUCKETS:
 * its holder does not hold so many, and nothing has changed. */
int mopslock_limiter_slot_release(uint64_t slot, uint32_t weight);

/* mopslock_limiter_held tells how many permits of a name are held, and how many calls wait for
 * some; either may be NULL. */
int mopslock_limiter_held(uint64_t limiter, const char *name, uint64_t *held, uint64_t *waiting);

/* mopslock_limiter_counters writes canal_lock's counters of a name: what is held in each bucket
 * that was ever reached, and one more than the capacity of the latest grant where somebody
 * walked past a full one since. At most 4096 are told; none of a name that is not known or was
 * forgotten. *len (len may not be NULL) is how many there are; ESHORT: more than cap, and
 * nothing was written. */
int mopslock_limiter_counters(uint64_t limiter, const char *name, uint32_t *counters, size_t cap, size_t *len);

/* ---------------------------------------------------------------------------
 * THE GUARD: objects on the same store that only the newest tenure can write.
 *
 * A lease cannot stop a process that was paused while it wrote. Here the store
 * refuses its write, by the fencing token:
 *
 *     A, token 5:  held -- read -- SIGSTOP ================= SIGCONT -- write: ESTALE
 *     B, token 6:                     TTL ... held -- write
 *
 * An object is guarded by the lease on one name: tokens of two names mean nothing to
 * each other. Nothing else may write or expire what lies below its key. What the token
 * does not do: it cannot know of a tenure that has not touched the object. So whoever
 * takes a lease over and reads before it writes begins with mopslock_guarded_raise.
 * None of these functions looks whether the lease is held: mopslock_check does.
 *
 * token and holder are mopslock_fencing_token and mopslock_holder of a strict lease,
 * companion or work; they stay what they are for as long as it lasts. timeout_ns is as
 * everywhere (MOPSLOCK_FOREVER: no limit). What is read goes into body, of which there
 * are cap bytes: *len is its length, or after ESHORT the room that it needs; then all
 * else was done, so read it with mopslock_guarded_read. MOPSLOCK_GUARDED_MAX bytes are
 * always enough. slot may be NULL; else set slot->size, and after OK, ESHORT, ESTALE and
 * EUNKNOWN it tells of the slot that is meant, and what is not known of that is zero.
 *
 * EINVAL     the key, the token, the holder or the body cannot be so. token 0: the
 *            lease is kept by lastwriter, which has none.
 * ESTALE     a newer tenure has written, slot says who. Nothing of ours was, or will be.
 * EUNKNOWN   it may have been written or not, or may land yet. Read: it was if the
 *            newest slot has slot->nonce. Any later write puts an end to the doubt.
 * EUNFIT     the store has no create-if-absent; or what is there was written by
 *            something else, a newer mopslock, or under another name's lease.
 * EHELD      others were faster.
 * ETIMEOUT   before anything was sent.
 * ECLOSED, EUNAUTHORIZED, ENOSTORE, EUNREACHABLE, ESTORE: nothing was written.
 * ------------------------------------------------------------------------- */

#define MOPSLOCK_GUARDED_MAX 64512 /* bytes of a body */

/* One state of an object, as its writer left it. */
typedef struct mopslock_slot {
	size_t size;
	uint64_t number;  /* counts the writes of the object, from 1; 0: nobody has written */
	uint64_t token;   /* of the tenure that wrote it */
	uint64_t written; /* the slot that first had this body; 0: none, there is no body */
	int64_t stamp_ns; /* when, by the store's clock, where it was read; 0: not known */
	char holder[MOPSLOCK_HOLDER_SIZE]; /* the tenure's id */
	char nonce[65];   /* fresh for each write */
} mopslock_slot;

/* mopslock_guarded_read reads the newest slot. If nobody has written it is OK, *len is
 * 0 and slot->written too. */
int mopslock_guarded_read(uint64_t host, const char *key, int64_t timeout_ns,
                          void *body, size_t cap, size_t *len, mopslock_slot *slot);

/* mopslock_guarded_write makes body the object's, whatever was there. body may be NULL
 * if len is 0. */
int mopslock_guarded_write(uint64_t host, const char *key, uint64_t token, const char *holder,
                           const void *body, size_t len, int64_t timeout_ns, mopslock_slot *slot);

/* mopslock_guarded_update is write if the object's body is still old, byte by byte; old
 * NULL is "nobody has written". EHELD, with reason RACED: it is another by now, and
 * nothing was written: read it, and make a new one of it. */
int mopslock_guarded_update(uint64_t host, const char *key, uint64_t token, const char *holder,
                            const void *old, size_t old_len, const void *body, size_t len,
                            int64_t timeout_ns, mopslock_slot *slot);

/* mopslock_guarded_raise lets nobody of an older tenure write any more, and reads what
 * they left. It writes nothing if this tenure has written already. */
int mopslock_guarded_raise(uint64_t host, const char *key, uint64_t token, const char *holder,
                           int64_t timeout_ns, void *body, size_t cap, size_t *len, mopslock_slot *slot);

/* mopslock_create_once makes an object that is never written again: a result. The first
 * one wins, whatever its token is; *won, if won is not NULL, is 1 if it was this one.
 * slot tells whose it is. */
int mopslock_create_once(uint64_t host, const char *key, uint64_t token, const char *holder,
                         const void *body, size_t len, int64_t timeout_ns, int *won, mopslock_slot *slot);

/* mopslock_read_once reads such a result. EVACANT: there is none. */
int mopslock_read_once(uint64_t host, const char *key, int64_t timeout_ns,
                       void *body, size_t cap, size_t *len, mopslock_slot *slot);

#ifdef __cplusplus
}
#endif

#endif
