#ifndef CLIENT_STEPS_EVENT_STREAM_H
#define CLIENT_STEPS_EVENT_STREAM_H

#include <stdbool.h>

#include "client/redis/pipeline.h"
#include "client/steps/event.h"

/*
 * The events of a job as they come, from a place in its stream on, each once and in order; also
 * when the connection is lost meanwhile.
 *
 *   event_stream_begin(&stream, server, key, "0-0", &handler, owner)
 *     the loop runs: event() and turn() after each read
 *   event_stream_pause(&stream)       inside event() or turn(): nothing more is asked for; the server is free,
 *                               unless that was asked before (is_asking)
 *   event_stream_resume(&stream)      on from there
 *   event_stream_end(&stream)
 */
struct event_stream_handler {
  /* One event: its entry's id, its JSON, and what that says. */
  void (*event)(void *owner, const char *entry, const char *json, size_t length,
                const struct event_view *view);
  /* All that were there were given; more may follow. */
  void (*turn)(void *owner);
  /* Redis refuses to be read, for good. */
  void (*failed)(void *owner, const char *why);
};

struct event_stream {
  struct pipeline *redis;
  const char *key;
  const struct event_stream_handler *handler;
  void *owner;
  char last[48];  /* entry */
  unsigned count; /* entries that are asked for */
  bool is_paused, is_over;
  bool is_asking; /* the server is not free */
  struct buffer space;
};

/* Reads what comes after the entry `after`. While it reads the server is the stream's alone. */
void event_stream_begin(struct event_stream *self, struct pipeline *redis, const char *key,
                        const char *after, const struct event_stream_handler *handler, void *owner);
void event_stream_pause(struct event_stream *self);
void event_stream_resume(struct event_stream *self);
void event_stream_end(struct event_stream *self);

#endif
