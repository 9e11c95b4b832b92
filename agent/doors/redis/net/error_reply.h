#ifndef AGENT_DOORS_REDIS_NET_ERROR_REPLY_H
#define AGENT_DOORS_REDIS_NET_ERROR_REPLY_H

#include <stdbool.h>

/*
 * What an error reply of Redis asks for. Pure.
 */

/* Whether it passes by itself (Redis is starting, full, busy, changing its role, moving the keys to
   another node), so that it makes sense to try again; otherwise only a person can mend it. */
bool error_reply_passes(const char *text);

/* "host:port" of the node that has the keys now; NULL when the reply does not name one. */
const char *error_reply_moved_to(const char *text);

/* The text for people: the reason alone where EXEC is refused, or what to do; else the same. */
const char *error_reply_explain(const char *text);

#endif
