#ifndef AGENT_DOORS_REDIS_CLIENT_BACKOFF_H
#define AGENT_DOORS_REDIS_CLIENT_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a connection is tried again, and after which pause. Pure: it is told what is by chance.
 *
 *   backoff_failed        an attempt has; backoff_is_over: it was the last
 *   backoff_pause         in so many milliseconds the next one
 *   backoff_succeeded     an attempt has
 *   backoff_works         and with that connection something was done: pauses begin anew
 */

/* Attempts before the first success, unless it is patient, with pauses that double from
   BACKOFF_BOOT_PAUSE_MS. */
#define BACKOFF_BOOT_ATTEMPTS 5
#define BACKOFF_BOOT_PAUSE_MS 500

/* After the first success: pauses double between these, half of each is random, so that a fleet
   does not come back in one wave. */
#define BACKOFF_PAUSE_MIN_MS 100
#define BACKOFF_PAUSE_MAX_MS 5000

struct backoff {
  bool patient;      /* it does not give up before the first success either */
  bool succeeded;    /* once at least */
  unsigned attempts; /* that have failed since the last success */
  int pause_ms;
};

void backoff_init(struct backoff *self, bool patient);
void backoff_failed(struct backoff *self);
bool backoff_is_over(const struct backoff *self);

/* A person may be looking on: not for long, and not after the first success. */
bool backoff_is_booting(const struct backoff *self);

int backoff_pause(struct backoff *self, uint64_t random);
void backoff_succeeded(struct backoff *self);
void backoff_works(struct backoff *self);

#endif
