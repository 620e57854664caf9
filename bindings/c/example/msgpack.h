/* The messages of the core, which are msgpack. A writer makes the canonical form that the core
 * wants: integers in the fewest bytes, keys in the order of the tables of bindings/README.md
 * (the caller sees to that), no value of zero but mono and wall. A reader looks a field up by
 * its name. What the core sends is well formed, so a reader that runs out of bytes aborts. */
#ifndef MSGPACK_H
#define MSGPACK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing */

struct writer {
	unsigned char *at;
	size_t len, cap;
};

static inline void put_bytes(struct writer *w, const void *bytes, size_t len)
{
	if (len > w->cap - w->len)
		abort(); /* the host bounds all that it sends */
	if (len > 0)
		memcpy(w->at + w->len, bytes, len);
	w->len += len;
}

/* put_big writes a code, and a number in so many bytes, the highest first. */
static inline void put_big(struct writer *w, unsigned code, uint64_t n, int bytes)
{
	unsigned char big[9] = {(unsigned char)code};
	for (int i = 0; i < bytes; i++)
		big[1 + i] = (unsigned char)(n >> 8 * (bytes - 1 - i));
	put_bytes(w, big, 1 + (size_t)bytes);
}

/* size_of is how many bytes hold n, as an exponent of two. */
static inline unsigned size_of(uint64_t n) { return n <= UINT8_MAX ? 0 : n <= UINT16_MAX ? 1 : n <= UINT32_MAX ? 2 : 3; }

static inline void put_int(struct writer *w, int64_t n)
{
	if (n >= -32 && n < 128) {
		put_big(w, (unsigned char)n, 0, 0);
	} else if (n >= 0) {
		unsigned size = size_of((uint64_t)n);
		put_big(w, 0xcc + size, (uint64_t)n, 1 << size);
	} else {
		unsigned size = n >= INT8_MIN ? 0 : n >= INT16_MIN ? 1 : n >= INT32_MIN ? 2 : 3;
		put_big(w, 0xd0 + size, (uint64_t)n, 1 << size);
	}
}

static inline void put_bool(struct writer *w, int yes) { put_big(w, yes ? 0xc3 : 0xc2, 0, 0); }

static inline void put_text(struct writer *w, const char *text)
{
	size_t len = strlen(text);
	if (len < 32)
		put_big(w, 0xa0 | (unsigned)len, 0, 0);
	else
		put_big(w, 0xd9 + size_of(len), len, 1 << size_of(len));
	put_bytes(w, text, len);
}

static inline void put_bin(struct writer *w, const void *bytes, size_t len)
{
	put_big(w, 0xc4 + size_of(len), len, 1 << size_of(len));
	put_bytes(w, bytes, len);
}

static inline void put_array(struct writer *w, size_t count)
{
	if (count < 16)
		put_big(w, 0x90 | (unsigned)count, 0, 0);
	else
		put_big(w, 0xdc, count, 2);
}

/* A map begins with no keys, and each key of it adds one, up to the 15 that one byte counts. */
static inline size_t put_map(struct writer *w)
{
	put_big(w, 0x80, 0, 0);
	return w->len - 1;
}

static inline void put_key(struct writer *w, size_t map, const char *key)
{
	w->at[map]++;
	put_text(w, key);
}

static inline void put_text_field(struct writer *w, size_t map, const char *key, const char *text)
{
	put_key(w, map, key);
	put_text(w, text);
}

static inline void put_int_field(struct writer *w, size_t map, const char *key, int64_t n)
{
	put_key(w, map, key);
	put_int(w, n);
}

/* ---- reading */

struct reader {
	const unsigned char *at, *end;
};

/* A value: a number or a truth (n), text or bytes (at, len), an array of n values or a map of n
 * pairs, which begin at at. What is absent is none, with zeros and no bytes. */
struct value {
	enum { NONE, NUMBER, TEXT, ARRAY, MAP } type;
	uint64_t n;
	const unsigned char *at;
	size_t len;
};

static inline const unsigned char *take(struct reader *r, size_t len)
{
	if (len > (size_t)(r->end - r->at))
		abort();
	return (r->at += len) - len;
}

static inline uint64_t take_big(struct reader *r, int bytes)
{
	const unsigned char *big = take(r, (size_t)bytes);
	uint64_t n = 0;
	for (int i = 0; i < bytes; i++)
		n = n << 8 | big[i];
	return n;
}

/* take_value reads a value, of an array or a map only its head. */
static inline struct value take_value(struct reader *r)
{
	unsigned c = *take(r, 1);
	struct value v = {NUMBER, c, NULL, 0};
	if (c < 0x80 || c >= 0xe0)
		v.n = (uint64_t)(int64_t)(signed char)c;
	else if (c < 0x90)
		v.type = MAP, v.n = c & 15;
	else if (c < 0xa0)
		v.type = ARRAY, v.n = c & 15;
	else if (c < 0xc0)
		v.type = TEXT, v.len = c & 31;
	else if (c == 0xc2 || c == 0xc3)
		v.n = c & 1;
	else if (c >= 0xc4 && c <= 0xc6)
		v.type = TEXT, v.len = take_big(r, 1 << (c - 0xc4));
	else if (c >= 0xcc && c <= 0xcf)
		v.n = take_big(r, 1 << (c - 0xcc));
	else if (c >= 0xd0 && c <= 0xd3) {
		int unused = 64 - (8 << (c - 0xd0));
		v.n = (uint64_t)((int64_t)(take_big(r, 1 << (c - 0xd0)) << unused) >> unused);
	} else if (c >= 0xd9 && c <= 0xdb)
		v.type = TEXT, v.len = take_big(r, 1 << (c - 0xd9));
	else if (c == 0xdc || c == 0xdd)
		v.type = ARRAY, v.n = take_big(r, 2 << (c - 0xdc));
	else if (c == 0xde || c == 0xdf)
		v.type = MAP, v.n = take_big(r, 2 << (c - 0xde));
	else
		abort();
	v.at = v.type == TEXT ? take(r, v.len) : r->at;
	return v;
}

/* take_whole reads a value with all that is in it. */
static inline struct value take_whole(struct reader *r)
{
	struct value v = take_value(r);
	uint64_t inside = v.type == MAP ? 2 * v.n : v.type == ARRAY ? v.n : 0;
	for (; inside > 0; inside--)
		take_whole(r);
	if (v.type == MAP || v.type == ARRAY)
		v.len = (size_t)(r->at - v.at);
	return v;
}

static inline int is(struct value v, const char *text)
{
	return v.type == TEXT && v.len == strlen(text) && memcmp(v.at, text, v.len) == 0;
}

static inline struct value field(struct value map, const char *key)
{
	struct reader r = {map.at, map.at + map.len};
	for (uint64_t i = 0; map.type == MAP && i < map.n; i++) {
		struct value found = take_whole(&r), v = take_whole(&r);
		if (is(found, key))
			return v;
	}
	return (struct value){NONE, 0, (const unsigned char *)"", 0};
}

#endif
