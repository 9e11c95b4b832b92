#ifndef AGENT_DOORS_REDIS_CLIENT_OUTAGE_H
#define AGENT_DOORS_REDIS_CLIENT_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What goes wrong with a connection, and how often that is worth saying: the same trouble is told
 * once, however often it comes back before an answer is of use. An error reply that comes and goes,
 * as OOM does, is told once in OUTAGE_TOLD_MS. Pure: it is told the time, monotonic, above 0.
 */
#define OUTAGE_TOLD_MS (60 * 1000)

struct outage {
  bool there;       /* no answer was of use since */
  bool told;        /* some of it was, so its end is told too */
  char text[160];   /* what was told last */
  int64_t told_ms;  /* when; 0 for never */
  int64_t since_ms; /* since when it is there */
};

/* Trouble; `refused`: an error reply says so, whose first word is its kind. Returns whether it is
   to be told. */
bool outage_is_news(struct outage *self, const char *why, bool refused, int64_t now_ms);

#endif
