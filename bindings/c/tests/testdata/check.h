/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <mopslock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(good)                                                              \
	do {                                                                     \
		if (!(good)) {                                                   \
			char why[1024];                                          \
			mopslock_last_error(why, sizeof why);                    \
			fprintf(stderr, "%s:%d: not %s; the last error is \"%s\"\n", \
			        __FILE__, __LINE__, #good, why);                 \
			exit(1);                                                 \
		}                                                                \
	} while (0)

/* GIVES checks a code, and an error's text, and says which code was seen. */
#define GIVES(code, call)                                                            \
	do {                                                                         \
		int got = (call);                                                    \
		if (got != (code) || (got != MOPSLOCK_OK && mopslock_last_error(NULL, 0) == 0)) { \
			char why[1024];                                              \
			mopslock_last_error(why, sizeof why);                        \
			fprintf(stderr, "%s:%d: %s is %d and not %s: %s\n",          \
			        __FILE__, __LINE__, #call, got, #code, why);         \
			exit(1);                                                     \
		}                                                                    \
		puts(#code);                                                         \
	} while (0)

static inline struct hex {
	unsigned char at[512];
	size_t len;
} from_hex(const char *text)
{
	struct hex h = {{0}, 0};
	for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2)
		h.at[h.len++] = (unsigned char)byte;
	return h;
}

#endif
