/* A directory as the store of a host: the object KEY is the file DIR/KEY. bindings/README.md says how
 * it is kept, so that hosts in other languages can share it. */
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

/* Mono: the clock of this boot in nanoseconds. It also counts the time that the machine is
 * suspended: other machines count on then. */
int64_t mono(void);

enum verb { GET, EXISTS, LIST, PUT, CREATE, DELETE };

/* What the core asks of the store. */
struct request {
	enum verb verb;
	char *key;      /* of a list, the prefix of the keys */
	char *after;    /* of a list: only keys after it; "" for all */
	uint64_t count; /* of a list: the most entries */
	unsigned char *body;
	size_t body_len;
	int overwrites; /* of a put: the object was there before, so its directory is not made again */
	int64_t until;  /* Mono: a write that has not begun to apply by then must not apply */
};

enum { BODY_MOST = 65537, LIST_MOST = 90000 };

/* The answer. unknown is the class of a failure, or NULL: then the store has said yes, or no. */
struct reply {
	const char *unknown;
	int no;
	int64_t stamp; /* of a get: when the file was last changed, in nanoseconds since 1970 */
	size_t entries; /* of a list: so many arrays of a key and a stamp, in msgpack, in body */
	int more;      /* of a list: there may be other objects after these */
	unsigned char body[LIST_MOST];
	size_t body_len;
};

struct directory;

/* directory_open makes the directory if it is not there. What fails then the first request tries
 * again. The path stays the caller's, and is not changed while the store is used. */
struct directory *directory_open(const char *path);

/* directory_perform answers a request. Several threads may call it at once. */
void directory_perform(struct directory *d, const struct request *q, struct reply *a);

void directory_close(struct directory *d);

#endif
