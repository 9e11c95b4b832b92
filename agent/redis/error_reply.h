#ifndef AGENT_REDIS_ERROR_REPLY_H
#define AGENT_REDIS_ERROR_REPLY_H

#include <stdbool.h>

/* Whether an error reply of Redis passes by itself (it is starting, full, busy, changing its role),
   so that it makes sense to try again; otherwise only a person can mend it. */
bool error_reply_passes(const char *text);

#endif
