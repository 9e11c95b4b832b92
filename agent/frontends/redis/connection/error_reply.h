#pragma once

#include <stdbool.h>

#include "agent/frontends/redis/connection/connection_error.h"
#include "agent/frontends/redis/connection/url.h"

/* Classifies error replies of Redis and of sentinels, and explains them to people. Connections, the
   delivery and the client call it. The hard part is that an error reply may repeat a password.
   Pure. */

/* Whether another attempt may succeed: Redis is starting, full, busy, changing its role, or moving
   the keys to another node. Otherwise only a person can help. */
bool error_reply_is_transient(const char *text);

/* Returns true if Redis closes the connection after this reply because the request exceeds one of
   its limits (proto-max-bulk-len). */
bool error_reply_is_last(const char *text);

/* Returns CONNECTION_ERROR_WRONG_PASSWORD to CONNECTION_ERROR_LOADING, or 0 for other replies. */
int error_reply_code(const char *text);

/* Returns "host:port" of the node that has the keys now, within `text`; NULL unless the reply is a
   redirection. */
const char *error_reply_redirect(const char *text);

struct error_reply_text {
  char text[256];
};

/* Returns a text for people, which says what to do if that is known. Some error replies repeat the
   arguments of a command, which may be a password: the text after ", with args" is left out, and
   the bytes of the URL's user and password become asterisks. */
struct error_reply_text error_reply_explain(const char *text, const struct redis_url *url);

/* The same for the reply to a command, "GET key" or "AUTH": names the ACL rule that is missing. */
struct error_reply_text error_reply_explain_command(const char *text, const char *command,
                                                    const struct redis_url *url);
