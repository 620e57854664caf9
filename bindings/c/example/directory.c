#define _GNU_SOURCE
#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "msgpack.h"

#define TEMP ".mopslock-tmp-"
#define RECORD "_mopslock/store.json"

/* What a verb has found: 0 for yes, a positive errno, or one of these. */
enum { NO = -1, MOVED = -2, NO_STORE = -3, LATE = -4 };

int64_t mono(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static const char *class_of(int found)
{
	switch (found) {
	case MOVED:
		return "unreachable";
	case NO_STORE:
		return "no_such_store";
	case EACCES:
	case EPERM:
		return "unauthorized";
	case EROFS:
		return "read_only";
	case ENOSPC:
	case EDQUOT:
		return "full";
	case EOPNOTSUPP:
		return "unsupported";
	}
	return "other";
}

static int is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

static int64_t stamp_of(const struct stat *s) { return s->st_mtim.tv_sec * INT64_C(1000000000) + s->st_mtim.tv_nsec; }

/* ---- the directory itself
 *
 * It is made once, when the store is opened. A mount can go away below us; if we made the directory
 * again, our beats would go on below the mount point while another process takes the name on the
 * share. So we note which directory it is, and believe an answer only if the path leads there both
 * before and after: the same device and inode, or after a remount the same nonce in the store's
 * record. The inode of a directory that was removed may be used again, so once there is a nonce, it
 * decides about each directory whose time has changed. */

enum { NONCE = 128 };

struct identity {
	int known;
	dev_t device;
	ino_t inode;
	int64_t changed;
	char nonce[NONCE]; /* "" while the store has no record */
};

struct directory {
	const char *path;
	pthread_mutex_t lock; /* of what follows; no call to the file system is made under it */
	struct identity is;
	int told; /* that it has moved */
};

/* path_of is the file of a key. */
static int path_of(const struct directory *d, const char *key, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/%s", d->path, key) < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* read_nonce finds "nonce": "..." in the record, whose writers put no escapes into it. */
static int read_nonce(const struct directory *d, char nonce[NONCE])
{
	char path[PATH_MAX], text[4096];
	int error = path_of(d, RECORD, path);
	nonce[0] = 0;
	int file = error != 0 ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return error != 0 ? error : is_missing(errno) ? 0 : errno;
	ssize_t len = read(file, text, sizeof text - 1);
	error = len < 0 ? errno : 0;
	close(file);
	text[len < 0 ? 0 : len] = 0;
	const char *at = strstr(text, "\"nonce\"");
	if (at != NULL)
		sscanf(at, "\"nonce\" : \"%127[^\"]\"", nonce);
	return error;
}

static struct identity identity_of(struct directory *d)
{
	pthread_mutex_lock(&d->lock);
	struct identity is = d->is;
	pthread_mutex_unlock(&d->lock);
	return is;
}

static void identify(struct directory *d, const struct stat *s, const char *nonce)
{
	pthread_mutex_lock(&d->lock);
	d->is = (struct identity){.known = 1, .device = s->st_dev, .inode = s->st_ino, .changed = stamp_of(s)};
	strcpy(d->is.nonce, nonce);
	d->told = 0;
	pthread_mutex_unlock(&d->lock);
}

/* make_root makes a directory and those above it. */
static int make_root(const char *dir)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
		return ENAMETOOLONG;
	for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = 0;
		mkdir(path, 0777); /* most are there; what matters is whether the last one can be made */
	}
	return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

/* enter finds the directory or makes it, once. */
static int enter(struct directory *d)
{
	struct stat s;
	char nonce[NONCE];
	int error = 0;
	if (identity_of(d).known)
		return 0;
	if (stat(d->path, &s) != 0 && (errno != ENOENT || (error = make_root(d->path)) != 0 || stat(d->path, &s) != 0))
		return error != 0 ? error : errno;
	if (!S_ISDIR(s.st_mode))
		return NO_STORE;
	if ((error = read_nonce(d, nonce)) == 0)
		identify(d, &s, nonce);
	return error;
}

/* check is MOVED if another directory is at the path, or none. */
static int check(struct directory *d)
{
	struct identity was = identity_of(d);
	struct stat s;
	char nonce[NONCE];
	int error = was.nonce[0] == 0 ? read_nonce(d, nonce) : 0; /* before the look at whose it is */
	int there = stat(d->path, &s) == 0;
	if (error != 0 || (!there && !is_missing(errno)))
		return error != 0 ? error : errno;
	int same = there && S_ISDIR(s.st_mode) && s.st_dev == was.device && s.st_ino == was.inode;
	if (same && (was.nonce[0] == 0 || stamp_of(&s) == was.changed)) {
		if (was.nonce[0] == 0 && nonce[0] != 0)
			identify(d, &s, nonce);
		return 0;
	}
	if (there && was.nonce[0] != 0) {
		if ((error = read_nonce(d, nonce)) != 0)
			return error;
		if (strcmp(nonce, was.nonce) == 0) {
			identify(d, &s, nonce);
			return 0;
		}
	}
	pthread_mutex_lock(&d->lock);
	int told = d->told;
	d->told = 1;
	pthread_mutex_unlock(&d->lock);
	if (!told)
		fprintf(stderr, "the store's directory was removed, moved or unmounted, or another is in its place (%s): "
		                "mount it or move it back\n", d->path);
	return MOVED;
}

/* ---- the verbs */

static int get(const char *path, struct reply *a)
{
	struct stat s;
	int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe in the directory blocks nobody */
	if (file < 0)
		return is_missing(errno) ? NO : errno;
	int found = fstat(file, &s) != 0 ? errno : S_ISDIR(s.st_mode) ? NO : S_ISREG(s.st_mode) ? 0 : EINVAL;
	while (found == 0 && a->body_len < BODY_MOST) {
		ssize_t n = read(file, a->body + a->body_len, BODY_MOST - a->body_len);
		if (n < 0 && errno != EINTR)
			found = errno;
		if (n == 0)
			break;
		if (n > 0)
			a->body_len += (size_t)n;
	}
	close(file);
	a->stamp = found == 0 ? stamp_of(&s) : 0;
	return found;
}

static int exists(const char *path)
{
	struct stat s;
	if (stat(path, &s) != 0)
		return is_missing(errno) ? NO : errno;
	return S_ISREG(s.st_mode) ? 0 : S_ISDIR(s.st_mode) ? NO : EINVAL;
}

/* fill writes a new file, and flushes it to the disk. */
static int fill(const char *path, const unsigned char *body, size_t len)
{
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (file < 0)
		return errno;
	int error = 0;
	while (error == 0 && len > 0) {
		ssize_t n = write(file, body, len);
		if (n < 0 && errno != EINTR)
			error = errno;
		if (n > 0)
			body += n, len -= (size_t)n;
	}
	if (error == 0 && fsync(file) != 0)
		error = errno;
	if (close(file) != 0 && error == 0)
		error = errno;
	return error;
}

/* apply is the one call that makes a write happen, and the last look before it. A pause between the
 * look and the call is what remains; against that there is the fencing token. */
static int apply(struct directory *d, const struct request *q, const char *temp, const char *path)
{
	struct stat s;
	int moved = check(d);
	if (moved != 0)
		return moved;
	if (mono() >= q->until)
		return LATE; /* the name may be another's by now */
	if (q->verb == PUT)
		return rename(temp, path) == 0 ? 0 : errno;
	if (link(temp, path) == 0)
		return 0;
	int error = errno;
	if (stat(temp, &s) == 0 && s.st_nlink == 2)
		return 0; /* NFS sent the link again when the first answer was lost */
	if (error == EPERM || error == EMLINK)
		return EOPNOTSUPP; /* a file system without hard links, as FAT */
	return error == EEXIST ? NO : error;
}

/* write_object writes the whole object at once: a temporary file beside it, which gets its name. A delete
 * may remove the directory meanwhile, as one that it leaves empty; then it begins again. */
static int write_object(struct directory *d, const struct request *q, char *path)
{
	char temp[PATH_MAX];
	int found = 0;
	for (int tries = 0; tries < 64; tries++) {
		uint64_t mark;
		char *last = strrchr(path, '/');
		if (getrandom(&mark, sizeof mark, 0) != sizeof mark)
			return errno;
		if (snprintf(temp, sizeof temp, "%.*s/" TEMP "%016llx", (int)(last - path), path, (unsigned long long)mark) >= PATH_MAX)
			return ENAMETOOLONG;
		found = fill(temp, q->body, q->body_len);
		if (found == ENOENT) {
			if (q->overwrites)
				return NO; /* somebody has removed what stood there */
			if ((found = check(d)) != 0)
				return found;
			for (char *slash = path + strlen(d->path); (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
				*slash = 0;
				mkdir(path, 0777); /* a failure is the next open's */
			}
			found = ENOENT;
			continue;
		}
		if (found == 0)
			found = apply(d, q, temp, path);
		unlink(temp); /* after a rename it has gone */
		if (found != ENOENT)
			break;
	}
	return found;
}

static int delete_object(struct directory *d, const struct request *q, char *path)
{
	int moved = check(d);
	if (moved != 0)
		return moved;
	if (mono() >= q->until)
		return LATE;
	if (unlink(path) != 0 && !is_missing(errno) && errno != EISDIR)
		return errno;
	for (char *last; (last = strrchr(path, '/')) > path + strlen(d->path);) {
		*last = 0;
		if (rmdir(path) != 0) /* it refuses a directory that is not empty */
			break;
	}
	return 0;
}

/* ---- list */

struct entry {
	char *key;
	int64_t stamp;
};

struct entries {
	struct entry *at;
	size_t len, cap;
};

/* is_utf8 says whether a text is what a message can carry. */
static int is_utf8(const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s != 0;) {
		unsigned char c = *s++, least = 0x80, most = 0xbf;
		int more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
		if (more < 0)
			return 0;
		if (c == 0xe0 || c == 0xf0) /* written longer than it need be */
			least = c == 0xe0 ? 0xa0 : 0x90;
		if (c == 0xed || c == 0xf4) /* half of a pair, or beyond the last character */
			most = c == 0xed ? 0x9f : 0x8f;
		for (; more > 0; more--, least = 0x80, most = 0xbf)
			if (*s < least || *s++ > most)
				return 0;
	}
	return 1;
}

/* collect adds the files below a directory whose keys begin with the prefix and come after another key.
 * dir is the directory's key, and "" or with a slash at its end. */
static int collect(struct directory *d, const struct request *q, const char *dir, struct entries *all)
{
	char path[PATH_MAX];
	int found = path_of(d, dir, path);
	DIR *open = found == 0 ? opendir(path) : NULL;
	if (open == NULL)
		return found != 0 ? found : is_missing(errno) ? 0 : errno; /* never made, or removed since we saw it */
	for (struct dirent *e; found == 0 && (errno = 0, e = readdir(open)) != NULL;) {
		char key[PATH_MAX];
		struct stat s;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strncmp(e->d_name, TEMP, strlen(TEMP)) == 0)
			continue;
		size_t len = (size_t)snprintf(key, sizeof key, "%s%s", dir, e->d_name), prefix = strlen(q->key);
		if (len + 1 >= sizeof key || strncmp(key, q->key, len < prefix ? len : prefix) != 0 || !is_utf8(key))
			continue;
		if (fstatat(dirfd(open), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) {
			found = is_missing(errno) ? 0 : errno; /* without it the list would not be whole */
			continue;
		}
		if (S_ISDIR(s.st_mode)) {
			strcpy(key + len, "/");
			found = collect(d, q, key, all);
			continue;
		}
		if (S_ISLNK(s.st_mode) && fstatat(dirfd(open), e->d_name, &s, 0) != 0)
			continue; /* it leads nowhere */
		if (!S_ISREG(s.st_mode) || len < prefix || strcmp(key, q->after) <= 0)
			continue;
		if (all->len == all->cap) {
			struct entry *longer = realloc(all->at, (2 * all->cap + 16) * sizeof *longer);
			if (longer == NULL)
				found = ENOMEM;
			else
				all->at = longer, all->cap = 2 * all->cap + 16;
		}
		char *copy = found == 0 ? strdup(key) : NULL;
		if (copy == NULL)
			found = ENOMEM;
		else
			all->at[all->len++] = (struct entry){copy, stamp_of(&s)};
	}
	if (found == 0)
		found = errno; /* of readdir, or the 0 before it */
	closedir(open);
	return found;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key); /* by bytes */
}

static int list(struct directory *d, const struct request *q, struct reply *a)
{
	struct entries all = {0};
	struct writer page = {a->body, 0, LIST_MOST};
	char top[PATH_MAX];
	const char *last = strrchr(q->key, '/');
	snprintf(top, sizeof top, "%.*s", last == NULL ? 0 : (int)(last + 1 - q->key), q->key);
	int found = collect(d, q, top, &all);
	if (found == 0 && all.len > 0)
		qsort(all.at, all.len, sizeof *all.at, by_key);
	for (size_t i = 0; i < all.len; i++) {
		/* an entry is 15 bytes at most beside its key */
		a->more = a->more || a->entries == q->count || a->entries == 256 || page.len + strlen(all.at[i].key) + 15 > page.cap;
		if (found == 0 && !a->more) {
			put_array(&page, 2);
			put_text(&page, all.at[i].key);
			put_int(&page, all.at[i].stamp);
			a->entries++;
		}
		free(all.at[i].key);
	}
	free(all.at);
	a->body_len = page.len;
	return found;
}

/* ---- */

/* is_key refuses what would lead out of the directory or to a temporary file. The core asks for
 * keys that another process's record names, such as a session's. */
static int is_key(const char *key)
{
	for (const char *segment = key;; segment++) {
		size_t len = strcspn(segment, "/");
		if (len == 0 || (len <= 2 && strncmp(segment, "..", len) == 0) || strncmp(segment, TEMP, strlen(TEMP)) == 0)
			return 0;
		if (*(segment += len) == 0)
			return 1;
	}
}

static int verb(struct directory *d, const struct request *q, struct reply *a)
{
	char path[PATH_MAX];
	if (q->verb == LIST)
		return list(d, q, a);
	int found = path_of(d, q->key, path);
	if (found != 0 || !is_key(q->key))
		return q->verb == GET || q->verb == EXISTS ? NO : EINVAL; /* nobody can have put it there */
	switch (q->verb) {
	case GET:
		return get(path, a);
	case EXISTS:
		return exists(path);
	case DELETE:
		return delete_object(d, q, path);
	default:
		return write_object(d, q, path);
	}
}

void directory_perform(struct directory *d, const struct request *q, struct reply *a)
{
	a->unknown = NULL;
	a->no = a->more = 0;
	a->stamp = 0;
	a->entries = a->body_len = 0;
	int found = enter(d);
	if (found == 0)
		found = check(d); /* a mount that is away, and back when the verb has ended, is an empty store */
	if (found == 0) {
		int moved;
		found = verb(d, q, a);
		if ((moved = check(d)) != 0)
			found = moved;
	}
	a->no = found == NO;
	if (found != 0 && found != NO)
		a->unknown = class_of(found);
}

struct directory *directory_open(const char *path)
{
	struct directory *d = calloc(1, sizeof *d);
	if (d == NULL)
		abort();
	d->path = path;
	pthread_mutex_init(&d->lock, NULL);
	enter(d);
	return d;
}

void directory_close(struct directory *d)
{
	pthread_mutex_destroy(&d->lock);
	free(d);
}
