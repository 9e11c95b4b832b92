#ifndef CLIENT_STEPS_EVENT_STREAM_H
#define CLIENT_STEPS_EVENT_STREAM_H

#include <stdbool.h>

#include "client/redis/pipeline.h"
#include "client/steps/event.h"

/* Reads the events of a job while they arrive, each once and in order, also across lost
   connections. The hard part is to read ahead while a step prints much, so that Redis does not wait
   for the client. From begin to end, the loop calls event() for each event, and then turn(). */
struct event_stream_handler {
  void (*event)(void *owner, const struct event_view *view);
  /* All events that were available have been delivered. */
  void (*turn)(void *owner);
  /* Redis permanently refuses to return the events. */
  void (*failed)(void *owner, const char *why);
};

/* NONE: the stream was not begun. */
enum event_stream_state {
  EVENT_STREAM_NONE,
  EVENT_STREAM_READS,
  EVENT_STREAM_PAUSED,
  EVENT_STREAM_ENDED
};

struct event_stream {
  enum event_stream_state state;
  bool is_reading; /* a read is pending: the pipeline is not free */
  struct pipeline *redis;
  const char *key;
  const struct event_stream_handler *handler;
  void *owner;
  char last[ENTRY_ID_SIZE]; /* the last entry that was read */
  unsigned count;           /* entries per read */
  struct buffer space;
};

/* Reads what follows the entry `after`. The pipeline is the stream's alone while `is_reading`; a
   pause, inside event() or turn(), frees it unless a read is pending. */
void event_stream_begin(struct event_stream *self, struct pipeline *redis, const char *key,
                        const char *after, const struct event_stream_handler *handler, void *owner);
void event_stream_pause(struct event_stream *self);
void event_stream_resume(struct event_stream *self);
void event_stream_end(struct event_stream *self);

#endif
