#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The XADDs of one step as the agent sends them, encoded for the wire before anything is timed.
 *
 *   xadds_init(&xadds, redis, "sandbox:…:events", "the other key", 1000000)
 *   sender_run(&endpoint, &xadds, depth)
 *   xadds_check(&xadds, redis)
 *   xadds_release(&xadds)
 *
 * The events are copies of one that the agent has written, each with its own line number, seq and
 * time, so that each has exactly as many bytes as the agent's.
 */
struct xadds {
  char *bytes;
  size_t length;
  uint32_t *ends; /* of each command, from the first one's start */
  size_t count;
  const char *source; /* keys */
  const char *key;
};

/* `source` is the stream of a step that printed `count` lines with bench/programs/lines. Both keys
   must live as long as self. */
void xadds_init(struct xadds *self, redisContext *redis, const char *source, const char *key,
                size_t count);
void xadds_release(struct xadds *self);

/* Fails unless the last line of `key` equals the last line of `source`, except for step and
   time. */
void xadds_check(const struct xadds *self, redisContext *redis);
