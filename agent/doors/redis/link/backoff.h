#ifndef AGENT_DOORS_REDIS_LINK_BACKOFF_H
#define AGENT_DOORS_REDIS_LINK_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The policy of a connection that comes back: after which pause the next attempt follows, and which
 * failures are logged as a warning. It never gives up: whoever needs the connection knows how long
 * to wait. Pure: time and chance are arguments.
 */

/* Pauses double up to BACKOFF_PAUSE_MAX_MS: before the first success from BACKOFF_BOOT_PAUSE_MS,
   without chance, since a person may be watching; after it from BACKOFF_PAUSE_MIN_MS, and half of
   each is random, so that a fleet of agents does not come back in one wave. */
#define BACKOFF_BOOT_PAUSE_MS 500
#define BACKOFF_PAUSE_MIN_MS 100
#define BACKOFF_PAUSE_MAX_MS 5000

struct backoff {
  bool succeeded;    /* an attempt has, at least once */
  unsigned attempts; /* failed ones since the last success, which the owner counts */
  int pause_ms; /* the next one, before chance; 0: the shortest. The owner sets it to 0 when the
                        connection did something useful: to be connected is not enough, for the next
                        command may lose it for the same reason as before */
};

/* An attempt has succeeded. */
void backoff_succeeded(struct backoff *self);

/* The pause before the next attempt, in milliseconds; the one after that is longer. */
int backoff_pause(struct backoff *self, uint64_t random);

/*
 * An outage lasts from the first failure until a reply is useful. A failure with the same reason as
 * the one before is not news: it is logged once an outage. An error reply that comes and goes, as
 * OOM does, is news once in OUTAGE_NEWS_MS, however many outages it makes.
 */
#define OUTAGE_NEWS_MS (60 * 1000)

/* Names of a certificate, of its issuer and of the server are in the longest. */
#define OUTAGE_REASON_SIZE 512

struct outage {
  bool ongoing;
  bool was_news;                   /* one of its failures was, so that its end is, too */
  char reason[OUTAGE_REASON_SIZE]; /* of the last failure that was news */
  int64_t news_ms;                 /* when that was; 0: never */
  int64_t since_ms;                /* its start */
};

/* A failure. `is_error_reply`: the reason is an error reply, whose first word is its kind. The time
   is monotonic and above 0. True when it is news. */
bool outage_is_news(struct outage *self, const char *reason, bool is_error_reply, int64_t now_ms);

#endif
