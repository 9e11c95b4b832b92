#ifndef AGENT_DOORS_REDIS_NET_URL_TEXT_H
#define AGENT_DOORS_REDIS_NET_URL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The pieces that connection strings are made of. Pure.
 */

/* In upper or lower case. */
bool url_text_begins(const char *text, const char *prefix);

/* A decimal number of at most `most`; false for anything else. */
bool url_text_number(const char *text, size_t length, unsigned most, unsigned *out);

/* A copy with %XX decoded, the caller's; NULL when one is malformed or is a NUL. */
char *url_text_decode(const char *text, size_t length);

/* Where the value of an option of this name begins; 0 when it is another one. */
size_t url_text_value(const char *option, const char *name);

#endif
