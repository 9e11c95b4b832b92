#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_ERROR_REPLY_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_ERROR_REPLY_H

#include <stdbool.h>

#include "agent/frontends/redis/connection/connection_error.h"
#include "agent/frontends/redis/connection/url.h"

/*
 * Classifies error replies of Redis and of sentinels, and says what they say. Pure.
 */

/* True when the error is transient, so that another attempt makes sense: Redis is starting, full,
   busy, changing its role, or moving the keys to another node. Otherwise only a person can help. */
bool error_reply_is_transient(const char *text);

/* True when Redis closes the connection after this reply: the request is beyond one of its limits
   (proto-max-bulk-len). */
bool error_reply_is_last(const char *text);

/* CONNECTION_ERROR_WRONG_PASSWORD to CONNECTION_ERROR_LOADING, by what the reply begins with; else
   0. */
int error_reply_code(const char *text);

/* "host:port" of the node that has the keys now, within `text`; NULL when it is no redirection. */
const char *error_reply_redirect(const char *text);

struct error_reply_text {
  char text[256];
};

/* The text for people, and for the log: what to do, where that is known; of EXECABORT the reason
   alone. Some errors repeat the arguments of a command, and one of them may be a password: what
   follows ", with args" is left out, and each byte of the url's user and password is a '*'. */
struct error_reply_text error_reply_explain(const char *text, const struct redis_url *url);

#endif
