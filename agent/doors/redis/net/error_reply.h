#ifndef AGENT_DOORS_REDIS_NET_ERROR_REPLY_H
#define AGENT_DOORS_REDIS_NET_ERROR_REPLY_H

#include <stdbool.h>

/*
 * Classifies error replies of Redis. Pure.
 */

/* True when the error is transient, so that another attempt makes sense: Redis is starting, full,
   busy, changing its role, or moving the keys to another node. Otherwise only a person can help. */
bool error_reply_is_transient(const char *text);

/* True when Redis closes the connection after this reply: the request is beyond one of its limits
   (proto-max-bulk-len). */
bool error_reply_is_last(const char *text);

/* "host:port" of the node that has the keys now, within `text`; NULL when it is no redirection. */
const char *error_reply_redirect(const char *text);

/* The text for people: what to do, where that is known; of EXECABORT the reason alone. */
const char *error_reply_explain(const char *text);

#endif
