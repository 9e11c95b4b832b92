#ifndef AGENT_REDIS_RETRY_H
#define AGENT_REDIS_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a connection is tried again, and after which pause. Pure: it is told what is by chance.
 *
 *   retry_failed        an attempt has; retry_is_over: it was the last
 *   retry_pause         in so many milliseconds the next one
 *   retry_succeeded     an attempt has
 *   retry_works         and with that connection something was done: pauses begin anew
 */

/* Attempts before the first success, unless it is patient, with pauses that double from
   RETRY_BOOT_PAUSE_MS. */
#define RETRY_BOOT_ATTEMPTS 5
#define RETRY_BOOT_PAUSE_MS 500

/* After the first success: pauses double between these, half of each is random, so that a fleet
   does not come back in one wave. */
#define RETRY_PAUSE_MIN_MS 100
#define RETRY_PAUSE_MAX_MS 5000

struct retry {
  bool patient;      /* it does not give up before the first success either */
  bool succeeded;    /* once at least */
  unsigned attempts; /* that have failed since the last success */
  int pause_ms;
};

void retry_init(struct retry *self, bool patient);
void retry_failed(struct retry *self);
bool retry_is_over(const struct retry *self);

/* A person may be looking on: not for long, and not after the first success. */
bool retry_is_booting(const struct retry *self);

int retry_pause(struct retry *self, uint64_t random);
void retry_succeeded(struct retry *self);
void retry_works(struct retry *self);

#endif
