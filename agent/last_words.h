#ifndef AGENT_LAST_WORDS_H
#define AGENT_LAST_WORDS_H

#include "agent/doors/redis/out/outbox.h"
#include "base/log.h"

/* Logs the results that the outbox holds and nobody else will ever see, whole. The log's reader may
   take LAST_WORDS_MS for all of them. */
#define LAST_WORDS_MS 2000
void last_words(const struct log *log, const struct outbox *outbox);

#endif
