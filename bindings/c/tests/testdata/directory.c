/* directory DIR: the example's directory keeps what bindings/README.md says of one, and its messages
 * are those of the core: text, numbers and lists of every length come back as they were written. */
#include "../../example/directory.c"

#include "check.h"

#define ROOT "mnt/store"

static struct directory *d;
static struct reply a;
static int64_t until = INT64_MAX;
static int overwrites;

static const char *ask(enum verb verb, const char *key, const char *body)
{
	struct request q = {.verb = verb, .key = (char *)key, .after = "", .count = 256, .until = until,
	                    .overwrites = overwrites, .body = (unsigned char *)body,
	                    .body_len = body == NULL ? 0 : strlen(body)};
	directory_perform(d, &q, &a);
	return a.unknown != NULL ? a.unknown : a.no ? "no" : "yes";
}

#define SAYS(what, verb, key, body) CHECK(strcmp(ask(verb, key, body), what) == 0)

static void verbs(void)
{
	SAYS("no", GET, "n/k", NULL);
	SAYS("no", EXISTS, "n/k", NULL);
	SAYS("yes", DELETE, "n/k", NULL);
	SAYS("yes", CREATE, "n/k", "one");
	SAYS("no", CREATE, "n/k", "two");
	SAYS("yes", GET, "n/k", NULL);
	CHECK(a.body_len == 3 && memcmp(a.body, "one", 3) == 0 && a.stamp > 0);
	SAYS("no", GET, "n", NULL); /* a directory */
	SAYS("no", EXISTS, "n/k/l", NULL);
	SAYS("yes", PUT, "n/k", "three");
	SAYS("yes", GET, "n/k", NULL);
	CHECK(a.body_len == 5);
	SAYS("yes", DELETE, "n/k", NULL);
	CHECK(access(ROOT "/n", F_OK) != 0); /* it was left empty */
	SAYS("no", EXISTS, "../directory", NULL);
	SAYS("other", PUT, "../out", "");
	SAYS("other", CREATE, ".mopslock-tmp-1", "");
}

static void late_and_gone(void)
{
	SAYS("yes", CREATE, "m/k", "");
	until = mono(); /* a limit that has passed */
	SAYS("other", PUT, "n/k", "");
	SAYS("other", CREATE, "n/k", "");
	SAYS("other", DELETE, "m/k", NULL);
	until = INT64_MAX;
	CHECK(access(ROOT "/n/k", F_OK) != 0 && access(ROOT "/m/k", F_OK) == 0);
	SAYS("yes", DELETE, "m/k", NULL);
	overwrites = 1;
	SAYS("no", PUT, "o/k", "");
	overwrites = 0;
	CHECK(access(ROOT "/o", F_OK) != 0);
	rmdir(ROOT "/n");
}

/* listed is the keys of a page, with spaces. */
static const char *listed(const char *prefix, const char *after, uint64_t count)
{
	static char text[4096];
	struct request q = {.verb = LIST, .key = (char *)prefix, .after = (char *)after, .count = count};
	directory_perform(d, &q, &a);
	CHECK(a.unknown == NULL && !a.no);
	struct reader r = {a.body, a.body + a.body_len};
	char *at = text;
	*at = 0;
	for (size_t i = 0; i < a.entries; i++) {
		struct value entry = take_value(&r), key = take_value(&r), stamp = take_value(&r);
		CHECK(entry.type == ARRAY && entry.n == 2 && (int64_t)stamp.n > 0);
		at += sprintf(at, "%.*s ", (int)key.len, (const char *)key.at);
	}
	CHECK(r.at == r.end);
	return text;
}

static void lists(void)
{
	static const char *const keys[] = {"a/b/c", "a.b", "a-b/c", "a/b-c", "ab", "a/b0", "\303\251"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		SAYS("yes", PUT, keys[i], "x");
	fclose(fopen(ROOT "/bad\377", "w"));
	fclose(fopen(ROOT "/bad\300\257", "w"));
	fclose(fopen(ROOT "/bad\355\240\200", "w"));
	fclose(fopen(ROOT "/a/.mopslock-tmp-1", "w"));
	CHECK(symlink("nowhere", ROOT "/a/link") == 0 && mkfifo(ROOT "/a/pipe", 0600) == 0);
	CHECK(strcmp(listed("", "", 256), "a-b/c a.b a/b-c a/b/c a/b0 ab \303\251 ") == 0 && !a.more);
	CHECK(strcmp(listed("a/b", "", 256), "a/b-c a/b/c a/b0 ") == 0 && !a.more);
	CHECK(strcmp(listed("a/b/", "", 256), "a/b/c ") == 0);
	CHECK(strcmp(listed("z/", "", 256), "") == 0 && !a.more);
	CHECK(strcmp(listed("", "a.b", 2), "a/b-c a/b/c ") == 0 && a.more);
	CHECK(strcmp(listed("a/", "a/b/c", 1), "a/b0 ") == 0 && !a.more);
	/* What does not fit a message is left for the next page. */
	char key[2048];
	for (int i = 0; i < 256; i++) {
		snprintf(key, sizeof key, "long/%0200d/%0200d/%03d", 0, 0, i);
		SAYS("yes", PUT, key, "x");
	}
	SAYS("yes", LIST, "long/", NULL);
	CHECK(a.more && a.entries > 100 && a.entries < 256 && a.body_len <= LIST_MOST);
}

/* another: nothing is answered or applied in a directory that is at the path instead. */
static void another(void)
{
	for (int nonce = 0; nonce < 2; nonce++) {
		if (nonce)
			SAYS("yes", CREATE, RECORD, "{\n  \"v\": 1,\n  \"nonce\": \"first\"\n}");
		SAYS("yes", EXISTS, "ab", NULL);
		CHECK(rename(ROOT, "aside") == 0);
		SAYS("unreachable", EXISTS, "ab", NULL);
		CHECK(access(ROOT, F_OK) != 0 && mkdir(ROOT, 0700) == 0);
		fclose(fopen(ROOT "/ab", "w"));
		SAYS("unreachable", EXISTS, "ab", NULL);
		SAYS("unreachable", PUT, "new", "");
		SAYS("unreachable", DELETE, "ab", NULL);
		CHECK(unlink(ROOT "/ab") == 0 && rmdir(ROOT) == 0 && rename("aside", ROOT) == 0);
		SAYS("yes", EXISTS, "ab", NULL);
	}
	/* After a remount it is another inode, with the same record. */
	CHECK(rename(ROOT, "aside") == 0 && system("cp -r aside " ROOT " && rm -r aside") == 0);
	SAYS("yes", EXISTS, "ab", NULL);
}

static void numbers(void)
{
	static unsigned char at[70000], text[66000];
	int64_t n[] = {0, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, 1 + (int64_t)UINT32_MAX, INT64_MAX,
	               -1, -32, -33, -128, -129, INT16_MIN, INT16_MIN - 1, INT32_MIN, INT32_MIN - INT64_C(1), INT64_MIN};
	int bytes[] = {1, 1, 2, 2, 3, 3, 5, 5, 9, 9, 1, 1, 2, 2, 3, 3, 5, 5, 9, 9};
	for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
		struct writer w = {at, 0, sizeof at};
		put_int(&w, n[i]);
		struct reader r = {at, at + w.len};
		struct value v = take_value(&r);
		CHECK(w.len == (size_t)bytes[i] && v.type == NUMBER && (int64_t)v.n == n[i] && r.at == r.end);
	}
	size_t lengths[] = {0, 31, 32, 255, 256, 65535, 65536};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct writer w = {at, 0, sizeof at};
		memset(text, 'x', lengths[i]);
		text[lengths[i]] = 0;
		put_text(&w, (char *)text);
		struct reader r = {at, at + w.len};
		CHECK(is(take_value(&r), (char *)text) && r.at == r.end);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && chdir(argv[1]) == 0);
	d = directory_open(ROOT);
	numbers();
	verbs();
	late_and_gone();
	lists();
	another();
	directory_close(d);
	return 0;
}
