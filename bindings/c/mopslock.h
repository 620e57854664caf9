/*
 * mopslock.h: the core of mopslock as a library. It decides about leases (expiring exclusive
 * claims), semaphores and work that is done once, in any store of small objects. It does no I/O,
 * reads no clock, draws no random numbers and starts no threads of its own for you.
 *
 * You bring the store, the clocks and the threads: together they are a host. You tell the core in
 * a message what happened, and it answers in another message what is to be done. example/host.c is
 * a host to copy, over a directory. bindings/README.md says what every host must do, and has all
 * messages. A program that wants a cloud's store can bring its six verbs, or start a whole host as
 * its child: mopslock-host keep.
 *
 *     new(config) -------> a machine, mostly of the kind client: all that a process does with a store
 *     step(input) -------> its answer: requests for the store, when to wake it, and what to tell
 *     step(input) -------> ...
 *     drop
 *
 * THE LOOP
 *
 *     loop:
 *         input  := the next of: a command, a request's answer, a watched key has changed, woke
 *         answer := mopslock_step(machine, input)      with both clocks, read now
 *         for each action of the answer, in order:
 *             a request     begin it; its answer is an input, once, within its limit
 *             wake          when to send woke; an answer without it means none
 *             more          step again with woke, before anything else
 *             others        tell the claim: held, renewed, lost, released, refused, ...
 *
 * A host MUST give each client a fresh random seed; read clocks that do not go back and count the
 * time that the machine is suspended (CLOCK_BOOTTIME); call unknown what the store has not said;
 * apply no write after its limit; and believe no claim past its deadline, whatever it has heard.
 *
 * MESSAGES
 *
 * A message is one msgpack map with text keys, in its canonical form: keys in the order of the
 * tables of bindings/README.md, integers in the fewest bytes, no value of zero but mono and wall,
 * text as str, body and seed as bin. The core answers in the same form. With the keys of a client:
 *
 *     config   {machine: "client", own_store: true, host: "worker-1", pid: "4711", seed: <16 bytes>}
 *     input    {mono: 5000000000, wall: 1767225600000000000, kind: "acquire", wait_ns: -1, claim: 1,
 *               terms: {name: "nightly", ttl_ns: 60000000000}}
 *     answer   {state: "open", actions: [{kind: "exists", request: 1, key: "nightly/lock.json",
 *               limit_ns: 5000000000, claim: 1}]}
 *     input    {mono: 5020000000, wall: 1767225600020000000, kind: "answer", request: 1, outcome: "no"}
 *     error    {error: "request", text: "answer to request 1, which is not under way"}
 *
 * Durations and instants are nanoseconds. mono and every at_ns are your monotonic clock, wall is
 * nanoseconds since 1970, UTC. After an answer that is an error the machine is unchanged.
 *
 * THE RULES FOR ALL FUNCTIONS
 *
 * Ownership. The library writes only into memory that the caller gives, and it keeps no pointer
 * beyond the call. It names a machine by a handle: a number, never a pointer. No handle is given
 * twice, 0 is none, and a stale handle is an error (MOPSLOCK_EHANDLE), not a crash. A machine stays
 * until mopslock_drop or the end of the process. Each copy of the library in a process knows only
 * the handles that it made itself; each brings a Go runtime.
 *
 * Errors. A function that can fail returns MOPSLOCK_OK (0) or a negative code of enum
 * mopslock_code. Act on the code. mopslock_last_error has a text for people about the latest call
 * that failed in this thread. A call that succeeds leaves it alone.
 *
 * Threads. Any thread may call any function at any time, also with a handle that another thread is
 * using. If several threads step one machine, its steps come one after another, in some order.
 * Machines do not wait for each other, except for short moments. Do not cancel a thread
 * (pthread_cancel) or jump out of it (longjmp) while it is inside a call.
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
 * Environment. The Go runtime's own variables, such as GOMAXPROCS and GOMEMLIMIT, count as they
 * were when the process started. The library reads no others.
 *
 * Unloading. The library cannot be unloaded; dlclose() does nothing.
 *
 * Evolution. Functions and constants are only ever added, and numbers are never used again.
 */
#ifndef MOPSLOCK_H
#define MOPSLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something is added here. Versions to 6 also counted the functions of a library with
 * stores, which there is no more. */
#define MOPSLOCK_ABI_VERSION 6

/* The version that the loaded library was built as. If it is below MOPSLOCK_ABI_VERSION, the
 * library lacks something of this header. */
uint32_t mopslock_abi_version(void);

/* What happened. -32 to -52 were codes of a library that there is no more. */
enum mopslock_code {
	MOPSLOCK_OK = 0,
	MOPSLOCK_EINVAL = -1,    /* an argument is NULL that must not be; nothing was done */
	MOPSLOCK_EHANDLE = -2,   /* no machine has this handle: it was never made, or dropped */
	MOPSLOCK_ESHORT = -3,    /* the buffer is too short; the function says how long it must be */
	MOPSLOCK_EFORKED = -4,   /* this is a forked child: see fork above */
	MOPSLOCK_ECONTRACT = -16 /* the answer is an error: the caller broke the contract */
};

/* Copies the text of this thread's latest error into text, at most cap bytes with its NUL, and
 * returns its length without the NUL. If that is cap or more, the text was cut, between two
 * characters. It is UTF-8. text may be NULL if cap is 0. 1024 bytes hold every text. */
size_t mopslock_last_error(char *text, size_t cap);

/* Always 0. They were of a library that there is no more, and stay for programs that call them. */
int mopslock_last_reason(void);
int mopslock_last_class(void);

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

#ifdef __cplusplus
}
#endif

#endif
