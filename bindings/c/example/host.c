/* A host in C, to copy: the core decides, and this does the I/O and reads the clocks. bindings/README.md
 * says what every host owes; this one keeps a lease in a directory, for Linux.
 *
 *     host [-t TTL] [-w WAIT] DIR NAME [COMMAND [ARGUMENT...]]
 *
 * takes the lease NAME, runs COMMAND while it holds it, and gives it back. Without a COMMAND it holds
 * the lease until its stdin ends. TTL and WAIT are seconds; without -w it waits as long as it takes.
 * COMMAND finds the fencing token in MOPSLOCK_TOKEN. The status is COMMAND's, 75 if the lease was not
 * acquired, or 76 if it was lost: then COMMAND and the group of processes that it began were killed.
 *
 *     cc host.c directory.c -o host -pthread $(pkg-config --cflags --libs mopslock-core)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mopslock.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"
#include "msgpack.h"

#define SECOND INT64_C(1000000000)

/* A call to a store that hangs keeps its thread until it comes back, long after its request was answered
 * unknown. So there are more threads than requests at once: otherwise a renewal would find none. */
enum { IN_FLIGHT = 8, THREADS = 2 * IN_FLIGHT, JOBS = IN_FLIGHT + THREADS };

/* A request of the core. Late: it was answered unknown at its limit, and its thread is not back yet. */
struct job {
	enum { FREE, WAITING, UNDER_WAY, LATE } state;
	uint64_t number;
	struct request q;
};

/* One client, which is all that this process does with the store, and its one claim. */
static struct host {
	pthread_mutex_t lock; /* a step and what it tells are made under it, and no I/O */
	pthread_cond_t work;  /* there is a job for a thread */
	pthread_cond_t timer; /* the next instant of the timer has changed */
	struct directory *store;
	uint64_t client;
	struct job jobs[JOBS];
	int64_t wake; /* Mono: when the core wants to be woken */

	/* What is believed. A claim may be relied on until the later of its own deadline and that of the
	 * session that keeps it alive; a program with many claims has as many of these, and a table of
	 * sessions. */
	enum { ASKING, HELD, ENDED } claim;
	int64_t until, session_until; /* Mono */
	uint64_t session, on;         /* the latest session, and the claim's; 0 for none */
	uint64_t token;
	int closed;
} h;

/* news wakes the main thread: by a signal's number, or 0 when h has changed. */
static int news[2];

static void tell(int number)
{
	int error = errno;
	char byte = (char)number;
	if (write(news[1], &byte, 1) == 1 || errno == EAGAIN) /* full: the main thread has enough to wake it */
		errno = error;
}

/* die ends this process at once. Its claim expires, and nobody renews it. */
__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(70);
}

/* ---- steps. A thread that has news steps the client itself, under the lock. */

static unsigned char message[MOPSLOCK_MAX_MESSAGE], answer[MOPSLOCK_MAX_MESSAGE];

/* input begins a message. It reads the clocks, which is right only under the lock: mono must not go back
 * from one step to the next. */
static struct writer input(const char *kind, size_t *map)
{
	struct writer w = {message, 0, sizeof message};
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	*map = put_map(&w);
	put_int_field(&w, *map, "mono", mono());
	put_int_field(&w, *map, "wall", t.tv_sec * SECOND + t.tv_nsec);
	put_text_field(&w, *map, "kind", kind);
	return w;
}

static char *text_of(struct value v)
{
	char *text = strndup((const char *)v.at, v.len);
	if (text == NULL)
		die("no memory");
	return text;
}

/* begin queues a request. The answer's memory is the next step's, so the job has a copy. */
static void begin(struct value action, enum verb verb)
{
	struct job *j = h.jobs;
	while (j->state != FREE)
		if (++j == h.jobs + JOBS)
			die("the core has more than in_flight requests under way");
	struct value body = field(action, "body");
	*j = (struct job){WAITING, field(action, "request").n, {
		.verb = verb, .key = text_of(field(action, "key")), .after = text_of(field(action, "after")),
		.count = field(action, "count").n, .body = (unsigned char *)text_of(body), .body_len = body.len,
		.overwrites = field(action, "overwrites").n != 0,
		.until = mono() + (int64_t)field(action, "limit_ns").n,
	}};
	pthread_cond_signal(&h.work);
}

static void forget(struct job *j)
{
	free(j->q.key);
	free(j->q.after);
	free(j->q.body);
	j->state = FREE;
}

/* say prints a notice, in the core's words. We have the lock, so it leaves the line out rather than wait
 * for somebody to read the last ones. */
static void say(struct value action)
{
	static const char *const shown[] = {"kind", "reason", "class"};
	char line[128] = "host:", *at = line + strlen(line), *end = line + sizeof line;
	for (int i = 0; i < 3; i++) {
		struct value text = field(action, shown[i]);
		if (text.len > 0)
			at += snprintf(at, (size_t)(end - at), " %.*s", (int)text.len, (const char *)text.at);
	}
	if (is(field(action, "kind"), "held"))
		at += snprintf(at, (size_t)(end - at), " token %llu", (unsigned long long)field(action, "token").n);
	*at++ = '\n';
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	if (poll(&out, 1, 0) == 1 && write(STDERR_FILENO, line, (size_t)(at - line)) < 0)
		return; /* what cannot be told is no reason to lose the lease */
}

/* believe notes what a notice says about the claim and the session. */
static void believe(struct value action)
{
	struct value kind = field(action, "kind");
	uint64_t claim = field(action, "claim").n, on = field(action, "on").n;
	int64_t at = (int64_t)field(action, "at_ns").n;
	if (claim == 0 && (is(kind, "held") || is(kind, "renewed")))
		h.session = on, h.session_until = at;
	else if (claim == 0 && (is(kind, "lost") || is(kind, "left")) && on == h.session)
		h.session = 0;
	else if (is(kind, "closed"))
		h.closed = 1;
	if (claim != 0 && h.claim != ENDED) {
		if (is(kind, "held"))
			h.claim = HELD, h.token = field(action, "token").n;
		if (is(kind, "held") || is(kind, "deadline"))
			h.until = at, h.on = on; /* a deadline without on is a fix: that instant alone */
		if (is(kind, "renewed"))
			h.until = at;
		if (is(kind, "lost") || is(kind, "refused") || is(kind, "released") || is(kind, "left"))
			h.claim = ENDED;
	}
	if (claim != 0 || is(kind, "outage") || is(kind, "recovered"))
		if (!is(kind, "renewed") && !is(kind, "deadline"))
			say(action);
	tell(0);
}

/* obey does what one action asks for. It returns whether to step again before anything else. */
static int obey(struct value action)
{
	static const char *const verbs[] = {"get", "exists", "list", "put", "create", "delete"};
	struct value kind = field(action, "kind");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (is(kind, verbs[i])) {
			begin(action, (enum verb)i);
			return 0;
		}
	if (is(kind, "wake"))
		h.wake = (int64_t)field(action, "at_ns").n;
	else if (is(kind, "more"))
		return 1;
	else if (!is(kind, "abandon")) /* what nobody wants any more is answered all the same */
		believe(action);
	return 0;
}

/* step gives the client a message and does what it asks for, in order. The core refuses only what
 * breaks its contract: that is a fault of the host, but for a command whose terms are wrong. */
static int step(struct writer *w)
{
	size_t map, len;
	for (int more = 1; more;) {
		int code = mopslock_step(h.client, message, w->len, answer, sizeof answer, &len);
		struct reader r = {answer, answer + len};
		struct value said = code == MOPSLOCK_OK || code == MOPSLOCK_ECONTRACT ? take_whole(&r) : (struct value){0};
		if (code != MOPSLOCK_OK) {
			struct value why = field(said, "text");
			fprintf(stderr, "host: refused: %.*s (%d)\n", (int)why.len, (const char *)why.at, code);
			return code;
		}
		struct value actions = field(said, "actions");
		h.wake = INT64_MAX; /* an answer without a wake means none */
		more = 0;
		r = (struct reader){actions.at, actions.at + actions.len};
		for (uint64_t i = 0; i < actions.n; i++)
			more |= obey(take_whole(&r));
		if (more)
			*w = input("woke", &map);
	}
	pthread_cond_signal(&h.timer);
	return MOPSLOCK_OK;
}

static void must_step(struct writer *w)
{
	if (step(w) != MOPSLOCK_OK)
		die("host: the core and this host disagree");
}

/* command sends one about our claim, number 1, or about no claim. */
static void command(const char *kind, uint64_t claim)
{
	size_t map;
	pthread_mutex_lock(&h.lock);
	h.until = h.on = 0; /* who gives it back relies on it no more */
	struct writer w = input(kind, &map);
	if (claim != 0)
		put_int_field(&w, map, "claim", (int64_t)claim);
	must_step(&w);
	pthread_mutex_unlock(&h.lock);
}

/* acquire begins the claim. It returns MOPSLOCK_ECONTRACT if the terms are wrong. */
static int acquire(const char *name, int64_t ttl, int64_t wait)
{
	size_t map, terms;
	pthread_mutex_lock(&h.lock);
	struct writer w = input("acquire", &map);
	if (wait != 0)
		put_int_field(&w, map, "wait_ns", wait);
	put_int_field(&w, map, "claim", 1);
	put_key(&w, map, "terms");
	terms = put_map(&w);
	put_text_field(&w, terms, "name", name);
	if (ttl != 0)
		put_int_field(&w, terms, "ttl_ns", ttl);
	int code = step(&w);
	pthread_mutex_unlock(&h.lock);
	return code;
}

/* answered steps the client with what a request has found; NULL is that its limit has passed. */
static void answered(const struct job *j, const struct reply *a)
{
	static const struct reply silent = {.unknown = "unreachable"};
	size_t map;
	if (a == NULL)
		a = &silent;
	struct writer w = input("answer", &map);
	put_int_field(&w, map, "request", (int64_t)j->number);
	put_text_field(&w, map, "outcome", a->unknown != NULL ? "unknown" : a->no ? "no" : "yes");
	if (a->unknown != NULL) {
		put_text_field(&w, map, "class", a->unknown);
	} else if (j->q.verb == LIST && a->entries > 0) {
		put_key(&w, map, "entries");
		put_array(&w, a->entries);
		put_bytes(&w, a->body, a->body_len);
	} else if (j->q.verb == GET && !a->no && a->stamp != 0) {
		put_int_field(&w, map, "stamp_ns", a->stamp);
	}
	if (a->unknown == NULL && a->more) {
		put_key(&w, map, "more");
		put_bool(&w, 1);
	}
	if (a->unknown == NULL && j->q.verb == GET && a->body_len > 0) {
		put_key(&w, map, "body");
		put_bin(&w, a->body, a->body_len);
	}
	must_step(&w);
}

/* ---- threads */

/* perform is a thread that makes requests, one after the other. */
static void *perform(void *unused)
{
	struct reply a;
	pthread_mutex_lock(&h.lock);
	for (;;) {
		struct job *j = NULL;
		for (struct job *other = h.jobs; other < h.jobs + JOBS; other++)
			if (other->state == WAITING && (j == NULL || other->number < j->number))
				j = other;
		if (j == NULL) {
			pthread_cond_wait(&h.work, &h.lock);
			continue;
		}
		j->state = UNDER_WAY;
		pthread_mutex_unlock(&h.lock);
		directory_perform(h.store, &j->q, &a);
		pthread_mutex_lock(&h.lock);
		struct job was = *j;
		j->state = FREE; /* before the step, which may ask for as many requests as there may be */
		if (was.state == UNDER_WAY)
			answered(&was, &a);
		forget(&was);
	}
	return unused;
}

/* keep_time is the thread that wakes the client, and answers the requests whose limit has passed. A wait by
 * the kernel does not count the time that the machine is suspended, and mono does: it looks at least
 * once a second. */
static void *keep_time(void *unused)
{
	size_t map;
	pthread_mutex_lock(&h.lock);
	for (;;) {
		int64_t next = h.wake;
		struct job *late = NULL;
		for (struct job *j = h.jobs; j < h.jobs + JOBS; j++)
			if ((j->state == WAITING || j->state == UNDER_WAY) && j->q.until <= next)
				next = j->q.until, late = j;
		int64_t left = next - mono();
		if (left > 0) {
			left = left < SECOND ? left : SECOND;
			struct timespec t;
			clock_gettime(CLOCK_MONOTONIC, &t);
			t.tv_nsec += left % SECOND;
			t.tv_sec += left / SECOND + t.tv_nsec / SECOND;
			t.tv_nsec %= SECOND;
			pthread_cond_timedwait(&h.timer, &h.lock, &t);
		} else if (late != NULL) {
			struct job was = *late;
			late->state = was.state == WAITING ? FREE : LATE; /* a thread is on it, and frees it when it is back */
			answered(&was, NULL);
			if (was.state == WAITING)
				forget(&was);
		} else {
			struct writer w = input("woke", &map);
			must_step(&w);
		}
	}
	return unused;
}

/* now is how things stand. Ask for until before each thing that must not be done twice: the claim may be
 * relied on until that Mono. No notice comes in time to a process that was stopped for a minute. */
static struct view {
	int claim, closed;
	int64_t until;
	uint64_t token;
} now(void)
{
	pthread_mutex_lock(&h.lock);
	struct view v = {h.claim, h.closed, h.claim == HELD ? h.until : 0, h.token};
	if (h.claim == HELD && h.on != 0 && h.on == h.session && h.session_until > v.until)
		v.until = h.session_until;
	pthread_mutex_unlock(&h.lock);
	return v;
}

static void start(const char *dir)
{
	struct writer w = {message, 0, sizeof message};
	unsigned char seed[16];
	char name[65] = "", pid[16];
	size_t len;
	pthread_condattr_t monotonic;
	pthread_t thread;
	gethostname(name, sizeof name - 1);
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	/* All ids derive from the seed: two clients with one seed are one holder, and exclude nobody. */
	if (getrandom(seed, sizeof seed, 0) != sizeof seed)
		die("no random numbers");
	size_t map = put_map(&w); /* its keys in the order of the table Config */
	put_text_field(&w, map, "machine", "client");
	put_key(&w, map, "own_store"); /* nothing stands between us and the files */
	put_bool(&w, 1);
	put_key(&w, map, "probes"); /* but the file system may have no hard links */
	put_bool(&w, 1);
	put_int_field(&w, map, "in_flight", IN_FLIGHT);
	put_text_field(&w, map, "host", name);
	put_text_field(&w, map, "pid", pid);
	put_key(&w, map, "seed");
	put_bin(&w, seed, sizeof seed);
	if (mopslock_new(message, w.len, &h.client, answer, sizeof answer, &len) != MOPSLOCK_OK)
		die("the core makes no client: %.*s", (int)len, (const char *)answer);

	h.wake = INT64_MAX;
	h.store = directory_open(dir);
	pthread_mutex_init(&h.lock, NULL);
	pthread_cond_init(&h.work, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&h.timer, &monotonic);
	int failed = pthread_create(&thread, NULL, keep_time, NULL);
	for (int i = 0; i < THREADS && !failed; i++)
		failed = pthread_create(&thread, NULL, perform, NULL);
	if (failed)
		die("no thread");
}

/* ---- the program */

/* await waits for news until an instant, at most a second, and for stdin if asked. It returns a signal's
 * number, -1 if stdin has ended, or 0 for a look at how things stand. */
static int await(int64_t instant, int with_stdin)
{
	struct pollfd fds[] = {{.fd = news[0], .events = POLLIN}, {.fd = with_stdin ? 0 : -1, .events = POLLIN}};
	int64_t left = instant - mono();
	poll(fds, 2, left <= 0 ? 0 : left < SECOND ? (int)(left / 1000000) + 1 : 1000);
	char byte = 0, words[4096];
	if (fds[0].revents != 0 && read(news[0], &byte, 1) == 1)
		return byte;
	if (fds[1].revents != 0 && read(0, words, sizeof words) <= 0)
		return -1;
	return 0;
}

/* run begins the command in a process group of its own, so that all of it can be ended, and so that it
 * does not outlive this process, which may be killed. */
static pid_t run(char **words)
{
	char token[32];
	pid_t us = getpid();
	snprintf(token, sizeof token, "%llu", (unsigned long long)now().token);
	setenv("MOPSLOCK_TOKEN", token, 1);
	pid_t pid = fork(); /* the library does not work in the child, which only execs */
	if (pid == 0) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == us)
			execvp(words[0], words);
		dprintf(2, "host: %s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	if (pid < 0)
		die("no process: %s", strerror(errno));
	setpgid(pid, pid);
	return pid;
}

/* work runs the command, or waits for the end of stdin, while the lease is held. It returns the exit status. */
static int work(char **words)
{
	pid_t pid = words[0] != NULL ? run(words) : 0;
	for (;;) {
		int status, number = await(now().until, pid == 0);
		if (pid != 0 && waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (mono() >= now().until) { /* lost, or past its deadline, whatever was told: another may hold it now */
			if (pid != 0) {
				kill(-pid, SIGKILL);
				waitpid(pid, &status, 0);
			}
			return 76;
		}
		if (pid == 0 && number != 0 && number != SIGCHLD)
			return number > 0 ? 128 + number : 0;
		if (pid != 0 && number > 0 && number != SIGCHLD)
			kill(-pid, number);
	}
}

int main(int argc, char **argv)
{
	int64_t ttl = 0, wait = -1;
	int usage = 0, status = 75;
	for (int option; (option = getopt(argc, argv, "+t:w:")) != -1;)
		if (option == 't')
			ttl = (int64_t)(atof(optarg) * SECOND);
		else if (option == 'w')
			wait = (int64_t)(atof(optarg) * SECOND);
		else
			usage = 1;
	if (usage || argc - optind < 2 || strlen(argv[optind + 1]) > 512)
		return fprintf(stderr, "usage: host [-t TTL] [-w WAIT] DIR NAME [COMMAND [ARGUMENT...]]\n"), 64;
	if (pipe2(news, O_CLOEXEC | O_NONBLOCK) != 0)
		die("no pipe: %s", strerror(errno));
	/* A handler may run on a thread of the library, whose stack is small. */
	struct sigaction heard = {.sa_handler = tell, .sa_flags = SA_ONSTACK | SA_RESTART};
	int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &heard, NULL);

	start(argv[optind]);
	if (acquire(argv[optind + 1], ttl, wait) != MOPSLOCK_OK)
		return 64;
	while (now().claim == ASKING && status == 75) {
		int number = await(INT64_MAX, 0);
		if (number > 0 && number != SIGCHLD)
			status = 128 + number;
	}
	if (now().claim == HELD && status == 75) {
		status = work(argv + optind + 2);
		command("release", 1); /* even past its deadline; if the claim has ended, this changes nothing */
	}
	command("close", 0); /* ends what there is, then tidies up; what cannot be released expires by itself */
	for (int64_t end = mono() + 10 * SECOND; !now().closed && mono() < end;)
		await(end, 0);
	/* A thread whose call to the file system hangs cannot be joined. All end with the process. */
	return status;
}
