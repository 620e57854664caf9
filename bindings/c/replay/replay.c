/*
 * replay: gives the inputs of vector files to the core and compares its answers,
 * byte for byte.
 *
 *     replay FILE...                 exit 0: all agree; 1: a difference; 2: a bad file
 *     replay --bench ROUNDS FILE     prints the nanoseconds of one step
 *
 * A file has one thing a line; machines have numbers in it, bytes are hex, none
 * are "-". Every new and step is followed by what it must answer:
 *
 *     # a comment; empty lines are skipped too
 *     new 1 <config>
 *     answer <answer>
 *     step 1 <input>
 *     answer <answer>
 *     drop 1
 *
 * --bench times the steps behind the comment "# time", or all.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mopslock.h"

enum { DIFFERENT = 1, BAD = 2, MACHINES = 4096 };

enum verb { NEW, STEP, DROP, ANSWER };

struct bytes {
	unsigned char *at;
	size_t len;
};

struct line {
	enum verb verb;
	unsigned machine;
	struct bytes bytes;
	unsigned number; /* in the file, from 1 */
};

struct vector {
	const char *file;
	struct line *lines;
	size_t count;
	size_t timed; /* the first line that --bench times */
	uint64_t machines[MACHINES]; /* handles, 0: none */
};

static unsigned char answer[MOPSLOCK_MAX_MESSAGE];

static void bad(const struct vector *v, unsigned number, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", v->file, number, what);
	exit(BAD);
}

static void *must(void *memory)
{
	if (memory == NULL) {
		fputs("replay: no memory\n", stderr);
		exit(BAD);
	}
	return memory;
}

static int digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *found = c != 0 ? strchr(digits, c) : NULL;
	return found != NULL ? (int)(found - digits) : -1;
}

static struct bytes parse_hex(const struct vector *v, unsigned number, const char *hex)
{
	struct bytes b = {NULL, 0};
	if (hex == NULL)
		bad(v, number, "bytes are missing; none are written -");
	if (strcmp(hex, "-") == 0)
		return b;
	size_t len = strlen(hex);
	b.len = len / 2;
	b.at = must(malloc(b.len + 1));
	for (size_t i = 0; i < b.len; i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			bad(v, number, "bytes are not in hex of 0-9 and a-f");
		b.at[i] = (unsigned char)(high << 4 | low);
	}
	if (len % 2 != 0 || len == 0)
		bad(v, number, "an odd number of hex digits");
	return b;
}

static unsigned parse_machine(const struct vector *v, unsigned number, const char *word)
{
	char *end;
	unsigned long n = word != NULL ? strtoul(word, &end, 10) : 0;
	if (n == 0 || n >= MACHINES || *end != 0)
		bad(v, number, "a machine's number is missing, or not from 1 to 4095");
	return (unsigned)n;
}

static struct line parse(const struct vector *v, unsigned number, char *text)
{
	struct line l = {ANSWER, 0, {NULL, 0}, number};
	char *rest;
	char *verb = strtok_r(text, " ", &rest);
	if (strcmp(verb, "new") == 0)
		l.verb = NEW;
	else if (strcmp(verb, "step") == 0)
		l.verb = STEP;
	else if (strcmp(verb, "drop") == 0)
		l.verb = DROP;
	else if (strcmp(verb, "answer") != 0)
		bad(v, number, "not new, step, answer or drop");
	if (l.verb != ANSWER)
		l.machine = parse_machine(v, number, strtok_r(NULL, " ", &rest));
	if (l.verb != DROP)
		l.bytes = parse_hex(v, number, strtok_r(NULL, " ", &rest));
	if (strtok_r(NULL, " ", &rest) != NULL)
		bad(v, number, "something follows");
	return l;
}

static int asks(const struct line *l) { return l->verb == NEW || l->verb == STEP; }

static void load(struct vector *v, const char *file)
{
	FILE *in = fopen(file, "r");
	v->file = file;
	if (in == NULL)
		bad(v, 0, "cannot be opened");
	char *text = NULL;
	size_t cap = 0, room = 0;
	unsigned number = 0;
	while (getline(&text, &cap, in) >= 0) {
		number++;
		text[strcspn(text, "\r\n")] = 0;
		if (strcmp(text, "# time") == 0)
			v->timed = v->count;
		if (text[strspn(text, " ")] == 0 || text[0] == '#')
			continue;
		if (v->count == room) {
			room = 2 * room + 64;
			v->lines = must(realloc(v->lines, room * sizeof *v->lines));
		}
		struct line l = parse(v, number, text);
		if ((l.verb == ANSWER) != (v->count > 0 && asks(&v->lines[v->count - 1])))
			bad(v, number, "an answer, and nothing else, follows a new or a step");
		v->lines[v->count++] = l;
	}
	if (ferror(in) || v->count == 0 || asks(&v->lines[v->count - 1]))
		bad(v, number, "the file ends without an answer, or cannot be read");
	free(text);
	fclose(in);
}

/* ask makes the call of a line and returns the length of its answer. */
static size_t ask(struct vector *v, const struct line *l)
{
	uint64_t *handle = &v->machines[l->machine];
	size_t len = 0;
	int code;
	if ((l->verb == NEW) != (*handle == 0))
		bad(v, l->number, l->verb == NEW ? "this machine is there already" : "there is no such machine");
	if (l->verb == NEW)
		code = mopslock_new(l->bytes.at, l->bytes.len, handle, answer, sizeof answer, &len);
	else
		code = mopslock_step(*handle, l->bytes.at, l->bytes.len, answer, sizeof answer, &len);
	if (code != MOPSLOCK_OK && code != MOPSLOCK_ECONTRACT) {
		char why[1024];
		mopslock_last_error(why, sizeof why);
		fprintf(stderr, "%s:%u: no answer: %s\n", v->file, l->number, why);
		exit(DIFFERENT);
	}
	return len;
}

static void drop(struct vector *v, const struct line *l)
{
	if (mopslock_drop(v->machines[l->machine]) != MOPSLOCK_OK)
		bad(v, l->number, "there is no such machine");
	v->machines[l->machine] = 0;
}

static void drop_all(struct vector *v)
{
	for (size_t i = 0; i < MACHINES; i++) {
		if (v->machines[i] != 0)
			mopslock_drop(v->machines[i]);
		v->machines[i] = 0;
	}
}

static void show(const char *whose, const unsigned char *at, size_t len, size_t i)
{
	if (i < len)
		fprintf(stderr, ", %s %02x", whose, at[i]);
	else
		fprintf(stderr, ", %s has ended", whose);
}

static void compare(const struct vector *v, const struct line *want, size_t len)
{
	size_t i = 0;
	while (i < len && i < want->bytes.len && answer[i] == want->bytes.at[i])
		i++;
	if (i == len && i == want->bytes.len)
		return;
	fprintf(stderr, "%s:%u: the answer differs at byte %zu", v->file, want->number, i);
	show("vector", want->bytes.at, want->bytes.len, i);
	show("library", answer, len, i);
	fputs("\n", stderr);
	exit(DIFFERENT);
}

/* exact asks for the answer once more, into a buffer that it just fits. */
static size_t exact(const struct vector *v, const struct line *asked, size_t len)
{
	if (v->machines[asked->machine] == 0)
		return len; /* a new that was refused: there is no machine to ask */
	memset(answer, 0, len);
	mopslock_again(v->machines[asked->machine], answer, len, &len);
	return len;
}

static void replay(struct vector *v)
{
	size_t len = 0;
	for (size_t i = 0; i < v->count; i++) {
		const struct line *l = &v->lines[i];
		if (l->verb == ANSWER) {
			compare(v, l, len);
			compare(v, l, exact(v, &v->lines[i - 1], len));
		} else if (l->verb == DROP) {
			drop(v, l);
		} else {
			len = ask(v, l);
		}
	}
	drop_all(v);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* bench times the steps alone: the clock is read where a run of them ends. */
static void bench(struct vector *v, long rounds)
{
	int64_t spent = 0, since = 0, steps = 0;
	for (long round = 0; round < rounds; round++) {
		for (size_t i = 0; i < v->count; i++) {
			const struct line *l = &v->lines[i];
			if (l->verb == ANSWER)
				continue;
			if (l->verb == STEP && since == 0 && i >= v->timed)
				since = now_ns();
			if (l->verb != STEP && since != 0) {
				spent += now_ns() - since;
				since = 0;
			}
			if (l->verb == DROP)
				drop(v, l);
			else
				ask(v, l);
			steps += l->verb == STEP && i >= v->timed;
		}
		if (since != 0)
			spent += now_ns() - since;
		since = 0;
		drop_all(v);
	}
	printf("%.1f\n", steps > 0 ? (double)spent / (double)steps : 0.0);
}

static void unload(struct vector *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->lines[i].bytes.at);
	free(v->lines);
	memset(v, 0, sizeof *v);
}

int main(int argc, char **argv)
{
	static struct vector v;
	long rounds = argc == 4 && strcmp(argv[1], "--bench") == 0 ? strtol(argv[2], NULL, 10) : 0;
	if (argc < 2 || (rounds <= 0 && strncmp(argv[1], "--", 2) == 0)) {
		fputs("usage: replay FILE... | replay --bench ROUNDS FILE\n", stderr);
		return BAD;
	}
	if (rounds > 0) {
		load(&v, argv[3]);
		bench(&v, rounds);
		unload(&v);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		load(&v, argv[i]);
		replay(&v);
		unload(&v);
	}
	return 0;
}
